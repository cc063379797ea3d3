//! Taints, health and tasks: what specification/failover.md 13 says of one state (invariants 11, 19, 30; 7.7).

use std::collections::BTreeSet;

use ironclad_api::{
    cluster::SyncMode,
    conditions::{self, UNKNOWN},
    policy::{ReplicaSchedulingType, SpreadByField},
    work::{ResourceBindingSpec, ResourceBindingStatus},
};

use super::Violation;
use crate::{BindingKey, ClusterName, World};

/// Violations of clusters and of bindings' tasks.
pub(super) fn failover(world: &World, found: &mut Vec<Violation>) {
    for (name, cluster) in &world.clusters {
        let mut seen = BTreeSet::new();
        for taint in &cluster.spec.taints {
            if !seen.insert((&taint.key, &taint.effect)) {
                let taint = format!("{}:{}", taint.key, taint.effect);
                found.push(Violation::TaintTwice { cluster: name.clone(), taint });
            }
        }
        // Its prober is the control plane itself, which always knows.
        if cluster.spec.sync_mode == SyncMode::Push && cluster.ready() == Some(UNKNOWN) {
            found.push(Violation::PushUnknown { cluster: name.clone() });
        }
    }
    for (key, binding) in &world.bindings {
        if binding.metadata.deletion_timestamp.is_none() {
            tasks(key, &binding.spec, found);
            spread(key, binding.metadata.generation, &binding.spec, binding.status.as_ref(), found);
        }
    }
    for (key, binding) in &world.cluster_bindings {
        if binding.metadata.deletion_timestamp.is_none() {
            tasks(key, &binding.spec, found);
            spread(key, binding.metadata.generation, &binding.spec, binding.status.as_ref(), found);
        }
    }
}

fn tasks(key: &BindingKey, spec: &ResourceBindingSpec, found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for task in &spec.graceful_eviction_tasks {
        let cluster = ClusterName::from(task.from_cluster.as_str());
        if !seen.insert(&task.from_cluster) {
            found.push(Violation::TaskTwice { binding: key.clone(), cluster: cluster.clone() });
        }
        if spec.target(&task.from_cluster).is_some() && task.suppress_deletion != Some(true) {
            found.push(Violation::TaskOfTarget { binding: key.clone(), cluster });
        }
    }
}

/// A whole copy in as many clusters as the constraint asks for, once the scheduler says that it has finished.
fn spread(
    key: &BindingKey,
    generation: Option<i64>,
    spec: &ResourceBindingSpec,
    status: Option<&ResourceBindingStatus>,
    found: &mut Vec<Violation>,
) {
    let finished = status.is_some_and(|status| {
        Some(status.scheduler_observed_generation) == generation
            && conditions::is_true(&status.conditions, conditions::binding::SCHEDULED)
    });
    let counts = finished && !(spec.is_scaled_to_zero() && spec.clusters.is_empty());
    let Some(placement) = spec.placement.as_ref().filter(|_| counts) else { return };
    if placement.replica_scheduling_type() != ReplicaSchedulingType::Duplicated {
        return;
    }
    for constraint in &placement.spread_constraints {
        let (wanted, placed) = (constraint.min_groups, spec.clusters.len());
        let too_few = i64::try_from(placed).is_ok_and(|placed| placed < wanted);
        if constraint.spread_by_field == Some(SpreadByField::Cluster) && too_few {
            found.push(Violation::SpreadTooSmall { binding: key.clone(), wanted, placed });
        }
    }
}
