//! The snapshot of one rebalancer with the bindings of its workloads.

use std::sync::Arc;

use ironclad_api::apps::WorkloadRebalancer;
use ironclad_fleet::{Binding, BindingRef, Gvk, ObjectKey};
use ironclad_propagation::rebalance::Seen;
use ironclad_runtime::{Informer, Key};
use jiff::Timestamp;

use crate::{bindings::Bindings, setup::Setup};

/// The caches that the controller reads.
pub(super) struct Observer {
    rebalancers: Informer<WorkloadRebalancer>,
    bindings: Bindings,
}

/// The snapshot.
pub(super) struct Observed {
    /// The rebalancer; its version is the one to write over.
    pub(super) rebalancer: Arc<WorkloadRebalancer>,
    /// The binding of each workload, in their order.
    pub(super) bindings: Vec<Option<Binding>>,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, now: Timestamp, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let bindings: Vec<Option<BindingRef<'_>>> =
            self.bindings.iter().map(|found| found.as_ref().map(Binding::view)).collect();
        decide(&Seen { rebalancer: &self.rebalancer, bindings: &bindings, now })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup, rebalancers: Informer<WorkloadRebalancer>) -> Self {
        Self { rebalancers, bindings: setup.bindings().clone() }
    }

    pub(super) fn observe(&self, key: &Key) -> Option<Observed> {
        let rebalancer = self.rebalancers.get_key(key)?;
        let bindings = rebalancer
            .spec
            .workloads
            .iter()
            .map(|workload| {
                let key = ObjectKey {
                    gvk: Gvk::from_manifest(&workload.api_version, &workload.kind),
                    namespace: workload.namespace.as_str().into(),
                    name: workload.name.as_str().into(),
                };
                self.bindings.of_template(&key)
            })
            .collect();
        Some(Observed { rebalancer, bindings })
    }
}
