//! The snapshot of a binding with graceful eviction tasks.

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBindingStatus, Work},
};
use ironclad_failover::{graceful_eviction::Snapshot, wakes};
use ironclad_fleet::{BindingKey, ClusterName};
use ironclad_runtime::{Informer, Key};

use crate::{
    bindings::Bindings,
    index::{BY_BINDING, cluster_of},
    settings::Settings,
    setup::Setup,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    bindings: Bindings,
    works: Informer<Work>,
    clusters: Informer<Cluster>,
    settings: Arc<Settings>,
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            bindings: setup.bindings().clone(),
            works: setup.works(),
            clusters: setup.clusters().clone(),
            settings: setup.settings.clone(),
        }
    }

    /// True if condition `EvictionPending` is set although no taint manager runs.
    pub(super) fn is_stale_pending(&self, status: Option<&ResourceBindingStatus>) -> bool {
        !crate::registry::evicts(&self.settings) && wakes::graceful_eviction::is_pending(status)
    }

    pub(super) fn observe(&self, key: &Key) -> Option<Snapshot> {
        let binding = self.bindings.get_as_requested(key)?;
        let spec = binding.spec();
        let stale_pending = self.is_stale_pending(binding.status());
        if (spec.graceful_eviction_tasks.is_empty() && !stale_pending)
            || binding.metadata().deletion_timestamp.is_some()
        {
            return None;
        }
        let works = binding.view().permanent_id().map(|id| self.works.by_index(BY_BINDING, id)).unwrap_or_default();
        let works = works.iter().filter_map(|work| Some((cluster_of(work)?, &**work)));
        let cluster = |name: &ClusterName| self.clusters.get("", &name.0);
        let preemptor = |key: &BindingKey| self.bindings.namespaced.get(&key.namespace, &key.name);
        let snapshot = Snapshot::new(binding.clone(), works, cluster, preemptor);
        Some(Snapshot { stale_pending, ..snapshot })
    }
}
