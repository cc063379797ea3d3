//! Conversion of the bindings to and from v1alpha1, for old clients (specification/admission.md 6).

use ironclad_api::annotations::V1ALPHA2_ROUNDTRIP;
use serde_json::{Map, Value, json};

const GROUP: &str = "work.karmada.io";
const OLD: &str = "work.karmada.io/v1alpha1";
const STORED: &str = "work.karmada.io/v1alpha2";

/// Answers a ConversionReview. Every object is converted: one that failed would block every list of its kind.
#[must_use]
pub fn review(review: &Value) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let converted: Vec<Value> = objects.iter().map(|object| convert(object, wanted)).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
    })
}

/// Converts an object to another version. An object of that version or of another group is returned unchanged.
#[must_use]
pub fn convert(object: &Value, wanted: &str) -> Value {
    let is = object["apiVersion"].as_str().unwrap_or_default();
    if is == wanted || !is.starts_with(GROUP) {
        return object.clone();
    }
    match wanted {
        OLD => down(object),
        STORED => up(object),
        _ => object.clone(),
    }
}

/// v1alpha2 → v1alpha1. Fields that v1alpha1 lacks are kept in an annotation, so that a write of an old client does
/// not remove them.
fn down(object: &Value) -> Value {
    let mut out = head(object, OLD);
    let spec = &object["spec"];
    let mut resource = fields(&spec["resource"], &["apiVersion", "kind", "namespace", "name", "resourceVersion"]);
    copy(spec.pointer("/replicaRequirements/resourceRequest"), "resourcePerReplicas", &mut resource);
    copy(spec.get("replicas"), "replicas", &mut resource);
    let mut old = Map::new();
    old.insert("resource".into(), Value::Object(resource));
    if let Some(clusters) = spec["clusters"].as_array() {
        old.insert(
            "clusters".into(),
            clusters.iter().map(|c| Value::Object(fields(c, &["name", "replicas"]))).collect(),
        );
    }
    out.insert("spec".into(), Value::Object(old));
    if let Some(status) = object.get("status").filter(|status| status.is_object()) {
        out.insert("status".into(), old_status(status));
    }
    let mut out = Value::Object(out);
    let kept = json!({"spec": spec, "status": object["status"]}).to_string();
    if !out["metadata"].is_object() {
        out["metadata"] = json!({});
    }
    if !out["metadata"]["annotations"].is_object() {
        out["metadata"]["annotations"] = json!({});
    }
    out["metadata"]["annotations"][V1ALPHA2_ROUNDTRIP] = json!(kept);
    out
}

fn old_status(status: &Value) -> Value {
    let mut old = fields(status, &["conditions"]);
    if let Some(items) = status["aggregatedStatus"].as_array() {
        const ITEM: [&str; 4] = ["clusterName", "status", "applied", "appliedMessage"];
        old.insert("aggregatedStatus".into(), items.iter().map(|item| Value::Object(fields(item, &ITEM))).collect());
    }
    Value::Object(old)
}

/// v1alpha1 → v1alpha2: restores the kept fields, unless the old client changed what they belong to.
fn up(object: &Value) -> Value {
    let mut out = head(object, STORED);
    let kept = object.pointer("/metadata/annotations").and_then(|a| a.get(V1ALPHA2_ROUNDTRIP));
    let kept: Value =
        kept.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    if let Some(annotations) =
        out.get_mut("metadata").and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut)
    {
        annotations.remove(V1ALPHA2_ROUNDTRIP);
        if annotations.is_empty()
            && let Some(metadata) = out.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    out.insert("spec".into(), new_spec(&object["spec"], &kept["spec"]));
    let status = match (object.get("status"), &kept["status"]) {
        (Some(status), kept) if kept.is_object() && old_status(kept) == *status => Some(kept.clone()),
        (Some(status), kept) if kept.is_object() => Some(merged(status, kept)),
        (status, _) => status.cloned(),
    };
    if let Some(status) = status {
        out.insert("status".into(), status);
    }
    Value::Object(out)
}

/// Merges the status of the old client over the kept fields that v1alpha1 cannot express.
fn merged(status: &Value, kept: &Value) -> Value {
    let mut out = kept.clone();
    for field in ["conditions", "aggregatedStatus"] {
        match status.get(field) {
            Some(value) => out[field] = value.clone(),
            None => {
                if let Some(map) = out.as_object_mut() {
                    map.remove(field);
                }
            }
        }
    }
    out
}

fn new_spec(old: &Value, kept: &Value) -> Value {
    let mut spec = if kept.is_object() { kept.clone() } else { json!({}) };
    let resource = &old["resource"];
    let mut target = match &spec["resource"] {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    // Another template has another uid.
    if target.get("name") != resource.get("name") || target.get("kind") != resource.get("kind") {
        target.remove("uid");
    }
    for field in ["apiVersion", "kind", "namespace", "name", "resourceVersion"] {
        replace(resource.get(field), field, &mut target);
    }
    spec["resource"] = Value::Object(target);
    let Value::Object(mut map) = spec else { return json!({}) };
    replace(resource.get("replicas"), "replicas", &mut map);
    match resource.get("resourcePerReplicas") {
        Some(request) => {
            let requirements = map.entry("replicaRequirements").or_insert_with(|| json!({}));
            requirements["resourceRequest"] = request.clone();
        }
        None => {
            if let Some(requirements) = map.get_mut("replicaRequirements").and_then(Value::as_object_mut) {
                requirements.remove("resourceRequest");
            }
        }
    }
    let before: Vec<Value> = map.get("clusters").and_then(Value::as_array).cloned().unwrap_or_default();
    match old["clusters"].as_array() {
        Some(clusters) => {
            let one = |cluster: &Value| {
                let same =
                    |known: &&Value| fields(known, &["name", "replicas"]) == fields(cluster, &["name", "replicas"]);
                before.iter().find(same).unwrap_or(cluster).clone()
            };
            map.insert("clusters".into(), clusters.iter().map(one).collect());
        }
        None => {
            map.remove("clusters");
        }
    }
    Value::Object(map)
}

/// Everything but spec and status, with this API version.
fn head(object: &Value, version: &str) -> Map<String, Value> {
    let mut out: Map<String, Value> = object.as_object().cloned().unwrap_or_default();
    out.retain(|key, _| key != "spec" && key != "status");
    out.insert("apiVersion".into(), json!(version));
    out
}

fn fields(from: &Value, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), from.get(*name)?.clone()))).collect()
}

fn copy(value: Option<&Value>, name: &str, into: &mut Map<String, Value>) {
    if let Some(value) = value {
        into.insert(name.to_owned(), value.clone());
    }
}

fn replace(value: Option<&Value>, name: &str, into: &mut Map<String, Value>) {
    match value {
        Some(value) => {
            into.insert(name.to_owned(), value.clone());
        }
        None => {
            into.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored() -> Value {
        json!({
            "apiVersion": STORED, "kind": "ResourceBinding",
            "metadata": {"name": "web-deployment", "namespace": "shop", "uid": "u", "annotations": {"a": "b"}, "odd": 1},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "t", "resourceVersion": "7"},
                "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}, "namespace": "shop"},
                "clusters": [{"name": "m1", "replicas": 3, "components": []}], "placement": {}, "schedulerName": "s",
            },
            "status": {"conditions": [], "schedulerObservedGeneration": 4, "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"}]},
        })
    }

    #[test]
    fn old_client_changes_only_fields_it_knows() {
        let old = convert(&stored(), OLD);
        assert_eq!(old["apiVersion"], OLD);
        assert_eq!(
            old["spec"],
            json!({
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "resourceVersion": "7", "resourcePerReplicas": {"cpu": "1"}, "replicas": 3},
                "clusters": [{"name": "m1", "replicas": 3}],
            })
        );
        assert_eq!(
            old["status"],
            json!({"conditions": [], "aggregatedStatus": [{"clusterName": "m1", "applied": true}]})
        );
        assert_eq!((&old["metadata"]["odd"], &old["metadata"]["annotations"]["a"]), (&json!(1), &json!("b")));
        assert_eq!(convert(&old, STORED), stored(), "and back");

        let mut changed = old.clone();
        changed["spec"]["resource"]["replicas"] = json!(5);
        changed["spec"]["clusters"] = json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 2}]);
        let new = convert(&changed, STORED);
        assert_eq!(new["spec"]["replicas"], 5);
        assert_eq!(
            new["spec"]["clusters"],
            json!([{"name": "m1", "replicas": 3, "components": []}, {"name": "m2", "replicas": 2}])
        );
        assert_eq!(
            (&new["spec"]["schedulerName"], &new["spec"]["resource"]["uid"]),
            (&json!("s"), &json!("t")),
            "other fields are kept"
        );

        let mut fresh = old;
        fresh["metadata"].as_object_mut().unwrap().remove("annotations");
        let new = convert(&fresh, STORED);
        assert_eq!(
            new["spec"]["replicaRequirements"],
            json!({"resourceRequest": {"cpu": "1"}}),
            "a new one of an old client"
        );
        assert_eq!(new["spec"].get("placement"), None);
    }

    #[test]
    fn reviews() {
        let request = json!({"request": {"uid": "u", "desiredAPIVersion": OLD, "objects": [stored(), {"apiVersion": STORED}, convert(&stored(), OLD)]}});
        let answer = review(&request);
        assert_eq!(
            (&answer["response"]["uid"], &answer["response"]["result"]["status"]),
            (&json!("u"), &json!("Success"))
        );
        let converted = answer["response"]["convertedObjects"].as_array().unwrap();
        assert!(converted.len() == 3 && converted.iter().all(|o| o["apiVersion"] == OLD));
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            "[a-b]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let key = prop_oneof![
                Just("resource"),
                Just("clusters"),
                Just("replicas"),
                Just("replicaRequirements"),
                Just("resourceRequest"),
                Just("name"),
                Just("kind"),
                Just("uid"),
                Just("placement"),
                Just("conditions"),
                Just("aggregatedStatus"),
                Just("annotations"),
                Just("resourcePerReplicas"),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_is_lost_on_the_way_down_and_up(replicas in prop::option::of(0..5), cpu in prop::option::of("[1-9]"), clusters in prop::option::of(prop::collection::vec(("[a-c]", 0..4), 0..3)), health in any::<bool>(), placement in any::<bool>(), annotated in any::<bool>()) {
            let mut object = stored();
            let spec = object["spec"].as_object_mut().unwrap();
            match replicas { Some(n) => { spec.insert("replicas".into(), json!(n)); } None => { spec.remove("replicas"); } }
            match cpu { Some(n) => spec["replicaRequirements"]["resourceRequest"] = json!({"cpu": n}), None => { spec.remove("replicaRequirements"); } }
            match clusters { Some(list) => { spec.insert("clusters".into(), list.iter().map(|(name, n)| json!({"name": name, "replicas": n, "components": [{"name": "x", "replicas": n}]})).collect()); } None => { spec.remove("clusters"); } }
            if !placement { spec.remove("placement"); }
            if !health { object.as_object_mut().unwrap().remove("status"); }
            if !annotated { object["metadata"].as_object_mut().unwrap().remove("annotations"); }
            prop_assert_eq!(convert(&convert(&object, OLD), STORED), object);
        }

        #[test]
        fn conversion_never_fails(spec in anything(), status in anything(), metadata in anything(), up in any::<bool>()) {
            let (from, to) = if up { (OLD, STORED) } else { (STORED, OLD) };
            let object = json!({"apiVersion": from, "kind": "ResourceBinding", "metadata": metadata, "spec": spec, "status": status});
            prop_assert_eq!(&convert(&object, to)["apiVersion"], &json!(to));
        }
    }
}
