//! Reconciliation of one binding: whether a scheduling cycle runs, and which effects it has
//! (specification/scheduling.md 2.2, 2.5, 13).

use std::collections::BTreeSet;

use ironclad_api::{
    Condition, Time,
    annotations::APPLIED_PLACEMENT,
    conditions::{self, FALSE, TRUE, binding::SCHEDULED},
    events::{INSUFFICIENT_CAPACITY, SCHEDULE_BINDING_FAILED, SCHEDULE_BINDING_SUCCEED},
    policy::Placement,
    reasons::binding::{NO_CLUSTER_FIT, SCHEDULER_ERROR, SUCCESS, UNSCHEDULABLE},
    work::TargetCluster,
};
use ironclad_fleet::{
    BindingRef, ClusterName, Event, Plan, StatusPart,
    because::schedule::{Keeping, Reason},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    Class, CycleEvent, Failure, ScheduleResult, Seen, Step,
    cycle::{self, GroupFailure, Trace, available_replicas},
    peers, preempt,
    trigger::{self, ScheduleDecision},
};

mod again;
mod part;
mod preemption;
mod refused;

use preemption::{Considered, nominated};

pub use again::{Again, UNSCHEDULABLE_AGAIN, again};
pub use part::{Part, moves_in_part, part_that_fits};
pub use refused::{refused, template_accepted, template_refused};

/// Message of the condition after success.
const SUCCEEDED: &str = "Binding has been scheduled successfully.";
/// Largest message of a condition that the API accepts, in bytes.
const MESSAGE_MAX: usize = 32_768;
/// Largest number of cluster names in a message.
const LISTED_MAX: usize = 5;
/// Largest message of an event that the API accepts, in bytes.
const EVENT_MAX: usize = 1_024;

/// Outcome of a scheduling cycle, as metrics name it (specification/scheduling.md 16.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attempt {
    /// With a result.
    Scheduled,
    /// No cluster fits or has the capacity.
    Unschedulable,
    /// With an error.
    Error,
}

impl Attempt {
    /// Label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// Effects of a decision, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Merge patch of the binding: the result, and the placement it was made for.
    Result {
        patch: Value,
        /// The new result. Decisions made before the write count with it.
        targets: Vec<TargetCluster>,
    },
    /// The scheduler's part of the binding's status. Its observed generation is right if a preceding result patch is
    /// the only write since the binding was read; otherwise [`observed_generation`] computes it.
    Status(StatusPart),
    /// Event on the binding.
    Event(Event),
    /// Evictions of bindings of lower priority, in this order; the first one that fails ends the preemption. It follows
    /// the status that nominates the binding.
    Preempt(preempt::Plan),
}

/// Time of the next reconcile of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// On events only.
    OnEvent,
    /// On events, and after an interval in case one was missed: no cluster fits (specification/scheduling.md 16.2).
    Recheck,
    /// As soon as capacity may have appeared: the unschedulable queue.
    WhenCapacity,
    /// When capacity appears, or quota, within which it could preempt others.
    WhenCapacityOrQuota,
    /// The same while capacity is held for the binding: soon in any case.
    Nominated,
    /// After a backoff.
    Backoff,
    /// At this time.
    At(Timestamp),
}

/// The `schedule_type` of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleType {
    /// The placement or the fleet changed.
    Reconcile,
    /// The replicas changed.
    Scale,
}

impl ScheduleType {
    /// Label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "ReconcileSchedule",
            Self::Scale => "ScaleSchedule",
        }
    }
}

/// Outcome of a reconcile.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody applies changes nothing"]
pub struct Decision {
    /// Effects, and without an index for every cluster the reason why it is a target or not.
    pub plan: Plan<Effect>,
    /// Time of the next reconcile.
    pub next: Next,
    /// Kind of the scheduling cycle, if one ran.
    pub schedule_type: Option<ScheduleType>,
    /// Failure of the cycle, if it failed.
    pub failure: Option<Failure>,
    /// Result of preemption, if it was considered or a nomination ends; for [`preempt::Preemptors::record`].
    pub preemption: Option<preempt::Outcome>,
}

impl Decision {
    /// Result to write, if it changes.
    #[must_use]
    pub fn result(&self) -> Option<&[TargetCluster]> {
        self.plan.effects.iter().find_map(|effect| match effect {
            Effect::Result { targets, .. } => Some(targets.as_slice()),
            Effect::Status(_) | Effect::Event(_) | Effect::Preempt(_) => None,
        })
    }

    /// Outcome of the cycle, if one ran.
    #[must_use]
    pub fn attempt(&self) -> Option<(ScheduleType, Attempt)> {
        let attempt = match self.failure.as_ref().map(Failure::class) {
            None => Attempt::Scheduled,
            Some(Class::NoFit | Class::TooFew | Class::InsufficientCapacity) => Attempt::Unschedulable,
            Some(Class::Other) => Attempt::Error,
        };
        Some((self.schedule_type?, attempt))
    }
}

/// New `schedulerObservedGeneration` after a result patch: the generation that the patch returned if it directly
/// follows the generation read; otherwise the generation read (specification/scheduling.md 2.5).
#[must_use]
pub fn observed_generation(read: i64, returned: i64) -> i64 {
    if returned == read + 1 { returned } else { read }
}

/// Reconciles a binding. `now` is in whole seconds.
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Decision {
    decide_timed(seen, now, &mut |_| {})
}

/// Same as [`decide`]; `tick` is called at the end of each step of a cycle and each plugin, so that a caller with a
/// clock can measure them.
pub fn decide_timed(seen: &Seen<'_>, now: Timestamp, on_event: &mut dyn FnMut(CycleEvent)) -> Decision {
    let mut decision =
        Decision { plan: Plan::default(), next: Next::OnEvent, schedule_type: None, failure: None, preemption: None };
    let reason = match trigger::schedule_decision(seen) {
        ScheduleDecision::Skip(reason) => {
            if reason == Reason::NoPlacement {
                decision.next = Next::Backoff;
            }
            if reason == Reason::Suspended {
                decision.preemption = preemption::drop_nomination(seen.binding, &mut decision.plan);
            }
            decision.plan.note(reason.into());
            return decision;
        }
        ScheduleDecision::UpToDate => {
            decision.plan.note(Reason::ResultStands.into());
            catch_up(seen, now, &mut decision.plan);
            decision.preemption = preemption::drop_nomination(seen.binding, &mut decision.plan);
            return decision;
        }
        ScheduleDecision::Schedule(reason) => reason,
    };
    decision.schedule_type =
        Some(if reason == Reason::ReplicasChanged { ScheduleType::Scale } else { ScheduleType::Reconcile });
    decision.plan.note(reason.clone().into());
    let peers = peers::with_nominated(seen);
    let seen = &Seen { peers: peers.as_ref().or(seen.peers), ..*seen };
    let mut failed = Vec::new();
    let mut trace = Trace::of(seen, &mut decision.plan.because, &mut *on_event);
    match cycle::search(seen, &BTreeSet::new(), now, &mut trace, &mut failed) {
        Ok(found) => {
            succeed(seen, &found, &failed, now, &mut decision.plan);
            decision.preemption = (!nominated(seen.binding).is_empty()).then_some(preempt::Outcome::Bound);
        }
        Err(failure) => {
            let preemption = preemption::considered(seen, &failure, &failed, now);
            if preemption.as_ref().is_some_and(|considered| considered.outcome.result().is_some()) {
                on_event(CycleEvent::Step(Step::Preempt));
            }
            // What may preempt others waits for all of its capacity.
            let waits = preemption.as_ref().is_some_and(|considered| considered.next.is_some());
            let part = if waits { None } else { part_that_fits(seen, &BTreeSet::new(), &failure, now) };
            let failed = Failed { failure: &failure, groups: &failed, preemption: preemption.as_ref(), part };
            decision.next = fail(seen, &failed, &reason, now, &mut decision.plan);
            decision.preemption = preemption.map(|considered| considered.outcome);
            decision.failure = Some(failure);
        }
    }
    decision
}

/// Writes the status of an up-to-date result that a crash between the two writes of a cycle left out.
fn catch_up(seen: &Seen<'_>, now: Timestamp, plan: &mut Plan<Effect>) {
    let binding = seen.binding;
    let mut part = StatusPart::default();
    if binding.observed_generation() != binding.generation() {
        part.fields.insert("schedulerObservedGeneration".into(), binding.generation().into());
        if !binding.is_scheduled() {
            part.fields.insert("lastScheduledTime".into(), json!(Time(now)));
        }
        part.conditions.extend(scheduled(binding, TRUE, SUCCESS, SUCCEEDED, binding.generation(), now));
    }
    preemption::end_preempted(binding, &mut part);
    if !part.is_empty() {
        plan.effects.push(Effect::Status(part));
    }
}

fn succeed(seen: &Seen<'_>, found: &ScheduleResult, failed: &[GroupFailure], now: Timestamp, plan: &mut Plan<Effect>) {
    let binding = seen.binding;
    plan.note(Reason::Scheduled.into());
    let changed = !same_targets(&binding.spec().clusters, &found.targets);
    plan.effects.extend(result(seen, &found.targets, changed));
    let generation = binding.generation() + i64::from(changed);
    let flipped = !binding.is_scheduled();
    let mut part = StatusPart::default();
    if binding.observed_generation() != generation {
        part.fields.insert("schedulerObservedGeneration".into(), generation.into());
    }
    if let Some(group) = found.group.as_deref().filter(|group| *group != binding.observed_group()) {
        part.fields.insert("schedulerObservingAffinityName".into(), group.into());
    }
    let at = answered_at(binding, now);
    let dated = match changed || flipped || binding.reschedule_required() {
        true => binding.last_scheduled() != Some(at),
        false => binding.last_scheduled() < Some(at) && seen.since.relabelled,
    };
    if dated {
        part.fields.insert("lastScheduledTime".into(), json!(Time(at)));
    }
    part.conditions.extend(scheduled(binding, TRUE, SUCCESS, SUCCEEDED, generation, now));
    preemption::settle(binding, &mut part);
    if !part.is_empty() {
        plan.effects.push(Effect::Status(part));
    }
    let reported = binding.scheduled().is_some_and(|condition| condition.status == FALSE);
    if changed || reported {
        report_failed_groups(binding, failed, plan);
    }
    let moved = changed && !binding.spec().clusters.is_empty();
    if moved || reported {
        let message = success_message(binding, &found.targets);
        plan.effects.push(Effect::Event(Event::normal(
            binding.spec().resource.clone(),
            SCHEDULE_BINDING_SUCCEED,
            message,
        )));
    }
    if changed {
        warn_insufficient_capacity(seen, &found.targets, plan);
    }
}

/// Time of a cycle for `lastScheduledTime`: after the request that it answers, which may have the same second.
/// Otherwise the request would stay open, and the next event of any cluster would divide everything anew
/// (specification/scheduling.md 16.15).
fn answered_at(binding: BindingRef<'_>, now: Timestamp) -> Timestamp {
    let requested = binding.spec().reschedule_triggered_at.as_ref().filter(|_| binding.reschedule_required());
    requested.map_or(now, |at| now.max(at.0.saturating_add(SignedDuration::from_secs(1)).unwrap_or(at.0)))
}

/// Warns about targets that may lack the capacity for a result that does not depend on capacity; the result is kept
/// (specification/scheduling.md 16.11).
fn warn_insufficient_capacity(seen: &Seen<'_>, targets: &[TargetCluster], plan: &mut Plan<Effect>) {
    let (binding, spec) = (seen.binding, seen.binding.spec());
    if spec.placement.as_ref().is_none_or(|placement| cycle::depends_on_capacity(spec, placement)) {
        return;
    }
    let lacks = |target: &&TargetCluster| {
        let more = target.replicas.saturating_sub(spec.target(&target.name).map_or(0, |before| before.replicas));
        let cluster = ClusterName::from(target.name.as_str());
        more > 0
            && seen.capacity.is_known(&cluster)
            && available_replicas(spec, &cluster, seen.capacity, seen.options)
                .is_some_and(|replicas| replicas < i64::from(more))
    };
    let names: Vec<&str> = targets.iter().filter(lacks).map(|target| target.name.as_str()).collect();
    if !names.is_empty() {
        let (noun, rest) =
            (if names.len() == 1 { "cluster" } else { "clusters" }, names.len().saturating_sub(LISTED_MAX));
        let listed = names.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let message =
            format!("{noun} {listed}{more} may not have capacity for the replicas: this strategy ignores capacity");
        plan.effects.push(Effect::Event(Event::warning(binding.reference(), INSUFFICIENT_CAPACITY, message)));
    }
}

/// A cycle without a result.
struct Failed<'a> {
    failure: &'a Failure,
    groups: &'a [GroupFailure],
    preemption: Option<&'a Considered>,
    /// Part of the replicas that is moved all the same.
    part: Option<Part>,
}

fn fail(seen: &Seen<'_>, failed: &Failed<'_>, trigger: &Reason, now: Timestamp, plan: &mut Plan<Effect>) -> Next {
    let (binding, failure, preemption) = (seen.binding, failed.failure, failed.preemption);
    let mut error = preemption.map_or_else(|| failure.to_string(), |considered| considered.message.clone());
    let targets = failed.part.as_ref().map_or(&binding.spec().clusters, |part| &part.targets);
    error.push_str(&part::sentence(seen, targets));
    let (reason, mut next, because) = match failure.class() {
        Class::NoFit | Class::TooFew => (NO_CLUSTER_FIT, Next::Recheck, Reason::NoClusterFit { error: error.clone() }),
        Class::InsufficientCapacity => {
            (UNSCHEDULABLE, Next::WhenCapacity, Reason::Unschedulable { error: error.clone() })
        }
        Class::Other => (SCHEDULER_ERROR, Next::Backoff, Reason::SchedulerError { error: error.clone() }),
    };
    // The failure is that of the first affinity group. Another group may fit as soon as capacity appears.
    if next == Next::Recheck && failed.groups.iter().any(|(_, other)| other.class() == Class::InsufficientCapacity) {
        next = Next::WhenCapacity;
    }
    plan.note(because.into());
    if failure.class() == Class::NoFit && !binding.spec().clusters.is_empty() {
        next = withdraw(seen, trigger, now, plan);
    }
    if let Some(part) = &failed.part {
        plan.note(Reason::MovesInPart { moves: part.moves, stays: part.stays }.into());
        let mut moved = result(seen, &part.targets, true);
        if let Some(Effect::Result { patch, .. }) = &mut moved {
            patch["spec"]["gracefulEvictionTasks"] = json!(part::tasks(binding.spec(), &part.targets));
        }
        plan.effects.extend(moved);
    }
    let generation = binding.generation() + i64::from(!plan.is_quiet());
    let updated = scheduled(binding, FALSE, reason, &error, generation, now);
    let is_new = updated.is_some();
    let part = preemption::status(binding, preemption, updated);
    if !part.is_empty() {
        plan.effects.push(Effect::Status(part));
    }
    if is_new {
        report_failed_groups(binding, failed.groups, plan);
        plan.effects.extend(failed_events(binding, &error));
    }
    if let Some(considered) = preemption {
        next = considered.next.unwrap_or(next);
        preemption::effects(binding, considered, is_new, plan);
    }
    next
}

/// Decides on the result when no cluster fits (specification/scheduling.md 16.1, specification/failover.md IR-31): kept
/// while evictions are pending; cleared if the placement changed or after a wait; targets that leave the fleet are
/// removed at once.
fn withdraw(seen: &Seen<'_>, trigger: &Reason, now: Timestamp, plan: &mut Plan<Effect>) -> Next {
    let binding = seen.binding;
    let clusters = &binding.spec().clusters;
    let staying: Vec<_> = clusters.iter().filter(|t| !trigger::is_leaving(seen, &t.name)).cloned().collect();
    let evicting = !binding.spec().graceful_eviction_tasks.is_empty();
    let unfit_since = binding.scheduled().filter(|c| c.status == FALSE && c.reason == NO_CLUSTER_FIT);
    let since = unfit_since.map_or(now, |condition| condition.last_transition_time.0);
    let deadline = since.checked_add(seen.options.clear_unfit_result_after).unwrap_or(Timestamp::MAX);
    let is_over = !evicting && (*trigger == Reason::PlacementChanged || deadline <= now);
    if is_over || staying.is_empty() {
        plan.note(Reason::ResultWithdrawn.into());
        plan.effects.extend(result(seen, &[], true));
        return Next::Recheck;
    }
    if staying.len() != clusters.len() {
        plan.effects.extend(result(seen, &staying, true));
    }
    if evicting {
        plan.note(Reason::ResultKept { because: Keeping::EvictionsUnderWay }.into());
        return Next::Recheck;
    }
    plan.note(Reason::ResultKept { because: Keeping::Waiting }.into());
    Next::At(deadline)
}

/// Patch with a result and the placement it was made for; `None` if neither changes.
fn result(seen: &Seen<'_>, targets: &[TargetCluster], changed: bool) -> Option<Effect> {
    let binding = seen.binding;
    let mut patch = json!({});
    if changed {
        patch["spec"] = json!({ "clusters": if targets.is_empty() { Value::Null } else { json!(targets) } });
    }
    let applied = trigger::applied_placement(binding);
    let placement = binding.spec().placement.as_ref()?;
    if serde_json::from_str::<Placement>(applied).ok().as_ref() != Some(placement) {
        let placement = serde_json::to_string(placement).expect("a placement is plain data");
        patch["metadata"] = json!({ "annotations": { APPLIED_PLACEMENT: placement } });
    }
    let targets = if changed { targets } else { binding.spec().clusters.as_slice() };
    (patch != json!({})).then(|| Effect::Result { patch, targets: targets.to_vec() })
}

/// Compares two results; the order of targets does not matter.
fn same_targets(before: &[TargetCluster], after: &[TargetCluster]) -> bool {
    let mut before: Vec<_> = before.iter().collect();
    before.sort();
    before.iter().copied().eq(after)
}

/// Condition `Scheduled`, if it differs from the present one.
fn scheduled(
    binding: BindingRef<'_>,
    status: &str,
    reason: &str,
    message: &str,
    generation: i64,
    now: Timestamp,
) -> Option<Condition> {
    let mut wanted = conditions::condition(SCHEDULED, status, reason, cut(message, MESSAGE_MAX));
    wanted.observed_generation = (generation > 0).then_some(generation);
    let existing = binding.scheduled();
    let since = existing.filter(|condition| condition.status == status);
    wanted.last_transition_time = since.map_or(Time(now), |condition| condition.last_transition_time.clone());
    (existing != Some(&wanted)).then_some(wanted)
}

fn report_failed_groups(binding: BindingRef<'_>, failed: &[GroupFailure], plan: &mut Plan<Effect>) {
    for (index, failure) in failed {
        let kind = binding.kind();
        let message =
            format!("failed to schedule {kind}({}) with clusterAffiliates index({index}): {failure}", binding.key());
        plan.effects.extend(failed_events(binding, &message));
    }
}

/// The event on the binding and on its template, where people look first.
fn failed_events(binding: BindingRef<'_>, message: &str) -> [Effect; 2] {
    [binding.reference(), binding.spec().resource.clone()]
        .map(|about| Effect::Event(Event::warning(about, SCHEDULE_BINDING_FAILED, cut(message, EVENT_MAX))))
}

/// Karmada's success events that are written with `--success-events` only: those on the binding, and the one of the
/// first result on the template, which condition `Scheduled` shows (specification/api.md 18).
#[must_use]
pub fn success(binding: BindingRef<'_>, effects: &[Effect]) -> Vec<Event> {
    let event = |about, message: &str| Event::normal(about, SCHEDULE_BINDING_SUCCEED, message.to_owned());
    let on_template = effects.iter().find_map(|effect| match effect {
        Effect::Event(event) if event.reason == SCHEDULE_BINDING_SUCCEED => Some(&event.message),
        _ => None,
    });
    if let Some(message) = on_template {
        return vec![event(binding.reference(), message)];
    }
    let first = effects.iter().find_map(|effect| match effect {
        Effect::Result { targets, .. } if binding.spec().clusters.is_empty() => {
            Some(targets).filter(|targets| !part::is_partial(binding.spec(), targets))
        }
        _ => None,
    });
    let first = first.filter(|targets| !targets.is_empty()).map(|targets| success_message(binding, targets));
    first.map_or_else(Vec::new, |text| {
        [binding.reference(), binding.spec().resource.clone()].map(|about| event(about, &text)).into()
    })
}

fn success_message(binding: BindingRef<'_>, targets: &[TargetCluster]) -> String {
    let targets: Vec<String> = targets.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    // The texts of the two kinds differ by a colon, and tools match them (specification/scheduling.md 16.31).
    let colon = match binding {
        BindingRef::Namespaced(_) => ":",
        BindingRef::Cluster(_) => "",
    };
    cut(&format!("{SUCCEEDED} Result{colon} {{{}}}", targets.join(", ")), EVENT_MAX)
}

/// Cuts a text to what an event takes, less a heading.
pub(crate) fn cut_event(text: &str) -> String {
    cut(text, EVENT_MAX - 64)
}

/// Cuts a text to at most `max` bytes; a cut text ends in dots.
fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod migration;
#[cfg(test)]
mod tests;
