//! Triggers of scheduling: whether a reconciled binding is scheduled, and which cluster changes enqueue it
//! (specification/scheduling.md 2).

use std::sync::Arc;

use ironclad_api::{
    annotations::{APPLIED_PLACEMENT, DRAINING},
    cluster::{ApiEnablement, Cluster, ClusterStatus},
    conditions::{
        self,
        cluster::{COMPLETE_API_ENABLEMENTS, READY},
    },
    labels::{BINDING_MANAGED_BY, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID},
    policy::{ClusterAffinityTerm, DEFAULT_SCHEDULER_NAME, Placement, ReplicaSchedulingType},
    work::{ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{BindingRef, ClusterName, affinity, because::schedule::Reason};
use jiff::Timestamp;

use crate::{
    Capacity, Options, Seen, Since,
    cycle::{available_replicas, component_targets},
    filter::Filter,
    groups,
    options::schedules_component_sets,
    plugin::TargetState,
    spread::Topology,
};

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

/// Bindings that a change of a cluster enqueues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakes {
    /// None.
    Nobody,
    /// Those that the old or new cluster [`concerns`].
    Concerned,
    /// Those of them without a final placement: see [`is_unsettled`].
    Unsettled,
}

/// Returns the bindings that a cluster's change enqueues (specification/scheduling.md 2.1, and 16.2 for what upstream
/// misses). `None` is a cluster that does not exist.
#[must_use]
pub fn wakes(old: Option<&Cluster>, new: Option<&Cluster>) -> Wakes {
    let (Some(old), Some(new)) = (old, new) else { return Wakes::Concerned };
    let leaves = old.metadata.deletion_timestamp.is_none() && new.metadata.deletion_timestamp.is_some();
    let drains =
        |cluster: &Cluster| cluster.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRAINING));
    if drains(old) && !drains(new) {
        return Wakes::Concerned;
    }
    if leaves || old.metadata.labels != new.metadata.labels || old.metadata.generation != new.metadata.generation {
        return Wakes::Concerned;
    }
    let (before, after) = (old.status.as_ref(), new.status.as_ref());
    if before.map(|s| &s.api_enablements) != after.map(|s| &s.api_enablements) {
        return Wakes::Concerned;
    }
    let is = |status: Option<&ClusterStatus>, type_| status.is_some_and(|s| conditions::is_true(&s.conditions, type_));
    let turned = |type_| !is(before, type_) && is(after, type_);
    if turned(READY) || turned(COMPLETE_API_ENABLEMENTS) { Wakes::Unsettled } else { Wakes::Nobody }
}

/// Returns whether a cluster concerns a binding: it is a target, or the affinity selects it. With ordered groups the
/// group in use and its overflow tiers count (specification/scheduling.md 16.24); while the status lags behind the spec
/// every cluster concerns the binding.
#[must_use]
pub fn concerns(binding: BindingRef<'_>, cluster: &Cluster, options: &Options) -> bool {
    let Some(placement) = &binding.spec().placement else { return false };
    if responsible(binding, options).is_err() {
        return false;
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    if binding.spec().target(name).is_some() {
        return true;
    }
    let lags = !placement.cluster_affinities.is_empty() && binding.observed_generation() != binding.generation();
    lags || chooses(placement, binding.observed_group(), cluster)
}

/// Returns what a change of a cluster means for the next cycle of a binding that it enqueues.
#[must_use]
pub fn since(binding: BindingRef<'_>, old: Option<&Cluster>, new: Option<&Cluster>) -> Since {
    let (Some(old), Some(new)) = (old, new) else { return Since::default() };
    Since { api_appeared: api_appears(binding, old, new), relabelled: relabels(binding, old, new) }
}

/// Returns true if the cluster did not serve the kind of the binding's template, does now, and is no target. A divided
/// binding that was scheduled before counts the cluster then: a CustomResourceDefinition and its objects are often
/// applied together, and members report their kinds one after the other (specification/scheduling.md 2.2).
fn api_appears(binding: BindingRef<'_>, old: &Cluster, new: &Cluster) -> bool {
    let spec = binding.spec();
    let serves = |cluster: &Cluster| cluster.api_enablement(&spec.resource.api_version, &spec.resource.kind);
    spec.target(new.metadata.name.as_deref().unwrap_or_default()).is_none()
        && serves(old) == ApiEnablement::Disabled
        && serves(new) == ApiEnablement::Enabled
}

/// Returns true if labels changed while the binding is in a later affinity group. It stays there until it is asked to
/// return, and who is about to ask waits for the sign that the scheduler knows the labels (specification/scheduling.md
/// 16.26).
fn relabels(binding: BindingRef<'_>, old: &Cluster, new: &Cluster) -> bool {
    let groups = binding.spec().placement.as_ref().map_or(&[][..], |placement| &placement.cluster_affinities);
    groups::observed(groups, binding.observed_group()) > 0 && old.metadata.labels != new.metadata.labels
}

fn chooses(placement: &Placement, observed_group: &str, cluster: &Cluster) -> bool {
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

/// Returns whether a change of a cluster may help a binding whose last attempt failed, so that it is worth another one:
/// the cluster passes the filters now and did not before, or its place in the topology changed, or the value of a label
/// that it is spread by (specification/scheduling.md 14.1, 16.2). More capacity is reported apart from that: see
/// [`may_fit`]. For any other change the binding goes on waiting, so that thousands of waiting bindings are not tried
/// again for one label.
#[must_use]
pub fn may_help(
    binding: BindingRef<'_>,
    old: Option<&Cluster>,
    new: Option<&Cluster>,
    options: &Options,
    now: Timestamp,
) -> bool {
    let Some(new) = new else { return false };
    let constraints = binding.spec().placement.as_ref().map_or(&[][..], |placement| &placement.spread_constraints);
    let labels: Vec<Topology> =
        constraints.iter().filter_map(Topology::of).filter(|topology| matches!(topology, Topology::Label(_))).collect();
    let topology = |cluster: &Cluster| {
        let spec = &cluster.spec;
        let labels: Vec<String> =
            labels.iter().flat_map(|label| label.groups(cluster).iter()).map(str::to_owned).collect();
        (spec.region.clone(), spec.provider.clone(), spec.zone.clone(), spec.zones.clone(), labels)
    };
    passes(binding, new, options, now)
        && old.is_none_or(|old| topology(old) != topology(new) || !passes(binding, old, options, now))
}

/// Returns whether the cluster passes the filters for any affinity group of the binding.
fn passes(binding: BindingRef<'_>, cluster: &Cluster, options: &Options, now: Timestamp) -> bool {
    let spec = binding.spec();
    let Some(placement) = &spec.placement else { return false };
    if cluster.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let history = binding.status().map_or(&[][..], |status| &status.failover_history);
    let passes = |group| {
        let filter = Filter { spec, placement, group, plugins: options.plugins, history, now };
        filter.test(cluster, TargetState::New).is_ok()
    };
    if placement.cluster_affinity.is_some() || placement.cluster_affinities.is_empty() {
        return passes(None);
    }
    placement.cluster_affinities.iter().any(|group| passes(Some(group)))
}

/// Returns whether a binding has no result, is not scheduled, or has pending evictions.
#[must_use]
pub fn is_unsettled(binding: BindingRef<'_>) -> bool {
    binding.spec().clusters.is_empty() || !binding.spec().graceful_eviction_tasks.is_empty() || !binding.is_scheduled()
}

/// Returns whether a binding that waits for capacity may fit into a cluster whose capacity grew
/// (specification/scheduling.md 16.3).
#[must_use]
pub fn may_fit(binding: BindingRef<'_>, cluster: &Cluster, capacity: &Capacity, options: &Options) -> bool {
    let name = ClusterName::from(cluster.metadata.name.as_deref().unwrap_or_default());
    concerns(binding, cluster, options)
        && available_replicas(binding.spec(), &name, capacity, options).is_some_and(|replicas| replicas > 0)
}

#[cfg(test)]
mod tests;
