//! Validation of affinity, tolerations and topology spread.

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::super::{
    fields::{at, label, list, text},
    formats::{self, supported, wrong},
    node_selector,
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Value, path: &str, out: &mut Vec<Cause>) {
    let nodes = &affinity["nodeAffinity"];
    if nodes[REQUIRED].is_object() {
        node_selector::node_selector(&nodes[REQUIRED], &format!("{path}.nodeAffinity.{REQUIRED}"), out);
    }
    for (i, preferred) in list(nodes, &format!("/{PREFERRED}")).iter().enumerate() {
        let field = format!("{path}.nodeAffinity.{PREFERRED}[{i}]");
        weight(preferred, &field, out);
        node_selector::term(at(preferred, "/preference"), &format!("{field}.preference"), out);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = &affinity[key];
        for (i, term) in list(pods, &format!("/{REQUIRED}")).iter().enumerate() {
            pod_term(term, &format!("{path}.{key}.{REQUIRED}[{i}]"), out);
        }
        for (i, preferred) in list(pods, &format!("/{PREFERRED}")).iter().enumerate() {
            let field = format!("{path}.{key}.{PREFERRED}[{i}]");
            weight(preferred, &field, out);
            pod_term(at(preferred, "/podAffinityTerm"), &format!("{field}.podAffinityTerm"), out);
        }
    }
}

fn weight(preferred: &Value, path: &str, out: &mut Vec<Cause>) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        out.push(Cause::invalid(format!("{path}.weight"), &json!(weight), "must be in the range 1-100"));
    }
}

fn pod_term(term: &Value, path: &str, out: &mut Vec<Cause>) {
    formats::label_selector(at(term, "/labelSelector"), &format!("{path}.labelSelector"), out);
    formats::label_selector(at(term, "/namespaceSelector"), &format!("{path}.namespaceSelector"), out);
    let keys = |key: &str| list(term, key).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let (same, other) = (keys("/matchLabelKeys"), keys("/mismatchLabelKeys"));
    for (key, given) in [("matchLabelKeys", &same), ("mismatchLabelKeys", &other)] {
        label_keys(given, term, &format!("{path}.{key}"), out);
    }
    for (i, key) in same.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let why = "exists in both matchLabelKeys and mismatchLabelKeys";
        wrong(&format!("{path}.matchLabelKeys[{i}]"), key, [why], out);
    }
    for namespace in list(term, "/namespaces").iter().filter_map(Value::as_str) {
        label(namespace, &format!("{path}.namespace"), out);
    }
    let topology = text(term, "/topologyKey");
    if topology.is_empty() {
        out.push(Cause::required(format!("{path}.topologyKey"), "can not be empty"));
    }
    formats::qualified(topology, &format!("{path}.topologyKey"), out);
}

/// Keys of labels that join a selector, so there must be one.
fn label_keys(keys: &[&str], term: &Value, path: &str, out: &mut Vec<Cause>) {
    if !keys.is_empty() && !at(term, "/labelSelector").is_object() {
        return out.push(Cause::forbidden(path, "must not be specified when labelSelector is not set"));
    }
    for (i, key) in keys.iter().enumerate() {
        formats::qualified(key, &format!("{path}[{i}]"), out);
    }
}

pub(super) fn tolerations(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    for (i, toleration) in list(spec, "/tolerations").iter().enumerate() {
        self::toleration(toleration, &format!("{path}[{i}]"), out);
    }
}

/// Validates a toleration.
pub(crate) fn toleration(toleration: &Value, path: &str, out: &mut Vec<Cause>) {
    let given = |key: &str| text(toleration, key);
    let (key, operator, value, effect) = (given("/key"), given("/operator"), given("/value"), given("/effect"));
    let field = format!("{path}.operator");
    if key.is_empty() {
        if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            wrong(&field, operator, [why], out);
        }
    } else {
        formats::qualified(key, &format!("{path}.key"), out);
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        wrong(&format!("{path}.effect"), effect, [why], out);
    }
    match operator {
        "Equal" | "" => wrong(&field, value, names::label_value(value), out),
        "Exists" if !value.is_empty() => {
            wrong(&field, value, ["value must be empty when `operator` is 'Exists'"], out);
        }
        "Exists" => {}
        // Known, and behind a gate that is closed.
        "Lt" | "Gt" => out.push(Cause::unsupported(field, &json!(operator), &["Equal", "Exists", "Lt", "Gt"])),
        other => supported(other, &field, &["Equal", "Exists"], out),
    }
    if !effect.is_empty() {
        supported(effect, &format!("{path}.effect"), &["NoSchedule", "PreferNoSchedule", "NoExecute"], out);
    }
}

/// Validates topology spread constraints.
pub(super) fn spread(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let constraints = list(spec, "/topologySpreadConstraints");
    let identity = |one: &Value| (text(one, "/topologyKey").to_owned(), text(one, "/whenUnsatisfiable").to_owned());
    for (i, one) in constraints.iter().enumerate() {
        let field = |name: &str| format!("{path}[{i}].{name}");
        let skew = at(one, "/maxSkew").as_i64().unwrap_or(0);
        if skew <= 0 {
            out.push(Cause::invalid(field("maxSkew"), &json!(skew), "must be greater than zero"));
        }
        let (key, when) = identity(one);
        if key.is_empty() {
            out.push(Cause::required(field("topologyKey"), "can not be empty"));
        }
        supported(&when, &field("whenUnsatisfiable"), &["DoNotSchedule", "ScheduleAnyway"], out);
        let again = constraints.iter().skip(i + 1).filter(|other| identity(other) == (key.clone(), when.clone()));
        for _ in again {
            let twice = json!(format!("{{{key}, {when}}}"));
            out.push(Cause::duplicate(field("{topologyKey, whenUnsatisfiable}"), &twice));
        }
        let domains = at(one, "/minDomains");
        if domains.as_i64().is_some_and(|n| n <= 0) {
            out.push(Cause::invalid(field("minDomains"), domains, "must be greater than zero"));
        }
        if !domains.is_null() && when != "DoNotSchedule" {
            let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
            out.push(Cause::invalid(field("minDomains"), domains, why));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(given) = one[policy].as_str() {
                supported(given, &field(policy), &["Honor", "Ignore"], out);
            }
        }
        let keys: Vec<&str> = list(one, "/matchLabelKeys").iter().filter_map(Value::as_str).collect();
        label_keys(&keys, one, &field("matchLabelKeys"), out);
        formats::label_selector(at(one, "/labelSelector"), &field("labelSelector"), out);
    }
}
