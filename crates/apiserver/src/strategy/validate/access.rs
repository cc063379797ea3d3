//! Roles and who has them.

use serde_json::{Value, json};

use crate::status::Cause;

use super::{
    at,
    formats::{self, supported, wrong},
    list, text,
};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn rbac(kind: &str, object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    match kind {
        "Role" | "ClusterRole" => role(kind == "Role", object, out),
        _ => binding(kind == "RoleBinding", object, old, out),
    }
}

fn role(namespaced: bool, object: &Value, out: &mut Vec<Cause>) {
    for (i, rule) in list(object, "/rules").iter().enumerate() {
        self::rule(namespaced, rule, &format!("rules[{i}]"), out);
    }
    if !at(object, "/aggregationRule").is_object() {
        return;
    }
    const FIELD: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = list(object, "/aggregationRule/clusterRoleSelectors");
    if selectors.is_empty() {
        out.push(Cause::required(FIELD, "at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for (i, selector) in selectors.iter().enumerate() {
        let (field, before) = (format!("{FIELD}[{i}]"), out.len());
        formats::label_selector(selector, &field, out);
        if out.len() > before {
            out.push(Cause::invalid(field, &Value::Null, "invalid label selector."));
        }
    }
}

fn rule(namespaced: bool, rule: &Value, path: &str, out: &mut Vec<Cause>) {
    let none = |key: &str| list(rule, key).is_empty();
    if none("/verbs") {
        out.push(Cause::required(format!("{path}.verbs"), "verbs must contain at least one value"));
    }
    if !none("/nonResourceURLs") {
        let (field, urls) = (format!("{path}.nonResourceURLs"), at(rule, "/nonResourceURLs"));
        if namespaced {
            out.push(Cause::invalid(&field, urls, "namespaced rules cannot apply to non-resource URLs"));
        }
        if !none("/apiGroups") || !none("/resources") || !none("/resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            out.push(Cause::invalid(field, urls, why));
        }
        return;
    }
    if none("/apiGroups") {
        out.push(Cause::required(format!("{path}.apiGroups"), "resource rules must supply at least one api group"));
    }
    if none("/resources") {
        out.push(Cause::required(format!("{path}.resources"), "resource rules must supply at least one resource"));
    }
}

fn binding(namespaced: bool, object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let role = at(object, "/roleRef");
    let group = text(role, "/apiGroup");
    if group != GROUP {
        supported(group, "roleRef.apiGroup", &[GROUP], out);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    supported(text(role, "/kind"), "roleRef.kind", kinds, out);
    formats::path_segment(text(role, "/name"), "roleRef.name", out);
    for (i, subject) in list(object, "/subjects").iter().enumerate() {
        self::subject(namespaced, subject, &format!("subjects[{i}]"), out);
    }
    if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) {
        // Here the fields go by their names in Go.
        let role = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        out.push(Cause::invalid("roleRef", &role, "cannot change roleRef"));
    }
}

fn subject(namespaced: bool, subject: &Value, path: &str, out: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    let (name, group) = (text(subject, "/name"), text(subject, "/apiGroup"));
    if name.is_empty() {
        out.push(Cause::required(field("name"), ""));
    }
    match text(subject, "/kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                wrong(&field("name"), name, crate::names::dns_subdomain(name), out);
            }
            if !group.is_empty() {
                supported(group, &field("apiGroup"), &[""], out);
            }
            if !namespaced && text(subject, "/namespace").is_empty() {
                out.push(Cause::required(field("namespace"), ""));
            }
        }
        "User" | "Group" => supported(group, &field("apiGroup"), &[GROUP], out),
        other => supported(other, &field("kind"), &["ServiceAccount", "User", "Group"], out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_bindings() {
        let binding = |role: Value, subject: Value| json!({"roleRef": role, "subjects": [subject]});
        let role = json!({"apiGroup": GROUP, "kind": "Role", "name": "r"});
        let user = json!({"kind": "User", "name": "u", "apiGroup": GROUP});
        for (kind, object, want) in [
            ("RoleBinding", binding(role.clone(), user.clone()), ""),
            ("ClusterRoleBinding", binding(role.clone(), user.clone()), "roleRef.kind"),
            ("RoleBinding", binding(json!({"apiGroup": "x", "kind": "Role", "name": "r"}), user), "roleRef.apiGroup"),
            ("RoleBinding", binding(role.clone(), json!({"kind": "User", "name": "u"})), "subjects[0].apiGroup"),
            ("RoleBinding", binding(role.clone(), json!({"kind": "ServiceAccount", "name": "s"})), ""),
            ("RoleBinding", binding(role, json!({"kind": "ServiceAccount", "name": "S_"})), "subjects[0].name"),
            ("Role", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}), "rules[0].nonResourceURLs"),
            ("ClusterRole", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}), ""),
            (
                "ClusterRole",
                json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]}]}),
                "rules[0].nonResourceURLs",
            ),
            ("ClusterRole", json!({"aggregationRule": {}}), "aggregationRule.clusterRoleSelectors"),
        ] {
            let mut out = Vec::new();
            rbac(kind, &object, None, &mut out);
            let fields: Vec<String> = out.into_iter().map(|c| c.field).collect();
            assert_eq!(fields.join(" "), want, "{kind} {object}");
        }
    }
}
