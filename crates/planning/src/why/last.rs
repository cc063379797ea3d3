//! Last copies of workloads that run nowhere else: they hold capacity that others wait for (docs/decisions/0185).

use std::{collections::BTreeSet, fmt};

use ironclad_fleet::{BindingKey, ClusterName, World, targets::old_copies};
use serde::Serialize;

use crate::Scheduling;

/// Copy of a workload without a schedule result. It stays until the workload is placed again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastCopy {
    /// The binding of the workload.
    pub binding: BindingKey,
    pub cluster: ClusterName,
    /// Replicas of the copy, if the task of its eviction names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

impl fmt::Display for LastCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding, cluster, .. } = self;
        write!(f, "{cluster}: the last copy of {binding}")?;
        if let Some(replicas) = self.replicas {
            write!(f, ", replicas {replicas}")?;
        }
        f.write_str(": it stays until that workload is placed again, deleted or scaled down")
    }
}

/// The last copies of others that request resources in the clusters that pass the filters for a binding, if it finds no
/// place.
pub(super) fn copies(world: &World, waiting: &BindingKey, scheduling: &Scheduling) -> Vec<LastCopy> {
    if scheduling.failure.is_none() {
        return Vec::new();
    }
    let fitting = scheduling.cycles.iter().flat_map(|cycle| &cycle.clusters);
    let fitting = fitting.filter(|(_, outcome)| outcome.score.is_some());
    let fitting: BTreeSet<&str> = fitting.map(|(cluster, _)| &*cluster.0).collect();
    let mut found = Vec::new();
    for (key, binding) in &world.bindings {
        let spec = &binding.spec;
        if key == waiting || !spec.clusters.is_empty() || !spec.is_workload() {
            continue;
        }
        let here = old_copies(spec).filter(|task| fitting.contains(&*task.from_cluster));
        found.extend(here.map(|task| LastCopy {
            binding: key.clone(),
            cluster: task.from_cluster.as_str().into(),
            replicas: task.replicas,
        }));
    }
    found
}
