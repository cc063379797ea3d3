//! Nested objects: what is stored can be read by every decoder, and what can't be decoded harms nobody else.

use http::Method;
use ironclad_apiserver::{Options, Server};
use ironclad_store::Op;
use serde_json::{Value, json};

use crate::{
    custom,
    support::{World, config_map},
};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TREES: &str = "/apis/t.io/v1/namespaces/default/trees";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Objects in each other.
fn nest(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

fn fields(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"f:a": inner}))
}

async fn serve_trees(world: &World) {
    let mut crd = custom::crd();
    crd["metadata"]["name"] = json!("trees.t.io");
    crd["spec"]["names"] = json!({"plural": "trees", "kind": "Tree"});
    crd["spec"]["versions"][0] = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    world.post(CRDS, crd).await.expect(201);
}

/// Reads an object in every form, alone and with others, changes it, and deletes it.
async fn is_usable(world: &World, collection: &str, name: &str, what: &str) {
    let path = format!("{collection}/{name}");
    for (path, accept) in [
        (path.clone(), "application/json"),
        (format!("{path}?pretty=true"), "application/json"),
        (path.clone(), "application/yaml"),
        (path.clone(), TABLE),
        (collection.to_owned(), "application/json"),
        (collection.to_owned(), TABLE),
        (collection.to_owned(), METADATA),
        (format!("{collection}?labelSelector=!none"), "application/json"),
    ] {
        let answer = world.send(Method::GET, &path, &[("accept", accept)], "").await;
        assert_eq!(answer.code, 200, "{what}: {path} {accept}: {}", answer.message());
        let is_json = accept != "application/yaml";
        assert!(!is_json || answer.body.is_object(), "{what}: the answer to {path} {accept} is nested too deeply");
    }
    let mut watch = world.watch(&format!("{collection}?watch=true"), "application/json").await;
    assert!(watch.next().await.is_some(), "{what}");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world.patch(&path, "merge-patch+json", label).await.expect(200);
    world.delete(&path).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_can_be_read_and_deleted() {
    let world = World::new().await;
    serve_trees(&world).await;
    let (mut stored, mut refused) = (0, 0);
    for levels in [50, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 110, 120, 122, 123, 124, 125, 126, 140, 250]
    {
        let tree =
            |spec: Value| json!({"apiVersion": "t.io/v1", "kind": "Tree", "metadata": {"name": "t"}, "spec": spec});
        let path = format!("{TREES}/t");
        for way in ["POST", "PUT", "apply", "merge", "JSON patch", "JSON patch by replace", "managedFields"] {
            let spec = nest(levels);
            if way != "POST" && way != "apply" {
                world.post(TREES, tree(json!({"b": {}}))).await.expect(201);
            }
            let answer = match way {
                "POST" => world.post(TREES, tree(spec)).await,
                "PUT" => {
                    let mut tree = tree(spec);
                    tree["metadata"]["resourceVersion"] =
                        world.get(&path).await.at("/metadata/resourceVersion").clone();
                    world.put(&path, tree).await
                }
                "apply" => world.patch(&format!("{path}?fieldManager=m"), "apply-patch+yaml", tree(spec)).await,
                "merge" => world.patch(&path, "merge-patch+json", json!({"spec": spec})).await,
                "JSON patch" | "JSON patch by replace" => {
                    let op = if way == "JSON patch" { "add" } else { "replace" };
                    // In two steps, as a body of so many levels can't be sent.
                    let half = levels / 2;
                    let deep = format!("/spec/b{}", "/a".repeat(half));
                    let patch = json!([
                        {"op": op, "path": "/spec/b", "value": nest(half + 1)},
                        {"op": op, "path": deep, "value": nest(levels - half)},
                    ]);
                    world.patch(&path, "json-patch+json", patch).await
                }
                _ => {
                    let at = "/metadata/managedFields/0/fieldsV1";
                    let half = levels / 2;
                    let patch = json!([
                        {"op": "add", "path": at, "value": fields(half + 1)},
                        {"op": "add", "path": format!("{at}{}", "/f:a".repeat(half)), "value": fields(levels - half)},
                    ]);
                    world.patch(&path, "json-patch+json", patch).await
                }
            };
            let what = format!("{way}, {levels} levels");
            if answer.code < 300 {
                stored += 1;
                is_usable(&world, TREES, "t", &what).await;
                continue;
            }
            refused += 1;
            assert!(matches!(answer.code, 400 | 422), "{what}: {} {}", answer.code, answer.message());
            if way != "POST" && way != "apply" {
                is_usable(&world, TREES, "t", &what).await;
            }
        }
    }
    assert!(stored > 20 && refused > 20, "{stored} stored, {refused} refused");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_refuses_what_would_be_nested_too_deeply() {
    let world = World::new().await;
    serve_trees(&world).await;
    let tree = json!({"apiVersion": "t.io/v1", "kind": "Tree", "metadata": {"name": "t"}, "spec": nest(110)});
    let refused = world.post(&format!("{TREES}?dryRun=All"), tree).await.expect(400);
    assert!(
        refused.message().starts_with("trees \"t\" would be nested deeper than 100 levels"),
        "{}",
        refused.message()
    );
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_left_out_and_can_be_deleted() {
    let world = World::new().await;
    serve_trees(&world).await;
    world.post(MAPS, config_map("good", json!({}))).await.expect(201);
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice("{\"a\":".repeat(200).as_bytes());
    bytes.extend_from_slice(format!("1{}", "}".repeat(200)).as_bytes());
    let keys = [
        "/registry/core/configmaps/default/bad",
        "/registry/core/configmaps/default/bad2",
        "/registry/apiextensions.k8s.io/customresourcedefinitions/bad.t.io",
        "/registry/t.io/trees/default/bad",
    ];
    let puts = keys.iter().map(|key| Op::put(*key, bytes.clone())).collect();
    world.server.store().txn(vec![], puts).await.unwrap();

    for (path, accept) in [(MAPS, TABLE), (&format!("{MAPS}?labelSelector=!none"), "application/json"), (CRDS, TABLE)] {
        let answer = world.send(Method::GET, path, &[("accept", accept)], "").await.expect(200);
        assert!(answer.warnings().iter().any(|w| w.contains("can't be decoded")), "{path}: {:?}", answer.warnings());
        assert!(answer.body["rows"].as_array().or(answer.body["items"].as_array()).is_some_and(|l| !l.is_empty()));
    }
    let bad = format!("{MAPS}/bad");
    let answer = world.send(Method::GET, &bad, &[("accept", TABLE)], "").await.expect(500);
    assert!(answer.message().contains("delete it"), "{}", answer.message());
    world.patch(&bad, "merge-patch+json", json!({"data": {}})).await.expect(500);
    world.delete(&bad).await.expect(200);
    world.get(&bad).await.expect(404);

    // Definitions can be written and the server starts.
    world
        .patch(&format!("{CRDS}/trees.t.io"), "merge-patch+json", json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect(200);
    let again = Server::open(Options::default(), world.server.store().clone(), world.seam.clone()).await.unwrap();
    let again = World { server: again, seam: world.seam.clone() };
    again.delete(&format!("{CRDS}/bad.t.io")).await.expect(200);
    again.delete(MAPS).await.expect(200);
    assert_eq!(again.get(MAPS).await.expect(200).at("/items"), &json!([]));
    // A definition goes with instances that can't be decoded.
    again.delete(&format!("{CRDS}/trees.t.io")).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    again.get(&format!("{CRDS}/trees.t.io")).await.expect(404);
    world.seam.tasks.kill();
}
