//! The snapshot of a binding whose workload may be unhealthy.

use std::{sync::Arc, time::Duration};

use ironclad_failover::{
    Now,
    application_failover::{self, Memory, Seen},
};
use ironclad_fleet::{Binding, BindingKey, Clusters, gates::Gate};
use ironclad_interpreter::Operation;
use ironclad_propagation::detector::binding::application_failover_since;
use ironclad_runtime::Key;
use ironclad_scheduling::Peers;
use jiff::Timestamp;

use super::memory::Memories;
use crate::{
    bindings::Bindings, clusters::ClusterSnapshot, groups::Groups, interpreter::Interpreters, settings::Settings,
    setup::Setup,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    bindings: Bindings,
    fleet: ClusterSnapshot,
    interpreters: Arc<Interpreters>,
    settings: Arc<Settings>,
    groups: Groups,
    memories: Arc<Memories>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: Binding,
    health_is_judged: bool,
    clusters: Arc<Clusters>,
    memory: Memory,
    enabled: Option<Duration>,
    enabled_at: Option<Timestamp>,
}

impl Observed {
    /// The form that the decision takes.
    pub(super) fn seen<'a>(&'a self, observer: &'a Observer, peers: Option<&'a Peers>) -> Seen<'a> {
        Seen {
            binding: &self.binding,
            health_is_judged: self.health_is_judged,
            clusters: &self.clusters,
            check: observer.settings.failover.eviction.pre_scheduling_check,
            scheduler: &observer.settings.scheduler,
            peers,
            state_injection: observer.settings.gates.enabled(Gate::StatefulFailoverInjection),
            memory: &self.memory,
            began: observer.memories.began(),
            asked: self.enabled,
            asked_at: self.enabled_at,
        }
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup, memories: Arc<Memories>) -> Self {
        Self {
            bindings: setup.bindings().clone(),
            fleet: setup.fleet().clone(),
            interpreters: setup.interpreters().clone(),
            settings: setup.settings.clone(),
            groups: setup.groups().clone(),
            memories,
        }
    }

    /// The groups of a binding without those members that leave a cluster for the same reason as it; `None` while gate
    /// `WorkloadAffinity` is off.
    pub(super) fn peers_that_stay(&self, observed: &Observed, now: Now) -> Option<Peers> {
        let peers = self.groups.read()?;
        let leaving = |fellow: &BindingKey| {
            let fellow = self.observe(&Key::new(&fellow.namespace, &fellow.name));
            let leaving = fellow.map(|fellow| application_failover::leaving(&fellow.seen(self, None), now));
            leaving.into_iter().flatten().map(|cluster| cluster.0).collect()
        };
        Some(peers.without(&observed.binding.key(), leaving))
    }

    pub(super) fn observe(&self, key: &Key) -> Option<Observed> {
        let binding = self.bindings.get_as_requested(key)?;
        let interpreter = self.interpreters.for_a_decision();
        Some(Observed {
            health_is_judged: interpreter.implements(&binding.template().gvk, Operation::InterpretHealth),
            clusters: self.fleet.all(),
            memory: self.memories.get(key),
            enabled: self.memories.enabled_at(key),
            enabled_at: application_failover_since(binding.metadata()),
            binding,
        })
    }
}
