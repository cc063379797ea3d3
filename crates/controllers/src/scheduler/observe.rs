//! The snapshot of one scheduling cycle: a binding with its requested status, all clusters, and their capacity.

use std::sync::Arc;

use ironclad_fleet::{Binding, Clusters};
use ironclad_runtime::Key;
use ironclad_scheduling::{Available, Capacity, Options, Peers, Seen, preempt::Preempting};

use crate::{bindings::Bindings, clusters::ClusterSnapshot, setup::Setup};

/// The caches that the scheduler reads.
pub(super) struct Observer {
    bindings: Bindings,
    fleet: ClusterSnapshot,
}

/// The snapshot, without the capacity, which is borrowed for the decision.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: Binding,
    clusters: Arc<Clusters>,
    /// Answers of accurate estimators.
    pub(super) available: Available,
}

impl Observed {
    /// The form that the decision takes.
    pub(super) fn seen<'a>(
        &'a self,
        capacity: &'a Capacity,
        options: &'a Options,
        api_appeared: bool,
        preempting: Option<Preempting<'a>>,
        peers: Option<&'a Peers>,
    ) -> Seen<'a> {
        let binding = self.binding.view();
        Seen {
            binding,
            clusters: &self.clusters,
            available: &self.available,
            capacity,
            options,
            api_appeared,
            preempting,
            peers,
        }
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { bindings: setup.bindings.clone(), fleet: setup.fleet.clone() }
    }

    pub(super) fn observe(&self, key: &Key) -> Option<Observed> {
        let binding = self.bindings.get_as_requested(key)?;
        Some(Observed { binding, clusters: self.fleet.all(), available: Available::new() })
    }
}
