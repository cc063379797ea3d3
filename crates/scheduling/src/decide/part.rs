//! Result of a workload that leaves a cluster directly while only a part of its replicas has room elsewhere: what fits
//! moves, and the rest stays (specification/failover.md 4.4).

use std::collections::BTreeSet;

use ironclad_api::{
    policy::PurgeMode,
    work::{GracefulEvictionTask, ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{
    BindingRef, ClusterName,
    targets::{old_copies, preserves_state, staying},
};
use jiff::Timestamp;

use crate::{
    Class, Failure, Seen,
    cycle::{self, Trace, divides_by_capacity},
};

/// Part of the replicas of a workload that moves while the others stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The result.
    pub targets: Vec<TargetCluster>,
    /// Replicas that move.
    pub moves: i32,
    /// Replicas that stay in clusters that are being left.
    pub stays: i32,
}

/// Returns whether a part of the replicas may leave a cluster directly while the others stay: they are divided by
/// capacity, no state is handed over with them, and dispatching is not suspended (specification/failover.md 4.4).
#[must_use]
pub fn moves_in_part(spec: &ResourceBindingSpec) -> bool {
    let suspension = spec.suspension.as_ref();
    spec.placement.as_ref().is_some_and(|placement| divides_by_capacity(placement))
        && spec.components.len() <= 1
        && !preserves_state(spec)
        && suspension.is_none_or(|all| all.dispatching != Some(true) && all.dispatching_on_clusters.is_none())
}

/// Returns whether a result has a place for a part of the replicas only.
pub(super) fn is_partial(spec: &ResourceBindingSpec, targets: &[TargetCluster]) -> bool {
    let placed = targets.iter().fold(0_i32, |sum, target| sum.saturating_add(target.replicas));
    spec.placement.as_ref().is_some_and(|placement| divides_by_capacity(placement)) && placed < spec.replicas
}

/// The largest part of the replicas that fits, as if the clusters `without` did not exist, if the others may stay in
/// ready clusters that the binding is leaving. `failure` is that of a cycle for all of them.
#[must_use]
pub fn part_that_fits(
    seen: &Seen<'_>,
    without: &BTreeSet<ClusterName>,
    failure: &Failure,
    now: Timestamp,
) -> Option<Part> {
    let BindingRef::Namespaced(binding) = seen.binding else { return None };
    let spec = &binding.spec;
    if failure.class() != Class::InsufficientCapacity || !moves_in_part(spec) {
        return None;
    }
    let left = old_copies(spec).filter(|task| {
        task.purge_mode == Some(PurgeMode::Directly)
            && spec.target(&task.from_cluster).is_none()
            && runs_on(seen, &task.from_cluster)
    });
    let may_stay = left.fold(0_i32, |sum, task| sum.saturating_add(task.replicas.unwrap_or(0).max(0)));
    let present = spec.clusters.iter().fold(0_i32, |sum, target| sum.saturating_add(target.replicas));
    let lacking = spec.replicas.saturating_sub(present);
    let mut reduced: ResourceBinding = binding.clone();
    let mut less = |rest: i32| {
        reduced.spec.replicas = spec.replicas - rest;
        let seen = Seen { binding: (&reduced).into(), ..*seen };
        let (mut because, mut on_event) = (Vec::new(), |_| {});
        let mut trace = Trace::of(&seen, &mut because, &mut on_event);
        let found = cycle::search(&seen, without, now, &mut trace, &mut Vec::new()).ok()?;
        Some(Part { targets: found.targets, moves: lacking - rest, stays: rest.min(may_stay) })
    };
    // The fewer move, the sooner they fit: the least rest is between these two.
    let (mut too_few, mut enough) = (0, lacking - 1);
    if may_stay < 1 || enough < 1 {
        return None;
    }
    let mut best = less(enough)?;
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        match less(middle) {
            Some(part) => (best, enough) = (part, middle),
            None => too_few = middle,
        }
    }
    Some(best)
}

/// The eviction tasks of a workload with this result: those whose copies stay in part name the replicas that stay, so
/// that these do not grow again when the workload is scaled up.
pub(super) fn tasks(spec: &ResourceBindingSpec, targets: &[TargetCluster]) -> Vec<GracefulEvictionTask> {
    let staying = staying(&ResourceBindingSpec { clusters: targets.to_vec(), ..spec.clone() });
    let mut tasks = spec.graceful_eviction_tasks.clone();
    for task in &mut tasks {
        if let Some(copy) = staying.iter().find(|copy| *copy.cluster.0 == *task.from_cluster) {
            task.replicas = Some(copy.replicas);
        }
    }
    tasks
}

/// Sentence about the replicas that stay in clusters that the binding is leaving, with this result; empty if none do.
pub(super) fn sentence(seen: &Seen<'_>, targets: &[TargetCluster]) -> String {
    let spec = seen.binding.spec();
    if spec.graceful_eviction_tasks.is_empty() {
        return String::new();
    }
    let with_result = ResourceBindingSpec { clusters: targets.to_vec(), ..spec.clone() };
    let stay = staying(&with_result).into_iter().filter(|copy| copy.replicas > 0 && runs_on(seen, &copy.cluster.0));
    let stay: Vec<String> = stay.map(|copy| format!("{} in {}", copy.replicas, copy.cluster)).collect();
    if stay.is_empty() {
        String::new()
    } else {
        format!(" Replicas that stay until others have room: {}.", stay.join(", "))
    }
}

/// Returns whether an old copy may still run in this cluster, which is ready.
fn runs_on(seen: &Seen<'_>, cluster: &str) -> bool {
    let reported = seen.binding.status().map_or(&[][..], |status| &status.aggregated_status);
    let found = seen.clusters.get(&ClusterName::from(cluster));
    found.is_some_and(|cluster| cluster.is_ready() && cluster.metadata.deletion_timestamp.is_none())
        && reported.iter().any(|item| item.cluster_name == *cluster)
}
