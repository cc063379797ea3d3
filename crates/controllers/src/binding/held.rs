//! Since when the Works of a binding wait for the scheduler. In memory only: after a restart they wait anew.

use std::{collections::BTreeMap, time::Duration};

use ironclad_runtime::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The bindings that wait.
#[derive(Default)]
pub(crate) struct Held(Mutex<BTreeMap<Key, Instant>>);

impl Held {
    /// For how long it has waited. Edit after edit counts on, so that they can't keep the Works from moving.
    pub(super) fn since(&self, key: &Key, now: Instant) -> Duration {
        self.0.lock().get(key).map_or(Duration::ZERO, |began| now.saturating_duration_since(*began))
    }

    /// It waits from now on, if it does not yet.
    pub(super) fn hold(&self, key: &Key, now: Instant) {
        self.0.lock().entry(key.clone()).or_insert(now);
    }

    /// It waits no more.
    pub(super) fn release(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
