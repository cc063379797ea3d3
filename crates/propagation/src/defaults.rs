//! Defaults that admission and the CRDs set (specification/propagation.md 3, specification/api.md 15.1 and 19).
//!
//! Decisions apply them when they read a spec, since a stored object may be older than the webhook. Idempotent.

use ironclad_api::policy::{
    ConflictResolution, FailoverBehavior, Placement, PolicyPreemption, PropagationSpec, PurgeMode,
    ReplicaDivisionPreference, ReplicaSchedulingType, SpreadByField,
};

const TOLERATION_SECONDS: i32 = 300;
const GRACE_PERIOD_SECONDS: i32 = 600;

/// Sets the defaults of a policy's spec. `namespace` is that of a PropagationPolicy, `None` for a
/// ClusterPropagationPolicy.
pub fn policy(spec: &mut PropagationSpec, namespace: Option<&str>) {
    spec.priority.get_or_insert(0);
    spec.preemption.get_or_insert(PolicyPreemption::Never);
    spec.conflict_resolution.get_or_insert(ConflictResolution::Abort);
    if spec.scheduler_name.is_empty() {
        spec.scheduler_name = spec.scheduler_name().to_owned();
    }
    for selector in &mut spec.resource_selectors {
        if let Some(namespace) = namespace.filter(|_| selector.namespace.is_empty()) {
            namespace.clone_into(&mut selector.namespace);
        }
        if selector.api_version == "multicluster.x-k8s.io/v1alpha1" && selector.kind == "ServiceImport" {
            spec.propagate_deps = true;
        }
    }
    placement(&mut spec.placement);
    if let Some(behavior) = &mut spec.failover {
        failover(behavior);
    }
}

/// Sets the defaults of a placement.
pub fn placement(placement: &mut Placement) {
    for constraint in &mut placement.spread_constraints {
        if constraint.spread_by_field.is_none() && constraint.spread_by_label.is_empty() {
            constraint.spread_by_field = Some(SpreadByField::Cluster);
        }
        if constraint.min_groups == 0 {
            constraint.min_groups = 1;
        }
    }
    if let Some(strategy) = &mut placement.replica_scheduling {
        let type_ = strategy.replica_scheduling_type.get_or_insert(ReplicaSchedulingType::Divided);
        if *type_ == ReplicaSchedulingType::Divided {
            strategy.replica_division_preference.get_or_insert(ReplicaDivisionPreference::Weighted);
        }
    }
}

/// Sets the defaults of a failover behaviour, of a policy or a binding.
pub fn failover(failover: &mut FailoverBehavior) {
    if let Some(application) = &mut failover.application {
        application.decision_conditions.toleration_seconds.get_or_insert(TOLERATION_SECONDS);
        if *application.purge_mode.get_or_insert(PurgeMode::Gracefully) == PurgeMode::Gracefully {
            application.grace_period_seconds.get_or_insert(GRACE_PERIOD_SECONDS);
        }
    }
    if let Some(cluster) = &mut failover.cluster {
        cluster.purge_mode.get_or_insert(PurgeMode::Gracefully);
        cluster.toleration_seconds.get_or_insert(TOLERATION_SECONDS);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn defaults_are_set() {
        let base = |extra: Value| {
            let mut full = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}});
            full.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            full
        };
        for (name, spec, pointer, want) in [
            ("the selector's namespace", base(json!({})), "/resourceSelectors/0/namespace", json!("prod")),
            ("priority", base(json!({})), "/priority", json!(0)),
            ("preemption", base(json!({})), "/preemption", json!("Never")),
            ("conflict resolution", base(json!({})), "/conflictResolution", json!("Abort")),
            ("the scheduler", base(json!({})), "/schedulerName", json!("default-scheduler")),
            (
                "spread by cluster, one group at least",
                base(json!({"placement": {"spreadConstraints": [{}, {"spreadByLabel": "x", "minGroups": 2}]}})),
                "/placement/spreadConstraints",
                json!([{"spreadByField": "cluster", "minGroups": 1}, {"spreadByLabel": "x", "minGroups": 2}]),
            ),
            (
                "a service import takes its dependencies along",
                base(
                    json!({"resourceSelectors": [{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}]}),
                ),
                "/propagateDeps",
                json!(true),
            ),
            (
                "divided by weight",
                base(json!({"placement": {"replicaScheduling": {}}})),
                "/placement/replicaScheduling",
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}),
            ),
            (
                "duplicated stays without a preference",
                base(json!({"placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}})),
                "/placement/replicaScheduling",
                json!({"replicaSchedulingType": "Duplicated"}),
            ),
            (
                "failover of the application",
                base(json!({"failover": {"application": {"decisionConditions": {}}}})),
                "/failover/application",
                json!({"decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600}),
            ),
            (
                "no grace period where nothing is graceful",
                base(
                    json!({"failover": {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Never"}}}),
                ),
                "/failover/application",
                json!({"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Never"}),
            ),
            (
                "failover of the cluster",
                base(json!({"failover": {"cluster": {}}})),
                "/failover/cluster",
                json!({"purgeMode": "Gracefully", "tolerationSeconds": 300}),
            ),
        ] {
            let mut typed: PropagationSpec = serde_json::from_value(spec).unwrap();
            policy(&mut typed, Some("prod"));
            assert_eq!(json!(typed).pointer(pointer), Some(&want), "{name}");
            let once = typed.clone();
            policy(&mut typed, Some("prod"));
            assert_eq!(typed, once, "{name}, twice");
        }
        let mut typed: PropagationSpec = serde_json::from_value(base(json!({}))).unwrap();
        policy(&mut typed, None);
        assert_eq!(typed.resource_selectors[0].namespace, "", "a cluster policy's selector stays open");
        assert!(typed.placement.replica_scheduling.is_none(), "a nested default needs its parent");
    }
}
