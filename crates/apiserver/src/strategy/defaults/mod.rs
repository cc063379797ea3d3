//! Defaults of built-in kinds (apiserver.md 15).

pub(crate) mod claim;
pub(crate) mod job;
mod misc;
pub(crate) mod pod;
pub(crate) mod service;
mod workload;

pub(crate) use pod::quality;

use serde_json::{Map, Value, json};

/// Fills in the defaults of a built-in kind; `creating` for those that only a new object gets.
pub(crate) fn apply(group: &str, kind: &str, object: &mut Value, creating: bool) {
    match (group, kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(&mut object["template"]),
        ("", "Service") => service::service(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => job::job(object, creating),
        ("batch", "CronJob") => job::cron_job(object),
        _ => misc::apply(group, kind, object),
    }
}

/// The map at this key, made when it isn't one.
pub(super) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = object.as_object_mut().expect("made an object above").entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!({});
    }
    slot
}

/// Sets a key that is absent or null.
pub(super) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object.is_null() {
        *object = json!({});
    }
    if let Some(map) = object.as_object_mut() {
        set_in(map, key, value);
    }
}

pub(super) fn set_in(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = value.into();
    }
}

/// The elements of a list at this key.
pub(super) fn each<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}
