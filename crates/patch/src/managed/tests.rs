//! Properties, and cases that `cargo xtask codegen goldens` cannot record.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{arbitrary, builtin};

fn tracker(reset: &'static Set) -> Tracker<'static> {
    let table = builtin::table();
    let schema = table.kind("", "v1", "ConfigMap").expect("ConfigMap");
    Tracker { table, schema, api_version: "v1", kind: "ConfigMap", subresource: "", reset }
}

fn nothing() -> &'static Set {
    static NOTHING: std::sync::LazyLock<Set> = std::sync::LazyLock::new(Set::default);
    &NOTHING
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[test]
fn a_second_applier_of_the_same_value_keeps_its_entry_without_time() {
    let tracker = tracker(nothing());
    let first = tracker.apply(None, &config_map(json!({"x": "1"})), "m1", false, "T1").expect("a create");
    assert!(first.changed);
    let second =
        tracker.apply(Some(&first.object), &config_map(json!({"x": "1"})), "m2", false, "T2").expect("no conflict");
    assert!(!second.changed);
    assert_eq!(
        second.object["metadata"]["managedFields"],
        json!([
            {"manager": "m2", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:x": {}}}},
            {"manager": "m1", "operation": "Apply", "apiVersion": "v1", "time": "T1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:x": {}}}},
        ])
    );
}

#[test]
fn too_many_updaters_become_one() {
    let tracker = tracker(nothing());
    let mut live = config_map(json!({}));
    tracker.update(None, &mut live, "m00", "T00");
    for i in 1..=13 {
        let mut new = live.clone();
        new["data"][format!("k{i}")] = json!("1");
        tracker.update(Some(&live), &mut new, &format!("m{i:02}"), &format!("T{i:02}"));
        live = new;
    }
    let list = live["metadata"]["managedFields"].as_array().expect("a list").clone();
    assert_eq!(list.len(), UPDATE_MANAGERS_MAX);
    assert_eq!(list[0]["manager"], ANCIENT_CHANGES);
    assert_eq!(list[0]["fieldsV1"]["f:data"].as_object().map(serde_json::Map::len), Some(5));
}

#[test]
fn managed_fields_can_be_cleared_and_replaced() {
    let tracker = tracker(nothing());
    let mut live = config_map(json!({"x": "1"}));
    tracker.update(None, &mut live, "m", "T1");
    for cleared in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = cleared;
        tracker.update(Some(&live), &mut new, "m", "T2");
        assert_eq!(new["metadata"].get("managedFields"), None);
    }
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["manager"] = json!("other");
    tracker.update(Some(&live), &mut new, "m", "T2");
    assert_eq!(new["metadata"]["managedFields"][0]["manager"], "other");
    let mut broken = live.clone();
    broken["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    tracker.update(Some(&live), &mut broken, "m", "T2");
    assert_eq!(broken["metadata"]["managedFields"], live["metadata"]["managedFields"]);
}

#[test]
fn times_are_kept_if_nothing_else_changed() {
    let tracker = tracker(nothing());
    let mut old = config_map(json!({"x": "1"}));
    tracker.update(None, &mut old, "m", "T1");
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = json!("T2");
    keep_times(&old, &mut new);
    assert_eq!(new, old);
    new["data"]["x"] = json!("2");
    new["metadata"]["managedFields"][0]["time"] = json!("T2");
    keep_times(&old, &mut new);
    assert_eq!(new["metadata"]["managedFields"][0]["time"], "T2");
}

#[test]
fn scale_moves_the_replicas() {
    let fields = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
    let entry = |manager: &str, operation: &str, version: &str, fields: &Value| json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields});
    let parent = json!({"metadata": {"managedFields": [entry("a", "Apply", "apps/v1", &fields)]}});
    let path = ["spec", "replicas"];
    let shown = scale_from_parent(&parent, &path);
    let of_scale = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(shown, json!([entry("a", "Apply", "autoscaling/v1", &of_scale)]));
    let mut taken = entry("hpa", "Update", "autoscaling/v1", &of_scale);
    taken["subresource"] = json!("scale");
    let scale = json!({"metadata": {"managedFields": [taken]}});
    let mut want = entry("hpa", "Update", "apps/v1", &of_scale);
    want["subresource"] = json!("scale");
    assert_eq!(
        scale_to_parent(&parent, &scale, &path, "apps/v1"),
        json!([entry("a", "Apply", "apps/v1", &json!({"f:spec": {"f:paused": {}}})), want])
    );
    let kept = json!({"metadata": {"managedFields": shown}});
    assert_eq!(scale_to_parent(&parent, &kept, &path, "apps/v1"), parent["metadata"]["managedFields"]);
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(
        live in proptest::collection::btree_map("[a-d]", "[12]", 0..4),
        config in proptest::collection::btree_map("[a-d]", "[12]", 0..4),
    ) {
        let tracker = tracker(nothing());
        let mut object = config_map(json!(live));
        tracker.update(None, &mut object, "u", "T1");
        let once = tracker.apply(Some(&object), &config_map(json!(config)), "m", true, "T2").expect("forced");
        let twice = tracker.apply(Some(&once.object), &config_map(json!(config)), "m", false, "T3").expect("its own");
        prop_assert!(!twice.changed);
        prop_assert_eq!(&twice.object, &once.object);
        for (key, value) in &config {
            prop_assert_eq!(&once.object["data"][key], value);
        }
        let bare = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let left = tracker.apply(Some(&once.object), &bare, "m", false, "T4").expect("its own").object;
        for (key, value) in &config {
            // A field that the updater set to the same value before remains the updater's.
            prop_assert_eq!(left["data"].get(key).is_some(), live.get(key) == Some(value));
        }
    }

    #[test]
    fn no_object_panics(live in arbitrary::json(), config in arbitrary::json(), managed in arbitrary::json(), kind in 0..3usize) {
        let table = builtin::table();
        let (group, name) = [("apps", "Deployment"), ("", "Service"), ("", "ConfigMap")][kind];
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let schema = table.kind(group, "v1", name).expect(name);
        let reset = Set::of_fields(&[&["status"]]);
        let tracker = Tracker { table, schema, api_version: &api_version, kind: name, subresource: "", reset: &reset };
        let live = json!({"metadata": {"managedFields": managed, "labels": live, "finalizers": live}, "spec": live, "data": live});
        let config = json!({"apiVersion": api_version, "metadata": {"labels": config}, "spec": {"template": {"spec": config}, "ports": config}, "data": config});
        let mut new = config.clone();
        tracker.update(Some(&live), &mut new, "m", "T");
        let _ = tracker.apply(Some(&live), &config, "m", false, "T");
        let _ = tracker.apply(Some(&new), &config, "kubectl", true, "T");
        let _ = scale_to_parent(&live, &new, &["spec", "replicas"], "apps/v1");
    }
}
