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
async fn custom_resource_is_served_once_its_crd_is_created() {
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
async fn deleting_a_crd_deletes_its_objects_first() {
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

#[tokio::test(start_paused = true)]
async fn instances_are_pruned_defaulted_and_validated() {
    let world = World::new().await;
    world.post(CRDS, crd()).await.expect(201);
    let made = world.post(FOOS, foo("a", json!({"bogus": 1}))).await.expect(201);
    assert_eq!(made.at("/spec"), &json!({"size": 1}));
    assert_eq!(made.warnings(), ["299 - \"unknown field \\\"spec.bogus\\\"\""]);
    for (name, spec, message) in [
        (
            "too small",
            json!({"size": 0}),
            "Foo.t.io \"x\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            "too long",
            json!({"name": "123456789"}),
            "Foo.t.io \"x\" is invalid: spec.name: Too long: may not be more than 8 bytes",
        ),
        (
            "of the wrong type",
            json!({"size": "many"}),
            "Foo.t.io \"x\" is invalid: spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
    ] {
        let refused = world.post(FOOS, foo("x", spec)).await.expect(422);
        assert_eq!(refused.message(), message, "{name}");
    }
    let strict = world.post(&format!("{FOOS}?fieldValidation=Strict"), foo("x", json!({"bogus": 1}))).await.expect(400);
    assert!(strict.message().ends_with("strict decoding error: unknown field \"spec.bogus\""), "{}", strict.message());
    let redefaulted =
        world.patch(&format!("{FOOS}/a"), "merge-patch+json", json!({"spec": {"size": null}})).await.expect(200);
    assert_eq!(redefaulted.at("/metadata/resourceVersion"), made.at("/metadata/resourceVersion"));
    let mut kind = foo("x", json!({}));
    kind["kind"] = json!("Bar");
    assert_eq!(
        world.post(FOOS, kind).await.expect(422).message(),
        "Bar.t.io \"x\" is invalid: kind: Invalid value: \"Bar\": must be Foo"
    );
    let untyped = world.post(FOOS, json!({"metadata": {"name": "x"}})).await.expect(400);
    assert!(untyped.message().contains("Object 'Kind' is missing in"), "{}", untyped.message());
}

#[tokio::test(start_paused = true)]
async fn invalid_crds_are_refused() {
    let world = World::new().await;
    for (name, pointer, value, message) in [
        (
            "a name that doesn't fit",
            "/metadata/name",
            json!("x.t.io"),
            "metadata.name: Invalid value: \"x.t.io\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "no storage version",
            "/spec/versions/0/storage",
            json!(false),
            "must have exactly one version marked as storage version",
        ),
        (
            "a type left out",
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size",
            json!({}),
            "spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields",
        ),
        (
            "a column of no type",
            "/spec/versions/0/additionalPrinterColumns/0/type",
            json!("x"),
            "must be one of boolean,date,integer,number,string",
        ),
        (
            "a protected group",
            "/spec/group",
            json!("x.k8s.io"),
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation",
        ),
    ] {
        let mut wrong = crd();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let refused = world.post(CRDS, wrong).await;
        assert_eq!(refused.code, 422, "{name}: {}", refused.body);
        assert!(refused.message().contains(message), "{name}: {}", refused.message());
    }
    world.post(CRDS, crd()).await.expect(201);
    let patch = json!({"spec": {"scope": "Cluster"}});
    let refused = world.patch(&format!("{CRDS}/foos.t.io"), "merge-patch+json", patch).await.expect(422);
    assert!(
        refused.message().contains("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{}",
        refused.message()
    );
}

#[tokio::test(start_paused = true)]
async fn second_crd_with_a_taken_name_is_not_served() {
    let world = World::new().await;
    world.post(CRDS, crd()).await.expect(201);
    let mut other = crd();
    other["metadata"]["name"] = json!("bars.t.io");
    other["spec"]["names"] = json!({"plural": "bars", "kind": "Bar", "listKind": "FooList"});
    let made = world.post(CRDS, other).await.expect(201);
    let condition = made.at("/status/conditions/0");
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("ListKindConflict"), &json!("\"FooList\" is already in use"))
    );
    world.get("/apis/t.io/v1/bars").await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn every_served_version_reads_every_object() {
    let world = World::new().await;
    let mut two = crd();
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = json!("v2beta1");
    second["storage"] = json!(false);
    second["deprecated"] = json!(true);
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    world.post(CRDS, two).await.expect(201);
    world.post(FOOS, foo("a", json!({"size": 2}))).await.expect(201);
    let read = world.get("/apis/t.io/v2beta1/namespaces/default/foos/a").await.expect(200);
    assert_eq!((read.at("/apiVersion"), read.at("/spec/size")), (&json!("t.io/v2beta1"), &json!(2)));
    assert_eq!(read.warnings(), ["299 - \"t.io/v2beta1 Foo is deprecated; use t.io/v1 Foo\""]);
    let mut other = foo("b", json!({}));
    other["apiVersion"] = json!("t.io/v2beta1");
    world.post("/apis/t.io/v2beta1/namespaces/default/foos", other).await.expect(201);
    assert_eq!(world.get(&format!("{FOOS}/b")).await.expect(200).at("/apiVersion"), "t.io/v1");
    let group = world.get("/apis/t.io").await.expect(200);
    assert_eq!(group.at("/preferredVersion/version"), "v1");
}

#[tokio::test(start_paused = true)]
async fn changed_crd_ends_its_watches() {
    let world = World::new().await;
    world.post(CRDS, crd()).await.expect(201);
    let mut events = world.watch(&format!("{FOOS}?watch=1"), "application/json").await;
    world
        .patch(&format!("{CRDS}/foos.t.io"), "merge-patch+json", json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect(200);
    world.post(FOOS, foo("a", json!({}))).await.expect(201);
    assert_eq!(events.brief().await, "ADDED a");
    let columns = json!([{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]);
    world.patch(&format!("{CRDS}/foos.t.io"), "json-patch+json", columns).await.expect(200);
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn validation_rules_of_a_crd_apply_to_its_objects() {
    let world = World::new().await;
    let crd = |rule: &str| {
        let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": rule, "message": "replicas only grow"}]});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "rings.t.io"},
            "spec": {"group": "t.io", "scope": "Namespaced", "names": {"plural": "rings", "kind": "Ring"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let refused = world.post(definitions, crd("self.size > 1")).await.expect(422);
    assert!(refused.message().contains("ERROR: <input>:1:5: undefined field 'size'"), "{}", refused.message());
    world.post(definitions, crd("self.replicas >= oldSelf.replicas")).await.expect(201);
    let rings = "/apis/t.io/v1/namespaces/default/rings";
    let ring = json!({"apiVersion": "t.io/v1", "kind": "Ring", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    world.post(rings, ring).await.expect(201);
    let change = |to: i64| world.patch_merge(rings, to);
    let refused = change(2).await.expect(422);
    assert_eq!(refused.message(), "Ring.t.io \"a\" is invalid: spec: Invalid value: replicas only grow");
    change(4).await.expect(200);
    world.seam.tasks.kill();
}

impl World {
    async fn patch_merge(&self, rings: &str, to: i64) -> crate::support::Answer {
        self.patch(&format!("{rings}/a"), "merge-patch+json", json!({"spec": {"replicas": to}})).await
    }
}
