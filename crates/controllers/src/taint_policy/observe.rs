//! The snapshot of one cluster with all taint policies.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};
use ironclad_failover::taint_policy::{Memory, Seen};
use ironclad_fleet::ClusterName;
use ironclad_runtime::Informer;
use parking_lot::Mutex;

use crate::{caches::TAINT_POLICIES, setup::Setup};

/// The caches and the memory that the controller reads.
pub(super) struct Observer {
    clusters: Informer<Cluster>,
    pub(super) policies: Informer<ClusterTaintPolicy>,
    /// Memory of the previous decision on each cluster.
    pub(super) memories: Mutex<BTreeMap<ClusterName, Memory>>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The cluster; its version is the one to write over.
    pub(super) cluster: Arc<Cluster>,
    policies: Vec<Arc<ClusterTaintPolicy>>,
    memory: Option<Memory>,
}

impl Observed {
    /// The form that the decision takes.
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen { cluster: &self.cluster, policies: &self.policies, memory: self.memory.as_ref() }
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            clusters: setup.clusters().clone(),
            policies: setup.caches.take(&TAINT_POLICIES),
            memories: Mutex::default(),
        }
    }

    pub(super) fn observe(&self, name: &ClusterName) -> Option<Observed> {
        let cluster = self.clusters.get("", &name.0)?;
        let memory = self.memories.lock().get(name).cloned();
        Some(Observed { cluster, policies: self.policies.list(), memory })
    }
}
