//! Behaviour common to all requests: discovery, shapes, limits, health, authorization.

use http::Method;
use ironclad_apiserver::{Identity, Options, ServiceAccountAdmission};
use ironclad_store::{
    RedbBackend,
    testing::{Disk, DiskFault},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PartialObjectMeta},
    discovery::Discovery,
};
use serde_json::{Value, json};

use crate::support::{Events, World, config_map, deployment};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test(start_paused = true)]
async fn discovery_legacy_and_aggregated_agree() {
    let world = World::new().await;
    world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crate::custom::crd()).await.expect(201);
    for discovery in [
        Discovery::new(world.client()).run().await.unwrap(),
        Discovery::new(world.client()).run_aggregated().await.unwrap(),
    ] {
        let gvk = |group: &str, version: &str, kind: &str| kube::core::GroupVersionKind::gvk(group, version, kind);
        for (group, version, kind, plural) in [
            ("", "v1", "ConfigMap", "configmaps"),
            ("apps", "v1", "Deployment", "deployments"),
            ("t.io", "v1", "Foo", "foos"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
        ] {
            let (resource, _) = discovery.resolve_gvk(&gvk(group, version, kind)).unwrap_or_else(|| panic!("{kind}"));
            assert_eq!(resource.plural, plural);
        }
    }
    let first = world.send(Method::GET, "/apis", &[("accept", AGGREGATED)], "").await.expect(200);
    assert_eq!(first.headers["content-type"], AGGREGATED);
    let etag = first.headers["etag"].to_str().unwrap().to_owned();
    let again = world.send(Method::GET, "/apis", &[("accept", AGGREGATED), ("if-none-match", &etag)], "").await;
    assert_eq!((again.code, again.bytes.len()), (304, 0));
    let legacy = world.get("/apis").await.expect(200);
    assert_eq!(legacy.at("/groups/0/name"), "apiregistration.k8s.io");
    assert_eq!(legacy.at("/groups/1/preferredVersion/groupVersion"), "apps/v1");
}

#[tokio::test(start_paused = true)]
async fn tables_and_partial_metadata_are_served() {
    let world = World::new().await;
    world.post("/apis/apps/v1/namespaces/default/deployments", deployment("d")).await.expect(201);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let list = world.send(Method::GET, "/apis/apps/v1/deployments", &[("accept", table)], "").await.expect(200);
    assert_eq!(list.at("/kind"), "Table");
    assert_eq!(list.at("/rows/0/cells"), &json!(["d", "0/1", 0, 0, "0s", "c", "nginx:1.27", "app=d"]));
    assert_eq!(list.at("/rows/0/object/kind"), "PartialObjectMetadata");
    assert_eq!(list.headers["content-type"], "application/json");
    world.post(MAPS, config_map("a", json!({"x": "y"}))).await.expect(201);
    let metas: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(world.client());
    assert_eq!(metas.list_metadata(&ListParams::default()).await.unwrap().items[0].metadata.name.as_deref(), Some("a"));
    let mut events: Events = world.watch(&format!("{MAPS}?watch=1&timeoutSeconds=5"), table).await;
    let first = events.next().await.unwrap();
    assert_eq!(first.pointer("/object/rows/0/cells"), Some(&json!(["a", 1, "0s"])));
    assert!(first.pointer("/object/columnDefinitions/0").is_some());
    world.post(MAPS, config_map("b", json!({}))).await.expect(201);
    let second = events.next().await.unwrap();
    assert_eq!(second.pointer("/object/columnDefinitions"), Some(&Value::Null));
}

#[tokio::test(start_paused = true)]
async fn openapi_documents_have_the_fields_that_kubectl_reads() {
    let world = World::new().await;
    world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crate::custom::crd()).await.expect(201);
    let index = world.get("/openapi/v3").await.expect(200);
    for (path, kind, schema) in [
        ("apis/apps/v1", "Deployment", "io.k8s.api.apps.v1.Deployment"),
        ("api/v1", "Pod", "io.k8s.api.core.v1.Pod"),
        ("apis/t.io/v1", "Foo", "io.t.v1.Foo"),
    ] {
        let url = index.body["paths"][path]["serverRelativeURL"].as_str().unwrap_or_else(|| panic!("{path}"));
        let document = world.get(url).await.expect(200);
        let paths = document.at("/paths").as_object().unwrap();
        let patch =
            paths.values().map(|p| &p["patch"]).find(|p| p["x-kubernetes-group-version-kind"]["kind"] == kind).unwrap();
        assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
        let kinds = &document.body["components"]["schemas"][schema]["x-kubernetes-group-version-kind"];
        assert!(kinds.as_array().unwrap().iter().any(|k| k["kind"] == kind), "{schema}");
        let whole = document.body.to_string();
        for reference in whole.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document.body["components"]["schemas"].get(name).is_some(), "{path} refers to {name}");
        }
    }
    let containers = world.get("/openapi/v3/apis/apps/v1").await.expect(200);
    let containers =
        &containers.body["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(
        (&containers["x-kubernetes-patch-merge-key"], &containers["x-kubernetes-patch-strategy"]),
        (&json!("name"), &json!("merge"))
    );
    assert_eq!(world.get("/openapi/v3/apis/apps/v1?hash=wrong").await.code, 301);
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_its_headers_and_large_ones_are_compressed() {
    let world = World::new().await;
    let small =
        world.send(Method::GET, MAPS, &[("audit-id", "mine"), ("accept-encoding", "gzip")], "").await.expect(200);
    assert_eq!(
        (&small.headers["audit-id"], &small.headers["cache-control"]),
        (&"mine".parse().unwrap(), &"no-cache, private".parse().unwrap())
    );
    assert!(!small.headers.contains_key("content-encoding"));
    world.post(MAPS, config_map("a", json!({"x": "y".repeat(200_000)}))).await.expect(201);
    let large = world.send(Method::GET, MAPS, &[("accept-encoding", "gzip")], "").await.expect(200);
    assert_eq!(large.headers["content-encoding"], "gzip");
    assert!(large.bytes.len() < 10_000);
    let pretty = world.get(&format!("{MAPS}?pretty=true&fieldSelector=metadata.name%3Dz")).await.expect(200);
    assert!(pretty.bytes.starts_with(b"{\n  \"apiVersion\""));
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_in_size_and_depth() {
    let world = World::new().await;
    let json = [("content-type", "application/json")];
    let huge = world.send(Method::POST, MAPS, &json, vec![b' '; 3 * 1024 * 1024 + 1]).await.expect(413);
    assert_eq!(huge.message(), "Request entity too large: limit is 3145728");
    let deep = format!("{{\"data\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(world.send(Method::POST, MAPS, &json, deep).await.code, 400);
    let stored = world.post(MAPS, config_map("a", json!({"x": "y".repeat(1_048_577)}))).await.expect(422);
    assert!(stored.message().contains("Too long: may not be more than 1048576 bytes"), "{}", stored.message());
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n\
                e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n";
    assert_eq!(world.send(Method::POST, MAPS, &[("content-type", "application/yaml")], bomb).await.code, 400);
    let deep = format!("data: {}1{}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(world.send(Method::POST, MAPS, &[("content-type", "application/yaml")], deep.clone()).await.code, 400);
    let apply = [("content-type", "application/apply-patch+yaml")];
    assert_eq!(world.send(Method::PATCH, &format!("{MAPS}/a?fieldManager=m"), &apply, deep).await.code, 400);
    let odd = world.send(Method::POST, MAPS, &[("content-type", "text/plain")], "x").await.expect(415);
    assert!(odd.message().starts_with("the body of the request was in an unknown format"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_is_ended_with_410() {
    let world = World::new().await;
    let mut slow = world.watch(&format!("{MAPS}?watch=1"), "application/json").await;
    world.post(MAPS, config_map("a", json!({}))).await.expect(201);
    for i in 0..5_000 {
        world.patch(&format!("{MAPS}/a"), "merge-patch+json", json!({"data": {"i": i.to_string()}})).await.expect(200);
    }
    let mut last = Value::Null;
    let mut seen = 0;
    while let Some(event) = slow.next().await {
        last = event;
        seen += 1;
    }
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(seen < 5_000, "{seen}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_completes_its_write() {
    let world = World::new().await;
    let body = http_body_util::Full::<bytes::Bytes>::from(config_map("a", json!({})).to_string());
    let request = http::Request::post(MAPS).header("content-type", "application/json").body(body).unwrap();
    let server = world.server.clone();
    let mut call = Box::pin(async move { server.handle(request, Identity::admin("x")).await });
    // One poll starts the server's task; then the caller drops the future.
    assert!(futures::poll!(&mut call).is_pending());
    drop(call);
    world.seam.clock.sleep(std::time::Duration::from_millis(1)).await;
    world.get(&format!("{MAPS}/a")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn only_health_and_version_are_public() {
    let world = World::new().await;
    for (path, want) in [
        ("/version", 200),
        ("/healthz", 200),
        ("/livez?verbose", 200),
        ("/readyz", 200),
        ("/version/", 200),
        ("/livez/etcd", 403),
        ("/api", 403),
        ("/openapi/v3", 403),
        (MAPS, 403),
    ] {
        let answer = world.send_as(Identity::anonymous(), Method::GET, path, &[], "").await;
        assert_eq!(answer.code, want, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn full_disk_refuses_writes_and_fails_health_with_its_cause() {
    let disk = Disk::new();
    let on = || Box::new(RedbBackend::on(disk.storage(), "/data").unwrap());
    let world = World::over(on(), 1, Options::default()).await;
    world.post(MAPS, config_map("kept", json!({}))).await.expect(201);
    disk.fail_at(disk.calls(), DiskFault::NoSpace);
    for name in ["first", "second"] {
        let refused = world.post(MAPS, config_map(name, json!({}))).await;
        let says = refused.message();
        assert_eq!((refused.code, refused.body["reason"].as_str()), (500, Some("InternalError")));
        assert!(says.contains("reads go on") && says.contains("no space is left for data directory /data"), "{says}");
    }
    world.get(&format!("{MAPS}/kept")).await.expect(200);
    world.get(&format!("{MAPS}/first")).await.expect(404);
    let checks = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n";
    for (path, code, want) in [
        ("/livez", 500, format!("{checks}livez check failed\n")),
        ("/readyz?verbose", 500, format!("{checks}readyz check failed\n")),
        ("/healthz?exclude=etcd", 200, "ok".to_owned()),
        ("/livez/ping", 200, "ok".to_owned()),
        ("/livez/none", 404, "404 page not found\n".to_owned()),
    ] {
        let answer = world.get(path).await;
        assert_eq!((answer.code, String::from_utf8_lossy(&answer.bytes).into_owned()), (code, want), "{path}");
    }
    let why = world.get("/livez/etcd").await;
    let text = String::from_utf8_lossy(&why.bytes);
    assert!(why.code == 500 && text.contains("no space is left"), "{text}");
    drop(world);
    disk.restart();
    let again = World::over(on(), 2, Options::default()).await;
    again.get(&format!("{MAPS}/kept")).await.expect(200);
    again.get(&format!("{MAPS}/first")).await.expect(404);
    again.get("/livez").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn rbac_grants_the_rules_of_bindings() {
    let world = World::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]});
    world.post(&format!("{rbac}/roles"), role).await.expect(201);
    let alice = Identity::user("alice", &["devs"]);
    let ask = |path: &'static str| world.send_as(alice.clone(), Method::GET, path, &[], "");
    assert_eq!(ask(MAPS).await.code, 403);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "devs"}]});
    world.post(&format!("{rbac}/rolebindings"), binding).await.expect(201);
    assert_eq!(ask(MAPS).await.code, 200);
    assert_eq!(ask("/api/v1/configmaps").await.code, 403);
    assert_eq!(ask("/api/v1/namespaces/default/secrets").await.code, 403);
    let review = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}, "user": "alice", "groups": ["devs"]}});
    let review = world.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await.expect(201);
    assert_eq!(
        review.at("/status/reason"),
        "RBAC: allowed by RoleBinding \"b/default\" of Role \"r\" to Group \"devs\""
    );
}

#[tokio::test(start_paused = true)]
async fn pod_needs_service_account_if_option_is_set() {
    let options = Options { service_account_admission: ServiceAccountAdmission::All, ..Options::default() };
    let world = World::seeded(1, options).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let refused = world.post("/api/v1/namespaces/default/pods", pod.clone()).await.expect(403);
    assert_eq!(
        refused.message(),
        "pods \"p\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
    world
        .post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}))
        .await
        .expect(201);
    let made = world.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    assert_eq!(made.at("/spec/serviceAccountName"), "default");
}

#[tokio::test(start_paused = true)]
async fn pod_may_come_before_the_default_service_account_but_before_no_other() {
    let options = Options { service_account_admission: ServiceAccountAdmission::Named, ..Options::default() };
    let world = World::seeded(1, options).await;
    let pod = |account: &str| json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "x"}]}});
    let refused = world.post("/api/v1/namespaces/default/pods", pod("worker")).await.expect(403);
    assert_eq!(
        refused.message(),
        "pods \"p\" is forbidden: error looking up service account default/worker: serviceaccount \"worker\" not found"
    );
    let made = world.post("/api/v1/namespaces/default/pods", pod("")).await.expect(201);
    assert_eq!(made.at("/spec/serviceAccountName"), "default");
}

#[tokio::test(start_paused = true)]
async fn events_and_autoscalers_are_stored_once_for_two_versions() {
    let world = World::new().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "message": "hello", "type": "Normal", "reason": "R"});
    world.post("/api/v1/namespaces/default/events", event).await.expect(201);
    let new = world.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.expect(200);
    assert_eq!(
        (new.at("/note"), new.at("/regarding/name"), new.at("/apiVersion")),
        (&json!("hello"), &json!("p"), &json!("events.k8s.io/v1"))
    );
    world.seam.clock.sleep(std::time::Duration::from_secs(3_700)).await;
    world.get("/api/v1/namespaces/default/events/e").await.expect(404);
    let v1 = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    world.post("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", v1).await.expect(201);
    let v2 = world.get("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h").await.expect(200);
    assert_eq!(v2.at("/spec/metrics/0/resource/target/averageUtilization"), &json!(60));
    let v1 = world.get("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/h").await.expect(200);
    assert_eq!(v1.at("/spec/targetCPUUtilizationPercentage"), &json!(60));
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_the_right() {
    let world = World::new().await;
    let me = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let act = [("impersonate-user", "alice"), ("impersonate-group", "devs")];
    let alice = world.send(Method::POST, me, &act, "{}").await.expect(201);
    assert_eq!(alice.at("/status/userInfo"), &json!({"username": "alice", "groups": ["devs", "system:authenticated"]}));
    let refused = world.send_as(Identity::user("bob", &[]), Method::GET, MAPS, &act, "").await.expect(403);
    assert_eq!(
        refused.message(),
        "users \"alice\" is forbidden: User \"bob\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    let nobody = world.send(Method::GET, MAPS, &[("impersonate-group", "devs")], "").await;
    assert_eq!(nobody.code, 400);
}

/// Answers what is below one object of a kind.
struct Echo;

impl ironclad_apiserver::Route for Echo {
    fn takes(&self, path: &str) -> bool {
        path.starts_with("/apis/t.io/v1/foos/a/proxy")
    }

    fn call(
        &self,
        request: http::Request<ironclad_apiserver::RequestBody>,
        identity: Identity,
    ) -> ironclad_apiserver::RouteFuture {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let length = ironclad_apiserver::read_body(body).await.unwrap().len();
            let text = format!("{} {} {length}", identity.user, head.uri.path());
            http::Response::new(ironclad_apiserver::ResponseBody::boxed(http_body_util::Full::<bytes::Bytes>::from(
                text,
            )))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn routes_answer_authorized_requests_before_the_server() {
    let world = World::new().await;
    world.server.mount(std::sync::Arc::new(Echo));
    let path = "/apis/t.io/v1/foos/a/proxy/api/v1/pods";
    let answer = world.send(Method::POST, path, &[], "12345").await.expect(200);
    assert_eq!(&answer.bytes[..], b"tester /apis/t.io/v1/foos/a/proxy/api/v1/pods 5");
    assert_eq!(world.send_as(Identity::user("bob", &[]), Method::GET, path, &[], "").await.code, 403);
    world.get("/apis/t.io/v1/foos/b/proxy").await.expect(404);
}
