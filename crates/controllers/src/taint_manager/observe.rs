//! Input of the eviction decisions: clusters, the bindings on them, capacity, and whether people paused evictions.

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, binding::EVICTION_PENDING},
    namespaces,
    policy::ClusterTaintPolicy,
    work::ResourceBindingSpec,
};
use ironclad_failover::{
    Evictions, Flags, Now,
    taint_manager::guards,
    taint_manager::{PAUSE_CONFIG_MAP, Recovering},
    taint_policy, taints,
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, gates::Gate};
use ironclad_runtime::{Informer, Key};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::{
    bindings::Bindings,
    caches::{EVICTION_PAUSE, TAINT_POLICIES},
    capacity::FleetCapacity,
    clusters::ClusterSnapshot,
    groups::Groups,
    index::BY_TARGET,
    setup::Setup,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    bindings: Bindings,
    fleet: ClusterSnapshot,
    capacity: FleetCapacity,
    /// Groups of workloads.
    pub(super) groups: Groups,
    taint_policies: Informer<ClusterTaintPolicy>,
    /// ConfigMap `karmada-system/ironclad-failover`, by which people pause evictions.
    pub(super) pause: Informer<ConfigMap>,
    /// Flags, with the effect of gates.
    pub(super) flags: Flags,
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut flags = setup.settings.failover.clone();
        flags.eviction.state_preservation = setup.settings.gates.enabled(Gate::StatefulFailoverInjection);
        flags.scheduler = setup.settings.scheduler.clone();
        Self {
            bindings: setup.bindings().clone(),
            fleet: setup.fleet().clone(),
            capacity: setup.capacity().clone(),
            groups: setup.groups().clone(),
            taint_policies: setup.caches.take(&TAINT_POLICIES),
            pause: setup.caches.take(&EVICTION_PAUSE),
            flags,
        }
    }

    /// Feeds in all objects at the start at once, so that the queue is in the order of due times
    /// (specification/failover.md 6.8).
    pub(super) fn fill(&self, evictions: &mut Evictions, now: Now) {
        evictions.hold(self.pause());
        let mut faulty = Vec::new();
        for (name, cluster) in self.fleet.all().iter() {
            if evictions.cluster(name, Some(cluster), self.recovering(cluster), now) {
                faulty.push(name.clone());
            }
        }
        let found: Vec<_> = faulty.iter().flat_map(|name| self.on(name)).collect();
        evictions.evaluate(found, now);
        // Conditions that an earlier process set and did not live to remove.
        for bound in self.bindings.list() {
            if bound.status().is_some_and(|status| conditions::is_true(&status.conditions, EVICTION_PENDING)) {
                evictions.binding(&bound.key(), Some(&bound), now);
            }
        }
    }

    /// Feeds in one cluster, and the bindings on it if they have to be evaluated.
    pub(super) fn cluster(
        &self,
        evictions: &mut Evictions,
        name: &ClusterName,
        cluster: Option<&Arc<Cluster>>,
        now: Now,
    ) {
        let recovering = cluster.map_or(false.into(), |cluster| self.recovering(cluster));
        if evictions.cluster(name, cluster.map(|cluster| &**cluster), recovering, now) {
            evictions.evaluate(self.on(name), now);
        }
    }

    /// Feeds in all clusters, and all bindings on faulty ones, again: a safety net in case an event was lost.
    pub(super) fn rescan(&self, evictions: &mut Evictions, now: Now) {
        let clusters = self.fleet.all();
        let removed: Vec<_> =
            evictions.episodes().keys().filter(|name| !clusters.contains_key(*name)).cloned().collect();
        for name in &removed {
            evictions.cluster(name, None, false.into(), now);
        }
        for (name, cluster) in clusters.iter() {
            evictions.cluster(name, Some(cluster), self.recovering(cluster), now);
        }
        let faulty: Vec<_> = evictions.episodes().keys().cloned().collect();
        evictions.evaluate(faulty.iter().flat_map(|name| self.on(name)), now);
    }

    /// All clusters by name.
    pub(super) fn clusters(&self) -> Arc<Clusters> {
        self.fleet.all()
    }

    /// The binding of this key.
    pub(super) fn binding(&self, key: &BindingKey) -> Option<Binding> {
        self.bindings.get(&Key::new(&key.namespace, &key.name))
    }

    /// Further replicas of a binding for which a cluster has capacity, as the scheduler would see them.
    pub(super) fn available(&self, spec: &ResourceBindingSpec, cluster: &ClusterName) -> Option<i64> {
        let capacity = self.capacity.lock();
        ironclad_scheduling::available_replicas(spec, cluster, &capacity, self.capacity.options())
    }

    /// The pause of evictions, as people requested it.
    pub(super) fn pause(&self) -> guards::Hold {
        let found = self.pause.get(namespaces::SYSTEM, PAUSE_CONFIG_MAP);
        let is_paused = guards::is_paused(found.as_ref().and_then(|map| map.data.as_ref()));
        if is_paused { guards::Hold::Paused } else { guards::Hold::None }
    }

    fn recovering(&self, cluster: &Cluster) -> Recovering {
        let faulty = taints::is_faulty(cluster);
        (faulty && taint_policy::is_recovering(cluster, &self.taint_policies.list())).into()
    }

    /// The bindings whose result contains the cluster.
    fn on(&self, name: &ClusterName) -> Vec<(ClusterName, Binding)> {
        let found = self.bindings.by_index(BY_TARGET, &name.0);
        found.into_iter().map(|binding| (name.clone(), binding)).collect()
    }
}
