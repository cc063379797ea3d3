//! Versions of custom resources: objects of one are served in another, whatever version they were stored in.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use ironclad_apiserver::{Options, WebhookAnswer, WebhookCall, WebhookCaller};
use serde_json::{Value, json};

use crate::support::World;

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.t.io";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn foos(version: &str) -> String {
    format!("/apis/t.io/{version}/namespaces/default/foos")
}

fn version(name: &str, storage: bool, spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn crd(versions: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.t.io"},
        "spec": {"group": "t.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": versions},
    })
}

fn foo(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("t.io/{version}"), "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

fn stored(world: &World, name: &str) -> Value {
    let entry = world.server.store().get(&format!("/registry/t.io/foos/default/{name}")).expect("it is stored");
    serde_json::from_slice(&entry.value[4..]).unwrap()
}

/// The object as every read of this version shows it.
async fn read(world: &World, version: &str, name: &str) -> Value {
    let path = foos(version);
    let one = world.get(&format!("{path}/{name}")).await.expect(200).body;
    let of_list = |list: Value| {
        assert_eq!(list["apiVersion"], format!("t.io/{version}"));
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().find(|o| o["metadata"]["name"] == name).expect("it is listed")
    };
    assert_eq!(of_list(world.get(&path).await.expect(200).body), one);
    assert_eq!(of_list(world.get(&format!("{path}?labelSelector=!none&limit=500")).await.expect(200).body), one);
    let table =
        world.send(Method::GET, &format!("{path}?includeObject=Object"), &[("accept", TABLE)], "").await.expect(200);
    let rows = table.body["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["object"] == one), "{rows:?}");
    let mut watch =
        world.watch(&format!("{path}?watch=1&fieldSelector=metadata.name%3D{name}"), "application/json").await;
    assert_eq!(watch.next().await.unwrap()["object"], one);
    assert_eq!(one["apiVersion"], format!("t.io/{version}"));
    one
}

#[tokio::test(start_paused = true)]
async fn objects_are_served_in_the_requested_version_after_the_stored_one_changed() {
    let world = World::new().await;
    let size = || json!({"size": {"type": "integer"}});
    world.post(CRDS, crd(&[version("v1", true, size()), version("v2", false, size())])).await.expect(201);
    world.post(&foos("v1"), foo("v1", "old", json!({"size": 1}))).await.expect(201);
    let moved = json!({"spec": {"versions": [version("v1", false, size()), version("v2", true, size())]}});
    world.patch(CRD, "merge-patch+json", moved).await.expect(200);
    world.post(&foos("v1"), foo("v1", "new", json!({"size": 2}))).await.expect(201);
    assert_eq!(
        (&stored(&world, "old")["apiVersion"], &stored(&world, "new")["apiVersion"]),
        (&json!("t.io/v1"), &json!("t.io/v2"))
    );
    for version in ["v1", "v2"] {
        for (name, size) in [("old", 1), ("new", 2)] {
            assert_eq!(read(&world, version, name).await["spec"]["size"], size);
        }
    }
    // The old version must stay until nothing is stored in it.
    let alone = json!({"spec": {"versions": [version("v2", true, size())]}});
    let refused = world.patch(CRD, "merge-patch+json", alone.clone()).await.expect(422);
    assert!(refused.message().contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"));
    let same = world.get(&format!("{}/old", foos("v2"))).await.expect(200).body;
    world.put(&format!("{}/old", foos("v2")), same).await.expect(200);
    assert_eq!(stored(&world, "old")["apiVersion"], "t.io/v2", "a write without changes migrates");
    let migrated = json!({"status": {"storedVersions": ["v2"]}});
    world.patch(&format!("{CRD}/status"), "merge-patch+json", migrated).await.expect(200);
    world.patch(CRD, "merge-patch+json", alone).await.expect(200);
    assert_eq!(read(&world, "v2", "old").await["spec"]["size"], 1);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn what_is_read_has_the_defaults_and_fields_of_the_schema_as_it_is_now() {
    let world = World::new().await;
    let before = json!({"size": {"type": "integer"}, "gone": {"type": "string"}});
    world.post(CRDS, crd(&[version("v1", true, before)])).await.expect(201);
    world.post(&foos("v1"), foo("v1", "a", json!({"size": 1, "gone": "x"}))).await.expect(201);
    let was = read(&world, "v1", "a").await;
    let after = json!({"size": {"type": "integer"}, "mode": {"type": "string", "default": "fast"}});
    world.patch(CRD, "merge-patch+json", json!({"spec": {"versions": [version("v1", true, after)]}})).await.expect(200);
    let now = read(&world, "v1", "a").await;
    assert_eq!(now["spec"], json!({"size": 1, "mode": "fast"}));
    assert_eq!(now["metadata"]["resourceVersion"], was["metadata"]["resourceVersion"], "reading writes nothing");
    let patched =
        world.patch(&format!("{}/a", foos("v1")), "merge-patch+json", json!({"spec": {"size": 2}})).await.expect(200);
    assert_eq!(patched.at("/spec"), &json!({"size": 2, "mode": "fast"}));
    assert_eq!(stored(&world, "a")["spec"], json!({"size": 2, "mode": "fast"}));
    world.seam.tasks.kill();
}

/// A definition with two versions that its webhook, [`Addresses`], converts.
fn converted_crd() -> Value {
    let v1 = json!({"host": {"type": "string"}, "port": {"type": "integer"}});
    let v2 = json!({"address": {"type": "string"}});
    let mut crd = crd(&[version("v1", true, v1), version("v2", false, v2)]);
    let webhook = json!({"clientConfig": {"url": "https://h.example/convert"}, "conversionReviewVersions": ["v1"]});
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
    crd
}

/// Converts `spec: {host, port}` of v1 to `spec: {address}` of v2 and back.
#[derive(Debug, Default)]
struct Addresses {
    fails: std::sync::atomic::AtomicBool,
    calls: std::sync::atomic::AtomicUsize,
}

impl WebhookCaller for Addresses {
    fn call(&self, call: WebhookCall) -> WebhookAnswer {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let fails = self.fails.load(std::sync::atomic::Ordering::Relaxed);
        let review: Value = serde_json::from_slice(&call.body).unwrap();
        let request = &review["request"];
        let wanted = request["desiredAPIVersion"].clone();
        let objects: Vec<Value> =
            request["objects"].as_array().unwrap().iter().map(|o| converted(o, &wanted)).collect();
        let status = if fails { "Failure" } else { "Success" };
        let response = json!({"uid": request["uid"], "convertedObjects": objects,
                              "result": {"status": status, "message": "no way"}});
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response});
        assert!(call.url.starts_with("https://h.example/convert?timeout="), "{}", call.url);
        Box::pin(async move { Ok(Bytes::from(answer.to_string())) })
    }
}

fn converted(object: &Value, wanted: &Value) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = wanted.clone();
    out["spec"] = if *wanted == "t.io/v2" {
        json!({"address": format!("{}:{}", object["spec"]["host"].as_str().unwrap(), object["spec"]["port"])})
    } else {
        let (host, port) = object["spec"]["address"].as_str().unwrap().split_once(':').unwrap();
        json!({"host": host, "port": port.parse::<u64>().unwrap()})
    };
    out
}

#[tokio::test(start_paused = true)]
async fn objects_are_converted_by_the_webhook_of_their_definition() {
    let caller = Arc::new(Addresses::default());
    let world = World::seeded(1, Options { webhooks: Some(caller.clone()), ..Options::default() }).await;
    world.post(CRDS, converted_crd()).await.expect(201);
    world.post(&foos("v1"), foo("v1", "a", json!({"host": "h", "port": 1}))).await.expect(201);
    world.post(&foos("v2"), foo("v2", "b", json!({"address": "g:2"}))).await.expect(201);
    assert_eq!(stored(&world, "b")["spec"], json!({"host": "g", "port": 2}));
    for (name, old, new) in
        [("a", json!({"host": "h", "port": 1}), "h:1"), ("b", json!({"host": "g", "port": 2}), "g:2")]
    {
        assert_eq!(read(&world, "v1", name).await["spec"], old);
        assert_eq!(read(&world, "v2", name).await["spec"], json!({"address": new}));
    }
    let calls = || caller.calls.load(std::sync::atomic::Ordering::Relaxed);
    let before = calls();
    world.get(&foos("v2")).await.expect(200);
    assert_eq!(calls() - before, 1, "one call for a list");
    world.get(&foos("v1")).await.expect(200);
    assert_eq!(calls() - before, 1, "none for the version that is stored");

    let path = format!("{}/a", foos("v2"));
    let patched = world.patch(&path, "merge-patch+json", json!({"spec": {"address": "h:7"}})).await.expect(200);
    assert_eq!(patched.at("/spec"), &json!({"address": "h:7"}));
    assert_eq!(stored(&world, "a")["spec"], json!({"host": "h", "port": 7}));
    let applied = world
        .patch(
            &format!("{path}?fieldManager=m&force=true"),
            "apply-patch+yaml",
            foo("v2", "a", json!({"address": "i:8"})),
        )
        .await
        .expect(200);
    assert_eq!(applied.at("/spec"), &json!({"address": "i:8"}));
    assert_eq!(stored(&world, "a")["spec"], json!({"host": "i", "port": 8}));
    let mut watch = world
        .watch(
            &format!("{}?watch=1&resourceVersion={}", foos("v2"), world.server.store().revision()),
            "application/json",
        )
        .await;
    world.patch(&format!("{}/a", foos("v1")), "merge-patch+json", json!({"spec": {"port": 9}})).await.expect(200);
    assert_eq!(watch.next().await.unwrap()["object"]["spec"], json!({"address": "i:9"}));

    // A webhook that fails loses nothing.
    caller.fails.store(true, std::sync::atomic::Ordering::Relaxed);
    for answer in [
        world.get(&path).await,
        world.get(&foos("v2")).await,
        world.patch(&path, "merge-patch+json", json!({"metadata": {"labels": {"a": "b"}}})).await,
        world.post(&foos("v2"), foo("v2", "c", json!({"address": "g:2"}))).await,
    ] {
        let answer = answer.expect(500);
        assert!(
            answer.message().contains("conversion webhook for t.io/v2, Kind=Foo failed: no way"),
            "{}",
            answer.message()
        );
    }
    assert_eq!(stored(&world, "a")["spec"], json!({"host": "i", "port": 9}));
    world.get(&format!("{}/a", foos("v1"))).await.expect(200);
    world.delete(&format!("{}/a", foos("v1"))).await.expect(200);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn instances_that_could_not_be_deleted_with_their_definition_are_deleted_later() {
    let caller = Arc::new(Addresses::default());
    let world = World::seeded(1, Options { webhooks: Some(caller.clone()), ..Options::default() }).await;
    let crd = converted_crd();
    world.post(CRDS, crd.clone()).await.expect(201);
    for name in ["a", "b"] {
        world.post(&foos("v1"), foo("v1", name, json!({"host": "h", "port": 1}))).await.expect(201);
    }
    caller.fails.store(true, std::sync::atomic::Ordering::Relaxed);
    world.delete(CRD).await.expect(200);
    world.seam.clock.sleep(std::time::Duration::from_secs(3_600)).await;
    let waits = world.get(CRD).await.expect(200);
    let conditions = waits.at("/status/conditions").as_array().unwrap();
    let terminating = conditions.iter().find(|condition| condition["type"] == "Terminating").unwrap();
    assert_eq!(terminating["reason"], "InstanceDeletionFailed");
    assert!(terminating["message"].as_str().unwrap().contains("no way"), "{terminating}");
    assert!(caller.calls.load(std::sync::atomic::Ordering::Relaxed) < 100, "it is tried with pauses");
    caller.fails.store(false, std::sync::atomic::Ordering::Relaxed);
    world.seam.clock.sleep(std::time::Duration::from_secs(600)).await;
    world.get(CRD).await.expect(404);
    assert!(world.server.store().get("/registry/t.io/foos/default/a").is_none(), "no instance is left");

    // A definition that is made anew while the old one's clean-up waits keeps its instances.
    world.post(CRDS, crd).await.expect(201);
    world.post(&foos("v1"), foo("v1", "new", json!({"host": "h", "port": 1}))).await.expect(201);
    world.seam.clock.sleep(std::time::Duration::from_secs(600)).await;
    world.get(&format!("{}/new", foos("v1"))).await.expect(200);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_cannot_work_is_refused() {
    let world = World::new().await;
    let url = json!({"url": "https://h.example/convert"});
    let service = json!({"service": {"namespace": "a", "name": "b"}});
    let both = json!({"url": "https://h.example/convert", "service": service["service"]});
    for (name, conversion, want) in [
        ("an unknown strategy", json!({"strategy": "Nonsense"}), "spec.conversion.strategy"),
        ("no webhook", json!({"strategy": "Webhook"}), "spec.conversion.webhookClientConfig"),
        ("no versions", json!({"strategy": "Webhook", "webhook": {"clientConfig": url}}), "conversionReviewVersions"),
        (
            "unknown versions",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": url, "conversionReviewVersions": ["v9"]}}),
            "conversionReviewVersions",
        ),
        (
            "two addresses",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": both, "conversionReviewVersions": ["v1"]}}),
            "exactly one of url or service",
        ),
        (
            "no TLS",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://h.example"}, "conversionReviewVersions": ["v1"]}}),
            "webhookClientConfig.url",
        ),
        (
            "a webhook without its strategy",
            json!({"strategy": "None", "webhook": {"clientConfig": url, "conversionReviewVersions": ["v1"]}}),
            "should not be set",
        ),
    ] {
        let mut crd = crd(&[version("v1", true, json!({}))]);
        crd["spec"]["conversion"] = conversion;
        let refused = world.post(CRDS, crd).await;
        assert_eq!(refused.code, 422, "{name}: {}", refused.message());
        assert!(refused.message().contains(want), "{name}: {}", refused.message());
    }
    let mut crd = crd(&[version("v1", true, json!({}))]);
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": service, "conversionReviewVersions": ["v1beta1", "v1"]}});
    world.post(CRDS, crd).await.expect(201);
    world.seam.tasks.kill();
}
