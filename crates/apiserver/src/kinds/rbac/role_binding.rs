//! RoleBindings and ClusterRoleBindings.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    auth::escalation,
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, items, name},
            defaults::{child, each, set},
            fields::{at, list, text},
            formats::{self, supported, wrong},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        validate: |o, old, out| validate(true, o, old, out),
        validate_name: names::path_segment,
        columns: &[
            NAME,
            ("Role", "string", 0),
            AGE,
            ("Users", "string", 1),
            ("Groups", "string", 1),
            ("ServiceAccounts", "string", 1),
        ],
        cells,
        ..Strategy::NONE
    },
    hooks: Hooks { check_escalation: escalation::check, after_write: super::changed, ..Hooks::NONE },
    ..Kind::new("rbac.authorization.k8s.io/v1 rolebindings RoleBinding N put")
};

pub(in crate::kinds) const CLUSTER: Kind = Kind {
    strategy: Strategy { validate: |o, old, out| validate(false, o, old, out), ..KIND.strategy },
    hooks: KIND.hooks,
    ..Kind::new("rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding C put")
};

const GROUP: &str = "rbac.authorization.k8s.io";

fn defaults(object: &mut Value) {
    set(child(object, "roleRef"), "apiGroup", GROUP);
    for subject in each(object, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", GROUP);
        }
    }
}

fn validate(namespaced: bool, object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| {
        let subjects = items(o, "/subjects").filter(|s| s["kind"] == kind).map(|s| match text(s, "/namespace") {
            "" if kind != "ServiceAccount" => text(s, "/name").to_owned(),
            namespace => format!("{namespace}/{}", text(s, "/name")),
        });
        json!(subjects.collect::<Vec<_>>().join(", "))
    };
    let role = format!("{}/{}", text(o, "/roleRef/kind"), text(o, "/roleRef/name"));
    vec![name(o), json!(role), created(o, now), of("User"), of("Group"), of("ServiceAccount")]
}
