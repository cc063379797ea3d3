//! Wait for the scheduler after an edit that changed replicas (specification/propagation.md 1.1).
//!
//! Without it an edit of replicas and template would write each Work twice: with the new template and the old schedule
//! result, and with the new result.

use std::time::Duration;

use ironclad_api::{policy::ReplicaSchedulingType, work::ResourceBindingSpec};

use crate::detector::binding::Binding;

/// Longest wait for the scheduler. A workload that cannot be scheduled must not keep edits of the template from the
/// members.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(1);

/// Returns true if the scheduler is about to change the schedule result (specification/scheduling.md 2.4).
pub(super) fn is_pending(binding: Binding<'_>) -> bool {
    let spec = binding.spec();
    let observed = binding.status().is_some_and(|status| {
        status.scheduler_observed_generation != 0
            && Some(status.scheduler_observed_generation) == binding.metadata().generation
    });
    let suspended = spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true));
    spec.placement.is_some()
        && !spec.clusters.is_empty()
        && spec.is_workload()
        && spec.components.is_empty()
        && !suspended
        && !observed
        && shares_differ(spec)
}

fn shares_differ(spec: &ResourceBindingSpec) -> bool {
    let scheduling = spec.placement.as_ref().and_then(|placement| placement.replica_scheduling.as_ref());
    match scheduling.map(|s| s.replica_scheduling_type.unwrap_or_default()) {
        Some(ReplicaSchedulingType::Divided) => {
            spec.clusters.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != i64::from(spec.replicas)
        }
        Some(ReplicaSchedulingType::Duplicated) | None => {
            spec.clusters.iter().any(|target| target.replicas != spec.replicas)
        }
    }
}
