//! Unhealthy copies of bindings and the times since which they are unhealthy, in the memory of the leader.

use std::{collections::BTreeMap, time::Duration};

use ironclad_failover::{Now, application_failover::Memory, wakes::application_failover::Asking};
use ironclad_runtime::Key;
use ironclad_seam::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Memories by binding, only of bindings with unhealthy copies.
#[derive(Debug)]
pub(super) struct Memories {
    clock: Clock,
    origin: Instant,
    began: Timestamp,
    unhealthy: Mutex<BTreeMap<Key, Memory>>,
    /// Times at which existing bindings enabled application failover, since the origin.
    enabled: Mutex<BTreeMap<Key, Duration>>,
}

impl Memories {
    /// Empty memories; times count from now.
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            origin: clock.mono(),
            began: clock.wall_seconds(),
            unhealthy: Mutex::default(),
            enabled: Mutex::default(),
        }
    }

    /// Time at which this process began to watch.
    pub(super) fn began(&self) -> Timestamp {
        self.began
    }

    pub(super) fn get(&self, key: &Key) -> Memory {
        self.unhealthy.lock().get(key).cloned().unwrap_or_default()
    }

    pub(super) fn set(&self, key: &Key, memory: Memory) {
        if memory.is_empty() {
            self.unhealthy.lock().remove(key);
        } else {
            self.unhealthy.lock().insert(key.clone(), memory);
        }
    }

    /// The bindings with unhealthy copies.
    pub(super) fn all(&self) -> Vec<Key> {
        self.unhealthy.lock().keys().cloned().collect()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.unhealthy.lock().contains_key(key)
    }

    pub(super) fn enabled_at(&self, key: &Key) -> Option<Duration> {
        self.enabled.lock().get(key).copied()
    }

    pub(super) fn note_asking(&self, key: &Key, asking: Asking) {
        let mut enabled = self.enabled.lock();
        match asking {
            Asking::Begins => drop(enabled.insert(key.clone(), self.now().mono)),
            Asking::Not => drop(enabled.remove(key)),
            Asking::Goes => {}
        }
    }

    pub(super) fn now(&self) -> Now {
        Now { wall: self.clock.wall(), mono: self.clock.mono().saturating_duration_since(self.origin) }
    }
}
