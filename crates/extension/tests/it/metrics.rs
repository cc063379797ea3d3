//! The metrics APIs in front of the embedded server, over members that answer as the tests say.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use ironclad_admission::Config;
use ironclad_api::cluster::Cluster;
use ironclad_extension::metrics::{MetricsAdapter, MetricsOptions, MetricsRoute};
use ironclad_membermetrics::{Fleet, MemberMetrics, Options};
use ironclad_members::{Connections, Connector};
use ironclad_runtime::Scope;
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::support::{Plane, plane};

type Answer = UnsyncBoxBody<Bytes, BoxError>;

fn whole(text: String) -> Answer {
    Full::new(Bytes::from(text)).map_err(BoxError::from).boxed_unsync()
}

/// A member with these pods, by namespace and name.
#[derive(Clone, Default)]
struct FakeMember {
    pods: Arc<Vec<(String, String)>>,
    /// Its metrics API fails.
    fails: bool,
    /// Paths of the requests for metrics.
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeMember {
    fn with(pods: &[(&str, &str)]) -> Self {
        let pods = pods.iter().map(|(namespace, name)| ((*namespace).to_owned(), (*name).to_owned())).collect();
        Self { pods: Arc::new(pods), ..Self::default() }
    }

    fn client(&self, clock: Clock) -> Client {
        let member = self.clone();
        Client::new(
            service_fn(move |request: Request<Body>| {
                let answer = member.answer(&request, &clock);
                async move { answer }
            }),
            "default",
        )
    }

    fn answer(&self, request: &Request<Body>, clock: &Clock) -> Result<Response<Answer>, BoxError> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let json = |code: u16, value: &Value| Ok(Response::builder().status(code).body(whole(value.to_string()))?);
        if path == "/api/v1/pods" || path == "/api/v1/nodes" {
            if query.contains("sendInitialEvents") {
                let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid",
                    "code": 422, "message": "sendInitialEvents: Forbidden"});
                return json(422, &refusal);
            }
            if query.contains("watch=true") {
                let stream = futures::stream::pending::<Result<http_body::Frame<Bytes>, BoxError>>();
                return Ok(Response::new(StreamBody::new(stream).boxed_unsync()));
            }
            let items: Vec<Value> = match path {
                "/api/v1/pods" => self
                    .pods
                    .iter()
                    .map(|(namespace, name)| {
                        json!({
                            "apiVersion": "v1", "kind": "Pod",
                            "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1",
                                "labels": {"app": name.split('-').next()}},
                        })
                    })
                    .collect(),
                _ => vec![json!({"apiVersion": "v1", "kind": "Node",
                    "metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}})],
            };
            let list =
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
            return json(200, &list);
        }
        self.asked.lock().push(path.to_owned());
        if self.fails {
            return json(503, &json!({"message": "the server is currently unable to handle the request"}));
        }
        let metrics = |(namespace, name): &(String, String)| {
            json!({
                "metadata": {"namespace": namespace, "name": name}, "timestamp": clock.wall_seconds().to_string(),
                "window": "15s", "containers": [{"name": "c", "usage": {"cpu": "123456789n", "memory": "64Mi"}}],
            })
        };
        let parts: Vec<&str> = path.trim_start_matches("/apis/metrics.k8s.io/v1beta1/").split('/').collect();
        match parts.as_slice() {
            ["pods"] => {
                let items: Vec<Value> = self.pods.iter().map(metrics).collect();
                json(200, &json!({"kind": "PodMetricsList", "items": items}))
            }
            ["namespaces", namespace, "pods"] => {
                let items: Vec<Value> = self.pods.iter().filter(|(of, _)| of == namespace).map(metrics).collect();
                json(200, &json!({"kind": "PodMetricsList", "items": items}))
            }
            ["namespaces", namespace, "pods", name] => {
                match self.pods.iter().find(|(of, is)| of == namespace && is == name) {
                    Some(pod) => json(200, &metrics(pod)),
                    None => json(404, &json!({})),
                }
            }
            ["nodes", rest @ ..] => {
                let node = json!({
                    "metadata": {"name": "n1"}, "timestamp": clock.wall_seconds().to_string(), "window": "15s",
                    "usage": {"cpu": "1", "memory": "1Gi"},
                });
                match rest {
                    [] => json(200, &json!({"kind": "NodeMetricsList", "items": [node]})),
                    ["n1"] => json(200, &node),
                    _ => json(404, &json!({})),
                }
            }
            _ => json(404, &json!({})),
        }
    }
}

struct FakeMembers {
    members: BTreeMap<String, FakeMember>,
    clock: Clock,
}

impl Connector for FakeMembers {
    fn connect(&self, cluster: &Cluster, _: Option<&Secret>) -> Result<Client, String> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let member = self.members.get(name).ok_or("no such member")?;
        Ok(member.client(self.clock.clone()))
    }
}

/// A control plane with the metrics of these members.
struct World {
    plane: Plane,
    seam: Seam,
}

impl World {
    async fn new(members: BTreeMap<String, FakeMember>) -> Self {
        let plane = plane(Config::default(), &["clusters"]).await;
        let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(3), tasks: Tasks::new("metrics") };
        let api: Api<Cluster> = Api::all(plane.client.clone());
        for name in members.keys() {
            let cluster: Cluster = serde_json::from_value(json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}.example")},
            }))
            .unwrap();
            api.create(&PostParams::default(), &cluster).await.unwrap();
            let status = json!({"status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                    "lastTransitionTime": "2026-09-21T00:00:00Z"}],
            }});
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        }
        let connections = Connections::new(Arc::new(FakeMembers { members, clock }), Scope::All);
        let metrics = MemberMetrics::new(seam.clock.clone(), Options::default());
        let fleet = Fleet::start(&plane.client, &seam, connections, metrics);
        fleet.synced().await;
        let adapter = MetricsAdapter::new(fleet, MetricsOptions { external: true });
        MetricsRoute::mount(adapter, &plane.server, &seam);
        Self { plane, seam }
    }

    async fn get(&self, path: &str, accept: &str) -> (u16, Vec<String>, Value) {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let answer = self.plane.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
        let body = answer.into_body().collect_bytes().await.unwrap();
        (code, warnings, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Answers what is found at these pointers.
    async fn json(&self, path: &str) -> (u16, Vec<String>, Value) {
        self.get(path, "application/json").await
    }
}

const POD_METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

#[tokio::test(start_paused = true)]
async fn pods_of_all_members_are_one_list_and_members_that_fail_are_named() {
    let fails = FakeMember { fails: true, ..FakeMember::with(&[("shop", "web-0")]) };
    let members = [
        ("m1", FakeMember::with(&[("shop", "web-0"), ("shop", "db-0")])),
        ("m2", FakeMember::with(&[("shop", "web-0"), ("other", "api-0")])),
        ("m3", fails),
    ];
    let world = World::new(members.map(|(name, member)| (name.to_owned(), member)).into()).await;
    let (code, warnings, list) = world.json(&format!("{POD_METRICS}/namespaces/shop/pods")).await;
    assert_eq!((code, list["kind"].as_str()), (200, Some("PodMetricsList")), "{list}");
    let from = |item: &Value| {
        let cluster = item["metadata"]["annotations"]["resource.karmada.io/query-from-cluster"].as_str();
        format!("{}/{}", cluster.unwrap_or_default(), item["metadata"]["name"].as_str().unwrap_or_default())
    };
    let items: Vec<String> = list["items"].as_array().unwrap().iter().map(from).collect();
    assert_eq!(items, ["m1/web-0", "m1/db-0", "m2/web-0"]);
    let usage = &list["items"][0]["containers"][0]["usage"];
    assert_eq!(*usage, json!({"cpu": "123456789n", "memory": "64Mi"}), "as the member measured it");
    assert_eq!(list["metadata"]["annotations"]["resource.karmada.io/query-failed-clusters"], "m3");
    let want =
        "299 - \"no metrics of cluster m3: it answered 503: the server is currently unable to handle the request\"";
    assert_eq!(warnings, [want]);

    for (path, code, pointer, want) in [
        ("namespaces/shop/pods/db-0", 200, "/kind", json!("PodMetrics")),
        (
            "namespaces/shop/pods/db-0",
            200,
            "/metadata/annotations/resource.karmada.io~1query-from-cluster",
            json!("m1"),
        ),
        ("namespaces/shop/pods/web-0", 409, "/reason", json!("Conflict")),
        ("namespaces/shop/pods/web-0?cluster=m2", 200, "/metadata/name", json!("web-0")),
        ("namespaces/shop/pods/none", 404, "/reason", json!("NotFound")),
        ("namespaces/shop/pods?cluster=m1", 200, "/items/1/metadata/name", json!("db-0")),
        ("namespaces/shop/pods?cluster=m9", 404, "/details/name", json!("m9")),
        ("namespaces/none/pods", 200, "/items", json!([])),
        ("pods?fieldSelector=metadata.namespace%3Dother", 200, "/items/0/metadata/name", json!("api-0")),
        ("pods?labelSelector=a%3D%3D%3Db", 400, "/reason", json!("BadRequest")),
        ("pods?watch=true", 405, "/reason", json!("MethodNotAllowed")),
        ("nodes", 200, "/items/0/usage/memory", json!("1Gi")),
        ("nodes/n1", 409, "/reason", json!("Conflict")),
    ] {
        let (got, _, body) = world.json(&format!("{POD_METRICS}/{path}")).await;
        let value = body.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!((got, value), (code, want), "{path}: {body}");
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (_, _, table) = world.get(&format!("{POD_METRICS}/namespaces/shop/pods"), table).await;
    assert_eq!(table["rows"][0]["cells"], json!(["web-0", "m1", "123456789n", "64Mi", "15s"]), "{table}");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn the_metrics_groups_are_in_discovery() {
    let world = World::new([("m1".to_owned(), FakeMember::default())].into()).await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, _, all) = world.get("/apis", aggregated).await;
    let of = |name: &str| -> Value {
        let items = all["items"].as_array().unwrap();
        items.iter().find(|item| item["metadata"]["name"] == name).cloned().unwrap_or_default()
    };
    let group = of("metrics.k8s.io");
    assert_eq!(group["versions"][0]["resources"][1]["responseKind"]["kind"], "PodMetrics", "{group}");
    let versions = |name: &str| -> Vec<String> {
        let versions = of(name)["versions"].as_array().cloned().unwrap_or_default();
        versions.iter().map(|version| version["version"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(versions("custom.metrics.k8s.io"), ["v1beta2", "v1beta1"]);
    assert_eq!(versions("external.metrics.k8s.io"), ["v1beta1"]);
    let (_, _, group) = world.json("/apis/custom.metrics.k8s.io").await;
    assert_eq!(group["preferredVersion"]["version"], "v1beta2");
    let (_, _, index) = world.json("/openapi/v3").await;
    let url = index["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"].as_str().unwrap_or_default();
    let (_, _, document) = world.json(url).await;
    let schema = &document["components"]["schemas"]["io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics"];
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "PodMetrics", "{url} {index}");
    let (code, _, list) = world.json("/apis/external.metrics.k8s.io/v1beta1").await;
    assert_eq!((code, list["kind"].as_str()), (200, Some("APIResourceList")));
    let (code, _, body) = world.json("/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/*/qps").await;
    assert_eq!(code, 404);
    assert_eq!(body["message"], "the server could not find the metric qps for pods");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn one_request_goes_to_each_member_that_has_a_matching_pod() {
    const MEMBERS: usize = 50;
    const PODS: usize = 100;
    let members: BTreeMap<String, FakeMember> = (0..MEMBERS)
        .map(|member| {
            let namespace = if member < 5 { "few" } else { "many" };
            let pods = (0..PODS).map(|pod| (namespace.to_owned(), format!("web{}-{pod}", member % 2))).collect();
            (format!("m{member:02}"), FakeMember { pods: Arc::new(pods), ..FakeMember::default() })
        })
        .collect();
    let asked: Vec<_> = members.values().map(|member| member.asked.clone()).collect();
    let requests = move || {
        let all = asked.iter().map(|asked| std::mem::take(&mut *asked.lock()));
        all.map(|paths| paths.iter().filter(|path| path.ends_with("/pods")).count()).collect::<Vec<_>>()
    };
    let world = World::new(members).await;
    // The first question starts the watches of names.
    let (_, _, list) = world.json(&format!("{POD_METRICS}/pods")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), MEMBERS * PODS);
    assert_eq!(requests(), [1; MEMBERS]);
    world.seam.clock.sleep(Duration::from_secs(20)).await;
    let (_, _, list) = world.json(&format!("{POD_METRICS}/namespaces/few/pods?labelSelector=app%3Dweb1")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2 * PODS);
    let got = requests();
    assert_eq!(got.iter().sum::<usize>(), 2, "members 1 and 3 have such pods: {got:?}");
    let (_, _, list) = world.json(&format!("{POD_METRICS}/namespaces/few/pods?labelSelector=app%3Dweb1")).await;
    assert_eq!(
        (list["items"].as_array().unwrap().len(), requests().iter().sum::<usize>()),
        (2 * PODS, 0),
        "within the window"
    );
    let (_, _, list) = world.json(&format!("{POD_METRICS}/namespaces/nobody/pods")).await;
    assert_eq!((list["items"].clone(), requests().iter().sum::<usize>()), (json!([]), 0));
    world.seam.tasks.kill();
}
