//! FederatedResourceQuota (specification/admission.md 5.1).

use serde_json::{Value, json};

use super::{Write, with};

#[test]
fn quota_rules() {
    let quota = |patch: Value| {
        let base = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": {"cpu": "10"}},
        });
        with(&base, &patch)
    };
    let overall = |key: &str, amount: &str| json!({"spec": {"overall": {key: amount}}});
    let assigned = |list: Value| json!({"spec": {"staticAssignments": list}});
    let standard = "must be a standard resource for quota";
    for (name, patch, want) in [
        ("a plain one", json!({}), String::new()),
        (
            "a name that is no label value",
            json!({"metadata": {"name": "q".repeat(64)}}),
            format!(
                "metadata.name: Invalid value: \"{}\": must be no more than 63 characters: it becomes the value of a label",
                "q".repeat(64)
            ),
        ),
        (
            "requests, limits and counts",
            json!({"spec": {"overall": {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "3", "requests.storage": "1Ti", "hugepages-2Mi": "1Gi", "services.nodeports": "1", "a.io/gpu": "2", "requests.a.io/gpu": "2"}}}),
            String::new(),
        ),
        (
            "an unknown resource",
            overall("sunshine", "1"),
            format!(r#"spec.overall[sunshine]: Invalid value: "sunshine": {standard}"#),
        ),
        (
            "half a pod",
            overall("pods", "500m"),
            r#"spec.overall[pods]: Invalid value: "500m": must be an integer"#.into(),
        ),
        (
            "half a device",
            overall("a.io/gpu", "500m"),
            r#"spec.overall[a.io/gpu]: Invalid value: "500m": must be an integer"#.into(),
        ),
        ("half a core", overall("cpu", "500m"), String::new()),
        (
            "a negative amount",
            overall("memory", "-1"),
            r#"spec.overall[memory]: Invalid value: "-1": must be greater than or equal to 0"#.into(),
        ),
        (
            "no name at all",
            overall("/cpu", "1"),
            r#"spec.overall[/cpu]: Invalid value: "/cpu": prefix part must be non-empty"#.into(),
        ),
        (
            "assigned",
            assigned(json!([{"clusterName": "m1", "hard": {"cpu": "4"}}, {"clusterName": "m2", "hard": {"cpu": "6"}}])),
            String::new(),
        ),
        (
            "more assigned than there is",
            assigned(json!([{"clusterName": "m1", "hard": {"cpu": "4"}}, {"clusterName": "m2", "hard": {"cpu": "7"}}])),
            r#"spec.overall[cpu]: Invalid value: "10": overall is less than assigned: 11 are assigned to clusters"#
                .into(),
        ),
        (
            "assigned without limit",
            assigned(json!([{"clusterName": "m1", "hard": {"memory": "4"}}])),
            r#"spec.staticAssignments[0].hard[memory]: Invalid value: "4": must be in overall, too"#.into(),
        ),
        (
            "to no cluster",
            assigned(json!([{"clusterName": "", "hard": {}}])),
            r#"spec.staticAssignments[0].clusterName: Invalid value: "": must be not empty"#.into(),
        ),
        (
            "to a cluster of too long a name",
            assigned(json!([{"clusterName": "m".repeat(49), "hard": {}}])),
            format!(
                "spec.staticAssignments[0].clusterName: Invalid value: \"{}\": must be no more than 48 characters",
                "m".repeat(49)
            ),
        ),
        ("to a cluster of 48", assigned(json!([{"clusterName": "m".repeat(48), "hard": {}}])), String::new()),
        (
            "to a name with dots",
            assigned(json!([{"clusterName": "a.b", "hard": {}}])),
            r#"spec.staticAssignments[0].clusterName: Invalid value: "a.b": must not contain dots"#.into(),
        ),
        (
            "to a cluster twice",
            assigned(json!([{"clusterName": "m1", "hard": {}}, {"clusterName": "m1", "hard": {}}])),
            r#"spec.staticAssignments[1].clusterName: Duplicate value: "m1""#.into(),
        ),
        (
            "assigned half a pod",
            json!({"spec": {"overall": {"pods": "3"}, "staticAssignments": [{"clusterName": "m1", "hard": {"pods": "1500m"}}]}}),
            r#"spec.staticAssignments[0].hard[pods]: Invalid value: "1500m": must be an integer"#.into(),
        ),
        (
            "a status",
            json!({"status": {"overallUsed": {"cpu": "-1"}}}),
            r#"status.overallUsed[cpu]: Invalid value: "-1": must be greater than or equal to 0"#.into(),
        ),
        (
            "a cluster's status",
            json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "hard": {"x": "1"}, "used": {"y": "1"}}]}}),
            format!(
                r#"[status.aggregatedStatus[0].hard[x]: Invalid value: "x": {standard}, status.aggregatedStatus[0].used[y]: Invalid value: "y": {standard}]"#
            ),
        ),
    ] {
        assert_eq!(
            Write::create("policy.karmada.io", "federatedresourcequotas", quota(patch)).refusal(),
            want,
            "{name}"
        );
    }
}

#[test]
fn keys_that_only_members_limit_are_warned_of() {
    let keys = [
        "cpu", "requests.memory", "pods", "a.io/gpu", "limits.cpu", "requests.storage", "services", "hugepages-2Mi",
        "count/deployments.apps", "services.nodeports",
    ];
    let overall: serde_json::Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), json!("1"))).collect();
    let quota = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", "metadata": {"name": "q"},
        "spec": {"overall": overall},
    });
    let verdict = Write::create("policy.karmada.io", "federatedresourcequotas", quota).validated();
    assert_eq!(verdict.denial, None);
    let warned = |key: &&&str| verdict.warnings.iter().any(|text| text.starts_with(&format!("spec.overall[{key}]: ")));
    assert_eq!(
        keys.iter().filter(warned).copied().collect::<Vec<_>>(),
        ["limits.cpu", "requests.storage", "services.nodeports"]
    );
}
