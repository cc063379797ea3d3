//! Renewals of the leases of Pull clusters.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_fleet::ClusterName;
use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time of the last renewal of each Pull cluster, taken when the watch reported it: scans come only now and then.
#[derive(Clone)]
pub(super) struct LastRenewals {
    clock: Clock,
    renewed: Arc<Mutex<BTreeMap<ClusterName, Instant>>>,
}

impl LastRenewals {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, renewed: Arc::default() }
    }

    /// Notes that the agent of a cluster renewed its lease or reported.
    pub(super) fn note(&self, name: &str) {
        self.renewed.lock().insert(name.into(), self.clock.mono());
    }

    /// Forgets a cluster that was removed.
    pub(super) fn forget(&self, name: &str) {
        self.renewed.lock().remove(&ClusterName::from(name));
    }

    pub(super) fn get(&self, name: &ClusterName) -> Option<Instant> {
        self.renewed.lock().get(name).copied()
    }
}
