//! Preemption between bindings: who runs where, who is nominated, and the evictions of a plan
//! (specification/scheduling.md 15).

use std::collections::BTreeSet;

use ironclad_api::{policy::FederatedResourceQuota, work::ResourceBinding};
use ironclad_fleet::{Binding, BindingRef, gates::Gate};
use ironclad_propagation::quota::usage;
use ironclad_runtime::{Change, Failure, Informer, Key, Writer};
use ironclad_scheduling::{
    Decision,
    preempt::{self, Mode, Outcome, Placed, Plan, Preempting, Preemptors, Stale, may_preempt},
};
use ironclad_seam::Clock;
use parking_lot::{Mutex, MutexGuard};

use super::metrics::SchedulerMetrics;
use crate::{bindings::Bindings, caches::QUOTAS, capacity::FleetCapacity, events::Events, pause::Pause, setup::Setup};

/// The preemptions of the scheduler.
pub(super) struct Preemption {
    bindings: Bindings,
    capacity: FleetCapacity,
    events: Events,
    writer: Writer,
    clock: Clock,
    metrics: SchedulerMetrics,
    /// `None` if nobody may preempt, or quotas are not enforced.
    quotas: Option<Informer<FederatedResourceQuota>>,
    state: Mutex<State>,
    /// `None` if preemption is off.
    pub(super) pause: Option<Pause>,
}

#[derive(Default)]
struct State {
    placed: Placed,
    preemptors: Preemptors,
}

/// Input of a decision; borrow it with [`Read::preempting`]. Do not hold it across an `.await`.
pub(super) struct Read<'a> {
    state: MutexGuard<'a, State>,
    paused: bool,
}

impl Read<'_> {
    /// `over_quota` is the answer of [`Preemption::over_quota`].
    pub(super) fn preempting<'s>(&'s self, over_quota: Option<&'s str>) -> Preempting<'s> {
        Preempting { placed: &self.state.placed, preemptors: &self.state.preemptors, over_quota, paused: self.paused }
    }
}

/// Progress of the evictions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All victims are evicted.
    Done,
    /// The nomination is not written yet, or the preemptor was deleted; the other victims stay.
    NotNominated,
}

impl Preemption {
    pub(super) fn new(setup: &Setup, metrics: SchedulerMetrics) -> Self {
        let is_on = setup.capacity().options().preemption() != Mode::Off;
        let asks_quotas = is_on && setup.settings.gates.enabled(Gate::FederatedQuotaEnforcement);
        Self {
            bindings: setup.bindings().clone(),
            capacity: setup.capacity().clone(),
            events: setup.events.clone(),
            writer: setup.writer("scheduler"),
            clock: setup.seam.clock.clone(),
            metrics,
            quotas: asks_quotas.then(|| setup.caches.take(&QUOTAS)),
            state: Mutex::default(),
            pause: is_on.then(|| Pause::new(setup)),
        }
    }

    fn is_on(&self) -> bool {
        self.pause.is_some()
    }

    /// Takes in a changed ResourceBinding.
    pub(super) fn on_binding(&self, change: &Change<ResourceBinding>) {
        if !self.is_on() {
            return;
        }
        let Some(new) = change.new.as_deref() else {
            let Some(old) = change.old.as_deref() else { return };
            let key = BindingRef::from(old).key();
            let mut state = self.state.lock();
            state.placed.remove(&key);
            state.preemptors.forget(&key);
            return;
        };
        if change.old.as_deref().is_some_and(|old| Placed::is_unchanged(old, new)) {
            return;
        }
        self.state.lock().placed.update(new);
        let nominated = new.status.as_ref().map_or(&[][..], |status| &status.nominated_clusters);
        // A nomination of an earlier process; those of this one are known since their decision.
        let found = change.old.is_none() && !nominated.is_empty();
        if found {
            self.capacity.nominate(new, nominated);
        }
    }

    /// Message of the quota that would refuse the replicas that a binding lacks; `None` if it may not preempt, or
    /// enough is left.
    pub(super) fn over_quota(&self, binding: BindingRef<'_>) -> Option<String> {
        let quotas = self.quotas.as_ref().filter(|_| may_preempt(binding, self.capacity.options().preemption()))?;
        let quotas = quotas.namespace(&binding.key().namespace);
        usage::over_quota(binding.spec(), quotas.iter().map(|quota| &**quota))
    }

    /// Input of a decision; `None` if preemption is off.
    pub(super) fn read(&self) -> Option<Read<'_>> {
        let paused = self.pause.as_ref()?.is_on();
        Some(Read { state: self.state.lock(), paused })
    }

    /// Bindings that were preempted lately, whose copies may be kept away from clusters for others.
    pub(super) fn kept_away(&self) -> Vec<Key> {
        if !self.is_on() {
            return Vec::new();
        }
        let now = self.clock.wall_seconds();
        let keys = self.state.lock().placed.preempted(now);
        keys.into_iter().map(|key| Key::new(&key.namespace, &key.name)).collect()
    }

    /// Records what a decision came to, before the next one is made.
    pub(super) fn record(&self, binding: &Binding, decision: &Decision) {
        let Some(outcome) = &decision.preemption else { return };
        let view = binding.view();
        let (key, generation, now) = (view.key(), view.generation(), self.clock.wall_seconds());
        if let Some(result) = outcome.result().filter(|_| !matches!(outcome, Outcome::Nominated(_))) {
            self.metrics.preemption_attempted(result);
        }
        let lasted = self.state.lock().preemptors.record(&key, generation, outcome, now);
        if let Some(lasted) = lasted {
            let label = match outcome {
                Outcome::Bound => "bound",
                Outcome::Expired(_) => "expired",
                _ => "dropped",
            };
            self.metrics.nomination_ended(label, lasted);
        }
        match (outcome, binding) {
            (Outcome::Nominated(plan), Binding::Namespaced(binding)) => {
                self.capacity.nominate(binding, &plan.nominated);
            }
            (Outcome::Waits, _) => {}
            _ => self.capacity.withdraw_nomination(&key),
        }
        self.metrics.nominated(self.capacity.lock().nominated_count());
    }

    /// Evicts the victims of a plan one after the other, once the nomination is written.
    ///
    /// # Errors
    /// If a victim changed, or could not be written: later ones stay.
    pub(super) async fn evict(&self, key: &Key, preemptor: &Binding, plan: &Plan) -> Result<Progress, Failure> {
        let evicted = self.evict_all(key, preemptor, plan).await;
        if matches!(evicted, Ok(Progress::NotNominated)) {
            return Ok(Progress::NotNominated);
        }
        if matches!(evicted, Err(Stopped::Stale { evicted_any: true, .. })) {
            self.state.lock().preemptors.all_evicted(&preemptor.view().key());
        }
        let outcome = if evicted.is_ok() { "nominated" } else { "error" };
        self.metrics.preemption_attempted(outcome);
        evicted?;
        self.metrics.victims(plan.bindings());
        self.state.lock().preemptors.all_evicted(&preemptor.view().key());
        self.events.record_all(&preempt::succeeded(preemptor.view(), plan));
        Ok(Progress::Done)
    }

    async fn evict_all(&self, key: &Key, preemptor: &Binding, plan: &Plan) -> Result<Progress, Stopped> {
        let (mut evicted_any, mut seen) = (false, BTreeSet::new());
        for victim in plan.victims.iter().filter(|victim| seen.insert(&victim.key)) {
            // It may be deleted between two evictions.
            if !preempt::is_wanted(plan, self.bindings.get(key).as_ref().map(Binding::view)) {
                return Ok(Progress::NotNominated);
            }
            let key = Key::new(&victim.key.namespace, &victim.key.name);
            // One that was deleted has left.
            let Some(Binding::Namespaced(current)) = self.bindings.get(&key) else { continue };
            let now = self.clock.wall_seconds();
            let chosen = plan.victims.iter().filter(|chosen| chosen.key == victim.key);
            let eviction = match preempt::evict(&current, chosen, preemptor.view(), now) {
                Ok(Some(eviction)) => eviction,
                Ok(None) => {
                    evicted_any = true;
                    continue;
                }
                Err(stale) => return Err(Stopped::Stale { stale, evicted_any }),
            };
            let current = Binding::Namespaced(current);
            self.bindings.patch(&self.writer, &current, eviction.patch).await?;
            evicted_any = true;
            for _ in 0..eviction.clusters {
                self.state.lock().preemptors.evicted(&preemptor.view().key(), now);
            }
            self.events.record_all(&eviction.events);
        }
        Ok(Progress::Done)
    }
}

/// Reason for which not all victims are evicted.
enum Stopped {
    /// A victim changed since it was chosen.
    Stale { stale: Stale, evicted_any: bool },
    /// A write failed; it is tried again.
    Write(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Write(failure)
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Stale { stale, .. } => Self::Conflict(stale.to_string()),
            Stopped::Write(failure) => failure,
        }
    }
}
