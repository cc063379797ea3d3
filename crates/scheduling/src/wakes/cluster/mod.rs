//! Changes of a cluster that enqueue bindings in the scheduler (specification/scheduling.md 2.1).

use ironclad_api::{
    annotations::DRAINING,
    cluster::{ApiEnablement, Cluster, ClusterStatus},
    conditions::{
        self,
        cluster::{COMPLETE_API_ENABLEMENTS, READY},
    },
};
use ironclad_fleet::{BindingRef, ClusterName};
use jiff::Timestamp;

use crate::{
    Capacity, Options, Since,
    cycle::available_replicas,
    filter::Filter,
    groups,
    plugin::TargetState,
    spread::Topology,
    trigger::{chooses, responsible},
};

/// Bindings that a change of a cluster enqueues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakes {
    /// None.
    Nobody,
    /// Those that the old or new cluster [`concerns`].
    Concerned,
    /// Those of them without a final placement: they have no result, are not scheduled, or have pending evictions.
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

/// Returns what a change of a cluster means for the next cycle of a binding; `None` if it does not enqueue the binding.
/// `wakes` is [`wakes`] of the change. `is_unschedulable` tells if the binding waits because its last attempt found no
/// place: it is asked only if the answer counts.
#[must_use]
pub fn enqueues(
    binding: BindingRef<'_>,
    old: Option<&Cluster>,
    new: Option<&Cluster>,
    wakes: Wakes,
    is_unschedulable: impl FnOnce() -> bool,
    options: &Options,
    now: Timestamp,
) -> Option<Since> {
    if wakes == Wakes::Nobody || ![old, new].into_iter().flatten().any(|cluster| concerns(binding, cluster, options)) {
        return None;
    }
    let is_target = |cluster: &Cluster| binding.spec().target(cluster.metadata.name.as_deref()?);
    let enqueued = if wakes == Wakes::Unsettled {
        is_unsettled(binding)
    } else {
        let waits = new.or(old).and_then(is_target).is_none() && is_unschedulable();
        !waits || may_help(binding, old, new, options, now)
    };
    enqueued.then(|| since(binding, old, new))
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
fn since(binding: BindingRef<'_>, old: Option<&Cluster>, new: Option<&Cluster>) -> Since {
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

/// Returns whether a change of a cluster may help a binding whose last attempt failed, so that it is worth another one:
/// the cluster passes the filters now and did not before, or its place in the topology changed, or the value of a label
/// that it is spread by (specification/scheduling.md 14.1, 16.2). More capacity is reported apart from that: see
/// [`may_fit`]. For any other change the binding goes on waiting, so that thousands of waiting bindings are not tried
/// again for one label.
fn may_help(
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
pub(crate) fn is_unsettled(binding: BindingRef<'_>) -> bool {
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
