//! The snapshot of one cluster: its execution space, and the objects that still refer to it.

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_failover::cluster::lifecycle::{ExecutionSpace, Seen};
use ironclad_fleet::{Binding, ClusterName};
use ironclad_runtime::Informer;
use k8s_openapi::api::core::v1::Namespace;

use crate::{bindings::Bindings, caches::NAMESPACES, index::BY_TARGET, settings::Settings, setup::Setup};

/// The caches that the controller reads.
pub(super) struct Observer {
    pub(super) namespaces: Informer<Namespace>,
    bindings: Bindings,
    works: Informer<Work>,
    settings: Arc<Settings>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The cluster; its version is the one to write over.
    pub(super) cluster: Arc<Cluster>,
    space: Option<Arc<Namespace>>,
    works: Vec<Arc<Work>>,
    targeted_by: Vec<Binding>,
    settings: Arc<Settings>,
}

impl Observed {
    /// The form that the decision takes.
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
            scheduler: &self.settings.scheduler,
            taints: self.settings.failover.health.by_condition,
        }
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            namespaces: setup.caches.take(&NAMESPACES),
            bindings: setup.bindings().clone(),
            works: setup.works(),
            settings: setup.settings.clone(),
        }
    }

    pub(super) fn observe(&self, name: &ClusterName, cluster: Arc<Cluster>) -> Observed {
        let namespace = names::execution_namespace(&name.0);
        // Only the deletion of a cluster depends on what refers to it.
        let (works, targeted_by) = if cluster.metadata.deletion_timestamp.is_some() {
            (self.works.namespace(&namespace), self.bindings.by_index(BY_TARGET, &name.0))
        } else {
            (Vec::new(), Vec::new())
        };
        Observed {
            cluster,
            space: self.namespaces.get("", &namespace),
            works,
            targeted_by,
            settings: self.settings.clone(),
        }
    }
}
