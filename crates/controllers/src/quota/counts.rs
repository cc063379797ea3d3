//! Counted and booked usage of each quota, with the time since which both are unchanged.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::ResourceList;
use ironclad_runtime::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The usage by quota.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<BTreeMap<Key, Count>>);

#[derive(Debug)]
struct Count {
    taken: ResourceList,
    booked: ResourceList,
    since: Instant,
}

impl Counts {
    /// Time for which both are unchanged.
    pub(super) fn steady(&self, key: &Key, (taken, booked): (&ResourceList, ResourceList), now: Instant) -> Duration {
        let mut all = self.0.lock();
        match all.get(key) {
            Some(count) if count.taken == *taken && count.booked == booked => {
                now.saturating_duration_since(count.since)
            }
            _ => {
                all.insert(key.clone(), Count { taken: taken.clone(), booked, since: now });
                Duration::ZERO
            }
        }
    }

    /// Forgets a quota that was deleted.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
