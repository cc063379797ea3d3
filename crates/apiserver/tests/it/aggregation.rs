//! Requests for the groups of other API servers are forwarded, and discovery includes them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use ironclad_apiserver::{
    ApiResource, ForwardAnswer, ForwardBody, ForwardTarget, Forwarder, Identity, OpenApi, OpenApiVersion, Options,
    ResponseBody, Route, RouteFuture, ServedApi,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::World;

/// A forwarded request, and where it was sent.
type Sent = (ForwardTarget, Request<Bytes>);

/// An aggregated API server, and the requests that reach it.
#[derive(Debug, Clone, Default)]
struct Remote {
    requests: Arc<Mutex<Vec<Sent>>>,
    /// Error instead of an answer.
    down: Arc<Mutex<Option<String>>>,
}

impl Forwarder for Remote {
    fn forward(&self, target: ForwardTarget, request: Request<Bytes>) -> ForwardAnswer {
        let (path, down) = (request.uri().path().to_owned(), self.down.lock().clone());
        self.requests.lock().push((target, request));
        Box::pin(async move {
            if let Some(why) = down {
                return Err(why);
            }
            let body = match path.as_str() {
                "/apis/agg.io/v1" => json!({"kind": "APIResourceList", "groupVersion": "agg.io/v1", "resources": [
                    {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"],
                        "shortNames": ["th"]},
                    {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get"]},
                ]}),
                _ => json!({"kind": "Thing", "answered": path}),
            };
            let body: ForwardBody =
                Full::new(Bytes::from(body.to_string())).map_err(std::io::Error::other).boxed_unsync();
            let mut response = Response::new(body);
            response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
            response.headers_mut().insert("x-of-the-server", http::HeaderValue::from_static("kept"));
            Ok(response)
        })
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn world(remote: &Remote) -> World {
    let options = Options { forwarder: Some(Arc::new(remote.clone())), api_services: true, ..Options::default() };
    World::seeded(1, options).await
}

fn api_service(group: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "service": {"namespace": "default", "name": "agg", "port": 8443}, "insecureSkipTLSVerify": true},
    })
}

fn external_name() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "agg"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}})
}

async fn condition(world: &World, name: &str) -> [String; 3] {
    let object = world.get(&format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")).await.expect(200);
    let one = object.at("/status/conditions/0");
    ["status", "reason", "message"].map(|key| one[key].as_str().unwrap_or_default().to_owned())
}

async fn freshness(world: &World, group: &str) -> Option<Value> {
    let all = world.send(Method::GET, "/apis", &[("accept", AGGREGATED)], "").await.expect(200);
    let items = all.at("/items").as_array().cloned().unwrap_or_default();
    items.into_iter().find(|item| item["metadata"]["name"] == group).map(|item| item["versions"][0].clone())
}

#[tokio::test(start_paused = true)]
async fn requests_go_to_the_server_of_an_api_service() {
    let remote = Remote::default();
    let world = world(&remote).await;
    world.post("/apis/apiregistration.k8s.io/v1/apiservices", api_service("agg.io")).await.expect(201);
    world.seam.clock.sleep(Duration::from_millis(100)).await;
    let [status, reason, message] = condition(&world, "v1.agg.io").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ServiceNotFound"));
    assert_eq!(message, "service/agg in \"default\" is not present");
    let refused = world.get("/apis/agg.io/v1/namespaces/a/things/x").await.expect(503);
    assert_eq!(refused.at("/reason"), "ServiceUnavailable");
    assert!(refused.message().contains("service/agg in \"default\" is not present"), "{}", refused.message());
    assert_eq!(freshness(&world, "agg.io").await.unwrap()["freshness"], "Stale");

    world.post("/api/v1/namespaces/default/services", external_name()).await.expect(201);
    world.seam.clock.sleep(Duration::from_secs(6)).await;
    assert_eq!(condition(&world, "v1.agg.io").await, ["True", "Passed", "all checks passed"]);
    {
        let requests = remote.requests.lock();
        let (target, check) = requests.last().unwrap();
        let want = ForwardTarget {
            base: "https://localhost:8443".into(),
            server_name: Some("agg.default.svc".into()),
            ca_bundle: None,
            insecure: true,
        };
        assert_eq!(*target, want);
        assert_eq!(check.headers()["x-remote-user"], "system:kube-aggregator");
    }
    let version = freshness(&world, "agg.io").await.unwrap();
    assert_eq!(
        (version["freshness"].as_str(), version["resources"][0]["shortNames"][0].as_str()),
        (Some("Current"), Some("th"))
    );
    assert_eq!(version["resources"][0]["subresources"][0]["subresource"], "status");
    let groups = world.get("/apis").await.expect(200);
    assert!(groups.at("/groups").as_array().unwrap().iter().any(|group| group["name"] == "agg.io"));
    assert_eq!(world.get("/apis/agg.io").await.expect(200).at("/preferredVersion/groupVersion"), "agg.io/v1");
    assert_eq!(world.get("/apis/agg.io/v1").await.expect(200).at("/resources/0/name"), "things");

    remote.requests.lock().clear();
    let path = "/apis/agg.io/v1/namespaces/a/things/x?dryRun=All&a=b%20c";
    let sent = [("authorization", "Bearer secret"), ("x-remote-user", "root"), ("content-type", "application/json")];
    let answer = world.send(Method::PUT, path, &sent, "{\"a\":1}").await.expect(200);
    assert_eq!(answer.at("/answered"), "/apis/agg.io/v1/namespaces/a/things/x");
    assert_eq!(answer.headers["x-of-the-server"], "kept");
    {
        let requests = remote.requests.lock();
        let (_, request) = &requests[0];
        assert_eq!((request.method(), request.uri().to_string().as_str()), (&Method::PUT, path));
        assert_eq!(
            (request.headers()["x-remote-user"].to_str().unwrap(), &request.body()[..]),
            ("tester", &b"{\"a\":1}"[..])
        );
        assert!(request.headers().get("authorization").is_none());
    }
    let stranger = Identity::user("eve", &[]);
    world.send_as(stranger, Method::GET, path, &[], "").await.expect(403);
    assert_eq!(remote.requests.lock().len(), 1, "what is not allowed is not forwarded");

    *remote.down.lock() = Some("connection refused".into());
    world.seam.clock.sleep(Duration::from_secs(31)).await;
    let [status, reason, message] = condition(&world, "v1.agg.io").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedDiscoveryCheck"));
    assert!(message.ends_with("https://localhost:8443/apis/agg.io/v1: connection refused"), "{message}");
    assert_eq!(freshness(&world, "agg.io").await.unwrap()["freshness"], "Stale");
    *remote.down.lock() = None;
    world.seam.clock.sleep(Duration::from_secs(6)).await;
    assert_eq!(freshness(&world, "agg.io").await.unwrap()["freshness"], "Current");

    world.delete("/apis/apiregistration.k8s.io/v1/apiservices/v1.agg.io").await.expect(200);
    world.seam.clock.sleep(Duration::from_millis(100)).await;
    assert_eq!(freshness(&world, "agg.io").await, None);
    world.get("/apis/agg.io/v1/namespaces/a/things").await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn services_are_reached_at_their_endpoints_and_own_groups_are_not_replaced() {
    let remote = Remote::default();
    let world = world(&remote).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "agg"},
        "spec": {"ports": [{"name": "https", "port": 8443}]}});
    world.post("/api/v1/namespaces/default/services", service).await.expect(201);
    world.post("/apis/apiregistration.k8s.io/v1/apiservices", api_service("agg.io")).await.expect(201);
    let mut apps = api_service("apps");
    apps["metadata"]["name"] = json!("v2.apps");
    apps["spec"]["version"] = json!("v2");
    world.post("/apis/apiregistration.k8s.io/v1/apiservices", apps).await.expect(201);
    world.seam.clock.sleep(Duration::from_millis(100)).await;
    let [status, reason, message] = condition(&world, "v1.agg.io").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "EndpointsNotFound"));
    assert!(message.ends_with("or make the Service one of type ExternalName"), "{message}");
    assert_eq!(condition(&world, "v2.apps").await[..2], ["False", "Local"]);
    world.get("/apis/apps/v1/deployments").await.expect(200);
    assert!(remote.requests.lock().is_empty());
    let before = world.server.store().revision();
    world.seam.clock.sleep(Duration::from_secs(120)).await;
    assert_eq!(world.server.store().revision(), before, "what stays as it is is not written");

    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "agg-1", "labels": {"kubernetes.io/service-name": "agg"}},
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}]});
    world.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await.expect(201);
    world.seam.clock.sleep(Duration::from_secs(6)).await;
    assert_eq!(condition(&world, "v1.agg.io").await, ["True", "Passed", "all checks passed"]);
    world.get("/apis/agg.io/v1/namespaces/a/things/x").await.expect(200);
    let requests = remote.requests.lock();
    let (target, _) = requests.last().unwrap();
    assert_eq!(target.base, "https://10.0.0.7:6443");
    assert_eq!(target.server_name.as_deref(), Some("agg.default.svc"), "the certificate is that of the Service");
}

/// A route of this process.
struct Here;

impl Route for Here {
    fn takes(&self, path: &str) -> bool {
        path.starts_with("/apis/agg.io/v1")
    }

    fn call(&self, _: Request<ironclad_apiserver::RequestBody>, _: Identity) -> RouteFuture {
        Box::pin(async { Response::new(ResponseBody::full("{\"answered\":\"here\"}")) })
    }
}

/// Address of a document in the index of OpenAPI v3.
async fn open_api(world: &World, path: &str) -> Option<String> {
    let index = world.get("/openapi/v3").await.expect(200).at("/paths").clone();
    index[path]["serverRelativeURL"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn an_api_service_takes_precedence_over_a_route() {
    let remote = Remote::default();
    let world = world(&remote).await;
    world.server.mount(Arc::new(Here));
    let resource =
        ApiResource { name: "things".into(), kind: "Thing".into(), namespaced: true, verbs: vec!["get".into()] };
    world.server.announce_api(ServedApi {
        group: "agg.io".into(),
        version: "v1".into(),
        group_priority: 100,
        version_priority: 10,
        registered: true,
        resources: vec![resource],
    });
    let schema = json!({"type": "object", "properties": {"metadata": {
        "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}});
    let schemas = [("io.agg.v1.Thing".to_owned(), schema)].into_iter().collect();
    let version = OpenApiVersion { group: "agg.io", version: "v1", paths: serde_json::Map::new(), schemas };
    world.server.publish_open_api(OpenApi::new(&[version]));
    world.seam.clock.sleep(Duration::from_millis(100)).await;
    assert_eq!(condition(&world, "v1.agg.io").await[..2], ["True", "Local"]);
    let url = open_api(&world, "apis/agg.io/v1").await.unwrap();
    let document = world.get(&url).await.expect(200);
    let schemas = document.at("/components/schemas");
    let names: Vec<&String> = schemas.as_object().unwrap().keys().filter(|name| name.ends_with("Meta")).collect();
    assert_eq!(names, ["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"], "built-in schemas are added");
    assert_eq!(world.get("/apis/agg.io/v1/namespaces/a/things/x").await.expect(200).at("/answered"), "here");
    assert_eq!(freshness(&world, "agg.io").await.unwrap()["resources"][0]["resource"], "things");

    world.post("/api/v1/namespaces/default/services", external_name()).await.expect(201);
    let spec = json!({"spec": api_service("agg.io")["spec"]});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.agg.io";
    world.patch(path, "merge-patch+json", spec).await.expect(200);
    world.seam.clock.sleep(Duration::from_millis(100)).await;
    assert_eq!(condition(&world, "v1.agg.io").await[..2], ["True", "Passed"]);
    assert_eq!(open_api(&world, "apis/agg.io/v1").await, None, "the other server has documents of its own");
    let answered = world.get("/apis/agg.io/v1/namespaces/a/things/x").await.expect(200);
    assert_eq!(answered.at("/answered"), "/apis/agg.io/v1/namespaces/a/things/x");

    world.delete(path).await.expect(200);
    world.seam.clock.sleep(Duration::from_millis(100)).await;
    assert_eq!(condition(&world, "v1.agg.io").await[..2], ["True", "Local"], "ours comes back");
    assert_eq!(open_api(&world, "apis/agg.io/v1").await, Some(url));
    assert_eq!(world.get("/apis/agg.io/v1/namespaces/a/things/x").await.expect(200).at("/answered"), "here");
}
