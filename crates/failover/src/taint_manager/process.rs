//! Processing of one element: evict now, drop, park or retry (specification/failover.md 6.7).

use std::{collections::BTreeSet, time::Duration};

use ironclad_api::{
    StringMap, Time, events,
    eviction::PRODUCER_TAINT_MANAGER,
    policy::{PurgeMode, ReplicaSchedulingType},
    work::{FailoverRecord, GracefulEvictionTask},
};
use ironclad_fleet::{
    Binding, BindingKey, ClusterName, Clusters, Event, StatusPart,
    because::eviction::{NoTarget, Reason},
    eviction_task,
};
use ironclad_options::in_words;
use ironclad_scheduling::{Options, Peers, moves_in_part};
use serde_json::{Map, Value};

use super::{Evictions, is_ready};
use crate::{
    Now,
    eviction_history::recorded,
    flags::eviction::{EvictionFlags, Mode},
    preserved_state,
    taint_manager::pre_scheduling_check::{AvailableReplicas, Snapshot, has_capacity, has_target},
    taint_manager::queue::{Abandoned, Element, Key, Place},
    taint_manager::rate::Token,
    taint_manager::verdict::Causes,
};

/// Maximum number of elements per call that cost no rate.
const FREE_STEPS: usize = 256;
/// Retry interval of an eviction that waits for an earlier one of the same binding.
const AGAIN: Duration = Duration::from_millis(200);
/// Conflicts in a row that are retried at once; later ones back off.
const CONFLICTS_MAX: u32 = 5;

/// Next step of the driver.
#[derive(Debug)]
#[must_use = "an eviction that nobody writes and reports stays under way"]
pub enum Next {
    /// Write this, and report with [`Evictions::done`].
    Evict(Box<Eviction>),
    /// Call again at this moment, or when something changed; `None`: only when something changed.
    Wait(Option<Duration>),
    /// Call again at once, after yielding.
    Again,
}

/// One eviction to write now.
#[derive(Debug, Clone)]
pub struct Eviction {
    /// Key of the element.
    pub key: Key,
    /// The observed binding: the write is conditional on its version.
    pub binding: Binding,
    /// Merge patch of the binding: removes the cluster from the result, adds the task.
    pub patch: Value,
    /// The appended task, unless one for this cluster exists.
    pub task: GracefulEvictionTask,
    /// For `status.failoverHistory`.
    pub record: FailoverRecord,
    pub because: Reason,
    token: Token,
}

impl Eviction {
    /// History with this migration, to be written into the status after the eviction.
    #[must_use]
    pub fn status(&self) -> StatusPart {
        let history = self.binding.status().map_or(&[][..], |status| &status.failover_history);
        let mut fields = Map::new();
        fields.insert("failoverHistory".to_owned(), recorded(history, self.record.clone()));
        StatusPart { fields, conditions: Vec::new() }
    }
}

/// Result of writing an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Written,
    /// The binding changed meanwhile.
    Conflict,
    /// Not written: the cluster recovered meanwhile.
    Withdrawn,
    /// Not written, or the result is unknown, for this reason.
    Failed(String),
}

/// Next step of one element.
#[derive(Debug)]
pub(super) enum Step {
    /// Remove it from the queue; costs no rate.
    Drop(Abandoned),
    /// Park it: it has no target.
    Park(Reason),
    /// Wait, without counting a failure.
    Wait,
    /// Retry later: it can't be written now.
    Fail(Reason),
    /// Write it.
    Evict(Box<Planned>),
}

/// An eviction that the rate has not admitted yet.
#[derive(Debug)]
pub(super) struct Planned {
    patch: Value,
    task: GracefulEvictionTask,
}

/// Input of the decision on evictions besides the binding.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub clusters: &'a Clusters,
    /// Available capacity, for `--eviction-capacity-check`.
    pub available: Option<AvailableReplicas<'a>>,
    /// Groups of workloads; `None` while gate `WorkloadAffinity` is off.
    pub peers: Option<&'a Peers>,
}

/// Context of one element.
pub(super) struct Around<'a> {
    /// Other clusters from which the binding is to be evicted.
    others: &'a BTreeSet<ClusterName>,
    clusters: &'a Clusters,
    available: Option<AvailableReplicas<'a>>,
    /// The groups of the binding, without what leaves the same cluster.
    peers: Option<&'a Peers>,
    scheduler: &'a Options,
}

/// Decides on one element, regardless of the rate.
pub(super) fn decide(
    key: &Key,
    element: &Element,
    binding: Option<&Binding>,
    around: &Around<'_>,
    flags: &EvictionFlags,
    now: Now,
) -> Step {
    let (others, clusters) = (around.others, around.clusters);
    let Some(binding) = binding else { return Step::Drop(Abandoned::Obsolete) };
    let spec = binding.spec();
    let deleted = binding.metadata().deletion_timestamp.is_some() || *element.request.binding_uid != *binding.uid();
    if deleted || spec.target(&key.cluster.0).is_none() {
        return Step::Drop(Abandoned::Obsolete);
    }
    match clusters.get(&key.cluster) {
        None => return Step::Drop(Abandoned::Deleted),
        Some(cluster) if cluster.metadata.uid.as_deref().unwrap_or_default() != &*element.request.cluster_uid => {
            return Step::Drop(Abandoned::Deleted);
        }
        Some(_) => {}
    }
    let stays = |name: &str| *name != *key.cluster.0 && !others.iter().any(|other| *other.0 == *name);
    let substitute = spec.clusters.iter().any(|t| stays(&t.name) && is_ready(clusters, &t.name.as_str().into()));
    let under_way = spec
        .graceful_eviction_tasks
        .iter()
        .any(|task| task.producer == PRODUCER_TAINT_MANAGER && task.from_cluster != *key.cluster.0);
    // The second eviction of a binding waits until the scheduler has answered the first. Otherwise both copies might be
    // evicted before a third is scheduled (IR-33).
    if under_way && !substitute && !binding.is_observed() {
        return Step::Wait;
    }
    let snapshot = Snapshot { clusters, scheduler: around.scheduler, peers: around.peers, now: now.wall };
    let mut left_out = BTreeSet::from([key.cluster.clone()]);
    if under_way && !substitute {
        left_out.extend(others.iter().cloned());
    }
    if let Err(why) = has_target(binding, &left_out, &snapshot, flags.pre_scheduling_check) {
        return Step::Park(Reason::NoTarget(why));
    }
    // The copy in a ready cluster may be the last one that runs: directly it leaves only for one that can start.
    let is_last = element.request.purge_mode == PurgeMode::Directly
        && is_ready(clusters, &key.cluster)
        && (divides(binding) || !substitute);
    if let Some(available) = around.available.filter(|_| flags.eviction_capacity_check || is_last)
        && let Err(why) = has_capacity(binding, &key.cluster, &left_out, &snapshot, available)
        && !(is_last && matches!(why, NoTarget::InsufficientCapacity { found: 1.., .. }) && moves_in_part(spec))
    {
        return Step::Park(Reason::NoTarget(why));
    }
    let state = match preserved_state(&key.cluster, binding, flags) {
        Ok(state) => state,
        Err(reason) => return Step::Fail(reason),
    };
    let causes = &element.request.causes;
    let why = eviction_task::Why {
        purge_mode: element.request.purge_mode,
        reason: causes.task_reason(),
        producer: PRODUCER_TAINT_MANAGER,
        message: message(element, now),
    };
    let task = GracefulEvictionTask {
        preserved_label_state: state,
        // The rule of injection reads it, also after a cluster failover (IR-17).
        clusters_before_failover: spec.clusters.iter().map(|target| target.name.clone()).collect(),
        ..eviction_task::task(spec, &key.cluster, &why)
    };
    let task = eviction_task::dated(task, evicted_at(causes, now));
    match eviction_task::patch(spec, std::slice::from_ref(&task)) {
        Some(patch) => Step::Evict(Box::new(Planned { patch, task })),
        None => Step::Drop(Abandoned::Obsolete),
    }
}

/// Returns whether the replicas of a binding are divided: each cluster has some that no other has.
fn divides(binding: &Binding) -> bool {
    let placement = binding.spec().placement.as_ref();
    placement.is_some_and(|placement| placement.replica_scheduling_type() == ReplicaSchedulingType::Divided)
}

/// The time that an eviction is recorded with. It is not before the eviction was due, although the clock may have been
/// set back since: the scheduler compares it with the time of the taint ([`ironclad_fleet::taint::repelling_at`]).
fn evicted_at(causes: &Causes, now: Now) -> jiff::Timestamp {
    now.wall.max(causes.due())
}

/// Labels that the new copy inherits, if requested and the gate is on (5.4).
fn preserved_state(cluster: &ClusterName, binding: &Binding, flags: &EvictionFlags) -> Result<StringMap, Reason> {
    let spec = binding.spec();
    let failover = spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
    let rules = failover.and_then(|cluster| cluster.state_preservation.as_ref());
    let Some(rules) = rules.filter(|_| flags.state_preservation) else { return Ok(StringMap::new()) };
    let status = binding.status().map_or(&[][..], |status| &status.aggregated_status);
    preserved_state::collect(rules, cluster, status, spec.graceful_eviction_tasks.last())
        .map_err(|error| Reason::StateUnreadable { error: error.to_string() })
}

/// Message of the task: the taints, the due time, the time it waited.
fn message(element: &Element, now: Now) -> String {
    let causes = &element.request.causes;
    let waited = in_words(now.mono.saturating_sub(element.enqueued_at.unwrap_or(now.mono)));
    format!("taints {}; due {}; waited {waited} in the queue", causes.taints().join(", "), causes.due())
}

impl Evictions {
    /// Next step. `binding` returns a binding with its last write.
    pub fn next(&mut self, clusters: &Clusters, binding: impl Fn(&BindingKey) -> Option<Binding>, now: Now) -> Next {
        self.next_in(Surroundings { clusters, available: None, peers: None }, binding, now)
    }

    /// Like [`Evictions::next`], with the available capacity that `--eviction-capacity-check` needs, and the groups of
    /// workloads.
    pub fn next_in(
        &mut self,
        around: Surroundings<'_>,
        binding: impl Fn(&BindingKey) -> Option<Binding>,
        now: Now,
    ) -> Next {
        let Surroundings { clusters, available, peers } = around;
        let due = self.queue.promote(now.mono);
        let allowed = self.allowed(now);
        self.record_state_change(&allowed);
        let starting = self.fleet.next_change(now.wall).map(|at| now.mono_at(at));
        let wake = [due, self.guards.next_change(now), starting].into_iter().flatten().min();
        let wake = if self.queue.is_empty() { None } else { wake };
        self.reached.observe(allowed.rate, self.working > 0 || self.queue.lined_up() > 0, now.mono);
        let Some(at) = self.pacer.next_allowed(allowed.rate) else { return Next::Wait(wake) };
        let late = self.pacer.awaits_answer(allowed.rate, now.mono);
        if self.queue.tally().ready() == 0 || self.pacer.is_busy(allowed.rate) || late {
            return Next::Wait(wake);
        }
        if at > now.mono {
            return Next::Wait(Some(wake.map_or(at, |wake| wake.min(at))));
        }
        for _ in 0..FREE_STEPS {
            let Some((key, element)) = self.queue.take() else { return Next::Wait(wake) };
            let seen = binding(&key.binding);
            let mut others: BTreeSet<_> = self.queue.of_binding(&key.binding).cloned().collect();
            others.remove(&key.cluster);
            let busy = others.iter().any(|cluster| {
                let other = Key { cluster: cluster.clone(), binding: key.binding.clone() };
                self.queue.get(&other).is_some_and(|other| matches!(other.place, Place::Working { .. }))
            });
            let step = if busy {
                Step::Wait
            } else {
                let scheduler = &self.flags.scheduler;
                let peers = peers.map(|peers| self.peers_that_stay(&key, peers, clusters, &binding, now));
                let around = Around { others: &others, clusters, available, peers: peers.as_ref(), scheduler };
                decide(&key, &element, seen.as_ref(), &around, &self.flags.eviction, now)
            };
            match (step, seen) {
                (Step::Drop(why), _) => {
                    self.queue.remove(&key, why);
                    self.notices.abandoned(&key, &element, why, now.mono);
                }
                (Step::Park(reason), _) => self.park(&key, &element, &reason, now),
                (Step::Fail(reason), _) => {
                    self.record_failure(&key, &element, &reason);
                    let wait = self.backoff(element.attempts, now.mono);
                    self.queue.failed(&key, wait, now.mono);
                    self.notices.changed(&key.binding, now.mono);
                }
                (Step::Evict(planned), Some(seen)) => {
                    let Some(token) = self.pacer.take(allowed.rate, now.mono) else {
                        self.queue.put_back(&key);
                        return Next::Wait(Some(at));
                    };
                    if let Some(eviction) = self.leave(key, &element, seen, *planned, token, now) {
                        return Next::Evict(Box::new(eviction));
                    }
                    self.pacer.answered(token, now.mono);
                }
                (Step::Wait | Step::Evict(_), _) => self.queue.wait(&key, AGAIN, now.mono),
            }
        }
        Next::Again
    }

    /// The groups of a binding without those members that are to leave the same cluster now, and can: a group whose
    /// members hold each other in a lost cluster would never leave it.
    #[must_use]
    pub fn peers_that_stay(
        &self,
        key: &Key,
        peers: &Peers,
        clusters: &Clusters,
        binding: impl Fn(&BindingKey) -> Option<Binding>,
        now: Now,
    ) -> Peers {
        let snapshot = Snapshot { clusters, scheduler: &self.flags.scheduler, peers: None, now: now.wall };
        let check = self.flags.eviction.pre_scheduling_check;
        peers.without(&key.binding, |other| {
            let other = Key { cluster: key.cluster.clone(), binding: other.clone() };
            let left_out = BTreeSet::from([key.cluster.clone()]);
            let is_due = self.queue.get(&other).is_some_and(|element| element.place != Place::Delayed);
            let leaves = is_due
                && binding(&other.binding).is_some_and(|other| has_target(&other, &left_out, &snapshot, check).is_ok());
            left_out.into_iter().filter(|_| leaves).map(|cluster| cluster.0).collect()
        })
    }

    fn park(&mut self, key: &Key, element: &Element, reason: &Reason, now: Now) {
        self.parked_for_capacity |= matches!(reason, Reason::NoTarget(NoTarget::InsufficientCapacity { .. }));
        if self.queue.park(key, now.mono) {
            self.record_failure(key, element, reason);
        } else {
            self.queue.explain(key, &reason.to_string());
        }
        self.notices.changed(&key.binding, now.mono);
    }

    /// Returns the admitted eviction, or in observe mode only records an event.
    fn leave(
        &mut self,
        key: Key,
        element: &Element,
        binding: Binding,
        planned: Planned,
        token: Token,
        now: Now,
    ) -> Option<Eviction> {
        let episode = self.episodes.get_mut(&key.cluster)?;
        if self.flags.eviction.failover_mode == Mode::Observe {
            episode.observe(&key.binding);
            self.queue.evicted(&key, now.mono);
            let message = Reason::WouldEvict { from: key.cluster.clone() }.to_string();
            self.record_on_both(&key.binding, &element.request, events::WOULD_EVICT, &message);
            self.notices.changed(&key.binding, now.mono);
            return None;
        }
        let causes = &element.request.causes;
        let seconds = |at: jiff::Timestamp| jiff::Timestamp::from_second(at.as_second()).map(Time).ok();
        let record = FailoverRecord {
            episode: episode.id.to_string(),
            from: key.cluster.to_string(),
            reason: causes.task_reason().to_owned(),
            decided_at: seconds(now.wall_at(element.enqueued_at.unwrap_or(now.mono))),
            evicted_at: seconds(evicted_at(causes, now)),
            targets: Vec::new(),
            cleared_at: None,
            original_clusters: binding.spec().clusters.iter().map(|target| target.name.clone()).collect(),
        };
        let because = Reason::Evict { from: key.cluster.clone(), taints: causes.taints() };
        self.working += 1;
        Some(Eviction { key, binding, patch: planned.patch, task: planned.task, record, because, token })
    }

    /// Records the result of a write. Returns true if the binding was enqueued again meanwhile: pass it to
    /// [`Evictions::binding`] again.
    pub fn done(&mut self, eviction: &Eviction, outcome: &Outcome, now: Now) -> bool {
        self.working = self.working.saturating_sub(1);
        let key = &eviction.key;
        match outcome {
            Outcome::Conflict | Outcome::Withdrawn => self.pacer.give_back(eviction.token),
            Outcome::Written | Outcome::Failed(_) => self.pacer.answered(eviction.token, now.mono),
        }
        // If the cluster recovered meanwhile, the element is no longer in the queue.
        let Some(element) = self.queue.get(key).cloned() else { return false };
        let Place::Working { again } = element.place else { return false };
        match outcome {
            Outcome::Written => {
                self.reached.evicted(now.mono);
                self.queue.evicted(key, now.mono);
                self.left(&key.binding, &key.cluster);
                let message = format!("Evict from cluster {} succeed.", key.cluster);
                let (about, template) = (eviction.binding.reference(), (*element.request.resource).clone());
                self.record_event(Event::normal(about, events::EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, message.clone()));
                self.record_event(Event::normal(template, events::EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, message));
                self.count_in_episode(&key.cluster);
                self.notices.changed(&key.binding, now.mono);
                return again;
            }
            Outcome::Withdrawn => self.queue.put_back(key),
            Outcome::Conflict if self.queue.conflicted(key) <= CONFLICTS_MAX => {
                let wait = self.retries.reserve(&self.flags.eviction, now.mono);
                if wait.is_zero() {
                    self.queue.put_back(key);
                } else {
                    self.queue.wait(key, wait, now.mono);
                }
            }
            Outcome::Conflict => {
                let wait = self.backoff(element.attempts, now.mono);
                self.queue.failed(key, wait, now.mono);
            }
            Outcome::Failed(error) => {
                self.record_failure(key, &element, &Reason::WriteFailed { error: error.clone() });
                let wait = self.backoff(element.attempts, now.mono);
                self.queue.failed(key, wait, now.mono);
                self.notices.changed(&key.binding, now.mono);
            }
        }
        false
    }

    /// Wait of a failed element: by its own failures, and by the rate of all retries.
    fn backoff(&mut self, attempts: u32, now: Duration) -> Duration {
        let flags = &self.flags.eviction;
        flags.backoff(attempts).max(self.retries.reserve(flags, now))
    }

    fn count_in_episode(&mut self, cluster: &ClusterName) {
        let max = self.flags.eviction.max_evictions_per_episode;
        let Some(episode) = self.episodes.get_mut(cluster) else { return };
        episode.evicted = episode.evicted.saturating_add(1);
        if episode.is_exhausted(max) && !self.queue.is_paused(cluster) {
            let about = episode.about.clone();
            self.queue.pause(cluster);
            let message = Reason::EpisodeLimit { max }.to_string();
            self.record_event(Event::warning(about, events::EVICTION_PAUSED, message));
        }
    }

    fn record_failure(&mut self, key: &Key, element: &Element, reason: &Reason) {
        self.queue.explain(key, &reason.to_string());
        self.notices.told(&key.binding);
        let about = key.binding.reference(&element.request.binding_uid);
        let message = format!("Evict from cluster {} failed: {reason}", key.cluster);
        let template = (*element.request.resource).clone();
        self.record_event(Event::warning(about, events::EVICT_WORKLOAD_FROM_CLUSTER_FAILED, message.clone()));
        self.record_event(Event::warning(template, events::EVICT_WORKLOAD_FROM_CLUSTER_FAILED, message));
    }
}
