//! RBAC, priority classes, leases.

use serde_json::{Value, json};

use crate::{object, status::Cause};

use super::{at, immutable, list, text};

pub(super) fn rbac(kind: &str, object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if kind == "Role" || kind == "ClusterRole" {
        for (i, rule) in list(object, "/rules").iter().enumerate() {
            if list(rule, "/verbs").is_empty() {
                out.push(Cause::required(format!("rules[{i}].verbs"), "verbs must contain at least one value"));
            }
            let paths = !list(rule, "/nonResourceURLs").is_empty();
            if paths && kind == "Role" {
                let message = "namespaced rules cannot apply to non-resource URLs";
                out.push(Cause::invalid(format!("rules[{i}].nonResourceURLs"), at(rule, "/nonResourceURLs"), message));
            }
            if !paths && list(rule, "/apiGroups").is_empty() {
                let message = "resource rules must supply at least one api group";
                out.push(Cause::required(format!("rules[{i}].apiGroups"), message));
            }
            if !paths && list(rule, "/resources").is_empty() {
                let message = "resource rules must supply at least one resource";
                out.push(Cause::required(format!("rules[{i}].resources"), message));
            }
        }
        return;
    }
    let role = text(object, "/roleRef/kind");
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role) {
        out.push(Cause::unsupported("roleRef.kind", &json!(role), kinds));
    }
    if text(object, "/roleRef/name").is_empty() {
        out.push(Cause::required("roleRef.name", ""));
    }
    for (i, subject) in list(object, "/subjects").iter().enumerate() {
        if text(subject, "/name").is_empty() {
            out.push(Cause::required(format!("subjects[{i}].name"), ""));
        }
        match text(subject, "/kind") {
            "User" | "Group" => {}
            "ServiceAccount" if text(subject, "/namespace").is_empty() && kind == "ClusterRoleBinding" => {
                out.push(Cause::required(format!("subjects[{i}].namespace"), ""));
            }
            "ServiceAccount" => {}
            other => {
                let supported = ["ServiceAccount", "User", "Group"];
                out.push(Cause::unsupported(format!("subjects[{i}].kind"), &json!(other), &supported));
            }
        }
    }
    if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) {
        // Here the fields go by their names in Go.
        let role = &object["roleRef"];
        let role = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        out.push(Cause::invalid("roleRef", &role, "cannot change roleRef"));
    }
}

/// The classes that every cluster has, with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(super) fn priority_class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const USER_MAX: i64 = 1_000_000_000;
    if let Some(old) = old {
        if old["value"] != object["value"] {
            out.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        return immutable(object, Some(old), "/preemptionPolicy", out);
    }
    let (name, value) = (object::meta_str(object, "name"), at(object, "/value").as_i64().unwrap_or(0));
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known)) if *known != value => Some(format!("value of {name} PriorityClass must be {known}")),
            Some(_) if object["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let reserved = "priority class names with 'system-' prefix are reserved for system use only. error:";
            out.push(Cause::forbidden("metadata.name", format!("{reserved} {why}")));
        }
    } else if value > USER_MAX {
        let why = format!("maximum allowed value of a user defined priority is {USER_MAX}");
        out.push(Cause::forbidden("value", why));
    }
    super::one_of(object, "/preemptionPolicy", &["PreemptLowerPriority", "Never"], out);
}

pub(super) fn lease(object: &Value, out: &mut Vec<Cause>) {
    let seconds = at(object, "/spec/leaseDurationSeconds");
    if seconds.as_i64().is_some_and(|s| s <= 0) {
        out.push(Cause::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    let transitions = at(object, "/spec/leaseTransitions");
    if transitions.as_i64().is_some_and(|t| t < 0) {
        out.push(Cause::invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"));
    }
}
