//! The eviction queue (specification/failover.md 6.1 to 6.3): elements that wait for their time, for their turn, for another try or
//! for a target; one order over all clusters, and one lane per faulty cluster, so that recovery drops a cluster's
//! elements at once. It decides nothing and knows no rate.
//!
//! Every operation on one element costs the logarithm of what waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{policy::PurgeMode, work::ObjectReference};
use ironclad_fleet::{BindingKey, ClusterName};

use crate::{now::Now, taint_manager::verdict::Causes};

mod tally;

pub use tally::{Abandoned, ClusterTally, QueueName, QueueTally, Tally, Waited};

/// Key of an element: a binding, and the cluster that it leaves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The cluster that is to be left.
    pub cluster: ClusterName,
    /// The binding; one without a namespace is a ClusterResourceBinding.
    pub binding: BindingKey,
}

/// Content of an element when a verdict enqueues it.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The incarnation of the binding.
    pub binding_uid: Arc<str>,
    /// The incarnation of the cluster.
    pub cluster_uid: Arc<str>,
    /// The template, for events and metrics.
    pub resource: Arc<ObjectReference>,
    /// Why, and when.
    pub causes: Causes,
    /// How the old copy will be treated.
    pub purge_mode: PurgeMode,
}

/// Where an element stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its time has not come.
    Delayed,
    /// It waits for its turn.
    Ready,
    /// It failed and waits for another try.
    Backoff,
    /// No cluster would take it.
    Parked,
    /// Somebody works on it; `again` if it was wanted anew meanwhile.
    Working {
        /// It was wanted anew meanwhile.
        again: bool,
    },
}

/// A moment, and a number that no other element has: the order in which elements come to be ready.
type Order = (Duration, u64);

/// One binding that is to leave one cluster.
#[derive(Debug, Clone)]
pub struct Element {
    /// The verdict.
    pub wanted: Wanted,
    /// Where it stands.
    pub place: Place,
    /// When it first became ready, for its age and for the latency metrics.
    pub enqueued_at: Option<Duration>,
    /// When it came, will come, or was parked; and the tie-breaker.
    pub order: Order,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// Conflicts in a row within this attempt.
    pub conflicts: u32,
    /// It was found to have no target, and told so.
    pub unfit: bool,
}

#[derive(Debug, Default)]
struct Lane {
    elements: BTreeMap<BindingKey, Element>,
    ready: BTreeMap<Order, BindingKey>,
    held: bool,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    lanes: BTreeMap<ClusterName, Lane>,
    /// The first ready element of every lane that is not held.
    heads: BTreeMap<Order, ClusterName>,
    /// Delayed and backing off, by the moment that ends it.
    delayed: BTreeMap<Order, Key>,
    /// Parked, in the order of parking.
    parked: BTreeMap<Order, Key>,
    /// Parked elements with a number below this one get another look as soon as possible.
    look_below: u64,
    /// The lanes in which a binding has elements.
    by_binding: BTreeMap<BindingKey, BTreeSet<ClusterName>>,
    next_seq: u64,
    tally: Tally,
}

/// A parked element is looked at again after this time even if nothing is known to have changed (6.7 step 4).
pub const PARKED_AGAIN: Duration = Duration::from_secs(300);
/// So many parked elements come back per call; the rest follow in the next ones.
const UNPARK_BATCH: usize = 64;

impl Queue {
    /// Puts an element in, or takes the new verdict into the one that is there. One that is ready keeps its place in the
    /// order, unless its time has moved into the future. Returns true if it was not there.
    pub fn want(&mut self, key: &Key, wanted: Wanted, now: Now) -> bool {
        let known = self.get(key).map(|element| element.wanted.binding_uid == wanted.binding_uid);
        if known == Some(false) {
            self.remove(key, Abandoned::Obsolete);
        }
        let due = now.mono_at(wanted.causes.due());
        if known == Some(true) {
            self.merge(key, wanted, due, now);
            return false;
        }
        let seq = self.seq();
        let ready = due <= now.mono;
        let order = (due, seq);
        let element = Element {
            enqueued_at: ready.then_some(now.mono),
            place: if ready { Place::Ready } else { Place::Delayed },
            wanted,
            order,
            attempts: 0,
            conflicts: 0,
            unfit: false,
        };
        self.tally.came(key, &element);
        let lane = self.lanes.entry(key.cluster.clone()).or_default();
        lane.elements.insert(key.binding.clone(), element);
        self.by_binding.entry(key.binding.clone()).or_default().insert(key.cluster.clone());
        if ready {
            self.line_up(key, order);
        } else {
            self.delayed.insert(order, key.clone());
        }
        true
    }

    fn merge(&mut self, key: &Key, wanted: Wanted, due: Duration, now: Now) {
        let Some(element) = self.get(key) else { return };
        let (place, order, seq) = (element.place, element.order, element.order.1);
        match place {
            Place::Working { .. } => self.set_place(key, Place::Working { again: true }, order),
            // A taint with a later time is left: the wait goes on.
            Place::Ready if due > now.mono => {
                self.leave_line(key, order);
                self.set_place(key, Place::Delayed, (due, seq));
                self.delayed.insert((due, seq), key.clone());
            }
            Place::Delayed if due != order.0 => {
                self.delayed.remove(&order);
                if due <= now.mono {
                    self.set_place(key, Place::Ready, (now.mono, seq));
                    self.line_up(key, (now.mono, seq));
                } else {
                    self.set_place(key, Place::Delayed, (due, seq));
                    self.delayed.insert((due, seq), key.clone());
                }
            }
            Place::Ready | Place::Delayed | Place::Backoff | Place::Parked => {}
        }
        if let Some(element) = self.get_mut(key) {
            element.wanted = wanted;
            if element.place == Place::Ready && element.enqueued_at.is_none() {
                element.enqueued_at = Some(now.mono);
            }
        }
    }

    /// Takes an element out, whatever its place, and counts it as abandoned.
    pub fn remove(&mut self, key: &Key, why: Abandoned) -> Option<Element> {
        let element = self.take_out(key)?;
        self.tally.abandoned(key, &element, why);
        Some(element)
    }

    /// The element was evicted: takes it out and counts it.
    pub fn evicted(&mut self, key: &Key, now: Duration) -> Option<Element> {
        let element = self.take_out(key)?;
        self.tally.evicted(key, &element, now);
        Some(element)
    }

    fn take_out(&mut self, key: &Key) -> Option<Element> {
        let element = self.lanes.get(&key.cluster)?.elements.get(&key.binding)?.clone();
        match element.place {
            Place::Ready => self.leave_line(key, element.order),
            Place::Delayed | Place::Backoff => drop(self.delayed.remove(&element.order)),
            Place::Parked => drop(self.parked.remove(&element.order)),
            Place::Working { .. } => {}
        }
        if let Some(lane) = self.lanes.get_mut(&key.cluster) {
            lane.elements.remove(&key.binding);
            if lane.elements.is_empty() && !lane.held {
                self.lanes.remove(&key.cluster);
            }
        }
        if let Some(clusters) = self.by_binding.get_mut(&key.binding) {
            clusters.remove(&key.cluster);
            if clusters.is_empty() {
                self.by_binding.remove(&key.binding);
            }
        }
        Some(element)
    }

    /// Drops every element of a cluster that recovered or is gone; returns them in the order of their bindings. Elements
    /// that somebody works on are dropped too: what becomes of that work is found out elsewhere.
    pub fn drop_cluster(&mut self, cluster: &ClusterName, why: Abandoned) -> Vec<(BindingKey, Element)> {
        let Some(mut lane) = self.lanes.remove(cluster) else { return Vec::new() };
        if let Some((order, _)) = lane.ready.first_key_value() {
            self.heads.remove(order);
        }
        let elements = std::mem::take(&mut lane.elements);
        for (binding, element) in &elements {
            let key = Key { cluster: cluster.clone(), binding: binding.clone() };
            match element.place {
                Place::Delayed | Place::Backoff => drop(self.delayed.remove(&element.order)),
                Place::Parked => drop(self.parked.remove(&element.order)),
                Place::Ready | Place::Working { .. } => {}
            }
            if let Some(clusters) = self.by_binding.get_mut(binding) {
                clusters.remove(cluster);
                if clusters.is_empty() {
                    self.by_binding.remove(binding);
                }
            }
            self.tally.abandoned(&key, element, why);
        }
        elements.into_iter().collect()
    }

    /// Moves what has become due into the line; returns when it has to be called again.
    pub fn promote(&mut self, now: Duration) -> Option<Duration> {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (order, key) = entry.remove_entry();
            let backoff = self.get(&key).is_some_and(|element| element.place == Place::Backoff);
            // What failed goes to the tail; what was delayed has its place by its time.
            let order = if backoff { (order.0, self.seq()) } else { order };
            self.become_ready(&key, order, order.0.min(now));
        }
        for _ in 0..UNPARK_BATCH {
            let Some(entry) = self.parked.first_entry() else { break };
            let (parked_at, seq) = *entry.key();
            if seq >= self.look_below && parked_at.saturating_add(PARKED_AGAIN) > now {
                break;
            }
            let key = entry.remove();
            let order = (now, self.seq());
            self.become_ready(&key, order, now);
        }
        let parked = self
            .parked
            .first_key_value()
            .map(|((at, seq), _)| if *seq < self.look_below { now } else { at.saturating_add(PARKED_AGAIN) });
        [self.delayed.first_key_value().map(|(order, _)| order.0), parked].into_iter().flatten().min()
    }

    fn become_ready(&mut self, key: &Key, order: Order, at: Duration) {
        self.set_place(key, Place::Ready, order);
        if let Some(element) = self.get_mut(key) {
            element.enqueued_at.get_or_insert(at);
        }
        self.line_up(key, order);
    }

    /// The fleet changed so that a parked element might find a target: all of them come back, a few per call of
    /// [`Queue::promote`].
    pub fn look_again_at_parked(&mut self) {
        self.look_below = self.next_seq;
    }

    /// The element whose turn it is: the first of all lanes that are not held. It is being worked on from now on, until
    /// [`Queue::put_back`], [`Queue::retry`], [`Queue::park`], [`Queue::evicted`] or [`Queue::remove`].
    pub fn take(&mut self) -> Option<(Key, Element)> {
        let (order, cluster) = self.heads.first_key_value()?;
        let (order, cluster) = (*order, cluster.clone());
        let binding = self.lanes.get(&cluster)?.ready.get(&order)?.clone();
        let key = Key { cluster, binding };
        self.leave_line(&key, order);
        self.set_place(&key, Place::Working { again: false }, order);
        let element = self.get(&key)?.clone();
        Some((key, element))
    }

    /// It is not its turn yet after all: it stands where it stood.
    pub fn put_back(&mut self, key: &Key) {
        let Some(element) = self.get(key).filter(|e| matches!(e.place, Place::Working { .. })) else { return };
        let order = element.order;
        self.set_place(key, Place::Ready, order);
        self.line_up(key, order);
    }

    /// It failed: it comes back at the tail after a wait, and keeps its age.
    pub fn retry(&mut self, key: &Key, wait: Duration, now: Duration) {
        let order = (now.saturating_add(wait), self.seq());
        let Some(element) = self.get_mut(key) else { return };
        element.attempts = element.attempts.saturating_add(1);
        element.conflicts = 0;
        self.set_place(key, Place::Backoff, order);
        self.delayed.insert(order, key.clone());
    }

    /// It has to wait for something that is no fault of its own.
    pub fn wait(&mut self, key: &Key, wait: Duration, now: Duration) {
        self.retry(key, wait, now);
        if let Some(element) = self.get_mut(key) {
            element.attempts = element.attempts.saturating_sub(1);
        }
    }

    /// It has no target: it comes back when the fleet changes, or after a while. Returns true the first time; only then
    /// it is counted as a failure.
    pub fn park(&mut self, key: &Key, now: Duration) -> bool {
        let order = (now, self.seq());
        let Some(element) = self.get_mut(key) else { return false };
        let first = !std::mem::replace(&mut element.unfit, true);
        self.set_place(key, Place::Parked, order);
        self.parked.insert(order, key.clone());
        if first && let Some(element) = self.get(key).cloned() {
            self.tally.parked(key, &element, now);
        }
        first
    }

    /// An attempt failed: it counts, and comes back as with [`Queue::retry`].
    pub fn failed(&mut self, key: &Key, wait: Duration, now: Duration) {
        let Some(element) = self.get(key).cloned() else { return };
        self.tally.processed(key, &element, now, tally::Outcome::Failed);
        self.retry(key, wait, now);
    }

    /// Counts another conflict of an element, and says how many there were in a row.
    pub fn conflicted(&mut self, key: &Key) -> u32 {
        let Some(element) = self.get_mut(key) else { return 0 };
        element.conflicts = element.conflicts.saturating_add(1);
        element.conflicts
    }

    /// Holds the elements of a cluster where they stand, or lets them go on.
    pub fn hold(&mut self, cluster: &ClusterName, held: Hold) {
        let held = held == Hold::Held;
        if held {
            self.lanes.entry(cluster.clone()).or_default();
        }
        let Some(lane) = self.lanes.get_mut(cluster) else { return };
        if lane.held == held {
            return;
        }
        lane.held = held;
        let head = lane.ready.first_key_value().map(|(order, _)| *order);
        let empty = lane.elements.is_empty();
        match head {
            Some(order) if held => drop(self.heads.remove(&order)),
            Some(order) => drop(self.heads.insert(order, cluster.clone())),
            None => {}
        }
        if empty && !held {
            self.lanes.remove(cluster);
        }
    }

    /// True if a cluster's elements are held.
    #[must_use]
    pub fn is_held(&self, cluster: &ClusterName) -> bool {
        self.lanes.get(cluster).is_some_and(|lane| lane.held)
    }

    /// One element.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Element> {
        self.lanes.get(&key.cluster)?.elements.get(&key.binding)
    }

    /// The elements of one cluster, by binding.
    pub fn of_cluster(&self, cluster: &ClusterName) -> impl Iterator<Item = (&BindingKey, &Element)> {
        self.lanes.get(cluster).into_iter().flat_map(|lane| &lane.elements)
    }

    /// The clusters that a binding is to leave.
    pub fn of_binding(&self, binding: &BindingKey) -> impl Iterator<Item = &ClusterName> {
        self.by_binding.get(binding).into_iter().flatten()
    }

    /// Everything that waits, by cluster and binding.
    pub fn iter(&self) -> impl Iterator<Item = (&ClusterName, &BindingKey, &Element)> {
        self.lanes.iter().flat_map(|(cluster, lane)| lane.elements.iter().map(move |(b, e)| (cluster, b, e)))
    }

    /// How many elements there are, those that are worked on included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tally.pending()
    }

    /// True if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters behind the metrics, updated with each change.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// For what the queue itself does not see: an attempt that failed, an episode that ended.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn get_mut(&mut self, key: &Key) -> Option<&mut Element> {
        self.lanes.get_mut(&key.cluster)?.elements.get_mut(&key.binding)
    }

    fn set_place(&mut self, key: &Key, place: Place, order: Order) {
        let Some(element) = self.lanes.get_mut(&key.cluster).and_then(|lane| lane.elements.get_mut(&key.binding))
        else {
            return;
        };
        let before = (element.place, element.order);
        (element.place, element.order) = (place, order);
        self.tally.moved(key, element, before);
    }

    fn line_up(&mut self, key: &Key, order: Order) {
        let Some(lane) = self.lanes.get_mut(&key.cluster) else { return };
        let head = lane.ready.first_key_value().map(|(order, _)| *order);
        lane.ready.insert(order, key.binding.clone());
        if !lane.held && head.is_none_or(|head| order < head) {
            if let Some(head) = head {
                self.heads.remove(&head);
            }
            self.heads.insert(order, key.cluster.clone());
        }
    }

    fn leave_line(&mut self, key: &Key, order: Order) {
        let Some(lane) = self.lanes.get_mut(&key.cluster) else { return };
        if lane.ready.remove(&order).is_none() || lane.held {
            return;
        }
        if self.heads.remove(&order).is_some()
            && let Some((next, _)) = lane.ready.first_key_value()
        {
            self.heads.insert(*next, key.cluster.clone());
        }
    }
}

/// True if a cluster's elements are held where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// They are.
    Held,
    /// They go on.
    Free,
}

#[cfg(test)]
mod tests;
