//! Roles and ClusterRoles.

use serde_json::Value;

use crate::{
    auth::escalation,
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            fields::{at, list},
            formats,
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        validate: |o, _, out| validate(true, o, out),
        validate_name: names::path_segment,
        ..Strategy::NONE
    },
    hooks: Hooks { check_escalation: escalation::check, after_write: super::changed, ..Hooks::NONE },
    ..Kind::new("rbac.authorization.k8s.io/v1 roles Role N put")
};

pub(in crate::kinds) const CLUSTER: Kind = Kind {
    strategy: Strategy {
        validate: |o, _, out| validate(false, o, out),
        validate_name: names::path_segment,
        ..Strategy::NONE
    },
    hooks: Hooks { check_escalation: escalation::check, after_write: super::changed, ..Hooks::NONE },
    ..Kind::new("rbac.authorization.k8s.io/v1 clusterroles ClusterRole C put")
};

fn validate(namespaced: bool, object: &Value, out: &mut Vec<Cause>) {
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
