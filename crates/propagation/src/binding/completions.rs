//! Division of a Job's completions over its copies (specification/propagation.md 9.3).

use ironclad_api::{policy::ReplicaSchedulingType, work::ResourceBindingSpec};
use ironclad_fleet::{
    ClusterName,
    divide::{self, TieOrder, Weight},
    targets::Target,
};
use serde_json::Value;

use crate::template;

/// The completions of each target, in order; `None` if there is nothing to divide.
#[must_use]
pub(super) fn divide(spec: &ResourceBindingSpec, job: &Value, targets: &[Target]) -> Option<Vec<i64>> {
    let is_job =
        template::text(job, "/kind") == "Job" && template::group(template::text(job, "/apiVersion")) == "batch";
    let divided =
        spec.placement.as_ref().is_some_and(|p| p.replica_scheduling_type() == ReplicaSchedulingType::Divided);
    if !is_job || spec.replicas <= 0 || !divided {
        return None;
    }
    let completions = job.pointer("/spec/completions")?.as_i64()?;
    let weights: Vec<Weight> = targets
        .iter()
        .map(|target| Weight { cluster: ClusterName::from(&*target.cluster.0), weight: target.replicas.into() })
        .collect();
    Some(divide::by_weight(completions, &weights, TieOrder::of(template::text(job, "/metadata/uid"))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn job(completions: Value, uid: &str) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": uid}, "spec": {"parallelism": 5, "completions": completions}})
    }

    fn spec(type_: &str) -> ResourceBindingSpec {
        serde_json::from_value(
            json!({"resource": {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}, "replicas": 5,
            "placement": {"replicaScheduling": {"replicaSchedulingType": type_}}}),
        )
        .unwrap()
    }

    fn targets(of: &[(&str, i32)]) -> Vec<Target> {
        of.iter()
            .map(|(cluster, replicas)| Target { cluster: ClusterName::from(*cluster), replicas: *replicas })
            .collect()
    }

    #[test]
    fn completions_of_the_specification() {
        for (name, completions, uid, of, want) in [
            ("in proportion to the replicas", 8, "", [("m1", 3), ("m2", 2)], vec![5, 3]),
            ("a tie goes to the smaller name", 3, "", [("m1", 1), ("m2", 1)], vec![2, 1]),
            ("with an odd uid to the larger", 3, "b", [("m1", 1), ("m2", 1)], vec![1, 2]),
            ("none for none", 4, "", [("m1", 1), ("m2", 0)], vec![4, 0]),
        ] {
            assert_eq!(divide(&spec("Divided"), &job(json!(completions), uid), &targets(&of)), Some(want), "{name}");
        }
    }

    #[test]
    fn jobs_that_are_not_divided() {
        let of = targets(&[("m1", 1)]);
        assert_eq!(divide(&spec("Divided"), &job(Value::Null, ""), &of), None, "a work-queue Job");
        assert_eq!(divide(&spec("Duplicated"), &job(json!(5), ""), &of), None, "each copy does all of it");
        let mut other = job(json!(5), "");
        other["kind"] = json!("Deployment");
        assert_eq!(divide(&spec("Divided"), &other, &of), None, "another kind");
        other["kind"] = json!("Job");
        other["apiVersion"] = json!("example.io/v1");
        assert_eq!(divide(&spec("Divided"), &other, &of), None, "another group");
        let mut idle = spec("Divided");
        idle.replicas = 0;
        assert_eq!(divide(&idle, &job(json!(5), ""), &of), None, "no replicas");
        let mut attached = spec("Divided");
        attached.placement = None;
        assert_eq!(divide(&attached, &job(json!(5), ""), &of), None, "no placement");
    }

    proptest! {
        #[test]
        fn completions_are_conserved(completions in 0..1000_i64, of in prop::collection::vec(0..20_i32, 1..6), uid in "[a-z]{0,3}") {
            let of: Vec<Target> = of.iter().enumerate().map(|(i, n)| Target { cluster: ClusterName::from(format!("m{i}").as_str()), replicas: *n }).collect();
            let shares = divide(&spec("Divided"), &job(json!(completions), &uid), &of).unwrap();
            let sum: i64 = shares.iter().sum();
            prop_assert_eq!(sum, if of.iter().all(|t| t.replicas == 0) { 0 } else { completions });
        }
    }
}
