//! CRDs and custom resources.

use serde_json::{Value, json};

use crate::support::World;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/t.io/v1/namespaces/default/foos";

pub(crate) fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.t.io"},
        "spec": {
            "group": "t.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 1, "default": 1}, "name": {"type": "string", "maxLength": 8},
                    }},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

pub(crate) fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "t.io/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_served_as_soon_as_its_definition_is_made() {
    let world = World::new().await;
    world.get(FOOS).await.expect(404);
    let made = world.post(CRDS, crd()).await.expect(201);
    assert_eq!(made.at("/spec/names/listKind"), "FooList");
    world.get(FOOS).await.expect(200);
    let foo_ = world.post(FOOS, foo("a", json!({"size": 3}))).await.expect(201);
    assert_eq!(foo_.at("/metadata/generation"), &json!(1));

    let status = world
        .patch(&format!("{FOOS}/a/status"), "merge-patch+json", json!({"status": {"size": 2}, "spec": {"size": 9}}))
        .await
        .expect(200);
    assert_eq!((status.at("/status/size"), status.at("/spec/size")), (&json!(2), &json!(3)));
    assert_eq!(status.at("/metadata/generation"), &json!(1));
    let main = world
        .patch(&format!("{FOOS}/a"), "merge-patch+json", json!({"status": {"size": 7}, "spec": {"size": 4}}))
        .await
        .expect(200);
    assert_eq!((main.at("/status/size"), main.at("/spec/size")), (&json!(2), &json!(4)));
    assert_eq!(main.at("/metadata/generation"), &json!(2));
    let scale = world.get(&format!("{FOOS}/a/scale")).await.expect(200);
    assert_eq!((scale.at("/spec/replicas"), scale.at("/status/replicas")), (&json!(4), &json!(2)));
    let smp = world.patch(&format!("{FOOS}/a"), "strategic-merge-patch+json", json!({})).await;
    assert_eq!(smp.code, 415);

    let unversioned = world.put(&format!("{FOOS}/a"), foo("a", json!({"size": 5}))).await.expect(422);
    assert_eq!(
        unversioned.message(),
        "foos.t.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    let table = world
        .send(http::Method::GET, FOOS, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "")
        .await
        .expect(200);
    assert_eq!(table.at("/rows/0/cells"), &json!(["a", 4]));
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_deletes_its_objects_first() {
    let world = World::new().await;
    world.post(CRDS, crd()).await.expect(201);
    let mut held = foo("held", json!({}));
    held["metadata"]["finalizers"] = json!(["x.io/f"]);
    world.post(FOOS, held).await.expect(201);
    world.post(FOOS, foo("free", json!({}))).await.expect(201);
    world.delete(&format!("{CRDS}/foos.t.io")).await.expect(200);
    let refused = world.post(FOOS, foo("late", json!({}))).await.expect(403);
    assert!(refused.message().ends_with("create not allowed while custom resource definition is terminating"));
    let mut events = world.watch(&format!("{FOOS}?watch=1&timeoutSeconds=5"), "application/json").await;
    while events.next().await.is_some() {}
    world.get(&format!("{FOOS}/free")).await.expect(404);
    let left = world.get(&format!("{FOOS}/held")).await.expect(200);
    assert!(left.at("/metadata/deletionTimestamp").is_string());
    world.patch(&format!("{FOOS}/held"), "merge-patch+json", json!({"metadata": {"finalizers": []}})).await.expect(200);
    world.get(&format!("{CRDS}/foos.t.io")).await.expect(404);
    world.get(FOOS).await.expect(404);
}
