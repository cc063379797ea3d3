//! Selectors of every kind, validated alike wherever they occur.

use serde_json::{Value, json};

use super::Write;

const POLICY: &str = "policy.karmada.io";

/// Places of label selectors: resource, and a spec with `null` where the selector belongs.
fn places() -> Vec<(&'static str, Value)> {
    let templates = json!([{"apiVersion": "v1", "kind": "Secret", "name": "s"}]);
    let placed = |placement: Value| json!({"resourceSelectors": templates, "placement": placement});
    let affinity = json!({"labelSelector": null});
    let taints = json!([{"key": "a", "effect": "NoSchedule"}]);
    let conditions = json!([{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}]);
    vec![
        ("propagationpolicies", placed(json!({"clusterAffinity": affinity}))),
        ("propagationpolicies", placed(json!({"clusterAffinities": [{"affinityName": "a", "labelSelector": null}]}))),
        (
            "clusterpropagationpolicies",
            placed(
                json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"staticWeightList": [{"weight": 1, "targetCluster": affinity}]}}}),
            ),
        ),
        (
            "propagationpolicies",
            json!({"placement": {}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "labelSelector": null}]}),
        ),
        ("overridepolicies", json!({"overrideRules": [{"targetCluster": affinity, "overriders": {}}]})),
        ("clusteroverridepolicies", json!({"targetCluster": affinity, "overriders": {}})),
        (
            "overridepolicies",
            json!({"overrideRules": [], "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "labelSelector": null}]}),
        ),
        ("clustertaintpolicies", json!({"targetClusters": affinity, "taints": taints, "addOnConditions": conditions})),
    ]
}

/// Path of the `null`, as in messages.
fn path(value: &Value, at: &str) -> Option<String> {
    match value {
        Value::Null => Some(at.to_owned()),
        Value::Object(map) => map.iter().find_map(|(key, value)| path(value, &format!("{at}.{key}"))),
        Value::Array(list) => list.iter().enumerate().find_map(|(i, value)| path(value, &format!("{at}[{i}]"))),
        _ => None,
    }
}

fn fill(value: &mut Value, with: &Value) {
    match value {
        Value::Null => *value = with.clone(),
        Value::Object(map) => map.values_mut().for_each(|value| fill(value, with)),
        Value::Array(list) => list.iter_mut().for_each(|value| fill(value, with)),
        _ => {}
    }
}

fn refusal(resource: &'static str, spec: &Value) -> String {
    let labels = json!({
        "propagationpolicy.karmada.io/permanent-id": "i", "clusterpropagationpolicy.karmada.io/permanent-id": "i"});
    let metadata = json!({"name": "p", "namespace": "shop", "labels": labels});
    let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "X", "metadata": metadata, "spec": spec});
    Write::create(POLICY, resource, object).refusal()
}

#[test]
fn label_selectors_are_validated_wherever_they_occur() {
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    for (selector, want) in [
        (json!({}), ""),
        (json!({"matchLabels": {"a.io/b": "c", "d": ""}}), ""),
        (expression("In", json!(["x"])), ""),
        (expression("Exists", json!(null)), ""),
        (json!({"matchLabels": {"a b": "c"}}), ".matchLabels: Invalid value: \"a b\": "),
        (json!({"matchLabels": {"a": "c d"}}), ".matchLabels: Invalid value: \"c d\": "),
        (
            expression("Zz", json!([])),
            ".matchExpressions[0].operator: Invalid value: \"Zz\": not a valid selector operator",
        ),
        (expression("in", json!(["x"])), ".matchExpressions[0].operator: Invalid value: \"in\": "),
        (
            expression("In", json!([])),
            ".matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (expression("NotIn", json!(null)), ".matchExpressions[0].values: Required value: "),
        (expression("DoesNotExist", json!(["x"])), ".matchExpressions[0].values: Forbidden: "),
        (expression("In", json!(["x", "y z"])), ".matchExpressions[0].values[1]: Invalid value: \"y z\": "),
        (
            json!({"matchExpressions": [{"key": "a b", "operator": "Exists"}]}),
            ".matchExpressions[0].key: Invalid value: \"a b\": ",
        ),
    ] {
        for (resource, spec) in places() {
            let (mut filled, at) = (spec.clone(), path(&spec, "spec").unwrap());
            fill(&mut filled, &selector);
            let got = refusal(resource, &filled);
            let want = if want.is_empty() { String::new() } else { format!("{at}{want}") };
            assert!(
                got.starts_with(&want) && got.is_empty() == want.is_empty(),
                "{resource} {selector}: {got}, not {want}"
            );
        }
    }
}

#[test]
fn kinds_and_fields_of_selectors_are_named() {
    for (selector, want) in [
        (json!({"apiVersion": "", "kind": "Secret"}), "spec.resourceSelectors[0].apiVersion: Required value"),
        (json!({"apiVersion": "v1", "kind": ""}), "spec.resourceSelectors[0].kind: Required value"),
        (
            json!({"apiVersion": "v1", "kind": "*"}),
            "spec.resourceSelectors[0].kind: Invalid value: \"*\": must name one kind: patterns are not possible",
        ),
    ] {
        for (resource, more) in
            [("propagationpolicies", json!({"placement": {}})), ("clusteroverridepolicies", json!({}))]
        {
            let mut spec = more;
            spec["resourceSelectors"] = json!([selector]);
            assert_eq!(refusal(resource, &spec), want, "{resource}");
        }
    }
    let field = |values: Value| {
        let expression = json!({"key": "region", "operator": "In", "values": values});
        json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}],
            "placement": {"clusterAffinity": {"fieldSelector": {"matchExpressions": [expression]}}}})
    };
    assert_eq!(refusal("propagationpolicies", &field(json!(["eu"]))), "");
    assert_eq!(
        refusal("propagationpolicies", &field(json!([]))),
        "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].values: Required value: without a value no cluster is selected by it: name at least one"
    );
}

#[test]
fn more_groups_than_clusters_are_a_warning() {
    let constraints = |mut groups: Value, min: i64, clusters: i64| {
        groups["minGroups"] = json!(min);
        groups["maxGroups"] = json!(min);
        let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "shop", "labels": {"propagationpolicy.karmada.io/permanent-id": "i"}},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}], "placement": {"spreadConstraints": [
                groups, {"spreadByField": "cluster", "minGroups": 1, "maxGroups": clusters}]}}});
        Write::create(POLICY, "propagationpolicies", object).validated()
    };
    for (by, groups, group) in [
        (json!({"spreadByField": "region"}), "regions", "region"),
        (json!({"spreadByField": "zone"}), "zones", "zone"),
        (json!({"spreadByField": "provider"}), "providers", "provider"),
        (json!({"spreadByLabel": "example.com/rack"}), "values of label example.com/rack", "value"),
    ] {
        let kept = constraints(by.clone(), 2, 2);
        assert_eq!((kept.denial, kept.warnings), (None, Vec::new()), "{groups}");
        let contradictory = constraints(by, 3, 2);
        assert_eq!(contradictory.denial, None);
        let want = format!(
            "spec.placement.spreadConstraints: 3 {groups} are asked for and at most 2 clusters: one cluster of each {group} is selected"
        );
        assert_eq!(contradictory.warnings, [want]);
    }
}
