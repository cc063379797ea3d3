//! The scheduler: from bindings to clusters (specification/scheduling.md 2). One binding is decided on at a time, so
//! that each cycle sees the result of the previous one. It does not wait for the answers to its writes.

mod apply;
pub(crate) mod metrics;
mod observe;
mod preemption;
mod waiting;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{cluster::Cluster, policy::FederatedResourceQuota};
use ironclad_fleet::{Binding, BindingKey, BindingRef, ClusterName, gates::Gate};
use ironclad_planning::leader::QueuedBinding;
use ironclad_propagation::quota::usage;
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, Queued, QueuedState};
use ironclad_scheduling::{
    self as scheduling, Available, Decision, Interests, Since, capacity,
    preempt::may_preempt,
    wakes::{
        self,
        binding::Wake,
        cluster::{Wakes, concerns},
    },
};
use ironclad_seam::{Seam, Tasks};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::sync;

use self::{
    apply::Applier,
    metrics::{Incoming, SchedulerMetrics},
    observe::Observer,
    preemption::Preemption,
    waiting::Waiting,
};
use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    caches::QUOTAS,
    capacity::FleetCapacity,
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    estimates::Estimates,
    groups::Fellow,
    groups::Groups,
    index::BY_TARGET,
    setup::{Setup, on_change},
};

/// Bindings waiting for capacity that the growth of one cluster enqueues at most. The others follow with its next
/// growth, or by their own recheck.
const WOKEN_MAX: usize = 100;
/// Bindings that are enqueued at most when one of lower priority is placed.
const OFFERED_MAX: usize = 16;
/// Growth of several clusters within this time enqueues a binding once (specification/scheduling.md 16.3).
const WAKE_DELAY: Duration = Duration::from_millis(500);

struct Scheduler {
    seam: Seam,
    queue: Queue<Key>,
    bindings: Bindings,
    fleet: ClusterSnapshot,
    capacity: FleetCapacity,
    estimates: Estimates,
    /// Locked during a decision, first come, first served: each decision sees the one before. Do not hold it across an
    /// `.await`.
    cycle: sync::Mutex<()>,
    waiting: Arc<Mutex<Waiting>>,
    /// Bindings by the affinities that select their clusters.
    interests: Mutex<Interests>,
    /// Changes of clusters since the last cycles of bindings.
    since: Mutex<BTreeMap<Key, Since>>,
    observer: Observer,
    applier: Applier,
    preemption: Arc<Preemption>,
    groups: Groups,
    /// `None` if quotas are not enforced.
    quotas: Option<Informer<FederatedResourceQuota>>,
    metrics: SchedulerMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let metrics = setup.register(SchedulerMetrics::register);
    let by_priority = setup.settings.gates.enabled(Gate::PriorityBasedScheduling);
    let bindings = setup.bindings().clone();
    let queue = setup.queue(Scheduler::NAME);
    let queue = if by_priority { queue.ranked(move |key| rank(&bindings, key)) } else { queue };
    metrics.watch(&queue);
    setup.explain.offer_scheduling_queue(queue_reader(&queue, &metrics.waiting()));
    let preemption = Arc::new(Preemption::new(setup, metrics.clone()));
    let this = Arc::new(Scheduler {
        seam: setup.seam.clone(),
        queue,
        bindings: setup.bindings().clone(),
        fleet: setup.fleet().clone(),
        capacity: setup.capacity().clone(),
        estimates: setup.estimates().clone(),
        cycle: sync::Mutex::new(()),
        waiting: metrics.waiting(),
        interests: Mutex::default(),
        since: Mutex::default(),
        observer: Observer::new(setup),
        applier: Applier::new(setup, preemption.clone()),
        preemption,
        groups: setup.groups().clone(),
        quotas: setup.settings.gates.enabled(Gate::FederatedQuotaEnforcement).then(|| setup.caches.take(&QUOTAS)),
        metrics,
    });
    if let Some(quotas) = &this.quotas {
        on_change(quotas, &this, Scheduler::on_quota);
    }
    if let Some(pause) = &this.preemption.pause {
        pause.on_change(&this, Scheduler::on_pause);
    }
    let weak = Arc::downgrade(&this);
    setup.groups().on_fellow(move |fellow| {
        if let Some(this) = weak.upgrade() {
            this.on_fellow(fellow);
        }
    });
    on_change(&setup.bindings().namespaced, &this, |this, change| this.preemption.on_binding(change));
    on_change(&setup.bindings().namespaced, &this, |this, change| this.capacity.on_binding(change));
    setup.bindings().on_change(&this, Scheduler::on_binding);
    on_change(setup.clusters(), &this, Scheduler::on_cluster);
    this
}

impl Reconciler for Scheduler {
    type Key = Key;
    const NAME: &'static str = "scheduler";
    /// Results that are being written at once.
    const WORKERS: usize = 16;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        self.waiting.lock().leave(key);
        let remote = self.ask_estimators(key).await;
        let cycle = self.cycle.lock().await;
        let since = self.since.lock().get(key).copied().unwrap_or_default();
        let Some(binding) = self.observer.binding(key) else {
            self.since.lock().remove(key);
            return Ok(Next::Forget);
        };
        self.capacity.expire();
        let available = self.estimates.available(binding.view(), remote);
        let mut attempt = self.metrics.attempt(&self.seam.clock);
        self.waiting.lock().begins(key);
        let over_quota = self.preemption.over_quota(binding.view());
        let decision = {
            let preemption = self.preemption.read();
            let capacity = self.capacity.lock();
            let preempting = preemption.as_ref().map(|read| read.preempting(over_quota.as_deref()));
            let (options, peers) = (self.capacity.options(), self.groups.read());
            let observed = self.observer.observe(available);
            let seen = observed.seen(&binding, &capacity, options, since, preempting, peers.as_deref());
            scheduling::decide_timed(&seen, self.seam.clock.wall_seconds(), &mut |tick| attempt.tick(tick))
        };
        let assumed = decision.result().map(|targets| self.capacity.assume(binding.view(), targets));
        if let Some(targets) = decision.result() {
            self.groups.assign(binding.view(), targets);
        }
        self.preemption.record(&binding, &decision);
        drop(cycle);
        let applied = self.applier.apply(key, &binding, &decision, assumed).await;
        let over_quota = applied.as_ref().ok().and_then(|applied| applied.over_quota.clone());
        let outcome = applied.map(|applied| applied.next);
        self.groups.assigned(binding.view());
        if since != Since::default() && outcome.is_ok() {
            self.since.lock().remove(key);
        }
        attempt.ended(decision.attempt(), outcome.is_ok());
        self.note_failure(key, binding.view(), &decision, outcome.is_ok());
        let missed = self.waiting.lock().ends(key);
        if let Some(lacking) = over_quota.filter(|_| self.quotas.is_some()) {
            self.waiting.lock().for_quota(key, binding.view(), lacking);
            self.metrics.incoming(Incoming::ScheduleAttemptFailure);
            if missed.quota {
                self.enqueue_within_quota(&key.namespace);
            }
            return Ok(Next::After(scheduling::UNSCHEDULABLE_AGAIN));
        }
        if decision.next == scheduling::Next::WhenCapacityOrQuota && missed.quota {
            self.enqueue_within_quota(&key.namespace);
        }
        if matches!(decision.next, scheduling::Next::WhenCapacity | scheduling::Next::WhenCapacityOrQuota) {
            missed.grown.iter().for_each(|cluster| self.enqueue_waiting(cluster));
        }
        outcome
    }

    fn start_beside(self: &Arc<Self>, tasks: &Tasks) {
        let this = self.clone();
        tasks.supervise(&self.seam.clock, "scheduler/growth", move || {
            let this = this.clone();
            async move { this.follow_growth().await }
        });
    }

    /// Bindings that fit no cluster are rechecked after minutes.
    fn is_quiet_beside(&self) -> bool {
        self.queue.len() <= self.waiting.lock().unfit()
    }
}

impl Scheduler {
    /// Asks the estimators over gRPC, before the cycle: others need not wait for their answers.
    async fn ask_estimators(&self, key: &Key) -> Vec<(ClusterName, i64)> {
        if !self.estimates.asks_over_the_network() {
            return Vec::new();
        }
        let Some(binding) = self.observer.binding(key) else { return Vec::new() };
        let since = self.since.lock().get(key).copied().unwrap_or_default();
        let calls = {
            let capacity = self.capacity.lock();
            let observed = self.observer.observe(Available::new());
            let seen = observed.seen(&binding, &capacity, self.capacity.options(), since, None, None);
            self.estimates.calls_for(&seen)
        };
        self.estimates.ask(binding.spec(), calls).await
    }

    /// Enqueues what waits for capacity when something became free in a cluster, whatever it was: the account tells.
    async fn follow_growth(&self) {
        loop {
            for cluster in &self.capacity.grown().await {
                self.enqueue_waiting(cluster);
            }
        }
    }

    /// Notes what a binding waits for whose attempt failed.
    fn note_failure(&self, key: &Key, binding: BindingRef<'_>, decision: &Decision, written: bool) {
        match decision.next {
            _ if !written => self.waiting.lock().backs_off(key),
            next @ (scheduling::Next::WhenCapacity | scheduling::Next::Nominated) => {
                let is_nominated = next == scheduling::Next::Nominated;
                self.waiting.lock().for_capacity(key, binding, is_nominated, self.capacity.options());
            }
            scheduling::Next::WhenCapacityOrQuota => {
                // An unreadable quantity is refused by the quota at each attempt.
                let lacking = usage::lacking(binding.spec()).unwrap_or_default();
                self.waiting.lock().for_capacity_or_quota(key, binding, lacking, self.capacity.options());
            }
            scheduling::Next::Recheck => self.waiting.lock().for_fit(key),
            scheduling::Next::Backoff => self.waiting.lock().backs_off(key),
            scheduling::Next::OnEvent | scheduling::Next::At(_) => return,
        }
        self.metrics.incoming(Incoming::ScheduleAttemptFailure);
    }

    fn on_binding(&self, change: &BindingChange) {
        let (old, new) = (change.old.as_ref().map(Binding::view), change.new.as_ref().map(Binding::view));
        let Some(new) = new else {
            if let Some(old) = old {
                self.waiting.lock().leave(&key_of(old));
                self.interests.lock().remove(&old.key());
            }
            return;
        };
        if old.is_none_or(|old| !Interests::is_unchanged(old, new)) {
            self.interests.lock().update(new);
        }
        self.offer_victim(old, new);
        let is_nominated = new.status().is_some_and(|status| !status.nominated_clusters.is_empty());
        self.waiting.lock().changed(&key_of(new), new, is_nominated, self.capacity.options());
        match wakes::binding::wake(old, new, self.capacity.options()) {
            Some(Wake::Added) => {
                let is_new = change.new.as_ref().is_some_and(|new| self.bindings.is_synced(new));
                let cause = if is_new { Cause::User } else { Cause::Replay };
                self.enqueue(key_of(new), Incoming::BindingAdd, cause);
            }
            Some(Wake::Updated) => self.enqueue(key_of(new), Incoming::BindingUpdate, Cause::User),
            None => {}
        }
    }

    /// Enqueues the first bindings of higher priority that wait, once a binding is placed that could make room for
    /// them: they may have been tried before anybody knew where it runs.
    fn offer_victim(&self, old: Option<BindingRef<'_>>, new: BindingRef<'_>) {
        let clusters = wakes::binding::newly_placed(old, new, self.capacity.options().preemption());
        if clusters.is_empty() {
            return;
        }
        let fleet = self.fleet.all();
        let waiting = self.waiting.lock().above(scheduling::priority(new.spec()), OFFERED_MAX);
        for key in waiting {
            let Some(binding) = self.bindings.get(&key) else { continue };
            let mut clusters = clusters.iter().filter_map(|cluster| fleet.get(cluster));
            if clusters.any(|cluster| concerns(binding.view(), cluster, self.capacity.options())) {
                self.queue.add_after(key, WAKE_DELAY);
            }
        }
    }

    /// Enqueues the bindings that may preempt others once evictions are no longer paused.
    fn on_pause(&self) {
        let waiting = self.waiting.lock().for_pause();
        for key in waiting {
            let binding = self.bindings.get(&key);
            if binding.is_some_and(|binding| may_preempt(binding.view(), self.capacity.options().preemption())) {
                self.queue.add(key);
            }
        }
    }

    fn on_quota(&self, change: &Change<FederatedResourceQuota>) {
        let Some(quota) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let namespace = quota.namespace().unwrap_or_default();
        self.waiting.lock().quota_changed(&namespace);
        self.enqueue_within_quota(&namespace);
    }

    /// Enqueues the bindings of the namespace that wait for quota and fit into what is left.
    fn enqueue_within_quota(&self, namespace: &str) {
        let Some(quotas) = &self.quotas else { return };
        let fitting = {
            let waiting = self.waiting.lock();
            waiting.within_quota(namespace, &quotas.namespace(namespace))
        };
        for key in fitting {
            self.metrics.incoming(Incoming::QuotaChanged);
            self.queue.add(key);
        }
    }

    /// A member of its group changed: the binding may fit elsewhere now.
    fn on_fellow(&self, fellow: &Fellow) {
        let key = Key::new(&fellow.key.namespace, &fellow.key.name);
        let waits = {
            let waiting = self.waiting.lock();
            waiting.is_unschedulable(&key) || waiting.is_attempted(&key)
        };
        let Some(binding) = self.bindings.get(&key) else { return };
        if wakes::binding::fellow(binding.view(), waits, fellow.group_moved, self.capacity.options()) {
            self.enqueue(key, Incoming::BindingUpdate, Cause::Replay);
        }
    }

    /// Enqueues a binding, whatever it waits for. Users' changes precede what a start or the fleet causes.
    fn enqueue(&self, key: Key, event: Incoming, cause: Cause) {
        self.waiting.lock().leave(&key);
        self.metrics.incoming(event);
        match cause {
            Cause::User => self.queue.add(key),
            Cause::Replay => self.queue.add_low_priority(key),
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(name) = new.or(old).map(|cluster| ClusterName::from(cluster.name_any().as_str())) else { return };
        self.capacity.on_cluster(&name, change);
        if capacity::restores(old, new, self.seam.clock.wall()) {
            self.capacity.restore(&self.bindings, &name);
        }
        let wakes = wakes::cluster::wakes(old, new);
        if wakes == Wakes::Nobody {
            return;
        }
        let (options, now) = (self.capacity.options(), self.seam.clock.wall_seconds());
        for key in self.concerned(&name, old, new) {
            let Some(binding) = self.bindings.get(&key) else { continue };
            let is_unschedulable = || self.waiting.lock().is_unschedulable(&key);
            let enqueues = wakes::cluster::enqueues(binding.view(), old, new, wakes, is_unschedulable, options, now);
            let Some(since) = enqueues else { continue };
            if since != Since::default() {
                let mut all = self.since.lock();
                let one = all.entry(key.clone()).or_default();
                *one = one.and(since);
            }
            self.enqueue(key, Incoming::ClusterChanged, Cause::Replay);
        }
    }

    /// Bindings that a changed cluster may concern: its targets, and those whose affinity selects it. Namespaced ones
    /// come first.
    fn concerned(&self, name: &ClusterName, old: Option<&Cluster>, new: Option<&Cluster>) -> Vec<Key> {
        let targets = self.bindings.by_index(BY_TARGET, &name.0);
        let mut keys: BTreeSet<Key> = targets.iter().map(queue_key).collect();
        let interests = self.interests.lock();
        keys.extend(interests.selecting(old, new).map(|key| Key::new(&key.namespace, &key.name)));
        let (cluster_scoped, mut keys): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|key| key.namespace.is_empty());
        keys.extend(cluster_scoped);
        keys
    }

    /// Enqueues bindings that wait for capacity and may fit into this cluster, in the order in which they began to
    /// wait.
    fn enqueue_waiting(&self, name: &ClusterName) {
        self.waiting.lock().grew(name);
        let clusters = self.fleet.all();
        let Some(cluster) = clusters.get(name) else { return };
        let fitting = {
            let capacity = self.capacity.lock();
            self.waiting.lock().fitting(cluster, &capacity, WOKEN_MAX)
        };
        if fitting.len() == WOKEN_MAX {
            // Others may fit, too, once these are placed.
            self.capacity.grew(name);
        }
        let concerned = |b: Binding| concerns(b.view(), cluster, self.capacity.options());
        // A preempted copy returns once nothing is held for others any more.
        let kept_away = self.preemption.kept_away();
        let kept_away = kept_away.into_iter().filter(|key| {
            let binding = self.bindings.get(key);
            binding.is_some_and(|binding| binding.spec().target(&name.0).is_none() && concerned(binding))
        });
        for key in kept_away {
            self.queue.add_after(key, WAKE_DELAY);
        }
        for key in fitting.into_iter().filter(|key| self.bindings.get(key).is_some_and(concerned)) {
            self.metrics.incoming(Incoming::ClusterChanged);
            self.queue.add_after(key, WAKE_DELAY);
        }
    }
}

/// Cause for which a binding is enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Somebody waits for the result.
    User,
    /// The first list after a start, or a change of the fleet.
    Replay,
}

/// Reads the queue: the bindings in it, the highest priority first, without their messages.
fn queue_reader(queue: &Queue<Key>, waiting: &Arc<Mutex<Waiting>>) -> impl Fn() -> Vec<QueuedBinding> + use<> {
    let (queue, waiting) = (queue.clone(), waiting.clone());
    move || {
        let (mut all, waiting) = (queue.waiting(), waiting.lock());
        all.sort_by_key(|queued| (queued.state != QueuedState::Working, Reverse(queued.rank)));
        let read = |(index, queued): (usize, Queued<Key>)| {
            let (state, cause, wait) = match queued.state {
                QueuedState::Working => ("Scheduling", "Change", None),
                QueuedState::Ready => ("Active", "Change", None),
                QueuedState::LowPriority => ("Active", "Replay", None),
                QueuedState::Delayed(wait) if waiting.is_unschedulable(&queued.key) => {
                    ("Unschedulable", "Change", Some(wait))
                }
                QueuedState::Delayed(wait) => ("Backoff", "Change", Some(wait)),
            };
            QueuedBinding {
                binding: BindingKey { namespace: queued.key.namespace, name: queued.key.name },
                position: index + 1,
                priority: queued.rank,
                cause: cause.to_owned(),
                state: state.to_owned(),
                wait_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                attempts: queued.failures,
                message: None,
            }
        };
        all.into_iter().enumerate().map(read).collect()
    }
}

/// Priority of a binding in the queue.
fn rank(bindings: &Bindings, key: &Key) -> i32 {
    bindings.get(key).map_or(0, |binding| scheduling::priority(binding.spec()))
}

fn key_of(binding: BindingRef<'_>) -> Key {
    let key = binding.key();
    Key::new(&key.namespace, &key.name)
}

#[cfg(test)]
mod tests {
    use ironclad_seam::{Clock, Rng};
    use jiff::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn queue_is_shown_with_the_highest_priority_first() {
        let priority = |key: &Key| key.name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let queue = Queue::new(clock, Rng::from_seed(1).stream("queue")).ranked(priority);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let key = |name: &str| Key::new("n", name);
        queue.add(key("working-0"));
        let working = queue.next().await;
        for (name, wait) in [("waits-5", 300), ("waits-100", 300), ("waits-1", 200), ("retries-7", 10)] {
            queue.add_after(key(name), Duration::from_secs(wait));
        }
        for name in ["waits-5", "waits-100", "waits-1"] {
            waiting.lock().for_fit(&key(name));
        }
        queue.add_low_priority(key("replayed-5"));
        queue.add(key("changed-5"));
        queue.add(key("changed-50"));
        let shown = queue_reader(&queue, &waiting)();
        let names: Vec<&str> = shown.iter().map(|one| &*one.binding.name).collect();
        let want =
            ["working-0", "waits-100", "changed-50", "retries-7", "changed-5", "replayed-5", "waits-5", "waits-1"];
        assert_eq!(names, want);
        let unschedulable: Vec<&str> =
            shown.iter().filter(|one| one.state == "Unschedulable").map(|one| &*one.binding.name).collect();
        assert_eq!(unschedulable, ["waits-100", "waits-5", "waits-1"]);
        queue.done(&working);
    }
}
