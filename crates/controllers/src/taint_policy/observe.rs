//! What the decision sees: one cluster, and all policies.

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};
use ironclad_failover::taint_policy::{Memory, Seen};
use ironclad_fleet::ClusterName;
use ironclad_runtime::Change;

use crate::Context;

/// The snapshot.
pub(super) struct Observed {
    /// The cluster; its version is the one to write over.
    pub(super) cluster: Arc<Cluster>,
    policies: Vec<Arc<ClusterTaintPolicy>>,
    memory: Option<Memory>,
}

impl Observed {
    /// As the decision takes it.
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen { cluster: &self.cluster, policies: &self.policies, memory: self.memory.as_ref() }
    }
}

pub(super) fn observe(cx: &Context, name: &ClusterName) -> Option<Observed> {
    let cluster = cx.clusters.get("", &name.0)?;
    let memory = cx.taint_policy.memories.lock().get(name).cloned();
    Some(Observed { cluster, policies: cx.taint_policies.list(), memory })
}

/// Whether a change of a cluster can change what policies want of it: what a member reports of itself does not.
pub(super) fn matters(change: &Change<Cluster>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let conditions = |cluster: &Cluster| cluster.status.as_ref().map(|status| status.conditions.clone());
    old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.spec != new.spec
        || conditions(old) != conditions(new)
}
