//! Triggers of scheduling: whether a reconciled binding is scheduled (specification/scheduling.md 2).

use std::sync::Arc;

use ironclad_api::{
    annotations::APPLIED_PLACEMENT,
    cluster::Cluster,
    conditions,
    labels::{BINDING_MANAGED_BY, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID},
    policy::{ClusterAffinityTerm, DEFAULT_SCHEDULER_NAME, Placement, ReplicaSchedulingType},
    work::{ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{BindingRef, ClusterName, affinity, because::schedule::Reason};

use crate::{Options, Seen, cycle::component_targets, groups, options::schedules_component_sets};

/// Decision on running a scheduling cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleDecision {
    /// A cycle runs, for this reason.
    Schedule(Reason),
    /// The result is up to date; at most the status is written.
    UpToDate,
    /// The binding is not changed, for this reason.
    Skip(Reason),
}

/// Checks whether this scheduler is responsible for the binding: its scheduler name, suspension, and an owner
/// (specification/scheduling.md 2.1).
///
/// # Errors
/// The reason why it is not.
pub fn responsible(binding: BindingRef<'_>, options: &Options) -> Result<(), Reason> {
    let named = &binding.spec().scheduler_name;
    let named = if named.is_empty() { DEFAULT_SCHEDULER_NAME } else { named };
    if named != options.scheduler_name {
        return Err(Reason::NotResponsible { scheduler: named.to_owned() });
    }
    if binding.spec().scheduling_suspended() {
        return Err(Reason::Suspended);
    }
    let owners = [PROPAGATION_POLICY_PERMANENT_ID, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, BINDING_MANAGED_BY];
    let labels = binding.metadata().labels.as_ref();
    let owned = |key: &&str| labels.and_then(|labels| labels.get(*key)).is_some_and(|value| !value.is_empty());
    if owners.iter().any(owned) { Ok(()) } else { Err(Reason::Unmanaged) }
}

/// Returns true if a cycle runs at every reconcile: for what is not divided (specification/scheduling.md 2.2, row 6).
pub(crate) fn follows_fleet(spec: &ResourceBindingSpec, placement: &Placement) -> bool {
    !spec.is_workload() || placement.replica_scheduling_type() != ReplicaSchedulingType::Divided
}

/// Decides whether to schedule: the first row of the table that applies (specification/scheduling.md 2.2).
#[must_use]
pub fn schedule_decision(seen: &Seen<'_>) -> ScheduleDecision {
    let binding = seen.binding;
    let spec = binding.spec();
    if let Err(reason) = responsible(binding, seen.options) {
        return ScheduleDecision::Skip(reason);
    }
    if binding.metadata().deletion_timestamp.is_some() {
        return ScheduleDecision::Skip(Reason::BeingDeleted);
    }
    let Some(placement) = &spec.placement else { return ScheduleDecision::Skip(Reason::NoPlacement) };
    if placement_changed(placement, applied_placement(binding), binding.observed_group()) {
        return ScheduleDecision::Schedule(Reason::PlacementChanged);
    }
    if replicas_changed(seen, placement) {
        return ScheduleDecision::Schedule(Reason::ReplicasChanged);
    }
    if binding.reschedule_required() {
        return ScheduleDecision::Schedule(Reason::RescheduleRequested);
    }
    if seen.since.api_appeared {
        return ScheduleDecision::Schedule(Reason::ApiAppeared);
    }
    if follows_fleet(spec, placement) {
        return ScheduleDecision::Schedule(Reason::FollowsFleet);
    }
    if let Some(cluster) = spec.clusters.iter().find(|target| is_leaving(seen, &target.name)) {
        return ScheduleDecision::Schedule(Reason::TargetLeaving { cluster: cluster.name.as_str().into() });
    }
    if seen.options.follow_drift
        && let Some(cluster) = drifted(seen, placement)
    {
        return ScheduleDecision::Schedule(Reason::TargetDrifted { cluster });
    }
    // A failed attempt without a result looks like an empty result.
    let failed = binding.scheduled().is_some_and(|condition| condition.status == conditions::FALSE);
    if failed && spec.clusters.is_empty() {
        ScheduleDecision::Schedule(Reason::LastAttemptFailed)
    } else {
        ScheduleDecision::UpToDate
    }
}

/// Returns whether a target is being deleted or does not exist (specification/scheduling.md 16.23).
pub(crate) fn is_leaving(seen: &Seen<'_>, target: &str) -> bool {
    let cluster = seen.clusters.get(&ClusterName::from(target));
    cluster.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some())
}

fn drifted(seen: &Seen<'_>, placement: &Placement) -> Option<ClusterName> {
    let names = seen.binding.spec().clusters.iter().map(|target| ClusterName::from(target.name.as_str()));
    names.into_iter().find(|name| {
        let chosen = |cluster: &Arc<Cluster>| chooses(placement, seen.binding.observed_group(), cluster);
        seen.clusters.get(name).is_some_and(|cluster| !chosen(cluster))
    })
}

/// Returns true if a binding with this placement, in its observed affinity group, selects the cluster.
pub(crate) fn chooses(placement: &Placement, observed_group: &str, cluster: &Cluster) -> bool {
    if let Some(own) = &placement.cluster_affinity {
        return affinity::chooses(own, cluster);
    }
    let Some(group) = placement.cluster_affinities.get(groups::observed(&placement.cluster_affinities, observed_group))
    else {
        return true;
    };
    affinity::chooses(&group.affinity, cluster)
        || group.overflow_affinities.iter().any(|tier| affinity::chooses(&tier.affinity, cluster))
}

/// Annotation with the placement of the present result.
pub(crate) fn applied_placement<'a>(binding: BindingRef<'a>) -> &'a str {
    binding.metadata().annotations.as_ref().and_then(|all| all.get(APPLIED_PLACEMENT)).map_or("", String::as_str)
}

/// Returns whether the placement differs from the one of the present result (specification/scheduling.md 2.3); an
/// unreadable one counts as changed (specification/scheduling.md 16.17).
#[must_use]
pub fn placement_changed(placement: &Placement, applied: &str, observed_group: &str) -> bool {
    let Ok(applied) = serde_json::from_str::<Placement>(applied) else { return true };
    if *placement == applied {
        return false;
    }
    if placement.cluster_affinity != applied.cluster_affinity
        || placement.cluster_tolerations != applied.cluster_tolerations
        || placement.spread_constraints != applied.spread_constraints
        || placement.replica_scheduling != applied.replica_scheduling
    {
        return true;
    }
    let (wanted, applied) = (in_use(placement, observed_group), in_use(&applied, observed_group));
    observed_group.is_empty() || wanted.is_none() || applied.is_none() || wanted != applied
}

fn in_use<'a>(placement: &'a Placement, observed_group: &str) -> Option<&'a ClusterAffinityTerm> {
    placement.cluster_affinities.iter().find(|group| group.affinity_name == observed_group)
}

/// Returns whether the result does not add up to the desired replicas (specification/scheduling.md 2.4; with components
/// 16.10).
#[must_use]
pub fn replicas_changed(seen: &Seen<'_>, placement: &Placement) -> bool {
    let spec = seen.binding.spec();
    if seen.options.component_scheduling && !spec.components.is_empty() {
        let wanted = component_targets(spec);
        let outdated = |targets: &[TargetCluster]| targets.iter().any(|t| t.components != wanted);
        return spec.clusters.is_empty()
            || (schedules_component_sets(seen.options, spec, placement) && outdated(&spec.clusters));
    }
    if placement.replica_scheduling.is_none() {
        return false;
    }
    match placement.replica_scheduling_type() {
        ReplicaSchedulingType::Duplicated => spec.clusters.iter().any(|target| target.replicas != spec.replicas),
        ReplicaSchedulingType::Divided => {
            spec.clusters.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != i64::from(spec.replicas)
        }
    }
}

#[cfg(test)]
mod tests;
