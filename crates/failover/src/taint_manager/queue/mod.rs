//! The eviction queue (specification/failover.md 6.1 to 6.3): elements that are delayed, ready, backing off, or parked
//! without a target; one order over all clusters, and one queue per faulty cluster, so that recovery drops a cluster's
//! elements at once. It makes no decisions and applies no rate.
//!
//! Every operation on one element takes logarithmic time.

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
    /// Cluster that the binding leaves.
    pub cluster: ClusterName,
    /// The binding; one without a namespace is a ClusterResourceBinding.
    pub binding: BindingKey,
}

/// Content of an element when a verdict enqueues it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Uid of the binding.
    pub binding_uid: Arc<str>,
    /// Uid of the cluster.
    pub cluster_uid: Arc<str>,
    /// The template, for events and metrics.
    pub resource: Arc<ObjectReference>,
    /// Causes, each with its due time.
    pub causes: Causes,
    /// Purge mode of the old copy.
    pub purge_mode: PurgeMode,
}

/// State of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Not due yet.
    Delayed,
    /// Due, waiting in the queue.
    Ready,
    /// Failed, waiting for the next attempt.
    Backoff,
    /// Parked: no cluster would accept the workload.
    Parked,
    /// In progress; `again` if it was enqueued again meanwhile.
    Working {
        /// It was enqueued again meanwhile.
        again: bool,
    },
}

/// Order of elements: a moment and a unique number.
type Order = (Duration, u64);

/// Eviction of one binding from one cluster.
#[derive(Debug, Clone)]
pub struct Element {
    /// The verdict.
    pub request: Request,
    /// State.
    pub place: Place,
    /// Time at which it first became ready, for its age and the latency metrics.
    pub enqueued_at: Option<Duration>,
    /// Time at which it became or becomes ready, or was parked; with the tie-breaker.
    pub order: Order,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// Conflicts in a row within this attempt.
    pub conflicts: u32,
    /// An event reported that it has no target.
    pub unfit: bool,
    /// Reason of the last attempt that did not evict it.
    pub because: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct ClusterQueue {
    elements: BTreeMap<BindingKey, Element>,
    ready: BTreeMap<Order, BindingKey>,
    paused: bool,
}

#[derive(Debug, Default)]
pub struct Queue {
    by_cluster: BTreeMap<ClusterName, ClusterQueue>,
    /// The first ready element of every cluster queue that is not paused.
    heads: BTreeMap<Order, ClusterName>,
    /// Delayed and backing-off elements, by the end of their wait.
    delayed: BTreeMap<Order, Key>,
    /// Parked elements, in the order of parking.
    parked: BTreeMap<Order, Key>,
    /// Parked elements with a number below this one are retried as soon as possible.
    look_below: u64,
    /// Clusters for which a binding has elements.
    by_binding: BTreeMap<BindingKey, BTreeSet<ClusterName>>,
    next_seq: u64,
    tally: Tally,
}

/// Retry interval of a parked element, even if no change is known (6.7 step 4).
pub const PARKED_AGAIN: Duration = Duration::from_secs(300);
/// Maximum number of parked elements that return per call.
const UNPARK_BATCH: usize = 64;

impl Queue {
    /// Adds an element, or updates the verdict of the existing one. A ready element keeps its place in the
    /// order, unless its due time moved into the future. Returns true if it was added.
    pub fn add(&mut self, key: &Key, request: Request, now: Now) -> bool {
        let known = self.get(key).map(|element| element.request.binding_uid == request.binding_uid);
        if known == Some(false) {
            self.remove(key, Abandoned::Obsolete);
        }
        let due = now.mono_at(request.causes.due());
        if known == Some(true) {
            self.merge(key, request, due, now);
            return false;
        }
        let seq = self.seq();
        let ready = due <= now.mono;
        let order = (due, seq);
        let element = Element {
            enqueued_at: ready.then_some(now.mono),
            place: if ready { Place::Ready } else { Place::Delayed },
            request,
            order,
            attempts: 0,
            conflicts: 0,
            unfit: false,
            because: None,
        };
        self.tally.came(key, &element);
        let cluster_queue = self.by_cluster.entry(key.cluster.clone()).or_default();
        cluster_queue.elements.insert(key.binding.clone(), element);
        self.by_binding.entry(key.binding.clone()).or_default().insert(key.cluster.clone());
        if ready {
            self.line_up(key, order);
        } else {
            self.delayed.insert(order, key.clone());
        }
        true
    }

    fn merge(&mut self, key: &Key, request: Request, due: Duration, now: Now) {
        let Some(element) = self.get(key) else { return };
        let (place, order, seq) = (element.place, element.order, element.order.1);
        match place {
            Place::Working { .. } => self.set_place(key, Place::Working { again: true }, order),
            // The remaining taint is due later: the element waits on.
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
            element.request = request;
            if element.place == Place::Ready && element.enqueued_at.is_none() {
                element.enqueued_at = Some(now.mono);
            }
        }
    }

    /// Removes an element in any state and counts it as abandoned.
    pub fn remove(&mut self, key: &Key, why: Abandoned) -> Option<Element> {
        let element = self.take_out(key)?;
        self.tally.abandoned(key, &element, why);
        Some(element)
    }

    /// Removes an evicted element and counts it.
    pub fn evicted(&mut self, key: &Key, now: Duration) -> Option<Element> {
        let element = self.take_out(key)?;
        self.tally.evicted(key, &element, now);
        Some(element)
    }

    fn take_out(&mut self, key: &Key) -> Option<Element> {
        let element = self.by_cluster.get(&key.cluster)?.elements.get(&key.binding)?.clone();
        match element.place {
            Place::Ready => self.leave_line(key, element.order),
            Place::Delayed | Place::Backoff => drop(self.delayed.remove(&element.order)),
            Place::Parked => drop(self.parked.remove(&element.order)),
            Place::Working { .. } => {}
        }
        if let Some(cluster_queue) = self.by_cluster.get_mut(&key.cluster) {
            cluster_queue.elements.remove(&key.binding);
            if cluster_queue.elements.is_empty() && !cluster_queue.paused {
                self.by_cluster.remove(&key.cluster);
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

    /// Drops all elements of a cluster that recovered or was deleted; returns them in the order of their bindings.
    /// Elements in progress are dropped too; the result of their write is handled elsewhere.
    pub fn drop_cluster(&mut self, cluster: &ClusterName, why: Abandoned) -> Vec<(BindingKey, Element)> {
        let Some(mut cluster_queue) = self.by_cluster.remove(cluster) else { return Vec::new() };
        if let Some((order, _)) = cluster_queue.ready.first_key_value() {
            self.heads.remove(order);
        }
        let elements = std::mem::take(&mut cluster_queue.elements);
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

    /// Makes due elements ready; returns when to call it again.
    pub fn promote(&mut self, now: Duration) -> Option<Duration> {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (order, key) = entry.remove_entry();
            let backoff = self.get(&key).is_some_and(|element| element.place == Place::Backoff);
            // A failed element goes to the tail; a delayed one is ordered by its due time.
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

    /// Returns all parked elements, a few per call of [`Queue::promote`]: the fleet changed so that they might find
    /// a target.
    pub fn look_again_at_parked(&mut self) {
        self.look_below = self.next_seq;
    }

    /// Returns a parked element to the tail of the queue: its binding changed so that it might find a target.
    pub fn recheck(&mut self, key: &Key, now: Now) {
        let Some(order) = self.get(key).filter(|element| element.place == Place::Parked).map(|element| element.order)
        else {
            return;
        };
        self.parked.remove(&order);
        let order = (now.mono, self.seq());
        self.become_ready(key, order, now.mono);
    }

    /// Takes the first ready element of all cluster queues that are not paused. It is in progress until
    /// [`Queue::put_back`], [`Queue::retry`], [`Queue::park`], [`Queue::evicted`] or [`Queue::remove`].
    pub fn take(&mut self) -> Option<(Key, Element)> {
        let (order, cluster) = self.heads.first_key_value()?;
        let (order, cluster) = (*order, cluster.clone());
        let binding = self.by_cluster.get(&cluster)?.ready.get(&order)?.clone();
        let key = Key { cluster, binding };
        self.leave_line(&key, order);
        self.set_place(&key, Place::Working { again: false }, order);
        let element = self.get(&key)?.clone();
        Some((key, element))
    }

    /// Returns an element in progress to its place.
    pub fn put_back(&mut self, key: &Key) {
        let Some(element) = self.get(key).filter(|e| matches!(e.place, Place::Working { .. })) else { return };
        let order = element.order;
        self.set_place(key, Place::Ready, order);
        self.line_up(key, order);
    }

    /// Puts a failed element at the tail after a wait; it keeps its age.
    pub fn retry(&mut self, key: &Key, wait: Duration, now: Duration) {
        let order = (now.saturating_add(wait), self.seq());
        let Some(element) = self.get_mut(key) else { return };
        element.attempts = element.attempts.saturating_add(1);
        element.conflicts = 0;
        self.set_place(key, Place::Backoff, order);
        self.delayed.insert(order, key.clone());
    }

    /// Delays an element without counting a failure.
    pub fn wait(&mut self, key: &Key, wait: Duration, now: Duration) {
        self.retry(key, wait, now);
        if let Some(element) = self.get_mut(key) {
            element.attempts = element.attempts.saturating_sub(1);
        }
    }

    /// Parks an element without a target until the fleet changes or a while has passed. Returns true the first time;
    /// only then it is counted as a failure.
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

    /// Remembers why an element was not evicted.
    pub fn explain(&mut self, key: &Key, because: &str) {
        if let Some(element) = self.get_mut(key) {
            element.because = Some(because.into());
        }
    }

    /// Elements that are ready, without those of clusters whose queue is paused.
    #[must_use]
    pub fn lined_up(&self) -> usize {
        self.by_cluster.values().filter(|of_cluster| !of_cluster.paused).map(|of_cluster| of_cluster.ready.len()).sum()
    }

    /// Counts a failed attempt and retries as [`Queue::retry`] does.
    pub fn failed(&mut self, key: &Key, wait: Duration, now: Duration) {
        let Some(element) = self.get(key).cloned() else { return };
        self.tally.processed(key, &element, now, tally::Outcome::Failed);
        self.retry(key, wait, now);
    }

    /// Counts a conflict of an element; returns the number in a row.
    pub fn conflicted(&mut self, key: &Key) -> u32 {
        let Some(element) = self.get_mut(key) else { return 0 };
        element.conflicts = element.conflicts.saturating_add(1);
        element.conflicts
    }

    /// Leaves the elements of a cluster in the queue, unprocessed, until [`resume`](Self::resume).
    pub fn pause(&mut self, cluster: &ClusterName) {
        self.by_cluster.entry(cluster.clone()).or_default();
        self.set_paused(cluster, true);
    }

    /// Processes the elements of a cluster again.
    pub fn resume(&mut self, cluster: &ClusterName) {
        self.set_paused(cluster, false);
    }

    fn set_paused(&mut self, cluster: &ClusterName, paused: bool) {
        let Some(cluster_queue) = self.by_cluster.get_mut(cluster) else { return };
        if cluster_queue.paused == paused {
            return;
        }
        cluster_queue.paused = paused;
        let head = cluster_queue.ready.first_key_value().map(|(order, _)| *order);
        let empty = cluster_queue.elements.is_empty();
        match head {
            Some(order) if paused => drop(self.heads.remove(&order)),
            Some(order) => drop(self.heads.insert(order, cluster.clone())),
            None => {}
        }
        if empty && !paused {
            self.by_cluster.remove(cluster);
        }
    }

    /// True if a cluster's elements are paused.
    #[must_use]
    pub fn is_paused(&self, cluster: &ClusterName) -> bool {
        self.by_cluster.get(cluster).is_some_and(|cluster_queue| cluster_queue.paused)
    }

    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Element> {
        self.by_cluster.get(&key.cluster)?.elements.get(&key.binding)
    }

    /// The elements of one cluster, by binding.
    pub fn of_cluster(&self, cluster: &ClusterName) -> impl Iterator<Item = (&BindingKey, &Element)> {
        self.by_cluster.get(cluster).into_iter().flat_map(|cluster_queue| &cluster_queue.elements)
    }

    /// Clusters that a binding is to leave.
    pub fn of_binding(&self, binding: &BindingKey) -> impl Iterator<Item = &ClusterName> {
        self.by_binding.get(binding).into_iter().flatten()
    }

    /// All elements, by cluster and binding.
    pub fn iter(&self) -> impl Iterator<Item = (&ClusterName, &BindingKey, &Element)> {
        self.by_cluster
            .iter()
            .flat_map(|(cluster, cluster_queue)| cluster_queue.elements.iter().map(move |(b, e)| (cluster, b, e)))
    }

    /// Number of elements, including those in progress.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tally.pending()
    }

    /// True if there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters behind the metrics, updated with each change.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counters for events outside the queue: failed attempts, ended episodes.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn get_mut(&mut self, key: &Key) -> Option<&mut Element> {
        self.by_cluster.get_mut(&key.cluster)?.elements.get_mut(&key.binding)
    }

    fn set_place(&mut self, key: &Key, place: Place, order: Order) {
        let Some(element) = self
            .by_cluster
            .get_mut(&key.cluster)
            .and_then(|cluster_queue| cluster_queue.elements.get_mut(&key.binding))
        else {
            return;
        };
        let before = (element.place, element.order);
        (element.place, element.order) = (place, order);
        self.tally.moved(key, element, before);
    }

    fn line_up(&mut self, key: &Key, order: Order) {
        let Some(cluster_queue) = self.by_cluster.get_mut(&key.cluster) else { return };
        let head = cluster_queue.ready.first_key_value().map(|(order, _)| *order);
        cluster_queue.ready.insert(order, key.binding.clone());
        if !cluster_queue.paused && head.is_none_or(|head| order < head) {
            if let Some(head) = head {
                self.heads.remove(&head);
            }
            self.heads.insert(order, key.cluster.clone());
        }
    }

    fn leave_line(&mut self, key: &Key, order: Order) {
        let Some(cluster_queue) = self.by_cluster.get_mut(&key.cluster) else { return };
        if cluster_queue.ready.remove(&order).is_none() || cluster_queue.paused {
            return;
        }
        if self.heads.remove(&order).is_some()
            && let Some((next, _)) = cluster_queue.ready.first_key_value()
        {
            self.heads.insert(*next, key.cluster.clone());
        }
    }
}

#[cfg(test)]
mod tests;
