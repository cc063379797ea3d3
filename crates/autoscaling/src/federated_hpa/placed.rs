//! Clusters of a workload by its binding: how many replicas each has, and whether the last change has arrived
//! (specification/autoscaling.md 2.2, 2.6).

use std::collections::BTreeSet;

use ironclad_api::{
    policy::ReplicaSchedulingType,
    work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_hpa::calibration::{Assigned, Calibration, Spread};

/// Returns how the clusters of a binding share its replicas. A kind whose replicas the interpreter does not know is
/// copied as it is.
#[must_use]
pub fn spread(spec: &ResourceBindingSpec) -> Spread {
    let divides = spec
        .placement
        .as_ref()
        .is_some_and(|placement| placement.replica_scheduling_type() == ReplicaSchedulingType::Divided);
    if divides && spec.replicas > 0 { Spread::Divided } else { Spread::Duplicated }
}

/// Returns the pods of reached clusters per replica of the template; `None` if those run none of its replicas.
#[must_use]
pub fn calibration(spec: &ResourceBindingSpec, reached: &BTreeSet<&str>) -> Option<Calibration> {
    let clusters = spec
        .clusters
        .iter()
        .map(|target| Assigned { replicas: target.replicas, is_reached: reached.contains(target.name.as_str()) });
    Calibration::of_clusters(spread(spec), &clusters.collect::<Vec<_>>())
}

/// Returns true while the last change of the replicas has not arrived in all reached clusters. `generation` is that of
/// the binding.
#[must_use]
pub fn is_settling(
    spec: &ResourceBindingSpec,
    status: Option<&ResourceBindingStatus>,
    generation: i64,
    current: i32,
    reached: &BTreeSet<&str>,
) -> bool {
    // The replicas of a kind that the interpreter does not know are not in the binding, nor in the status of members.
    if spec.replicas == 0 && current > 0 {
        return false;
    }
    if spec.replicas != current || status.is_none_or(|status| status.scheduler_observed_generation != generation) {
        return true;
    }
    let reported = |name: &str| -> Option<i64> {
        let item = status?.aggregated_status.iter().find(|item| item.cluster_name == name)?;
        replicas_of(item)
    };
    let reached = spec.clusters.iter().filter(|target| reached.contains(target.name.as_str()));
    reached.into_iter().any(|target| reported(&target.name).is_some_and(|found| found != i64::from(target.replicas)))
}

/// Returns `status.replicas` as a member reported it; `None` if it reported nothing, or its kind has no such field.
fn replicas_of(item: &AggregatedStatusItem) -> Option<i64> {
    item.status.as_ref()?.value().get("replicas")?.as_i64()
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn binding(divided: bool, replicas: i32, clusters: &[(&str, i32)], reported: &[(&str, Value)]) -> ResourceBinding {
        let type_ = if divided { "Divided" } else { "Duplicated" };
        let targets: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let reported: Vec<Value> = reported
            .iter()
            .map(|(name, status)| json!({"clusterName": name, "status": status, "applied": true}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "b", "namespace": "n", "generation": 4},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "web"},
                "replicas": replicas, "clusters": targets,
                "placement": {"replicaScheduling": {"replicaSchedulingType": type_}},
            },
            "status": {"schedulerObservedGeneration": 4, "aggregatedStatus": reported},
        }))
        .unwrap()
    }

    #[test]
    fn factors_of_bindings() {
        let both = BTreeSet::from(["m1", "m2"]);
        for (name, divided, replicas, clusters, reached, want) in [
            ("divided", true, 6, vec![("m1", 4), ("m2", 2)], both.clone(), Some("1")),
            ("divided, one is lost", true, 6, vec![("m1", 4), ("m2", 2)], ["m2"].into(), Some("2/6")),
            ("duplicated", false, 3, vec![("m1", 3), ("m2", 3)], both.clone(), Some("2")),
            ("replicas are not known: copied", true, 0, vec![("m1", 0), ("m2", 0)], both.clone(), Some("2")),
            ("the reached one runs none", true, 6, vec![("m1", 6)], ["m2"].into(), None),
        ] {
            let found = calibration(&binding(divided, replicas, &clusters, &[]).spec, &reached);
            assert_eq!(found.map(|k| k.to_string()).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn replicas_on_their_way() {
        let reports = |m1: i64, m2: i64| vec![("m1", json!({"replicas": m1})), ("m2", json!({"replicas": m2}))];
        let clusters = vec![("m1", 4), ("m2", 2)];
        let both = BTreeSet::from(["m1", "m2"]);
        for (name, current, generation, reported, reached, want) in [
            ("arrived", 6, 4, reports(4, 2), both.clone(), false),
            ("the binding has another number", 8, 4, reports(4, 2), both.clone(), true),
            ("the scheduler has not seen the binding", 6, 5, reports(4, 2), both.clone(), true),
            ("a member has another number", 6, 4, reports(3, 2), both.clone(), true),
            ("a member that is not reached does not matter", 6, 4, reports(3, 2), ["m2"].into(), false),
            ("a kind that does not report replicas", 6, 4, vec![("m1", json!({"size": 1}))], both.clone(), false),
        ] {
            let binding = binding(true, 6, &clusters, &reported);
            let found = is_settling(&binding.spec, binding.status.as_ref(), generation, current, &reached);
            assert_eq!(found, want, "{name}");
        }
        let unknown = binding(true, 0, &[("m1", 0)], &[]);
        assert!(!is_settling(&unknown.spec, unknown.status.as_ref(), 4, 3, &both), "replicas are not in the binding");
    }
}
