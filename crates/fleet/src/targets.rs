//! Where a binding's copies shall be (propagation.md 9.1, 9.2).

use std::collections::BTreeSet;

use ironclad_api::{policy::PurgeMode, work::ResourceBindingSpec};

use crate::ClusterName;

/// A cluster that shall have a copy, and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Which cluster.
    pub cluster: ClusterName,
    /// How many replicas the copy has, if the binding is a workload.
    pub replicas: i32,
}

/// The scheduler's result, then what referrers need besides, in order.
#[must_use]
pub fn targets(spec: &ResourceBindingSpec) -> Vec<Target> {
    let mut seen = BTreeSet::new();
    spec.clusters
        .iter()
        .chain(spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters))
        .filter(|target| seen.insert(target.name.as_str()))
        .map(|target| Target { cluster: ClusterName::from(target.name.as_str()), replicas: target.replicas })
        .collect()
}

/// Where a Work is expected: targets, and clusters that are being left other than directly.
#[must_use]
pub fn expected_clusters(spec: &ResourceBindingSpec) -> BTreeSet<ClusterName> {
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
        .map(|task| ClusterName::from(task.from_cluster.as_str()));
    targets(spec).into_iter().map(|target| target.cluster).chain(leaving).collect()
}
