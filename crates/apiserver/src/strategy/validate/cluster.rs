//! RBAC, classes, claims, leases, ingresses.

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

pub(super) fn priority_class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const USER_MAX: i64 = 1_000_000_000;
    let name = object::meta_str(object, "name");
    if name.starts_with("system-") {
        let why = "priority class names with 'system-' prefix are reserved for system use only. error:";
        out.push(Cause::forbidden("metadata.name", format!("{why} {name} is not a known system priority class")));
    } else if at(object, "/value").as_i64().unwrap_or(0) > USER_MAX {
        let why = format!("maximum allowed value of a user defined priority is {USER_MAX}");
        out.push(Cause::forbidden("value", why));
    }
    if old.is_some_and(|old| old["value"] != object["value"]) {
        out.push(Cause::forbidden("value", "may not be changed in an update."));
    }
    immutable(object, old, "/preemptionPolicy", out);
}

pub(super) fn storage_class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if text(object, "/provisioner").is_empty() {
        out.push(Cause::required("provisioner", ""));
    }
    for field in ["/provisioner", "/parameters", "/reclaimPolicy", "/volumeBindingMode"] {
        immutable(object, old, field, out);
    }
}

pub(super) fn claim(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if list(object, "/spec/accessModes").is_empty() {
        out.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    if at(object, "/spec/resources/requests/storage").is_null() {
        out.push(Cause::required("spec.resources[storage]", ""));
    }
    let Some(old) = old else { return };
    let bound = text(old, "/status/phase") == "Bound";
    let fixed = |o: &Value| {
        let mut spec = at(o, "/spec").clone();
        if let Some(map) = spec.as_object_mut() {
            map.remove("volumeAttributesClassName");
            if bound {
                map.remove("resources");
            }
            // The binder sets these once.
            for key in ["volumeName", "storageClassName"] {
                if text(old, &format!("/spec/{key}")).is_empty() {
                    map.remove(key);
                }
            }
        }
        spec
    };
    if fixed(object) != fixed(old) {
        out.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
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

pub(super) fn ingress(object: &Value, out: &mut Vec<Cause>) {
    if list(object, "/spec/rules").is_empty() && at(object, "/spec/defaultBackend").is_null() {
        let message = "either `defaultBackend` or `rules` must be specified";
        out.push(Cause::invalid("spec", &Value::Null, message));
    }
    for (i, rule) in list(object, "/spec/rules").iter().enumerate() {
        for (j, path) in list(rule, "/http/paths").iter().enumerate() {
            let field = format!("spec.rules[{i}].http.paths[{j}].pathType");
            match text(path, "/pathType") {
                "" => out.push(Cause::required(field, "pathType must be specified")),
                "Exact" | "Prefix" | "ImplementationSpecific" => {}
                other => {
                    let supported = ["Exact", "ImplementationSpecific", "Prefix"];
                    out.push(Cause::unsupported(field, &json!(other), &supported));
                }
            }
        }
    }
}
