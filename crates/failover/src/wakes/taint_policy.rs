//! Wake rules of the cluster taint policy controller.

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};

/// Returns true if a change of a cluster may change the taints that policies want on it. What a member reports besides
/// its conditions does not.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let conditions = |cluster: &Cluster| cluster.status.as_ref().map(|status| status.conditions.clone());
    old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.spec != new.spec
        || conditions(old) != conditions(new)
}

/// Returns true if a changed policy concerns all clusters: it was created, recreated, edited or deleted. A cluster that
/// the policy no longer selects has to lose its taints, too.
#[must_use]
pub fn policy(old: Option<&ClusterTaintPolicy>, new: Option<&ClusterTaintPolicy>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    old.spec != new.spec
        || old.metadata.uid != new.metadata.uid
        || old.metadata.generation != new.metadata.generation
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn merged(mut base: Value, extra: Value) -> Value {
        fn merge(base: &mut Value, extra: Value) {
            match (base, extra) {
                (Value::Object(base), Value::Object(extra)) => {
                    for (key, value) in extra {
                        merge(base.entry(key).or_insert(Value::Null), value);
                    }
                }
                (base, extra) => *base = extra,
            }
        }
        merge(&mut base, extra);
        base
    }

    #[test]
    fn conditions_labels_and_spec_of_a_cluster_enqueue() {
        let of = |extra: Value| -> Cluster {
            let base = json!({"metadata": {"name": "m1", "uid": "u"}, "spec": {"syncMode": "Push"}, "status": {}});
            serde_json::from_value(merged(base, extra)).unwrap()
        };
        let base = of(json!({}));
        let condition = json!({"type": "Ready", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        for (name, new, want) in [
            ("unchanged", json!({}), false),
            ("a figure", json!({"status": {"nodeSummary": {"totalNum": 3, "readyNum": 3}}}), false),
            ("a condition", json!({"status": {"conditions": [condition]}}), true),
            ("a label", json!({"metadata": {"labels": {"a": "b"}}}), true),
            ("an annotation", json!({"metadata": {"annotations": {"a": "b"}}}), true),
            ("the spec", json!({"spec": {"region": "eu"}}), true),
            ("deletion", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), true),
            ("a recreated cluster", json!({"metadata": {"uid": "v"}}), true),
        ] {
            assert_eq!(cluster(Some(&base), Some(&of(new))), want, "{name}");
        }
        assert!(cluster(None, Some(&base)) && cluster(Some(&base), None));
    }

    #[test]
    fn spec_and_deletion_of_a_policy_enqueue_and_its_status_does_not() {
        let of = |extra: Value| -> ClusterTaintPolicy {
            let base = json!({"metadata": {"name": "p", "uid": "u", "generation": 1}, "spec": {"taints": []}});
            serde_json::from_value(merged(base, extra)).unwrap()
        };
        let base = of(json!({}));
        for (name, new, want) in [
            ("unchanged", json!({}), false),
            (
                "status",
                json!({"metadata": {"resourceVersion": "2"}, "status": {"observedGeneration": 1, "clusters": []}}),
                false,
            ),
            ("edited", json!({"metadata": {"generation": 2}}), true),
            ("recreated", json!({"metadata": {"uid": "v"}}), true),
            ("deletion", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), true),
        ] {
            assert_eq!(policy(Some(&base), Some(&of(new))), want, "{name}");
        }
        assert!(policy(None, Some(&base)) && policy(Some(&base), None));
    }
}
