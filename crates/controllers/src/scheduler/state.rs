//! What the scheduler remembers between its turns: the room of the fleet, and who waits for what.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{AggregatedStatusItem, ResourceBinding, TargetCluster},
};
use ironclad_fleet::{
    ClusterName,
    gates::{Gate, Gates},
};
use ironclad_runtime::{Change, Key};
use ironclad_scheduling::{
    Binding, Capacity, Options,
    capacity::{Assumed, Modelling, PROMISE_LASTS},
};
use ironclad_seam::Clock;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync, time::Instant};

use crate::Settings;

/// The scheduler's memory; the leader's, for a new one finds it anew in the objects.
pub(crate) struct State {
    /// The flags, with what gates say.
    pub(super) options: Options,
    clock: Clock,
    began: Instant,
    /// Held by whoever decides, first come, first served: each decision sees the one before.
    turn: sync::Mutex<()>,
    capacity: Mutex<Capacity>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The bindings whose last attempt failed.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    places: BTreeMap<Key, Place>,
    /// Those that wait for room, the first one first.
    line: BTreeMap<u64, Key>,
    next: u64,
    backing_off: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It backs off.
    Backoff,
    /// It waits for room, since this place in the line.
    Room(u64),
    /// It waits for a cluster that fits.
    Fit,
}

impl Waiting {
    /// It has a turn, or is gone.
    pub(super) fn leave(&mut self, key: &Key) {
        match self.places.remove(key) {
            Some(Place::Room(place)) => drop(self.line.remove(&place)),
            Some(Place::Backoff) => self.backing_off -= 1,
            Some(Place::Fit) | None => {}
        }
    }

    /// It waits until there may be room.
    pub(crate) fn for_room(&mut self, key: &Key) {
        self.leave(key);
        self.places.insert(key.clone(), Place::Room(self.next));
        self.line.insert(self.next, key.clone());
        self.next += 1;
    }

    /// It waits until a cluster may fit.
    pub(crate) fn for_fit(&mut self, key: &Key) {
        self.leave(key);
        self.places.insert(key.clone(), Place::Fit);
    }

    /// It backs off.
    pub(crate) fn backs_off(&mut self, key: &Key) {
        self.leave(key);
        self.places.insert(key.clone(), Place::Backoff);
        self.backing_off += 1;
    }

    /// The first of those that wait for room, at most so many.
    pub(super) fn first(&self, at_most: usize) -> Vec<Key> {
        self.line.values().take(at_most).cloned().collect()
    }

    /// How many are placed nowhere, for want of room or of a cluster that fits, and how many back off.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.places.len() - self.backing_off, self.backing_off)
    }

    /// How many wait for a cluster that fits.
    pub(crate) fn unfit(&self) -> usize {
        self.places.len() - self.backing_off - self.line.len()
    }
}

impl State {
    pub(crate) fn new(settings: &Settings, clock: Clock, waiting: Arc<Mutex<Waiting>>) -> Self {
        let modelling = match settings.gates.enabled(Gate::CustomizedClusterResourceModeling) {
            true => Modelling::On,
            false => Modelling::Off,
        };
        let began = clock.mono();
        let capacity = Capacity::new(modelling, settings.failover.health.status_update_frequency);
        let options = options(&settings.scheduler, &settings.gates);
        let turn = sync::Mutex::new(());
        Self { options, clock, began, turn, capacity: Mutex::new(capacity), waiting }
    }

    /// Waits until nobody decides; nobody may wait while holding it.
    pub(super) async fn turn(&self) -> sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    fn now(&self) -> Duration {
        self.clock.mono() - self.began
    }

    /// The room of the fleet; nobody may wait while holding it.
    pub(crate) fn capacity(&self) -> MutexGuard<'_, Capacity> {
        self.capacity.lock()
    }

    /// The options that a pass runs with.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// A cluster changed. Returns the clusters that may have room now for what had none.
    pub(super) fn on_cluster(&self, name: &ClusterName, change: &Change<Cluster>) -> Vec<ClusterName> {
        let now = self.now();
        let mut capacity = self.capacity.lock();
        let mut grown = capacity.expire(now);
        if capacity.cluster(name, change.old.as_deref(), change.new.as_deref()) {
            grown.push(name.clone());
        }
        grown.sort();
        grown.dedup();
        grown
    }

    /// A ResourceBinding changed: what was promised to it may be seen now, or be void.
    pub(super) fn on_binding(&self, change: &Change<ResourceBinding>) {
        let Some(new) = change.new.as_deref() else {
            if let Some(old) = change.old.as_deref() {
                let key = Binding::from(old).key();
                self.capacity.lock().forget(&key);
                self.waiting.lock().leave(&Key::new(&key.namespace, &key.name));
            }
            return;
        };
        let Some(old) = change.old.as_deref() else {
            let view = Binding::from(new);
            let Some(scheduled) = view.last_scheduled else { return };
            let age = Duration::try_from(self.clock.wall().duration_since(scheduled)).unwrap_or_default();
            if age < PROMISE_LASTS {
                self.capacity.lock().found(&view, reports(new), age, &self.options, self.now());
            }
            return;
        };
        let (key, now) = (Binding::from(new).key(), self.now());
        let mut capacity = self.capacity.lock();
        // Somebody else's result, or one of ours whose answer was lost.
        if old.spec.clusters != new.spec.clusters && !capacity.is_assumed(&key) {
            capacity.assigned(&Binding::from(old), &new.spec.clusters, &self.options, now);
        }
        if capacity.promises() > 0 {
            capacity.reported(&key, &new.spec, reports(old), reports(new), now);
        }
    }

    /// This result is about to be written over `before`: it counts until it is known that it was not.
    pub(super) fn assume(&self, before: &Binding<'_>, after: &[TargetCluster]) -> BeingWritten<'_> {
        let assumed = self.capacity.lock().assume(before, after, &self.options, self.now());
        BeingWritten { state: self, assumed }
    }

    /// In how long the first promise ends, if there is one.
    pub(super) fn promise_ends(&self) -> Option<Duration> {
        let ends = self.capacity.lock().expires_next();
        ends.map(|ends| ends.saturating_sub(self.now()))
    }

    /// Ends the promises that are over.
    pub(super) fn expire(&self) {
        let now = self.now();
        self.capacity.lock().expire(now);
    }
}

/// A result that is being written. Dropped, it is taken back.
pub(super) struct BeingWritten<'a> {
    state: &'a State,
    assumed: Option<Assumed>,
}

impl BeingWritten<'_> {
    /// It stands.
    pub(super) fn written(mut self) {
        if let Some(assumed) = self.assumed.take() {
            self.state.capacity.lock().confirm(&assumed);
        }
    }
}

impl Drop for BeingWritten<'_> {
    fn drop(&mut self) {
        if let Some(assumed) = self.assumed.take() {
            self.state.capacity.lock().take_back(assumed, self.state.now());
        }
    }
}

/// What clusters report of a binding.
fn reports(binding: &ResourceBinding) -> &[AggregatedStatusItem] {
    binding.status.as_ref().map_or(&[], |status| &status.aggregated_status)
}

/// The flags of the scheduler, with what gates say (scheduling.md 13.4).
fn options(flags: &Options, gates: &Gates) -> Options {
    Options {
        component_scheduling: flags.component_scheduling || gates.enabled(Gate::MultiplePodTemplatesScheduling),
        overcommit_protection: flags.overcommit_protection || gates.enabled(Gate::SchedulingOvercommitProtection),
        ..flags.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_reach_the_scheduler() {
        let on = |gate| options(&Options::default(), &Gates::default().with(gate, true));
        assert_eq!(options(&Options::default(), &Gates::default()), Options::default(), "both are off");
        assert!(on(Gate::MultiplePodTemplatesScheduling).component_scheduling);
        assert!(on(Gate::SchedulingOvercommitProtection).overcommit_protection);
    }

    #[test]
    fn who_waits_for_what() {
        let (a, b, c) = (Key::new("n", "a"), Key::new("n", "b"), Key::new("n", "c"));
        let mut waiting = Waiting::default();
        waiting.for_room(&b);
        waiting.for_room(&a);
        waiting.backs_off(&c);
        assert_eq!(
            (waiting.first(9), waiting.counts()),
            (vec![b.clone(), a.clone()], (2, 1)),
            "first come, first served"
        );
        assert_eq!(waiting.first(1), std::slice::from_ref(&b));
        waiting.for_room(&b);
        assert_eq!(waiting.first(9), [a.clone(), b.clone()], "who failed again goes to the end");
        waiting.backs_off(&b);
        waiting.leave(&a);
        assert_eq!((waiting.first(9), waiting.counts()), (vec![], (0, 2)));
        waiting.for_fit(&b);
        waiting.for_room(&a);
        assert_eq!(
            (waiting.first(9), waiting.counts(), waiting.unfit()),
            (vec![a.clone()], (2, 1), 1),
            "room is no help to b"
        );
        for key in [&a, &b, &c] {
            waiting.leave(key);
            waiting.leave(key);
        }
        assert_eq!((waiting.counts(), waiting.unfit()), ((0, 0), 0));
    }
}
