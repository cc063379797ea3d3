//! Check before each eviction that the workload would find another cluster (specification/failover.md 6.9), so that
//! hopeless evictions are not written. It asks the scheduler's own filters; which cluster it becomes the scheduler
//! decides later.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterAffinityTerm, Placement, ReplicaSchedulingType, SpreadByField, SpreadConstraint},
    work::{FailoverRecord, ResourceBindingSpec},
};
use ironclad_fleet::{
    Binding, ClusterName, Clusters, affinity,
    because::{
        eviction::NoTarget,
        schedule::{self, PassedOver, Refusal},
    },
};
use ironclad_scheduling::{Options, Peers, filter::Filter, groups, plugin::TargetState, trigger::responsible};
use jiff::Timestamp;

use crate::flags::eviction::Check;

/// Input of the check besides the binding, as the scheduler would see it.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    pub clusters: &'a Clusters,
    /// Flags and gates of the scheduler.
    pub scheduler: &'a Options,
    /// Groups of workloads; `None` while gate `WorkloadAffinity` is off.
    pub peers: Option<&'a Peers>,
    /// Time at which `tolerationSeconds` are evaluated.
    pub now: Timestamp,
}

/// Groups of workloads of these bindings, for a process that does not keep them; `None` while gate `WorkloadAffinity`
/// is off.
#[must_use]
pub fn peers<'a>(scheduler: &Options, bindings: impl IntoIterator<Item = &'a Binding>) -> Option<Peers> {
    let namespaced = bindings.into_iter().filter_map(|binding| match binding {
        Binding::Namespaced(binding) => Some(&**binding),
        Binding::Cluster(_) => None,
    });
    scheduler.workload_affinity.then(|| Peers::of(namespaced))
}

/// The clusters that could take the workload in the place of those that are left out: ready, not being deleted, and
/// passing the scheduler's filters, with ordered groups in the one in use or a later one (IR-26). Clusters in which
/// dispatching is suspended are none.
#[must_use]
pub fn candidates<'a>(
    binding: &Binding,
    placement: &Placement,
    left_out: &BTreeSet<ClusterName>,
    snapshot: &Snapshot<'a>,
) -> Vec<&'a Arc<Cluster>> {
    let test = Test::of(binding, placement, snapshot);
    let others = snapshot.clusters.iter().filter(|(name, _)| !left_out.contains(*name));
    others.filter(|(name, cluster)| test.refusal(name, cluster).is_none()).map(|(_, cluster)| cluster).collect()
}

/// Reasons why the clusters that are not left out could not take the workload. Clusters that its affinity does not
/// choose are not among them.
#[must_use]
pub fn refusals(
    binding: &Binding,
    left_out: &BTreeSet<ClusterName>,
    snapshot: &Snapshot<'_>,
) -> BTreeMap<ClusterName, String> {
    let everything = Placement::default();
    let placement = binding.spec().placement.as_deref().unwrap_or(&everything);
    let test = Test::of(binding, placement, snapshot);
    let others = snapshot.clusters.iter().filter(|(name, _)| !left_out.contains(*name));
    let refused = others.filter_map(|(name, cluster)| Some((name.clone(), test.refusal(name, cluster)?)));
    refused
        .filter(|(_, why)| *why != NotUsable::Filter(Refusal::Affinity))
        .map(|(n, why)| (n, why.to_string()))
        .collect()
}

/// Reason why a cluster can't take a workload now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NotUsable {
    Leaving,
    NotReady,
    NotDispatched,
    EarlierGroup(PassedOver),
    Filter(Refusal),
}

impl fmt::Display for NotUsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("is being removed from the fleet"),
            Self::NotReady => f.write_str("is not ready"),
            Self::NotDispatched => f.write_str("dispatching to it is suspended"),
            Self::EarlierGroup(over) => write!(f, "{over}; a WorkloadRebalancer starts with the first"),
            // Messages of several clusters begin with them.
            Self::Filter(refusal) => f.write_str(refusal.to_string().trim_start_matches("cluster(s) ")),
        }
    }
}

/// Test whether clusters can take one workload.
struct Test<'a> {
    binding: &'a Binding,
    peers: Option<&'a Peers>,
    spec: &'a ResourceBindingSpec,
    placement: &'a Placement,
    history: &'a [FailoverRecord],
    /// Affinity groups that may be used; one that is `None` without groups.
    terms: Vec<Option<&'a ClusterAffinityTerm>>,
    /// Name of the group in use.
    in_use: Option<&'a str>,
    scheduler: &'a Options,
    now: Timestamp,
}

impl<'a> Test<'a> {
    fn of(binding: &'a Binding, placement: &'a Placement, snapshot: &'a Snapshot<'_>) -> Self {
        let observed = binding.status().map_or("", |status| status.scheduler_observed_affinity_name.as_str());
        let affinities = &placement.cluster_affinities;
        let from = groups::observed(affinities, observed);
        let grouped = placement.cluster_affinity.is_none() && !affinities.is_empty();
        Self {
            binding,
            peers: snapshot.peers,
            spec: binding.spec(),
            placement,
            history: binding.status().map_or(&[][..], |status| &status.failover_history),
            terms: if grouped { affinities.iter().skip(from).map(Some).collect() } else { vec![None] },
            in_use: grouped.then_some(observed),
            scheduler: snapshot.scheduler,
            now: snapshot.now,
        }
    }

    /// The first reason against a cluster; that of the last affinity group if none of them chooses it.
    fn refusal(&self, name: &ClusterName, cluster: &Cluster) -> Option<NotUsable> {
        let suspended =
            self.spec.suspension.as_ref().and_then(|suspension| suspension.dispatching_on_clusters.as_ref());
        if cluster.metadata.deletion_timestamp.is_some() {
            return Some(NotUsable::Leaving);
        }
        let state = if self.spec.target(&name.0).is_some() { TargetState::Target } else { TargetState::New };
        let mut refused = None;
        for group in &self.terms {
            let (spec, placement, history, now) = (self.spec, self.placement, self.history, self.now);
            let plugins = self.scheduler.plugins;
            let filter = Filter { spec, placement, group: *group, plugins, history, now };
            let by_peers = || self.peers.map_or(Ok(()), |peers| peers.test(self.binding.view(), &name.0, state));
            match filter.test(cluster, state).and_then(|_| by_peers()) {
                Ok(_) => {
                    refused = None;
                    break;
                }
                // That a group does not choose it says less than what another group has against it.
                Err(Refusal::Affinity) if refused.is_some() => {}
                Err(why) => refused = Some(why),
            }
        }
        if refused == Some(Refusal::Affinity) {
            let over = self.in_use.and_then(|in_use| groups::passed_over(self.placement, in_use, cluster));
            return over.map(NotUsable::EarlierGroup).or(refused.map(NotUsable::Filter));
        }
        if !cluster.is_ready() {
            return Some(NotUsable::NotReady);
        }
        if suspended.is_some_and(|on| on.cluster_names.iter().any(|suspended| **suspended == *name.0)) {
            return Some(NotUsable::NotDispatched);
        }
        refused.map(NotUsable::Filter)
    }
}

/// Checks that an eviction would be answered: by a scheduler that places the binding anew, and by new Works.
fn is_answered(binding: &Binding, scheduler: &Options) -> Result<(), NoTarget> {
    let spec = binding.spec();
    match responsible(binding.into(), scheduler) {
        // A scheduler of another name that has answered the present spec will answer the eviction, too.
        Err(schedule::Reason::NotResponsible { .. }) if binding.is_observed() && !spec.scheduling_suspended() => {}
        Err(why) => return Err(NoTarget::NotScheduled { why: why.to_string() }),
        Ok(()) => {}
    }
    if spec.suspension.as_ref().is_some_and(|suspension| suspension.dispatching == Some(true)) {
        return Err(NoTarget::NotDispatched);
    }
    Ok(())
}

/// The first cluster that could take the workload but for its groups.
fn barred_by_groups(
    binding: &Binding,
    placement: &Placement,
    left_out: &BTreeSet<ClusterName>,
    snapshot: &Snapshot<'_>,
) -> Option<NoTarget> {
    snapshot.peers?;
    let test = Test::of(binding, placement, snapshot);
    let others = snapshot.clusters.iter().filter(|(name, _)| !left_out.contains(*name));
    let mut refused = others.filter_map(|(name, cluster)| Some((name, test.refusal(name, cluster)?)));
    refused.find_map(|(name, why)| match why {
        NotUsable::Filter(refusal @ (Refusal::WithoutPeer { .. } | Refusal::BesidePeer { .. })) => {
            Some(NoTarget::BarredByGroups { cluster: name.clone(), refusal })
        }
        _ => None,
    })
}

/// True if the workload of this binding has a target when it leaves these clusters.
///
/// # Errors
/// The reason why it has none.
pub fn has_target(
    binding: &Binding,
    left_out: &BTreeSet<ClusterName>,
    snapshot: &Snapshot<'_>,
    check: Check,
) -> Result<(), NoTarget> {
    if check == Check::Off {
        return Ok(());
    }
    is_answered(binding, snapshot.scheduler)?;
    let spec = binding.spec();
    let everything = Placement::default();
    let placement = spec.placement.as_deref().unwrap_or(&everything);
    let candidates = candidates(binding, placement, left_out, snapshot);
    if candidates.is_empty() {
        return Err(barred_by_groups(binding, placement, left_out, snapshot).unwrap_or(NoTarget::NoCandidate));
    }
    let is_target = |cluster: &&&Arc<Cluster>| spec.target(name_of(cluster)).is_some();
    let all_in_use = || candidates.iter().filter(is_target).count() == candidates.len();
    let divided = placement.replica_scheduling_type() == ReplicaSchedulingType::Divided;
    if spec.is_workload() && divided {
        return if check == Check::Strict && all_in_use() {
            Err(NoTarget::AllInUse { candidates: candidates.len() })
        } else {
            Ok(())
        };
    }
    if placement.spread_constraints.is_empty() {
        return match check {
            Check::Strict => Err(NoTarget::NoSpreadConstraint),
            _ if all_in_use() => Err(NoTarget::AllInUse { candidates: candidates.len() }),
            _ => Ok(()),
        };
    }
    for constraint in &placement.spread_constraints {
        let found = group_count(constraint, &candidates);
        let wanted = constraint.min_groups.max(1);
        if usize::try_from(wanted).is_ok_and(|wanted| wanted > found) {
            return Err(NoTarget::TooFewGroups { by: grouped_by(constraint), wanted, found });
        }
    }
    Ok(())
}

/// Available replicas of a binding in a cluster; `None` if unknown.
pub type AvailableReplicas<'a> = &'a dyn Fn(&ResourceBindingSpec, &ClusterName) -> Option<i64>;

/// True if candidate clusters have available replicas for those that the workload loses with `from` (14.2): all of them
/// together where replicas are divided, else one that does not run it yet. Unknown capacity counts as sufficient.
///
/// # Errors
/// Number of missing replicas.
pub fn has_capacity(
    binding: &Binding,
    from: &ClusterName,
    left_out: &BTreeSet<ClusterName>,
    snapshot: &Snapshot<'_>,
    available: AvailableReplicas<'_>,
) -> Result<(), NoTarget> {
    let spec = binding.spec();
    let everything = Placement::default();
    let placement = spec.placement.as_deref().unwrap_or(&everything);
    let divided = placement.replica_scheduling_type() == ReplicaSchedulingType::Divided;
    let lost = spec.target(&from.0).map_or(0, |target| i64::from(target.replicas));
    // A set of components is one thing.
    let wanted = if lost == 0 && !spec.components.is_empty() { 1 } else { lost };
    if !spec.is_workload() || wanted == 0 {
        return Ok(());
    }
    let mut takers = candidates(binding, placement, left_out, snapshot);
    // Duplicated replicas: one more copy in a cluster without one.
    takers.retain(|cluster| divided || spec.target(name_of(cluster)).is_none());
    let fits: Option<Vec<i64>> = takers.iter().map(|cluster| available(spec, &name_of(cluster).into())).collect();
    let Some(fits) = fits.filter(|fits| !fits.is_empty()) else { return Ok(()) };
    let found = if divided {
        fits.iter().fold(0, |sum: i64, fits| sum.saturating_add(*fits))
    } else {
        fits.into_iter().max().unwrap_or(0)
    };
    if found < wanted { Err(NoTarget::InsufficientCapacity { wanted, found }) } else { Ok(()) }
}

fn name_of(cluster: &Cluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

fn grouped_by(constraint: &SpreadConstraint) -> String {
    match constraint.spread_by_field {
        Some(SpreadByField::Region) => "region".to_owned(),
        Some(SpreadByField::Zone) => "zone".to_owned(),
        Some(SpreadByField::Provider) => "provider".to_owned(),
        Some(SpreadByField::Cluster) => "cluster".to_owned(),
        None if constraint.spread_by_label.is_empty() => "cluster".to_owned(),
        None => format!("label {}", constraint.spread_by_label),
    }
}

/// Number of groups of the constraint among the candidates; a cluster without the value counts for none.
fn group_count(constraint: &SpreadConstraint, candidates: &[&Arc<Cluster>]) -> usize {
    let distinct = |values: &dyn Fn(&Cluster) -> Vec<String>| {
        let all: BTreeSet<String> = candidates.iter().flat_map(|cluster| values(cluster)).collect();
        all.len()
    };
    let some = |value: &str| if value.is_empty() { Vec::new() } else { vec![value.to_owned()] };
    match constraint.spread_by_field {
        Some(SpreadByField::Region) => distinct(&|cluster| some(&cluster.spec.region)),
        Some(SpreadByField::Provider) => distinct(&|cluster| some(&cluster.spec.provider)),
        Some(SpreadByField::Zone) => distinct(&|cluster| affinity::zones(cluster).to_vec()),
        None if !constraint.spread_by_label.is_empty() => distinct(&|cluster| {
            let labels = cluster.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(&constraint.spread_by_label)).cloned().into_iter().collect()
        }),
        Some(SpreadByField::Cluster) | None => candidates.len(),
    }
}

#[cfg(test)]
mod tests;
