//! The snapshot of a binding with graceful eviction tasks.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBindingStatus, Work},
};
use ironclad_failover::{
    graceful_eviction::{Seen, has_given_up, runs_own_replicas},
    wakes,
};
use ironclad_fleet::{Binding, BindingKey, BindingRef, ClusterName, eviction_task, not_ready};
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

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: Binding,
    not_ready: BTreeSet<ClusterName>,
    copies: BTreeSet<ClusterName>,
    own_replicas: BTreeSet<ClusterName>,
    gone_preemptors: BTreeSet<BindingKey>,
    stale_pending: bool,
}

impl Observed {
    /// The form that the decision takes.
    pub(super) fn seen<'a>(&'a self, observer: &'a Observer) -> Seen<'a> {
        let view = self.binding.view();
        let status: Option<&ResourceBindingStatus> = view.status();
        Seen {
            about: view.reference(),
            metadata: self.binding.metadata(),
            spec: self.binding.spec(),
            scheduler_observed: status.map_or(0, |status| status.scheduler_observed_generation),
            status: status.map(|status| status.aggregated_status.as_slice()).unwrap_or_default(),
            history: status.map(|status| status.failover_history.as_slice()).unwrap_or_default(),
            not_ready: &self.not_ready,
            copies: &self.copies,
            own_replicas: &self.own_replicas,
            gone_preemptors: &self.gone_preemptors,
            plugins: &observer.settings.failover.evict_plugins,
            stale_pending: self.stale_pending,
        }
    }
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

    fn is_gone(&self, preemptor: &BindingKey) -> bool {
        let found = self.bindings.namespaced.get(&preemptor.namespace, &preemptor.name);
        has_given_up(found.as_deref().map(BindingRef::from))
    }

    pub(super) fn observe(&self, key: &Key) -> Option<Observed> {
        let binding = self.bindings.get_as_requested(key)?;
        let spec = binding.spec();
        let stale_pending = self.is_stale_pending(binding.status());
        if (spec.graceful_eviction_tasks.is_empty() && !stale_pending)
            || binding.metadata().deletion_timestamp.is_some()
        {
            return None;
        }
        let targets = spec.clusters.iter().map(|target| target.name.as_str());
        let left = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.as_str());
        let not_ready = not_ready(targets.chain(left).map(ClusterName::from), |name| self.clusters.get("", &name.0));
        let works = binding.view().permanent_id().map(|id| self.works.by_index(BY_BINDING, id)).unwrap_or_default();
        let copies = works.iter().filter_map(|work| cluster_of(work)).collect();
        let own = |work: &Arc<Work>| {
            let cluster = cluster_of(work)?;
            runs_own_replicas(work, spec.target(&cluster.0)?.replicas).then_some(cluster)
        };
        let own_replicas = works.iter().filter_map(own).collect();
        let preemptors = spec.graceful_eviction_tasks.iter().filter_map(eviction_task::preemptor);
        let gone_preemptors = preemptors.filter(|key| self.is_gone(key)).collect();
        Some(Observed { binding, not_ready, copies, own_replicas, gone_preemptors, stale_pending })
    }
}
