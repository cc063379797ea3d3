//! Capacity by schedule results: what clusters have, and what is promised to bindings. Only cpu is scarce in the
//! simulation.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    ResourceList,
    cluster::Cluster,
    quantity::Amount,
    work::{ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{BindingKey, ClusterName, World as Fleet};

use super::machines;

/// Millicores in a list.
fn in_list(list: &ResourceList) -> i64 {
    list.get("cpu").and_then(|quantity| Amount::try_from(quantity).ok()).map_or(0, Amount::milli_value)
}

/// Millicores that each replica of a binding requests.
#[must_use]
pub fn cpu(spec: &ResourceBindingSpec) -> i64 {
    spec.replica_requirements.as_ref().map_or(0, |needs| in_list(&needs.resource_request))
}

/// Priority of a binding.
#[must_use]
pub fn priority(spec: &ResourceBindingSpec) -> i32 {
    spec.schedule_priority.as_ref().map_or(0, |resolved| resolved.priority)
}

/// Millicores that a target gets.
pub(super) fn of_target(spec: &ResourceBindingSpec, target: &TargetCluster) -> i64 {
    i64::from(target.replicas) * cpu(spec)
}

/// Millicores of a cluster that schedule results promise.
#[must_use]
pub fn promised(fleet: &Fleet, cluster: &ClusterName) -> i64 {
    let of = |binding: &ResourceBinding| {
        binding.spec.target(&cluster.0).map_or(0, |target| of_target(&binding.spec, target))
    };
    fleet.bindings.values().map(|binding| of(binding)).sum()
}

/// Bindings with results or eviction tasks in a cluster, with their millicores and what the cluster reports of them,
/// for people.
#[must_use]
pub fn holders(fleet: &Fleet, cluster: &ClusterName) -> String {
    let of = |(key, binding): (&BindingKey, &Arc<ResourceBinding>)| {
        let spec = &binding.spec;
        let result = spec.target(&cluster.0).map(|target| format!("{}m", of_target(spec, target)));
        let task = spec.eviction(&cluster.0).map(|task| {
            let millicores = i64::from(task.replicas.unwrap_or(0)) * cpu(spec);
            format!("{millicores}m leave as {}", task.reason)
        });
        let reports = binding.status.iter().flat_map(|status| &status.aggregated_status);
        let report = reports.into_iter().find(|item| item.cluster_name == *cluster.0).map(|item| {
            format!("reported {}", item.status.as_ref().map_or_else(String::new, |status| status.value().to_string()))
        });
        let parts: Vec<String> = result.into_iter().chain(task).chain(report).collect();
        (!parts.is_empty()).then(|| format!("{} {}", key.name, parts.join(", ")))
    };
    let (all, used) = summary(fleet.clusters.get(cluster).map(|cluster| &**cluster));
    let holders: Vec<String> = fleet.bindings.iter().filter_map(of).collect();
    format!("{}; it reports {used}m of {all}m", holders.join("; "))
}

/// Millicores of a cluster.
#[must_use]
pub fn allocatable(fleet: &Fleet, cluster: &ClusterName) -> i64 {
    summary(fleet.clusters.get(cluster).map(|cluster| &**cluster)).0
}

/// Returns whether a cluster has sent a summary.
#[must_use]
pub fn is_reported(fleet: &Fleet, cluster: &ClusterName) -> bool {
    let status = fleet.clusters.get(cluster).and_then(|cluster| cluster.status.as_ref());
    status.is_some_and(|status| status.resource_summary.is_some())
}

/// Millicores that a cluster reports: allocatable ones, and those that its pods request.
#[must_use]
pub fn summary(cluster: Option<&Cluster>) -> (i64, i64) {
    let summary = cluster.and_then(|cluster| cluster.status.as_ref()?.resource_summary.as_ref());
    summary.map_or((0, 0), |s| (in_list(&s.allocatable), in_list(&s.allocated) + in_list(&s.allocating)))
}

/// A binding of lower priority than the preemptor on a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) binding: String,
    /// Millicores on each node.
    pub(super) cpu: Vec<i64>,
}

/// Capacity as a preemptor finds it, if every view shows the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) replicas: i64,
    /// Millicores of each replica.
    pub(super) cpu: i64,
    /// It takes one cluster.
    pub(super) single: bool,
    /// Free millicores on each node, and holders of lower priority.
    pub(super) clusters: BTreeMap<ClusterName, (Vec<i64>, Vec<Holder>)>,
}

impl Figures {
    /// Smallest number of bindings that make room for all replicas on one cluster by leaving it, by trying all sets;
    /// `None` if no set does.
    pub(super) fn fewest(&self) -> Option<usize> {
        self.clusters.values().filter_map(|(free, holders)| self.fewest_in(free, holders)).min()
    }

    fn fewest_in(&self, free: &[i64], holders: &[Holder]) -> Option<usize> {
        let sets = 0..1_u32 << holders.len().min(16);
        let gone = |set: u32| holders.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0).map(|(_, h)| h);
        let suffices = |set: &u32| self.count(free, gone(*set)) >= self.replicas;
        sets.filter(suffices).map(|set| set.count_ones() as usize).min()
    }

    /// Replicas that fit into a cluster once these have left.
    fn count<'a>(&self, free: &[i64], gone: impl Iterator<Item = &'a Holder> + Clone) -> i64 {
        let freed = |at: usize| -> i64 { gone.clone().map(|holder| holder.cpu.get(at).copied().unwrap_or(0)).sum() };
        machines::fits(free.iter().enumerate().map(|(at, free)| free + freed(at)), self.cpu)
    }

    /// Returns true if all replicas fit into these clusters once these bindings have left them.
    pub(super) fn fits<'a>(
        &self,
        into: &dyn Fn(&ClusterName) -> bool,
        left: impl Iterator<Item = &'a (String, ClusterName)> + Clone,
    ) -> bool {
        let count = |(name, (free, holders)): (&ClusterName, &(Vec<i64>, Vec<Holder>))| {
            let gone = |holder: &&Holder| left.clone().any(|(key, from)| *key == holder.binding && from == name);
            self.count(free, holders.iter().filter(gone))
        };
        self.clusters.iter().filter(|(name, _)| into(name)).map(count).sum::<i64>() >= self.replicas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(replicas: i64, free: i64, holders: &[i64]) -> Figures {
        let holders: Vec<&[i64]> = holders.iter().map(std::slice::from_ref).collect();
        by_node(replicas, &[free], &holders)
    }

    fn by_node(replicas: i64, free: &[i64], holders: &[&[i64]]) -> Figures {
        let holder = |(at, cpu): (usize, &&[i64])| Holder { binding: format!("b{at}"), cpu: cpu.to_vec() };
        let holders = holders.iter().enumerate().map(holder).collect();
        Figures { replicas, cpu: 1_000, single: true, clusters: [("m1".into(), (free.to_vec(), holders))].into() }
    }

    #[test]
    fn fewest_victims_by_trying_all_sets() {
        for (name, figures, want) in [
            ("it fits", figures(2, 2_000, &[1_000]), Some(0)),
            ("one is enough", figures(5, 0, &[1_000, 2_000, 5_000, 2_000]), Some(1)),
            ("free capacity counts", figures(6, 5_000, &[1_000, 2_000]), Some(1)),
            ("a pair", figures(5, 0, &[2_000, 2_000, 3_000]), Some(2)),
            ("halves of replicas do not count", figures(2, 1_000, &[500, 500]), Some(2)),
            ("too little", figures(9, 0, &[1_000, 2_000]), None),
            ("halves of two nodes are none", by_node(1, &[500, 500], &[&[0, 500]]), Some(1)),
            ("who leaves two halves", by_node(1, &[0, 0], &[&[500, 500]]), None),
        ] {
            assert_eq!(figures.fewest(), want, "{name}");
        }
    }

    #[test]
    fn replicas_fit_once_holders_left() {
        let all = figures(3, 1_000, &[1_000, 1_000]);
        let left = [("b0".to_owned(), ClusterName::from("m1")), ("b1".to_owned(), "m1".into())];
        let anywhere: &dyn Fn(&ClusterName) -> bool = &|_| true;
        assert!(all.fits(anywhere, left.iter()));
        assert!(!all.fits(anywhere, left[..1].iter()), "one replica is missing");
        assert!(!all.fits(&|_| false, left.iter()), "no cluster");
    }
}
