//! The snapshot of one scheduling cycle: a binding with its requested status, all clusters, and their capacity.

use std::sync::Arc;

use ironclad_fleet::{Binding, Clusters};
use ironclad_runtime::Key;
use ironclad_scheduling::{Available, Capacity, Index, Options, Peers, Seen, Since, preempt::Preempting};
use parking_lot::RwLockReadGuard;

use super::apply::logs_reasons;
use crate::{bindings::Bindings, clusters::ClusterSnapshot, setup::Setup};

/// The caches that the scheduler reads.
pub(super) struct Observer {
    bindings: Bindings,
    fleet: ClusterSnapshot,
}

/// The snapshot, without the binding, and without the capacity, which is borrowed for the decision. Do not hold it
/// across an `.await`: a change of a cluster waits for the index, and would copy the map of clusters.
pub(super) struct Observed<'a> {
    clusters: Arc<Clusters>,
    /// `None` while reasons about each cluster are logged.
    index: Option<RwLockReadGuard<'a, Index>>,
    /// Answers of estimators over gRPC.
    available: Available,
}

impl Observed<'_> {
    /// The form that the decision takes.
    pub(super) fn seen<'a>(
        &'a self,
        binding: &'a Binding,
        capacity: &'a Capacity,
        options: &'a Options,
        since: Since,
        preempting: Option<Preempting<'a>>,
        peers: Option<&'a Peers>,
    ) -> Seen<'a> {
        Seen {
            binding: binding.view(),
            clusters: &self.clusters,
            available: &self.available,
            capacity,
            options,
            since,
            preempting,
            peers,
            index: self.index.as_deref(),
        }
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { bindings: setup.bindings().clone(), fleet: setup.fleet().clone() }
    }

    /// The binding; its version is the one to write over.
    pub(super) fn binding(&self, key: &Key) -> Option<Binding> {
        self.bindings.get_as_requested(key)
    }

    /// `available` are the answers of estimators over gRPC for the binding.
    pub(super) fn observe(&self, available: Available) -> Observed<'_> {
        let (index, clusters) = self.fleet.indexed();
        let index = (!logs_reasons()).then_some(index);
        Observed { clusters, index, available }
    }
}
