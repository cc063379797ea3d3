//! Rules that workloads share: selectors, templates, counts in the status, numbers or percentages.

use ironclad_patch::selector::LabelSelector;
use serde_json::{Value, json};

use crate::{
    kinds::shared::{
        defaults::{child, set},
        fields::{at, list, not_negative, quoted_selector},
        formats, pod,
    },
    status::Cause,
};

/// True for an unchanged template, which was validated when it was stored.
pub(crate) fn same_template(object: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| {
        at(object, "/spec/template") == at(old, "/spec/template")
            && at(object, "/spec/selector") == at(old, "/spec/selector")
    })
}

/// True if the workload's selector matches its own template; `None` for an invalid selector.
pub(crate) fn selects_own(object: &Value) -> Option<bool> {
    let selector = at(object, "/spec/selector");
    if selector.is_object() {
        let mut causes = Vec::new();
        formats::label_selector(selector, "", &mut causes);
        if !causes.is_empty() {
            return None;
        }
    }
    let parsed = LabelSelector::from_object(selector).ok()?.unwrap_or_default();
    Some(selector.is_object() && parsed.matches_object(at(object, "/spec/template")))
}

pub(crate) fn is_empty(selector: &Value) -> bool {
    let none = |key: &str| match &selector[key] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    selector.is_object() && none("matchLabels") && none("matchExpressions")
}

pub(crate) fn stray_labels(object: &Value) -> Cause {
    let labels = at(object, "/spec/template/metadata/labels");
    Cause::invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
}

/// Selector, labels of the template, and the template itself. `of` is how refusals of empty selectors name the kind.
pub(crate) fn selected_template(object: &Value, of: &str, owner: &str, out: &mut Vec<Cause>) {
    let selector = at(object, "/spec/selector");
    if selector.is_object() {
        formats::label_selector(selector, "spec.selector", out);
        if is_empty(selector) {
            out.push(Cause::invalid("spec.selector", selector, format!("empty selector is invalid for {of}")));
        }
    } else {
        out.push(Cause::required("spec.selector", ""));
    }
    match selects_own(object) {
        None => {
            let why = if of == "statefulset" { "" } else { "invalid label selector" };
            let mut cause = Cause::invalid_quoted("spec.selector", &quoted_selector(selector), why);
            if why.is_empty() {
                cause.message.truncate(cause.message.len() - 2);
            }
            out.push(cause);
        }
        Some(own) => {
            if !own && !is_empty(selector) {
                out.push(stray_labels(object));
            }
            let claims = list(object, "/spec/volumeClaimTemplates");
            pod::validate_always_restart_template(at(object, "/spec/template"), owner, claims, out);
        }
    }
}

/// A number or a percentage.
pub(crate) fn amount_or_percent(value: &Value, field: &str, out: &mut Vec<Cause>) {
    match value {
        Value::String(text) if percent(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            out.push(Cause::invalid(field, value, why));
        }
        _ if value.as_i64().is_some_and(|n| n < 0) => {
            out.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

pub(crate) fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

pub(crate) fn at_most_all(value: &Value, field: &str, out: &mut Vec<Cause>) {
    if value.as_str().and_then(percent).is_some_and(|p| p > 100) {
        out.push(Cause::invalid(field, value, "must not be greater than 100%"));
    }
}

/// True for zero and zero percent, and for a value that is neither number nor percentage.
pub(crate) fn is_none(value: &Value) -> bool {
    match value {
        Value::String(text) => percent(text).unwrap_or(0) == 0,
        value => value.as_i64().unwrap_or(0) == 0,
    }
}

pub(crate) fn immutable_selector(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let selector = at(object, "/spec/selector");
    if old.is_some_and(|old| at(old, "/spec/selector") != selector) {
        out.push(Cause::invalid_quoted("spec.selector", &quoted_selector(selector), "field is immutable"));
    }
}

/// Validates counts in the status: those that can't be negative, and those that can't exceed another one, which
/// messages name as given.
pub(crate) fn counts(object: &Value, counts: &[&str], parts: &[(&str, &str, &str)], out: &mut Vec<Cause>) {
    for field in counts {
        not_negative(object, &format!("/status/{field}"), out);
    }
    let count = |field: &str| at(object, &format!("/status/{field}")).as_i64().unwrap_or(0);
    for (part, whole, called) in parts {
        if count(part) > count(whole) {
            let why = format!("cannot be greater than {called}");
            out.push(Cause::invalid(format!("status.{part}"), &json!(count(part)), why));
        }
    }
}

pub(crate) fn status_changed(object: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| old["status"] != object["status"])
}

pub(crate) const OF_REPLICAS: [(&str, &str, &str); 4] = [
    ("fullyLabeledReplicas", "replicas", "status.replicas"),
    ("readyReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "readyReplicas", "readyReplicas"),
];

pub(crate) fn rolling_update(strategy: &mut Value, defaults: &[(&str, Value)]) {
    set(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let update = child(strategy, "rollingUpdate");
        for (key, value) in defaults {
            set(update, key, value.clone());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The messages about a workload with this spec.
    pub(crate) fn messages(validate: impl Fn(&Value, Option<&Value>, &mut Vec<Cause>), spec: Value) -> Vec<String> {
        let mut whole = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
        }});
        ironclad_patch::merge_patch(&mut whole, &spec);
        let mut out = Vec::new();
        validate(&json!({"spec": whole}), None, &mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field.trim_start_matches("spec."), c.message)).collect()
    }

    pub(crate) fn rolling_update(unavailable: Value, surge: Value) -> Value {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
    }
}
