//! Times since which the Works of bindings wait for the scheduler. In memory only: after a restart they wait anew.

use std::{collections::BTreeMap, time::Duration};

use ironclad_runtime::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The bindings that wait.
#[derive(Default)]
pub(crate) struct SchedulerWaits(Mutex<BTreeMap<Key, Instant>>);

impl SchedulerWaits {
    /// Time for which the binding has waited. Further edits do not start it again, so that they can't stop its Works
    /// from being updated.
    pub(super) fn waited(&self, key: &Key, now: Instant) -> Duration {
        self.0.lock().get(key).map_or(Duration::ZERO, |began| now.saturating_duration_since(*began))
    }

    /// Notes that the binding waits from now on, if it does not wait yet.
    pub(super) fn begin(&self, key: &Key, now: Instant) {
        self.0.lock().entry(key.clone()).or_insert(now);
    }

    /// Notes that the binding waits no longer.
    pub(super) fn end(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
