//! Workloads and budgets.

use serde_json::{Value, json};

use crate::{object, select::LabelSelector, status::Cause, verbs::subresource::selector_text};

use super::{at, immutable, not_negative, pod, text};

/// Selector, labels of the template, and the template itself.
fn selected_template(object: &Value, out: &mut Vec<Cause>) {
    let selector = at(object, "/spec/selector");
    let labels = at(object, "/spec/template/metadata/labels");
    let empty = selector.as_object().is_none_or(serde_json::Map::is_empty);
    if empty {
        out.push(Cause::required("spec.selector", ""));
    }
    let parsed = LabelSelector::parse(&selector_text(object).unwrap_or_default());
    let matches = parsed.is_ok_and(|s| s.matches_object(at(object, "/spec/template")));
    if empty || !matches {
        out.push(Cause::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    pod::template(at(object, "/spec/template"), "spec.template", &["Always"], out);
}

pub(super) fn deployment(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/spec/replicas", out);
    selected_template(object, out);
    let strategy = at(object, "/spec/strategy");
    match text(strategy, "/type") {
        "Recreate" if strategy["rollingUpdate"].is_object() => {
            out.push(Cause::forbidden(
                "spec.strategy.rollingUpdate",
                "may not be specified when strategy `type` is 'Recreate'",
            ));
        }
        "" | "Recreate" | "RollingUpdate" => {}
        other => out.push(Cause::unsupported("spec.strategy.type", &json!(other), &["Recreate", "RollingUpdate"])),
    }
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(object, &format!("/spec/{field}"), out);
    }
    immutable(object, old, "/spec/selector", out);
    // A status is judged when it changes: with whatever it is, the rest must remain changeable.
    if old.is_some_and(|old| old["status"] != object["status"]) {
        deployment_status(object, out);
    }
}

fn deployment_status(object: &Value, out: &mut Vec<Cause>) {
    let count = |field: &str| at(object, &format!("/status/{field}")).as_i64().unwrap_or(0);
    for field in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ] {
        not_negative(object, &format!("/status/{field}"), out);
    }
    for (part, whole) in [
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ] {
        if count(part) > count(whole) {
            let whole = if whole == "replicas" { "status.replicas" } else { whole };
            let why = format!("cannot be greater than {whole}");
            out.push(Cause::invalid(format!("status.{part}"), &json!(count(part)), why));
        }
    }
}

pub(super) fn replica_set(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/spec/replicas", out);
    selected_template(object, out);
    immutable(object, old, "/spec/selector", out);
}

pub(super) fn daemon_set(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    selected_template(object, out);
    immutable(object, old, "/spec/selector", out);
}

pub(super) fn stateful_set(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    not_negative(object, "/spec/replicas", out);
    selected_template(object, out);
    let Some(old) = old else { return };
    let fixed = |o: &Value| {
        let mut spec = at(o, "/spec").clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|k, _| !MUTABLE.contains(&k.as_str()));
        }
        spec
    };
    if fixed(object) != fixed(old) {
        out.push(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

const JOB_POLICIES: &[&str] = &["OnFailure", "Never"];

pub(super) fn job(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    for field in ["parallelism", "completions", "backoffLimit"] {
        not_negative(object, &format!("/spec/{field}"), out);
    }
    pod::template(at(object, "/spec/template"), "spec.template", JOB_POLICIES, out);
    let own = at(object, "/spec/manualSelector") == &json!(true);
    let generated = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": object::meta_str(object, "uid")}});
    if !own && old.is_none() && *at(object, "/spec/selector") != generated {
        out.push(Cause::invalid("spec.selector", at(object, "/spec/selector"), "`selector` not auto-generated"));
    }
    immutable(object, old, "/spec/selector", out);
    let suspended = old.is_some_and(|o| at(o, "/spec/suspend") == &json!(true));
    if !suspended {
        immutable(object, old, "/spec/template", out);
    }
    if at(object, "/spec/completionMode") != &json!("Indexed") {
        immutable(object, old, "/spec/completions", out);
    }
    immutable(object, old, "/spec/completionMode", out);
}

pub(super) fn cron_job(object: &Value, out: &mut Vec<Cause>) {
    let schedule = text(object, "/spec/schedule");
    if schedule.is_empty() {
        out.push(Cause::required("spec.schedule", ""));
    } else if !schedule.starts_with('@') {
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        let fields_of_time = fields.iter().filter(|f| !f.starts_with("TZ=") && !f.starts_with("CRON_TZ=")).count();
        if fields_of_time != 5 {
            let message = format!("expected exactly 5 fields, found {fields_of_time}: [{}]", fields.join(" "));
            out.push(Cause::invalid("spec.schedule", &json!(schedule), message));
        }
    }
    super::one_of(object, "/spec/concurrencyPolicy", &["Allow", "Forbid", "Replace"], out);
    pod::template(at(object, "/spec/jobTemplate/spec/template"), "spec.jobTemplate.spec.template", JOB_POLICIES, out);
    const NAME_MAX: usize = 52;
    let name = object::meta_str(object, "name");
    if name.len() > NAME_MAX {
        out.push(Cause::invalid("metadata.name", &json!(name), format!("must be no more than {NAME_MAX} characters")));
    }
}

/// A revision of a template is made once and never changes.
pub(super) fn revision(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/revision", out);
    match at(object, "/data") {
        _ if old.is_some() => immutable(object, old, "/data", out),
        Value::Null => out.push(Cause::required("data", "data is mandatory")),
        Value::Object(_) => {}
        _ => out.push(Cause::required("data", "data must be a valid JSON object")),
    }
}

pub(super) fn budget(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        out.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
}
