//! Clusters of a binding's copies (specification/propagation.md 9.1, 9.2).

use std::collections::BTreeSet;

use ironclad_api::{
    ObjectMeta,
    annotations::PROCEED_WITHOUT_CLEANUP,
    eviction::BINDING_PREEMPTED,
    policy::{PurgeMode, ReplicaSchedulingType},
    work::{GracefulEvictionTask, ResourceBindingSpec, TargetCluster},
};

use crate::{ClusterName, count::count};

/// A cluster that shall have a copy, and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub cluster: ClusterName,
    /// Replicas of the copy, if the binding is a workload.
    pub replicas: i32,
}

impl Target {
    /// Sentence about replicas of a copy that stays in part ([`staying`]).
    #[must_use]
    pub fn stays(&self) -> String {
        stays(self.replicas)
    }
}

/// Sentence about replicas that stay until others have room.
#[must_use]
pub fn stays(replicas: i32) -> String {
    let verb = if replicas == 1 { "stays" } else { "stay" };
    format!("{} {verb} until others have room", count(replicas, "replica"))
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

/// Clusters in which a Work is expected: targets, and clusters that are being left other than directly.
#[must_use]
pub fn expected_clusters(spec: &ResourceBindingSpec) -> BTreeSet<ClusterName> {
    let leaving = old_copies(spec).map(|task| ClusterName::from(task.from_cluster.as_str()));
    targets(spec).into_iter().map(|target| target.cluster).chain(leaving).collect()
}

/// Clusters of a referrer for the snapshot in the bindings of its dependencies: the scheduler's result, and those that
/// still hold an old copy. What that copy mounts stays with it until its eviction task ends.
#[must_use]
pub fn clusters_of_referrer(spec: &ResourceBindingSpec) -> Vec<TargetCluster> {
    let mut clusters = spec.clusters.clone();
    for task in old_copies(spec).filter(|task| spec.target(&task.from_cluster).is_none()) {
        let replicas = task.replicas.unwrap_or_default();
        clusters.push(TargetCluster { name: task.from_cluster.clone(), replicas, components: Vec::new() });
    }
    clusters
}

/// Tasks whose old copy runs on: until they end, or with purge mode Directly until another copy is scheduled to start.
pub fn old_copies(spec: &ResourceBindingSpec) -> impl Iterator<Item = &GracefulEvictionTask> {
    let has_successor = has_successor(spec);
    spec.graceful_eviction_tasks.iter().filter(move |task| {
        task.purge_mode != Some(PurgeMode::Directly) || !(has_successor || task.reason == BINDING_PREEMPTED)
    })
}

/// Returns whether the result has all replicas, in clusters to which the workload is dispatched. Without it the copy
/// that a task leaves may be the last one, so that it stays, unless a preemptor needs its capacity
/// (specification/failover.md 4.4).
#[must_use]
pub fn has_successor(spec: &ResourceBindingSpec) -> bool {
    started(spec).next().is_some() && lacking(spec).is_none_or(|lacking| lacking <= 0)
}

/// Targets to which the workload is dispatched.
pub fn started(spec: &ResourceBindingSpec) -> impl Iterator<Item = &TargetCluster> {
    let suspension = spec.suspension.as_ref();
    let is_off = suspension.is_some_and(|suspension| suspension.dispatching == Some(true));
    let on = suspension.and_then(|suspension| suspension.dispatching_on_clusters.as_ref());
    spec.clusters
        .iter()
        .filter(move |target| !is_off && on.is_none_or(|on| on.cluster_names.iter().all(|name| *name != target.name)))
}

/// Replicas that have no place in clusters to which the workload is dispatched; `None` if they are not divided.
fn lacking(spec: &ResourceBindingSpec) -> Option<i64> {
    let placement = spec.placement.as_ref()?;
    let is_divided = placement.replica_scheduling_type() == ReplicaSchedulingType::Divided && spec.replicas > 0;
    is_divided.then(|| {
        started(spec).fold(i64::from(spec.replicas), |rest, target| rest.saturating_sub(target.replicas.into()))
    })
}

/// Old copies that are left directly and run on in part, with the replicas that stay since they have no place elsewhere
/// (specification/failover.md 4.4). A workload whose replicas are not divided, whose state is handed over, or that is
/// not dispatched to a target has none: its copy is left as a whole.
#[must_use]
pub fn staying(spec: &ResourceBindingSpec) -> Vec<Target> {
    let is_dispatched = started(spec).count() == spec.clusters.len();
    let lacking = lacking(spec).filter(|lacking| *lacking > 0 && is_dispatched && !preserves_state(spec));
    let Some(mut lacking) = lacking else { return Vec::new() };
    let left = old_copies(spec).filter(|task| task.purge_mode == Some(PurgeMode::Directly));
    left.filter(|task| spec.target(&task.from_cluster).is_none())
        .map(|task| {
            let stay = task.replicas.map_or(lacking, |replicas| lacking.min(replicas.into())).max(0);
            lacking -= stay;
            let replicas = i32::try_from(stay).unwrap_or(i32::MAX);
            Target { cluster: ClusterName::from(task.from_cluster.as_str()), replicas }
        })
        .collect()
}

/// Returns whether the state of the old copy is handed to the new one.
#[must_use]
pub fn preserves_state(spec: &ResourceBindingSpec) -> bool {
    let failover = spec.failover.as_ref();
    let of_cluster = failover.and_then(|f| f.cluster.as_ref()).and_then(|c| c.state_preservation.as_ref());
    let of_application = failover.and_then(|f| f.application.as_ref()).and_then(|a| a.state_preservation.as_ref());
    of_cluster.or(of_application).is_some()
}

/// Cluster whose copy must be deleted before new ones are made, if there is one (specification/propagation.md 9.1 step
/// 3, specification/failover.md 4.4). A cluster that is a target again keeps its copy, and a ready one the replicas
/// that stay. `has_copy` tells whether the binding has a Work there, and `is_ready` whether it can delete it.
pub fn awaited_source(
    spec: &ResourceBindingSpec,
    metadata: &ObjectMeta,
    has_copy: impl Fn(&ClusterName) -> bool,
    is_ready: impl Fn(&ClusterName) -> bool,
) -> Option<ClusterName> {
    let directly = spec.graceful_eviction_tasks.iter().filter(|task| task.purge_mode == Some(PurgeMode::Directly));
    let left = directly.filter(|task| spec.target(&task.from_cluster).is_none());
    let staying = staying(spec);
    left.map(|task| ClusterName::from(task.from_cluster.as_str())).find(|cluster| {
        let ready = is_ready(cluster);
        let stays = ready && staying.iter().any(|target| target.cluster == *cluster);
        has_copy(cluster) && !stays && waits_for_source(spec, metadata, ready)
    })
}

/// Returns whether a copy with purge mode Directly must be deleted before a new one starts
/// (specification/failover.md 4.4, IR-13). A ready cluster can delete it. For a cluster that is not ready only stateful
/// workloads wait, unless a person overrides that.
#[must_use]
pub fn waits_for_source(spec: &ResourceBindingSpec, metadata: &ObjectMeta, source_ready: bool) -> bool {
    let forced = || {
        let annotations = metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(PROCEED_WITHOUT_CLEANUP)).is_some_and(|value| value == "true")
    };
    source_ready || (preserves_state(spec) && !forced())
}
