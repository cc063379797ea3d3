//! Field ownership: managedFields and server-side apply.

use serde_json::{Value, json};

use crate::support::{Answer, World, config_map, deployment};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn apply(world: &World, path: &str, query: &str, body: Value) -> Answer {
    world.patch(&format!("{path}?{query}"), "apply-patch+yaml", body).await
}

fn owners(answer: &Answer) -> Vec<String> {
    let entries = answer.at("/metadata/managedFields").as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| format!("{} {}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn apply_creates_merges_conflicts_and_forces() {
    let world = World::new().await;
    let path = format!("{MAPS}/a");
    let made = apply(&world, &path, "fieldManager=m1", config_map("a", json!({"x": "1", "y": "1"}))).await.expect(201);
    assert_eq!(owners(&made), ["m1 Apply"]);
    let again = apply(&world, &path, "fieldManager=m1", config_map("a", json!({"x": "1", "y": "1"}))).await.expect(200);
    assert_eq!(again.at("/metadata/resourceVersion"), made.at("/metadata/resourceVersion"));
    let clash = apply(&world, &path, "fieldManager=m2", config_map("a", json!({"x": "2"}))).await.expect(409);
    assert_eq!(clash.message(), "Apply failed with 1 conflict: conflict with \"m1\": .data.x");
    assert_eq!(clash.at("/details/causes/0/reason"), "FieldManagerConflict");
    let forced =
        apply(&world, &path, "fieldManager=m2&force=true", config_map("a", json!({"x": "2"}))).await.expect(200);
    assert_eq!(forced.at("/data"), &json!({"x": "2", "y": "1"}));
    let dropped = apply(&world, &path, "fieldManager=m1", config_map("a", json!({}))).await.expect(200);
    assert_eq!(dropped.at("/data"), &json!({"x": "2"}));
    let anonymous = apply(&world, &path, "", config_map("a", json!({}))).await.expect(422);
    assert!(anonymous.message().ends_with("fieldManager: Required value: is required for apply patch"));
    let untyped = apply(
        &world,
        &path,
        "fieldManager=m1",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "bogus": 1}),
    )
    .await;
    assert_eq!(untyped.code, 500);
    assert!(untyped.message().ends_with(".bogus: field not declared in schema"), "{}", untyped.message());
}

#[tokio::test(start_paused = true)]
async fn writes_record_their_field_manager() {
    let world = World::new().await;
    let made = world.post(&format!("{DEPLOYMENTS}?fieldManager=creator"), deployment("d")).await.expect(201);
    assert_eq!(owners(&made), ["creator Update"]);
    assert!(made.at("/metadata/managedFields/0/fieldsV1/f:spec/f:progressDeadlineSeconds").is_object());
    let path = format!("{DEPLOYMENTS}/d");
    let status = world
        .patch(&format!("{path}/status?fieldManager=ctl"), "merge-patch+json", json!({"status": {"replicas": 1}}))
        .await
        .expect(200);
    assert_eq!(owners(&status), ["creator Update", "ctl Update"]);
    assert_eq!(status.at("/metadata/managedFields/1/subresource"), "status");
    let scaled = world
        .patch(&format!("{path}?fieldManager=other"), "merge-patch+json", json!({"spec": {"replicas": 3}}))
        .await
        .expect(200);
    assert!(owners(&scaled).contains(&"other Update".to_owned()));
    let cleared =
        world.patch(&path, "merge-patch+json", json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    assert_eq!(owners(&cleared), Vec::<String>::new());
    let applied = apply(
        &world,
        &path,
        "fieldManager=m",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3}}),
    )
    .await
    .expect(200);
    assert_eq!(owners(&applied), ["m Apply", "before-first-apply Update"]);
}

#[tokio::test(start_paused = true)]
async fn custom_resources_and_their_status_are_applied() {
    let world = World::new().await;
    world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crate::custom::crd()).await.expect(201);
    let path = "/apis/t.io/v1/namespaces/default/foos/a";
    let made = apply(&world, path, "fieldManager=m", crate::custom::foo("a", json!({"size": 2}))).await.expect(201);
    assert_eq!((made.at("/spec/size"), owners(&made)), (&json!(2), vec!["m Apply".to_owned()]));
    let status = json!({"apiVersion": "t.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "status": {"size": 1}});
    let status = apply(&world, &format!("{path}/status"), "fieldManager=s", status).await.expect(200);
    assert_eq!((status.at("/status/size"), status.at("/spec/size")), (&json!(1), &json!(2)));
    assert_eq!(owners(&status), ["m Apply", "s Apply"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_owners_alone_is_written() {
    let world = World::new().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let made = world.post(&format!("{maps}?fieldManager=kubectl"), config_map("a", json!({"k": "v"}))).await;
    let mut entry = made.expect(201).at("/metadata/managedFields/0").clone();
    // As clients do that go over to server-side apply.
    for (field, value) in [("operation", "Apply"), ("manager", "other")] {
        entry[field] = json!(value);
        let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [entry.clone()]}]);
        let patched = world.patch(&format!("{maps}/a"), "json-patch+json", patch).await.expect(200);
        assert_eq!(patched.at("/metadata/managedFields/0")[field], value, "answered");
        let read = world.get(&format!("{maps}/a")).await.expect(200);
        assert_eq!(read.at("/metadata/managedFields/0")[field], value, "stored");
    }
    let revision = |answer: &Answer| answer.at("/metadata/resourceVersion").clone();
    let before = revision(&world.get(&format!("{maps}/a")).await);
    entry["time"] = json!("2020-01-01T00:00:00Z");
    let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [entry]}]);
    let same = world.patch(&format!("{maps}/a"), "json-patch+json", patch).await.expect(200);
    assert_eq!(revision(&same), before, "times alone are no change");
}
