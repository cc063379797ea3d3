//! ResourceQuotas.

use crate::kinds::shared::columns::plain;
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            amounts,
            columns::{AGE, NAME, created, name},
            fields::{at, is_new, list, text},
            formats::wrong,
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, old, out);
            }
        },
        columns: &[NAME, ("Request", "string", 0), ("Limit", "string", 0), AGE],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("v1 resourcequotas ResourceQuota N short=quota +status")
};

const SCOPES: &str = "/spec/scopes";

const PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];

/// Validates the name of a counted resource: a standard one, or one with a domain.
fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    for (name, amount) in at(object, "/spec/hard").as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        amounts::quota_resource_name(name, &field, out);
        amounts::of_resource(name, amount, &field, out);
    }
    scopes(object, out);
    scope_selector(object, out);
    let set = |of: &Value| list(of, "/spec/scopes").iter().map(Value::to_string).collect::<BTreeSet<_>>();
    if old.is_some_and(|old| set(old) != set(object)) {
        out.push(Cause::invalid("spec.scopes", at(object, "/spec/scopes"), "field is immutable"));
    }
}

/// The resources that a scope applies to; `None` for an unknown scope.
fn counted_in(scope: &str) -> Option<&'static [&'static str]> {
    const OF_PODS: [&str; 7] =
        ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    Some(match scope {
        "BestEffort" => &OF_PODS[..1],
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => &OF_PODS,
        "VolumeAttributesClass" => &["persistentvolumeclaims", "requests.storage"],
        _ => return None,
    })
}

/// Counts the resources that a scope does not apply to.
fn not_counted(object: &Value, scope: &str) -> usize {
    let Some(counted) = counted_in(scope) else { return 0 };
    let hard = at(object, "/spec/hard").as_object().into_iter().flatten();
    hard.filter(|(name, _)| amounts::is_standard_for_quota(name) && !counted.contains(&name.as_str())).count()
}

/// Which pods a quota counts, and whether what it counts is of pods.
fn scopes(object: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.scopes";
    let all = at(object, SCOPES);
    let given: Vec<&str> = list(object, SCOPES).iter().filter_map(Value::as_str).collect();
    for scope in &given {
        if counted_in(scope).is_none() {
            out.push(Cause::invalid(FIELD, all, "unsupported scope"));
        }
        for _ in 0..not_counted(object, scope) {
            out.push(Cause::invalid(FIELD, all, "unsupported scope applied to resource"));
        }
    }
    for pair in PAIRS {
        if pair.iter().all(|scope| given.contains(scope)) {
            out.push(Cause::invalid(FIELD, all, "conflicting scopes"));
        }
    }
}

/// The same in more words, where scopes can have values.
fn scope_selector(object: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.scopeSelector.matchExpressions";
    let given = list(object, "/spec/scopeSelector/matchExpressions");
    for one in given {
        let (scope, operator, values) = (text(one, "/scopeName"), text(one, "/operator"), list(one, "/values"));
        if counted_in(scope).is_none() {
            wrong(&format!("{FIELD}.scopeName"), scope, ["unsupported scope"], out);
        }
        for _ in 0..not_counted(object, scope) {
            out.push(Cause::invalid(FIELD, at(object, "/spec/scopeSelector"), "unsupported scope applied to resource"));
        }
        let plain = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && counted_in(scope).is_some();
        if plain && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            wrong(&format!("{FIELD}.operator"), operator, [why], out);
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                out.push(Cause::required(format!("{FIELD}.values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                out.push(Cause::invalid(format!("{FIELD}.values"), &json!(values), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => wrong(&format!("{FIELD}.operator"), other, ["not a valid selector operator"], out),
        }
    }
    for pair in PAIRS {
        if pair.iter().all(|scope| given.iter().any(|one| one["scopeName"] == *scope)) {
            out.push(Cause::invalid(FIELD, at(object, SCOPES), "conflicting scopes"));
        }
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let mut sides = [Vec::new(), Vec::new()];
    for (resource, hard) in o.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = o.pointer("/status/used").and_then(|u| u.get(resource)).map_or_else(|| "0".to_owned(), plain);
        let cell = format!("{resource}: {used}/{}", plain(hard));
        sides[usize::from(resource.starts_with("limits."))].push(cell);
    }
    vec![name(o), json!(sides[0].join(", ")), json!(sides[1].join(", ")), created(o, now)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_quotas() {
        let quota = |scopes: Value, hard: Value| json!({"spec": {"scopes": scopes, "hard": hard}});
        let messages = |object: &Value, old: Option<&Value>| {
            let mut out = Vec::new();
            super::validate(object, old, &mut out);
            out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
        };
        let unsupported = "spec.scopes: Invalid value: [\"Nothing\"]: unsupported scope";
        for (name, scopes, hard, want) in [
            ("none", json!([]), json!({"services": "1"}), vec![]),
            ("one that there isn't", json!(["Nothing"]), json!({"pods": "1"}), vec![unsupported]),
            ("pods alone can be of the best effort", json!(["BestEffort"]), json!({"pods": "1"}), vec![]),
            (
                "what they ask for can't",
                json!(["BestEffort"]),
                json!({"cpu": "1"}),
                vec!["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"],
            ),
            ("what others ask for can", json!(["NotBestEffort"]), json!({"cpu": "1", "pods": "1"}), vec![]),
            (
                "Services are no pods",
                json!(["Terminating"]),
                json!({"services": "1"}),
                vec!["spec.scopes: Invalid value: [\"Terminating\"]: unsupported scope applied to resource"],
            ),
            ("somebody's own resource is let be", json!(["Terminating"]), json!({"example.com/x": "1"}), vec![]),
            (
                "one and its opposite",
                json!(["Terminating", "NotTerminating"]),
                json!({}),
                vec!["spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes"],
            ),
        ] {
            assert_eq!(messages(&quota(scopes, hard), None), want, "{name}");
        }
        let old = quota(json!(["Terminating", "BestEffort"]), json!({}));
        assert!(messages(&quota(json!(["BestEffort", "Terminating"]), json!({})), Some(&old)).is_empty(), "a set");
        let want = "spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable";
        assert_eq!(messages(&quota(json!(["BestEffort"]), json!({})), Some(&old)), [want]);
    }
}
