//! Objects that are served in another version than they are stored in.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::registry::{Resource, group_version};

/// Gives an object in another `apiVersion`; one that it knows nothing of it gives back as it is.
pub type Converter = fn(object: &Value, api_version: &str) -> Value;

/// The apiVersion that objects of this resource are stored with.
pub(crate) fn storage_api_version(resource: &Resource) -> String {
    match (resource.custom(), resource.group.as_str(), resource.kind.as_str()) {
        (Some(custom), group, _) => group_version(group, &custom.storage_version),
        (None, "events.k8s.io", "Event") => "v1".into(),
        (None, "autoscaling", "HorizontalPodAutoscaler") => "autoscaling/v2".into(),
        _ => resource.api_version(),
    }
}

/// True when reading means more than copying bytes.
pub(crate) fn needed(resource: &Resource) -> bool {
    match (resource.custom(), resource.group.as_str(), resource.version.as_str()) {
        (Some(custom), _, version) => custom.storage_version != version,
        (None, "events.k8s.io", _) | (None, "autoscaling", "v1") => true,
        _ => false,
    }
}

/// Turns an object of the store into the request's version.
pub(crate) fn from_storage(resource: &Resource, object: &mut Value) {
    if !needed(resource) {
        return;
    }
    if let Some(converter) = resource.custom().and_then(|custom| custom.converter) {
        *object = converter(object, &resource.api_version());
    }
    object["apiVersion"] = json!(resource.api_version());
    if let Some(custom) = resource.custom() {
        // A version shows what its own schema knows; what is stored was read once, so nothing is wrong with it.
        let _ = custom.schema.prune(object);
        return;
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("events.k8s.io", "Event") => {
            rename(object, EVENT_FIELDS, false);
            if let Some(map) = object.as_object_mut() {
                // core/v1 prints these when empty, events.k8s.io/v1 doesn't.
                map.retain(|k, v| !(k.starts_with("reporting") && v == ""));
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") => hpa_to_v1(object),
        _ => {}
    }
}

/// The object as it is stored: most are as they stand, and are not copied.
pub(crate) fn stored<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if !needed(resource) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    to_storage(resource, &mut object);
    Cow::Owned(object)
}

/// An object of one served version in another one of the same resource.
pub(crate) fn between(from: &Resource, to: &Resource, object: &Value) -> Value {
    let mut object = stored(from, object).into_owned();
    from_storage(to, &mut object);
    object
}

/// The version in which writes of this resource are reviewed: rules know the stored one of what has a converter.
pub(crate) fn reviewed_version(resource: &Resource) -> &str {
    match resource.custom() {
        Some(custom) if custom.converter.is_some() => &custom.storage_version,
        _ => &resource.version,
    }
}

/// The object in [`reviewed_version`].
pub(crate) fn reviewed<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if reviewed_version(resource) == resource.version { Cow::Borrowed(object) } else { stored(resource, object) }
}

/// Turns an object of the request's version into the one of the store.
fn to_storage(resource: &Resource, object: &mut Value) {
    if !needed(resource) {
        return;
    }
    let version = storage_api_version(resource);
    if let Some(converter) = resource.custom().and_then(|custom| custom.converter) {
        *object = converter(object, &version);
    }
    object["apiVersion"] = json!(version);
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("events.k8s.io", "Event") => rename(object, EVENT_FIELDS, true),
        ("autoscaling", "HorizontalPodAutoscaler") => hpa_to_v2(object),
        _ => {}
    }
}

/// events.k8s.io/v1 and core/v1 names of a field.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn rename(object: &mut Value, fields: &[(&str, &str)], forward: bool) {
    let Some(map) = object.as_object_mut() else { return };
    for (new, old) in fields {
        let (from, to) = if forward { (new, old) } else { (old, new) };
        if let Some(value) = map.remove(*from) {
            map.insert((*to).into(), value);
        }
    }
}

const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["type"] == "Utilization"
}

fn hpa_to_v1(object: &mut Value) {
    let mut notes: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(Value::Array(mut metrics)) = spec.remove("metrics") {
            if let Some(at) = metrics.iter().position(is_cpu_utilization) {
                let cpu = metrics.remove(at);
                let target = cpu["resource"]["target"]["averageUtilization"].clone();
                spec.insert("targetCPUUtilizationPercentage".into(), target);
            }
            if !metrics.is_empty() {
                notes.push((METRICS, Value::Array(metrics)));
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            notes.push((BEHAVIOR, behavior));
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentMetrics");
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(json!(0));
    }
    let metadata = crate::object::metadata_mut(object);
    for (key, value) in notes {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[key] = json!(value.to_string());
    }
}

fn hpa_to_v2(object: &mut Value) {
    let mut kept: Vec<(&str, Value)> = Vec::new();
    if let Some(annotations) = crate::object::metadata_mut(object).get_mut("annotations").and_then(Value::as_object_mut)
    {
        for (key, field) in [(METRICS, "metrics"), (BEHAVIOR, "behavior")] {
            if let Some(value) =
                annotations.remove(key).as_ref().and_then(Value::as_str).and_then(|t| serde_json::from_str(t).ok())
            {
                kept.push((field, value));
            }
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.entry("currentMetrics").or_insert(Value::Null);
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (field, value) in kept {
        spec.insert(field.into(), value);
    }
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let metrics = spec.entry("metrics").or_insert_with(|| json!([]));
        if let Some(list) = metrics.as_array_mut() {
            list.insert(0, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Found, Registry};

    #[test]
    fn an_autoscaler_survives_the_way_through_v1() {
        let Found::Resource(v1) =
            Registry::new(crate::kinds::groups()).find("autoscaling", "v1", "horizontalpodautoscalers")
        else {
            panic!("autoscaling/v1 is served");
        };
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "5"}}});
        let stored = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a"}, "spec": {"metrics": [cpu, pods], "behavior": {"scaleUp": {}}}});
        let mut object = stored.clone();
        from_storage(&v1, &mut object);
        assert_eq!(object["spec"], json!({"targetCPUUtilizationPercentage": 50}));
        to_storage(&v1, &mut object);
        object["metadata"].as_object_mut().unwrap().remove("annotations");
        assert_eq!(object, stored);
    }
}
