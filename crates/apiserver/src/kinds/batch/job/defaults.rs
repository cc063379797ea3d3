//! Defaults of Jobs.

use serde_json::{Value, json};

use crate::{
    kinds::shared::{
        defaults::{child, set},
        pod_defaults,
    },
    object,
};

/// Failed pods of a Job without limits of its indexes.
const BACKOFF_LIMIT: i32 = 6;

pub(super) fn job(object: &mut Value) {
    let spec = child(object, "spec");
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    // With limits of its indexes, the Job itself has none.
    let limit = if spec["backoffLimitPerIndex"].is_null() { BACKOFF_LIMIT } else { i32::MAX };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "manualSelector", false);
    let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    set(spec, "podReplacementPolicy", replacement);
    pod_defaults::template(child(spec, "template"));
    child(object, "status");
}

/// Generates a selector for the job's own pods, unless the user chose one.
pub(super) fn generate_selector(object: &mut Value) {
    let uid = object::meta_str(object, "uid").to_owned();
    let name = object::meta_str(object, "name").to_owned();
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels.filter(|_| object::metadata(object).get("labels").is_none_or(Value::is_null)) {
        child(object, "metadata")["labels"] = labels;
    }
    if object["spec"]["manualSelector"] != true && !uid.is_empty() {
        own_selector(object, &uid, &name);
    }
}

/// Sets the labels that distinguish a job's pods from all others.
fn own_selector(object: &mut Value, uid: &str, name: &str) {
    let labels = [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ];
    let own = child(child(object, "metadata"), "labels");
    for (key, value) in labels {
        set(own, key, value);
    }
    let spec = child(object, "spec");
    let of_template = child(child(child(spec, "template"), "metadata"), "labels");
    for (key, value) in labels {
        set(of_template, key, value);
    }
    let selector = child(child(spec, "selector"), "matchLabels");
    selector["batch.kubernetes.io/controller-uid"] = json!(uid);
}

/// An update that leaves out what the server generated keeps it.
pub(super) fn keep_selector(old: &Value, new: &mut Value) {
    if new.pointer("/spec/manualSelector") == Some(&json!(true)) {
        return;
    }
    let Some(selector) = old.pointer("/spec/selector") else { return };
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
        && spec.get("selector").is_none_or(Value::is_null)
    {
        spec.insert("selector".into(), selector.clone());
    }
}
