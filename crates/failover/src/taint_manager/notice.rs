//! The queue's traces on bindings: condition `EvictionPending` and the events of adding and removing
//! (specification/failover.md 6.7 step 11, 14.4). Writes are debounced per binding and limited per second for all, so
//! that a fault of thousands of bindings does not become a flood of writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{
    Condition, StringMap, Time,
    cluster::Cluster,
    conditions::{self, TRUE, binding::EVICTION_PENDING},
    events,
    reasons::binding::{DELAYED, PARKED, QUEUED},
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Event};

use super::Evictions;
use crate::{
    Now,
    taint_manager::queue::{Abandoned, Element, Key, Place, Request},
};

/// Minimum time between two changes of a binding's condition.
const PER_BINDING: Duration = Duration::from_secs(30);
/// An element that leaves the queue sooner than this after it was added shows no condition: by the time of reading it
/// would be outdated, and it would cost two writes and two events for each eviction.
const FIRST: Duration = Duration::from_secs(1);
/// Minimum time between the notices of two bindings.
const BETWEEN: Duration = Duration::from_millis(50);

/// Condition of one binding.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub binding: BindingKey,
    /// New condition `EvictionPending`; `None` removes it.
    pub condition: Option<Condition>,
}

#[derive(Debug, Default)]
pub(super) struct Notices {
    due: BTreeSet<(Duration, BindingKey)>,
    shown: BTreeMap<BindingKey, Shown>,
    next: Duration,
    shapes: BTreeMap<ClusterName, Shape>,
}

#[derive(Debug, Default)]
struct Shown {
    due: Option<Duration>,
    at: Option<Duration>,
    /// Reason and message of the condition in place; `None` if there is none.
    text: Option<(String, String)>,
    /// Evictions that are not needed any more and of which it is to be told.
    abandoned: BTreeMap<ClusterName, (Abandoned, Request)>,
    /// True if people were told that the eviction waits.
    told: bool,
}

/// Input of the check whether a healthy cluster accepts a workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    labels: StringMap,
    place: (String, String, Vec<String>),
    taints: Vec<(String, String)>,
    apis: usize,
}

/// Derives it from the cluster.
pub(super) fn shape(cluster: &Cluster) -> Shape {
    let spec = &cluster.spec;
    Shape {
        labels: cluster.metadata.labels.clone().unwrap_or_default(),
        place: (spec.provider.clone(), spec.region.clone(), spec.zones.clone()),
        taints: spec.taints.iter().map(|taint| (taint.key.clone(), taint.effect.clone())).collect(),
        apis: cluster.status.as_ref().map_or(0, |status| status.api_enablements.len()),
    }
}

impl Notices {
    /// Records a change of a binding's elements.
    pub(super) fn changed(&mut self, binding: &BindingKey, now: Duration) {
        let shown = self.shown.entry(binding.clone()).or_default();
        if shown.due.is_none() {
            let due = match shown.at {
                Some(at) => now.max(at.saturating_add(PER_BINDING)),
                None if shown.text.is_some() => now,
                None => now.saturating_add(FIRST),
            };
            shown.due = Some(due);
            self.due.insert((due, binding.clone()));
        }
    }

    /// Records that an event told why a binding waits.
    pub(super) fn told(&mut self, binding: &BindingKey) {
        self.shown.entry(binding.clone()).or_default().told = true;
    }

    /// Records that an element of a binding was dropped, which its event says soon, whatever was shown last.
    pub(super) fn abandoned(&mut self, key: &Key, element: &Element, why: Abandoned, now: Duration) {
        let shown = self.shown.entry(key.binding.clone()).or_default();
        shown.abandoned.insert(key.cluster.clone(), (why, element.request.clone()));
        let due = now.saturating_add(FIRST);
        if let Some(later) = shown.due.filter(|before| *before > due) {
            self.due.remove(&(later, key.binding.clone()));
        }
        let due = shown.due.map_or(due, |before| before.min(due));
        shown.due = Some(due);
        self.due.insert((due, key.binding.clone()));
    }

    /// Forgets a deleted binding.
    pub(super) fn forget(&mut self, binding: &BindingKey) {
        if let Some(due) = self.shown.remove(binding).and_then(|shown| shown.due) {
            self.due.remove(&(due, binding.clone()));
        }
    }

    /// Records a binding: a condition written by an earlier leader is removed if nothing is pending.
    pub(super) fn seen(&mut self, key: &BindingKey, binding: &Binding, pending: bool, now: Duration) {
        if pending || self.shown.contains_key(key) {
            return;
        }
        let conditions = binding.status().map_or(&[][..], |status| &status.conditions);
        if let Some(existing) = conditions::get(conditions, EVICTION_PENDING) {
            let text = Some((existing.reason.clone(), existing.message.clone()));
            self.shown.insert(key.clone(), Shown { text, ..Shown::default() });
            self.changed(key, now);
        }
    }

    /// True if the cluster changed in a way that matters to workloads.
    pub(super) fn shape_changed(&mut self, name: &ClusterName, shape: Shape) -> bool {
        match self.shapes.insert(name.clone(), shape) {
            None => false,
            Some(before) => self.shapes.get(name) != Some(&before),
        }
    }
}

impl Evictions {
    /// Time at which the next notice is due.
    #[must_use]
    pub fn next_notice_at(&self) -> Option<Duration> {
        self.notices.due.first().map(|(due, _)| (*due).max(self.notices.next))
    }

    /// Returns the next binding whose condition changes, if due. Its events are among
    /// [`Evictions::take_events`].
    pub fn next_notice(&mut self, now: Now) -> Option<Notice> {
        loop {
            if self.next_notice_at().is_none_or(|at| at > now.mono) {
                return None;
            }
            let (_, binding) = self.notices.due.pop_first()?;
            let condition = self.pending_condition(&binding, now);
            let text = condition.as_ref().map(|c| (c.reason.clone(), c.message.clone()));
            let Some(shown) = self.notices.shown.get_mut(&binding) else { continue };
            shown.due = None;
            let (before, abandoned) = (shown.text.clone(), std::mem::take(&mut shown.abandoned));
            let was_told = shown.told || before.is_some();
            let queue = &self.queue;
            let of = |cluster: &ClusterName| Key { cluster: cluster.clone(), binding: binding.clone() };
            let gone: Vec<_> = abandoned.into_iter().filter(|(cluster, _)| queue.get(&of(cluster)).is_none()).collect();
            if text.is_none() {
                self.notices.shown.remove(&binding);
            } else if before != text {
                (shown.text, shown.at) = (text.clone(), Some(now.mono));
            }
            if before == text && (gone.is_empty() || !was_told) {
                continue;
            }
            self.notices.next = now.mono.saturating_add(BETWEEN);
            if let Some((_, message)) = text.filter(|_| before.is_none()) {
                self.record_queued(&binding, &message);
            }
            for (cluster, (why, request)) in gone.iter().filter(|_| was_told) {
                let message = format!("the eviction from {cluster} is not needed any more: {}", why.words());
                self.record_on_both(&binding, request, events::EVICTION_ABANDONED, &message);
            }
            return Some(Notice { binding, condition });
        }
    }

    fn record_queued(&mut self, binding: &BindingKey, message: &str) {
        let first = self.queue.of_binding(binding).next().cloned();
        let key = first.map(|cluster| Key { cluster, binding: binding.clone() });
        let Some(element) = key.and_then(|key| self.queue.get(&key)).cloned() else { return };
        self.record_on_both(binding, &element.request, events::EVICTION_QUEUED, message);
    }

    /// Records a normal event on a binding and on its template (specification/failover.md 14.4).
    pub(super) fn record_on_both(
        &mut self,
        binding: &BindingKey,
        request: &Request,
        reason: &'static str,
        message: &str,
    ) {
        let template = (*request.resource).clone();
        for about in [binding.reference(&request.binding_uid), template] {
            self.record_event(Event::normal(about, reason, message));
        }
    }

    /// Condition `EvictionPending` by the current queue; `None` if no element of the binding is pending.
    #[must_use]
    pub fn pending_condition(&self, binding: &BindingKey, now: Now) -> Option<Condition> {
        let mut parts = Vec::new();
        let mut best: Option<&'static str> = None;
        for cluster in self.queue.of_binding(binding) {
            let key = Key { cluster: cluster.clone(), binding: binding.clone() };
            let Some(element) = self.queue.get(&key) else { continue };
            let due = element.request.causes.due();
            let taints = element.request.causes.taints().join(", ");
            let (reason, text) = match element.place {
                Place::Ready | Place::Working { .. } | Place::Backoff => (QUEUED, format!("queued, due {due}")),
                Place::Delayed => (DELAYED, format!("delayed until {due}")),
                Place::Parked => (PARKED, format!("parked, due {due}: no available target cluster")),
            };
            let rank = |reason: &str| [QUEUED, DELAYED, PARKED].iter().position(|r| *r == reason);
            if best.is_none_or(|best| rank(reason) < rank(best)) {
                best = Some(reason);
            }
            parts.push(format!("{cluster}: {text} ({taints})"));
        }
        let mut condition = conditions::condition(EVICTION_PENDING, TRUE, best?, parts.join("; "));
        let second = jiff::Timestamp::from_second(now.wall.as_second()).unwrap_or(now.wall);
        condition.last_transition_time = Time(second);
        Some(condition)
    }
}
