//! Scopes: the objects of a kind that a quota counts.

use serde_json::Value;

use crate::{claim, counted::Counted, pod};

/// Returns `true` if the quota's scopes select the object. A quota without scopes selects every object, one with
/// scopes only pods and claims.
pub(crate) fn selects(quota: &Value, kind: &Counted, object: &Value) -> bool {
    let plain = quota["spec"]["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let expressions = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    plain.map(|scope| (scope, "Exists", vec![])).chain(expressions.map(expression)).all(|(scope, operator, values)| {
        match kind {
            Counted::Pods => of_pod(scope, operator, &values, object),
            Counted::Claims if scope == "VolumeAttributesClass" => of_claim(operator, &values, object),
            _ => false,
        }
    })
}

fn expression(one: &Value) -> (&str, &str, Vec<&str>) {
    let text = |key: &str| one[key].as_str().unwrap_or_default();
    let values = one["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    (text("scopeName"), text("operator"), values)
}

fn of_pod(scope: &str, operator: &str, values: &[&str], object: &Value) -> bool {
    match scope {
        "Terminating" => pod::is_terminating(object),
        "NotTerminating" => !pod::is_terminating(object),
        "BestEffort" => pod::is_best_effort(object),
        "NotBestEffort" => !pod::is_best_effort(object),
        "CrossNamespacePodAffinity" => pod::looks_at_other_namespaces(object),
        "PriorityClass" => {
            let class = object.pointer("/spec/priorityClassName").and_then(Value::as_str);
            matches(operator, values, class.filter(|class| !class.is_empty()))
        }
        _ => false,
    }
}

/// A claim can have two classes while it is modified: either may match.
fn of_claim(operator: &str, values: &[&str], object: &Value) -> bool {
    let classes = claim::attributes_classes(object);
    if classes.is_empty() {
        return matches(operator, values, None);
    }
    classes.into_iter().any(|class| matches(operator, values, Some(class)))
}

/// Matches as label selectors do: no class is in no list.
fn matches(operator: &str, values: &[&str], class: Option<&str>) -> bool {
    match operator {
        "Exists" => class.is_some(),
        "DoesNotExist" => class.is_none(),
        "In" => class.is_some_and(|class| values.contains(&class)),
        "NotIn" => class.is_none_or(|class| !values.contains(&class)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scoped(scope: &str) -> Value {
        json!({"spec": {"scopes": [scope]}})
    }

    fn classed(scope: &str, operator: &str, values: &[&str]) -> Value {
        json!({"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": values}]}}})
    }

    #[test]
    fn scopes_select_pods() {
        let plain = json!({"spec": {"containers": [{"name": "c"}]}});
        let with = |key: &str, value: Value| {
            let mut pod = plain.clone();
            pod["spec"][key] = value;
            pod
        };
        let asking = with("containers", json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]));
        let zero = with("containers", json!([{"name": "c", "resources": {"requests": {"cpu": "0"}}}]));
        let bounded = with("activeDeadlineSeconds", json!(0));
        let important = with("priorityClassName", json!("high"));
        let crossing = with(
            "affinity",
            json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}}]}}),
        );
        let near = with(
            "affinity",
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone"}]}}),
        );
        for (name, quota, pod, want) in [
            ("no scope selects all", json!({"spec": {}}), &plain, true),
            ("a bounded time", scoped("Terminating"), &bounded, true),
            ("no bounded time", scoped("Terminating"), &plain, false),
            ("not bounded", scoped("NotTerminating"), &plain, true),
            ("bounded is not unbounded", scoped("NotTerminating"), &bounded, false),
            ("nothing asked for", scoped("BestEffort"), &plain, true),
            ("zero asked for", scoped("BestEffort"), &zero, true),
            ("something asked for", scoped("BestEffort"), &asking, false),
            ("asking", scoped("NotBestEffort"), &asking, true),
            ("a priority class", scoped("PriorityClass"), &important, true),
            ("no priority class", scoped("PriorityClass"), &plain, false),
            ("the priority class", classed("PriorityClass", "In", &["low", "high"]), &important, true),
            ("another priority class", classed("PriorityClass", "In", &["low"]), &important, false),
            ("no class is in no list", classed("PriorityClass", "In", &["low"]), &plain, false),
            ("and outside of every list", classed("PriorityClass", "NotIn", &["low"]), &plain, true),
            ("any class is one too many", classed("PriorityClass", "DoesNotExist", &[]), &important, false),
            ("affinity to other namespaces", scoped("CrossNamespacePodAffinity"), &crossing, true),
            ("affinity within the namespace", scoped("CrossNamespacePodAffinity"), &near, false),
            ("a scope of claims", scoped("VolumeAttributesClass"), &plain, false),
            ("all scopes must match", json!({"spec": {"scopes": ["Terminating", "NotBestEffort"]}}), &bounded, false),
        ] {
            assert_eq!(selects(&quota, &Counted::Pods, pod), want, "{name}");
        }
    }

    #[test]
    fn scopes_select_claims_and_nothing_else() {
        let claim = json!({"spec": {"volumeAttributesClassName": "fast"}, "status": {"currentVolumeAttributesClassName": "slow"}});
        for (name, quota, kind, want) in [
            ("a class", scoped("VolumeAttributesClass"), Counted::Claims, true),
            ("the present class", classed("VolumeAttributesClass", "In", &["slow"]), Counted::Claims, true),
            ("the coming class", classed("VolumeAttributesClass", "In", &["fast"]), Counted::Claims, true),
            ("another class", classed("VolumeAttributesClass", "In", &["other"]), Counted::Claims, false),
            ("a scope of pods", scoped("Terminating"), Counted::Claims, false),
            ("other kinds are in no scope", scoped("VolumeAttributesClass"), Counted::Services, false),
            ("other kinds without a scope", json!({"spec": {}}), Counted::Services, true),
        ] {
            assert_eq!(selects(&quota, &kind, &claim), want, "{name}");
        }
    }
}
