//! What is particular to a kind: what a create starts with, defaults, validation (apiserver.md 7, 15, 16).

mod defaults;
mod validate;
mod warn;

pub(crate) use validate::certificates;
pub(crate) use warn::warnings;

use serde_json::{Value, json};

pub(crate) use defaults::service::{drop_of_other_types, families, keep_node_ports, needs_health_check};

use crate::{context::Cx, object, registry::Resource, schema, status::Cause};

/// Drops or sets what a client can't say of a new object.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    if resource.custom().is_some() {
        if resource.has_status() {
            map.remove("status");
        }
        return;
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        // A kubelet registers a node with its status.
        ("", "Node") => {}
        ("", "Namespace") => {
            map.insert("status".into(), json!({"phase": "Active"}));
            let spec = map.entry("spec").or_insert_with(|| json!({}));
            spec["finalizers"] = json!(["kubernetes"]);
        }
        ("", "Pod") => {
            map.insert("status".into(), json!({"phase": "Pending"}));
        }
        ("", "PersistentVolume") => {
            let now = map.get("metadata").map(|m| m["creationTimestamp"].clone()).unwrap_or_default();
            map.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
        ("", "PersistentVolumeClaim") => {
            map.insert("status".into(), json!({"phase": "Pending"}));
            defaults::claim::data_sources(None, object);
        }
        ("coordination.k8s.io", "Lease") => without_coordination(object),
        _ if resource.has_status() => {
            map.remove("status");
        }
        _ => {}
    }
}

/// Carries over what an update of this kind may not leave out.
pub(crate) fn prepare_update(resource: &Resource, old: &Value, new: &mut Value) {
    match (resource.custom().is_some(), resource.group.as_str(), resource.kind.as_str()) {
        (false, "", "Namespace") => {
            if let Some(finalizers) = old.pointer("/spec/finalizers")
                && new.pointer("/spec/finalizers").is_none()
                && !object::terminating(old)
            {
                new["spec"]["finalizers"] = finalizers.clone();
            }
        }
        // Who asked, and for what, stays what it was.
        (false, "certificates.k8s.io", "CertificateSigningRequest") => {
            if let Some(spec) = old.get("spec") {
                new["spec"] = spec.clone();
            }
        }
        (false, "", "Service") => defaults::service::keep_addresses(old, new),
        (false, "", "PersistentVolumeClaim") => defaults::claim::data_sources(Some(old), new),
        (false, "coordination.k8s.io", "Lease") => without_coordination(new),
        (false, "batch", "Job") => defaults::job::keep_selector(old, new),
        _ => {}
    }
}

/// How leaders are chosen by their versions is behind a gate that is closed: what is said of it is dropped without a word.
fn without_coordination(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| key != "strategy" && key != "preferredHolder");
    }
}

/// Which defaults are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defaults {
    /// Those of every object of the kind.
    Plain,
    /// And what the server generates for a new one.
    Creating,
}

/// Fills in defaults.
pub(crate) fn default(cx: &Cx, object: &mut Value, which: Defaults) {
    let resource = &*cx.resource;
    if let Some(custom) = resource.custom() {
        custom.schema.default(object);
        return;
    }
    defaults::apply(&resource.group, &resource.kind, object, which == Defaults::Creating);
    schema::complete(resource, object);
}

/// What is wrong with an object of this kind, or with this change of it.
pub(crate) fn validate(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    match resource.custom() {
        Some(custom) => custom.schema.validate(object, old),
        None => validate::validate(&resource.group, &resource.kind, object, old),
    }
}

/// Leaves of a pod's change what this subresource is for.
pub(crate) fn take_part_of_pod(subresource: &str, old: &Value, new: &mut Value) {
    validate::pod_part::take(subresource, old, new);
}

/// What is wrong with what a subresource makes of a pod.
pub(crate) fn validate_part_of_pod(subresource: &str, new: &Value, old: &Value) -> Vec<Cause> {
    validate::pod_part::changed(subresource, new, old)
}
