//! What membership sees: the cluster, its execution space, and what still names it.

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_failover::{
    Bound,
    membership::{ExecutionSpace, Seen},
    taints::ByCondition,
};
use ironclad_fleet::ClusterName;
use k8s_openapi::api::core::v1::Namespace;

use crate::{Context, index::BY_TARGET};

/// The snapshot.
pub(super) struct Observed {
    /// The cluster; its version is the one to write over.
    pub(super) cluster: Arc<Cluster>,
    space: Option<Arc<Namespace>>,
    /// The Works in its execution space.
    pub(super) works: Vec<Arc<Work>>,
    targeted_by: Vec<Bound>,
    taints: ByCondition,
}

impl Observed {
    /// As the decision takes it.
    pub(super) fn seen(&self) -> Seen<'_> {
        let space = match self.space.as_deref() {
            None => ExecutionSpace::Missing,
            Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => ExecutionSpace::Terminating,
            Some(namespace) => ExecutionSpace::Active { uid: namespace.metadata.uid.as_deref().unwrap_or_default() },
        };
        Seen {
            cluster: &self.cluster,
            space,
            works: self.works.iter().map(|w| &**w).collect(),
            targeted_by: &self.targeted_by,
            taints: self.taints,
        }
    }
}

pub(super) fn observe(cx: &Context, name: &ClusterName, cluster: Arc<Cluster>) -> Observed {
    let namespace = names::execution_namespace(&name.0);
    let leaving = cluster.metadata.deletion_timestamp.is_some();
    // Only a cluster that leaves is asked what still names it.
    let (works, targeted_by) = if leaving {
        let holders = cx.bindings.by_index(BY_TARGET, &name.0).into_iter().map(Bound::from).collect();
        (cx.works.namespace(&namespace), holders)
    } else {
        (Vec::new(), Vec::new())
    };
    let taints = cx.settings.failover.by_condition;
    Observed { cluster, space: cx.namespaces.get("", &namespace), works, targeted_by, taints }
}
