//! The twelve rules that implementations most often miss (specification/apiserver.md 0), in their order there.

use http::Method;
use ironclad_apiserver::{Options, ServiceAccountAdmission};
use serde_json::{Value, json};

use crate::support::{World, config_map, deployment};

const CORE: &str = "/api/v1/namespaces/default";
const APPS: &str = "/apis/apps/v1/namespaces/default";

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn protobuf_body_is_decoded() {
    let world = World::new().await;
    // The envelope, a TypeMeta, and a ConfigMap whose metadata has a name.
    let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x07\x0a\x05\x0a\x03abc".to_vec();
    body.extend_from_slice(b"\x1a\x00\x22\x00");
    let accept = "application/vnd.kubernetes.protobuf,application/json";
    let headers = [("content-type", "application/vnd.kubernetes.protobuf"), ("accept", accept)];
    let made = world.send(Method::POST, &format!("{CORE}/configmaps"), &headers, body).await.expect(201);
    assert_eq!(made.at("/metadata/name"), "abc");
}

#[tokio::test]
async fn watch_without_revision_begins_with_existing_objects() {
    let world = World::new().await;
    world.post(&format!("{CORE}/configmaps"), config_map("a", json!({}))).await.expect(201);
    for query in ["", "&resourceVersion=0"] {
        let path = format!("{CORE}/configmaps?watch=true&allowWatchBookmarks=true{query}");
        let mut events = world.watch(&path, "application/json").await;
        assert_eq!(events.brief().await, "ADDED a", "{query}");
        let end = events.next().await.unwrap();
        assert_eq!(end["type"], "BOOKMARK", "{query}");
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{query}");
    }
}

#[tokio::test]
async fn update_without_change_writes_nothing() {
    let world = World::new().await;
    let path = format!("{CORE}/configmaps/a");
    let made = world.post(&format!("{CORE}/configmaps"), config_map("a", json!({"k": "v"}))).await.expect(201);
    let again = world.put(&path, config_map("a", json!({"k": "v"}))).await.expect(200);
    assert_eq!(again.body, made.body);
    let again = world.patch(&path, "merge-patch+json", json!({"data": {"k": "v"}})).await.expect(200);
    assert_eq!(again.body, made.body);
}

#[tokio::test]
async fn deletion_has_its_own_revision() {
    let world = World::new().await;
    let made = world.post(&format!("{CORE}/configmaps"), config_map("a", json!({}))).await.expect(201);
    let from = revision(&made.body);
    let path = format!("{CORE}/configmaps?watch=true&resourceVersion={from}");
    let mut events = world.watch(&path, "application/json").await;
    world.delete(&format!("{CORE}/configmaps/a")).await.expect(200);
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert!(revision(&event["object"]) > from);
}

#[tokio::test]
async fn generation_is_set_for_some_kinds_only() {
    let world = World::new().await;
    let made = world.post(&format!("{APPS}/deployments"), deployment("d")).await.expect(201);
    assert_eq!(made.at("/metadata/generation"), 1);
    for (path, body) in [
        ("services", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})),
        ("configmaps", json!({"metadata": {"name": "s"}})),
        ("secrets", json!({"metadata": {"name": "s"}})),
    ] {
        let made = world.post(&format!("{CORE}/{path}"), body).await.expect(201);
        assert_eq!(made.at("/metadata/generation"), &Value::Null, "{path}");
    }
}

#[tokio::test]
async fn update_without_revision_is_refused_for_some_kinds() {
    let world = World::new().await;
    for (path, plural, body) in [
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "poddisruptionbudgets.policy",
            json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            "leases.coordination.k8s.io",
            json!({"metadata": {"name": "x"}, "spec": {}}),
        ),
    ] {
        world.post(path, body.clone()).await.expect(201);
        let refused = world.put(&format!("{path}/x"), body).await.expect(422);
        let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
        assert_eq!(refused.message(), format!("{plural} \"x\" is invalid: {why}"));
    }
    world.post(&format!("{CORE}/configmaps"), config_map("x", json!({}))).await.expect(201);
    world.put(&format!("{CORE}/configmaps/x"), config_map("x", json!({"k": "v"}))).await.expect(200);
}

#[tokio::test]
async fn put_creates_objects_of_some_kinds() {
    let world = World::new().await;
    for (path, code) in [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases/x", 201),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/x", 201),
        ("/api/v1/namespaces/default/endpoints/x", 201),
        ("/api/v1/namespaces/default/secrets/x", 404),
        ("/api/v1/namespaces/default/configmaps/x", 404),
    ] {
        world.put(path, json!({"metadata": {"name": "x"}})).await.expect(code);
    }
}

#[tokio::test]
async fn null_restores_default_and_removing_last_finalizer_deletes() {
    let world = World::new().await;
    let mut body = deployment("d");
    body["spec"]["replicas"] = json!(3);
    body["metadata"]["finalizers"] = json!(["x.io/f"]);
    world.post(&format!("{APPS}/deployments"), body).await.expect(201);
    let path = format!("{APPS}/deployments/d");
    let patched = world.patch(&path, "merge-patch+json", json!({"spec": {"replicas": null}})).await.expect(200);
    assert_eq!(patched.at("/spec/replicas"), 1);
    world.delete(&path).await.expect(200);
    let last = world.patch(&path, "merge-patch+json", json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(last.at("/metadata/name"), "d");
    world.get(&path).await.expect(404);
}

#[tokio::test]
async fn failing_patches_have_the_codes_of_a_kube_apiserver() {
    let world = World::new().await;
    world.post(&format!("{APPS}/deployments"), deployment("d")).await.expect(201);
    let path = format!("{APPS}/deployments/d");
    let test = json!([{"op": "test", "path": "/spec/replicas", "value": 9}]);
    let refused = world.patch(&path, "json-patch+json", test).await.expect(422);
    assert_eq!(refused.message(), "the server rejected our request due to an error in our request");
    let keyless = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
    let refused = world.patch(&path, "strategic-merge-patch+json", keyless).await.expect(500);
    assert_eq!(refused.message(), "map: map[image:x] does not contain declared merge key: name");
}

#[tokio::test]
async fn apply_that_fits_no_schema_is_a_500() {
    let world = World::new().await;
    let mut body = config_map("a", json!({}));
    body["bogus"] = json!(1);
    let path = format!("{CORE}/configmaps/a?fieldManager=m");
    let refused = world.patch(&path, "apply-patch+yaml", body).await.expect(500);
    let why = ".bogus: field not declared in schema";
    assert_eq!(refused.message(), format!("failed to create typed patch object (/a; /v1, Kind=ConfigMap): {why}"));
    assert_eq!(refused.at("/reason"), &Value::Null);
}

#[tokio::test]
async fn aggregated_roles_are_empty_without_their_controller() {
    let world = World::new().await;
    for name in ["admin", "edit", "view"] {
        let role = world.get(&format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")).await.expect(200);
        assert_eq!(role.at("/rules"), &Value::Null, "{name}");
        assert!(role.at("/aggregationRule").is_object(), "{name}");
    }
}

#[tokio::test]
async fn pod_without_service_account_is_refused() {
    let options = Options { service_account_admission: ServiceAccountAdmission::All, ..Options::default() };
    let world = World::seeded(1, options).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = world.post(&format!("{CORE}/pods"), pod.clone()).await.expect(403);
    let why = "error looking up service account default/default: serviceaccount \"default\" not found";
    assert_eq!(refused.message(), format!("pods \"p\" is forbidden: {why}"));
    world.post(&format!("{CORE}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await.expect(201);
    world.post(&format!("{CORE}/pods"), pod).await.expect(201);
}
