//! True if a workload would find another cluster (specification/failover.md 6.9): asked before each eviction, so that
//! nothing leaves for nowhere. The scheduler decides; this only keeps hopeless evictions from being written.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    cluster::{ApiEnablement, Cluster},
    policy::{Placement, ReplicaSchedulingType, SpreadByField, SpreadConstraint},
    work::ResourceBindingSpec,
};
use ironclad_fleet::{
    Binding, ClusterName, Clusters, affinity,
    because::eviction::NoTarget,
    taint::{Failover, repelling},
};

use crate::flags::eviction::Check;

/// The clusters that could take the workload in the place of those that are left out: chosen by the affinity (with
/// ordered groups the one in use and the later ones), ready, not being deleted, not refused by the scheduler's taint
/// filter, and serving the kind (IR-26).
#[must_use]
pub fn candidates<'a>(
    binding: &Binding,
    placement: &Placement,
    left_out: &BTreeSet<ClusterName>,
    clusters: &'a Clusters,
) -> Vec<&'a Arc<Cluster>> {
    let spec = binding.spec();
    let observed = binding.status().map_or("", |status| status.scheduler_observed_affinity_name.as_str());
    let groups = &placement.cluster_affinities;
    let from = groups.iter().position(|group| group.affinity_name == observed).unwrap_or(0);
    let chosen = |cluster: &Cluster| match &placement.cluster_affinity {
        Some(own) => affinity::chooses(own, cluster),
        None if groups.is_empty() => true,
        None => groups[from..].iter().any(|group| {
            affinity::chooses(&group.affinity, cluster)
                || (spec.is_workload()
                    && group.overflow_affinities.iter().any(|tier| affinity::chooses(&tier.affinity, cluster)))
        }),
    };
    let usable = |(name, cluster): &(&ClusterName, &'a Arc<Cluster>)| {
        !left_out.contains(*name) && chosen(cluster) && takes(spec, placement, name, cluster)
    };
    clusters.iter().filter(usable).map(|(_, cluster)| cluster).collect()
}

/// True if a cluster that the affinity chooses would pass the scheduler's filters.
fn takes(spec: &ResourceBindingSpec, placement: &Placement, name: &ClusterName, cluster: &Cluster) -> bool {
    if cluster.metadata.deletion_timestamp.is_some() || !cluster.is_ready() {
        return false;
    }
    // An existing target remains one whatever its taints (8.3).
    if spec.target(&name.0).is_some() {
        return true;
    }
    let opted_in = spec.failover.as_ref().is_some_and(|failover| failover.cluster.is_some());
    let failover = if opted_in { Failover::OptedIn } else { Failover::Stays };
    repelling(&cluster.spec.taints, &placement.cluster_tolerations, failover).is_none()
        && cluster.api_enablement(&spec.resource.api_version, &spec.resource.kind) == ApiEnablement::Enabled
}

/// True if the workload of this binding has a target when it leaves these clusters.
///
/// # Errors
/// Why it has not.
pub fn has_target(
    binding: &Binding,
    left_out: &BTreeSet<ClusterName>,
    clusters: &Clusters,
    check: Check,
) -> Result<(), NoTarget> {
    if check == Check::Off {
        return Ok(());
    }
    let spec = binding.spec();
    let everything = Placement::default();
    let placement = spec.placement.as_ref().unwrap_or(&everything);
    let candidates = candidates(binding, placement, left_out, clusters);
    if candidates.is_empty() {
        return Err(NoTarget::NoCandidate);
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
        let found = groups(constraint, &candidates);
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
    clusters: &Clusters,
    available: AvailableReplicas<'_>,
) -> Result<(), NoTarget> {
    let spec = binding.spec();
    let everything = Placement::default();
    let placement = spec.placement.as_ref().unwrap_or(&everything);
    let divided = placement.replica_scheduling_type() == ReplicaSchedulingType::Divided;
    let lost = spec.target(&from.0).map_or(0, |target| i64::from(target.replicas));
    // A set of components is one thing.
    let wanted = if lost == 0 && !spec.components.is_empty() { 1 } else { lost };
    if !spec.is_workload() || wanted == 0 {
        return Ok(());
    }
    let mut takers = candidates(binding, placement, left_out, clusters);
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
fn groups(constraint: &SpreadConstraint, candidates: &[&Arc<Cluster>]) -> usize {
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
