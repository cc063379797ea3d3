//! Preemption within the reconciliation of a binding that lacks capacity (specification/scheduling.md 15.2, 15.7).

use ironclad_api::{
    Condition,
    conditions::{self, FALSE, binding::PREEMPTED},
    events::PREEMPT_BINDING_FAILED,
    reasons::binding::UNSCHEDULABLE,
    work::TargetCluster,
};
use ironclad_fleet::{
    BindingRef, ClusterName, Event, Plan, StatusPart,
    because::schedule::{Reason, Unhelpful},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Effect, Next};
use crate::{
    Class, Failure, Seen,
    cycle::GroupFailure,
    preempt::{self, Mode, NOMINATED_CLUSTERS, Outcome, Preempting, Turn, may_preempt},
};

/// Time after which a plan is made anew that awaits pods that get their nodes.
const SETTLES_EVERY: SignedDuration = SignedDuration::from_millis(500);
/// Interval of the attempts while clusters are still to send a summary since the start.
const RECOUNTS_WITHIN: SignedDuration = SignedDuration::from_secs(1);

/// Result of preemption for a binding that lacks capacity.
pub(super) struct Considered {
    pub(super) outcome: Outcome,
    /// Message of condition `Scheduled`.
    pub(super) message: String,
    /// Time of the next reconcile, if it is not the one of the failure.
    pub(super) next: Option<Next>,
}

/// The clusters that the binding is nominated for.
pub(super) fn nominated(binding: BindingRef<'_>) -> &[TargetCluster] {
    binding.status().map_or(&[], |status| &status.nominated_clusters)
}

/// Considers preemption after a failed cycle. `None` if the binding may not preempt, the failure is not one of
/// capacity in every affinity group, or there is nothing to say.
pub(super) fn considered(
    seen: &Seen<'_>,
    failure: &Failure,
    failed: &[GroupFailure],
    now: Timestamp,
) -> Option<Considered> {
    let of_capacity = |failure: &Failure| failure.class() == Class::InsufficientCapacity;
    let for_capacity = of_capacity(failure) && failed.iter().all(|(_, failure)| of_capacity(failure));
    let preempting = seen.preempting.filter(|_| for_capacity && may_preempt(seen.binding, seen.options.preemption()));
    let Some(preempting) = preempting else {
        let message = failure.to_string();
        let ends = !nominated(seen.binding).is_empty();
        return ends.then_some(Considered { outcome: Outcome::Dropped, message, next: None });
    };
    let key = seen.binding.key();
    let names = nominated(seen.binding).iter().map(|target| target.name.as_str());
    let leaving = seen.capacity.is_anyone_leaving(names);
    let is_nominated = !nominated(seen.binding).is_empty();
    let turn = preempting.preemptors.turn(&key, seen.binding.generation(), is_nominated, leaving, now);
    let over_quota = preempting.over_quota.map(|quota| format!("{}: {quota}", Unhelpful::OverQuota));
    Some(match (turn, over_quota) {
        (Turn::Attempt, Some(why)) => Considered {
            outcome: Outcome::Refused(Unhelpful::OverQuota),
            message: unhelpful_message(failure, why),
            next: Some(Next::WhenCapacityOrQuota),
        },
        // The capacity would be held in vain.
        (Turn::Resume(_) | Turn::Wait { .. }, Some(why)) => Considered {
            outcome: Outcome::Expired(Unhelpful::OverQuota),
            message: unhelpful_message(failure, why),
            next: Some(Next::WhenCapacityOrQuota),
        },
        // What leaves already is waited for.
        (Turn::Attempt | Turn::Resume(_), None) if preempting.paused => refused(failure, Unhelpful::Paused, None),
        // Capacity may be there that counts as taken twice.
        (Turn::Attempt, None) if seen.capacity.is_recounting() => {
            let again = now.checked_add(RECOUNTS_WITHIN).unwrap_or(Timestamp::MAX);
            refused(failure, Unhelpful::Recounting, Some(Next::At(again)))
        }
        (turn, _) => on_turn(seen, preempting, failure, turn, leaving, now),
    })
}

fn on_turn(
    seen: &Seen<'_>,
    preempting: Preempting<'_>,
    failure: &Failure,
    turn: Turn,
    leaving: bool,
    now: Timestamp,
) -> Considered {
    match turn {
        Turn::Attempt => attempt(seen, preempting, failure, now),
        Turn::Resume(plan) => nominating(failure, plan),
        Turn::Wait { since, .. } if preempt::is_overtaken(seen, preempting.placed, since, now) => {
            expired(failure, Unhelpful::Overtaken)
        }
        Turn::Wait { .. } => {
            let message = waiting_message(seen.binding, failure, leaving);
            Considered { outcome: Outcome::Waits, message, next: Some(Next::Nominated) }
        }
        Turn::GiveUp => expired(failure, Unhelpful::NoProgress),
        Turn::Pause { until } | Turn::Rest { until } => refused(failure, Unhelpful::NoProgress, Some(Next::At(until))),
    }
}

fn attempt(seen: &Seen<'_>, preempting: Preempting<'_>, failure: &Failure, now: Timestamp) -> Considered {
    let plan = match preempt::search(seen, preempting.placed, now) {
        Ok(plan) => plan,
        Err(because) => return refused(failure, because, None),
    };
    let (key, limits) = (seen.binding.key(), seen.options.preemption_limits());
    if plan.bindings() > limits.victims {
        return refused(failure, Unhelpful::TooMany, None);
    }
    if seen.options.preemption() == Mode::Observe && plan.victims.is_empty() {
        return refused(failure, Unhelpful::NoVictims, None);
    }
    if seen.options.preemption() == Mode::Observe {
        let message = format!("{failure} {}", sentence("Preemption is observed only and would evict", &plan, "."));
        return Considered { outcome: Outcome::Observed(plan), message, next: None };
    }
    // The preemptor counts on what is free beside the victims, too.
    let nominated = plan.nominated.iter().map(|target| ClusterName::from(target.name.as_str()));
    let is_settling =
        nominated.chain(plan.clusters().into_iter().cloned()).any(|name| seen.capacity.is_settling(&name));
    if is_settling && !plan.victims.is_empty() && preempting.preemptors.awaits_nodes(&key, now) {
        let again = now.checked_add(SETTLES_EVERY).unwrap_or(Timestamp::MAX);
        return refused(failure, Unhelpful::Settling, Some(Next::At(again)));
    }
    match preempting.preemptors.allowed_at(&key, plan.victims.len(), &limits, now) {
        None => refused(failure, Unhelpful::TooMany, None),
        Some(at) if at > now => refused(failure, Unhelpful::TooMany, Some(Next::At(at))),
        Some(_) => nominating(failure, plan),
    }
}

fn nominating(failure: &Failure, plan: preempt::Plan) -> Considered {
    let message = if plan.victims.is_empty() {
        waiting(failure)
    } else {
        format!("{failure} {}", sentence("Preempting", &plan, " to make room."))
    };
    Considered { outcome: Outcome::Nominated(plan), message, next: Some(Next::Nominated) }
}

fn sentence(verb: &str, plan: &preempt::Plan, end: &str) -> String {
    let clusters: Vec<&str> = plan.clusters().into_iter().map(|cluster| &*cluster.0).collect();
    format!("{verb} {} binding(s) on cluster(s) {}{end}", plan.bindings(), clusters.join(", "))
}

fn refused(failure: &Failure, because: Unhelpful, next: Option<Next>) -> Considered {
    Considered { outcome: Outcome::Refused(because), message: unhelpful_message(failure, because), next }
}

fn expired(failure: &Failure, because: Unhelpful) -> Considered {
    let message = unhelpful_message(failure, because);
    Considered { outcome: Outcome::Expired(because), message, next: Some(Next::Nominated) }
}

fn unhelpful_message(failure: &Failure, because: impl std::fmt::Display) -> String {
    format!("{failure} Preemption is not helpful: {because}.")
}

fn waiting(failure: &Failure) -> String {
    format!("{failure} Waiting for the capacity of preempted bindings.")
}

/// While victims leave the message stays: it names their clusters.
fn waiting_message(binding: BindingRef<'_>, failure: &Failure, leaving: bool) -> String {
    let present = binding.scheduled().filter(|scheduled| {
        leaving
            && scheduled.status == FALSE
            && scheduled.reason == UNSCHEDULABLE
            && scheduled.message.contains(" Preempting ")
    });
    present.map_or_else(|| waiting(failure), |condition| condition.message.clone())
}

/// The status of a failed cycle: condition `Scheduled` if it changes, condition `Preempted`, and the nomination.
pub(super) fn status(
    binding: BindingRef<'_>,
    considered: Option<&Considered>,
    condition: Option<Condition>,
) -> StatusPart {
    let mut part = StatusPart::default();
    part.conditions.extend(condition);
    part.conditions.extend(preempt::condition(binding));
    let wanted = match considered.map(|considered| &considered.outcome) {
        Some(Outcome::Nominated(plan)) => Some(plan.nominated.as_slice()),
        Some(Outcome::Waits) => Some(nominated(binding)),
        _ => None,
    };
    let wanted = wanted.unwrap_or_default();
    if wanted != nominated(binding) {
        let value = if wanted.is_empty() { Value::Null } else { json!(wanted) };
        part.fields.insert(NOMINATED_CLUSTERS.into(), value);
    }
    part
}

/// Reasons and effects beside the status.
pub(super) fn effects(binding: BindingRef<'_>, considered: &Considered, is_new: bool, plan: &mut Plan<Effect>) {
    match &considered.outcome {
        Outcome::Nominated(found) => {
            let victims = preempt::listed(found);
            let because = if victims.is_empty() {
                Reason::Nominated { clusters: found.nominated.iter().map(|target| target.name.clone()).collect() }
            } else {
                Reason::Preempts { victims, observed: false }
            };
            plan.push(Effect::Preempt(found.clone()), because.into());
        }
        Outcome::Observed(found) => {
            plan.note(Reason::Preempts { victims: preempt::listed(found), observed: true }.into());
        }
        Outcome::Waits => {
            let clusters = nominated(binding).iter().map(|target| target.name.clone()).collect();
            plan.note(Reason::Nominated { clusters }.into());
        }
        Outcome::Refused(because) => {
            plan.note(Reason::NotPreempting { because: *because }.into());
            if is_new && *because == Unhelpful::NoProgress {
                plan.effects.extend(failed(binding, &considered.message));
            }
        }
        Outcome::Expired(because) => {
            plan.note(Reason::NotPreempting { because: *because }.into());
            plan.effects.extend(failed(binding, &considered.message));
        }
        Outcome::Bound | Outcome::Dropped => {}
    }
}

/// Events on the preemptor and its template about a preemption that did not help.
pub(super) fn failed(binding: BindingRef<'_>, message: &str) -> [Effect; 2] {
    let about = [binding.reference(), binding.spec().resource.clone()];
    about.map(|about| Effect::Event(Event::warning(about, PREEMPT_BINDING_FAILED, super::cut_event(message))))
}

/// Ends the nomination of a binding. Returns whether it had one.
pub(super) fn end_nomination(binding: BindingRef<'_>, part: &mut StatusPart) -> bool {
    let is_nominated = !nominated(binding).is_empty();
    if is_nominated {
        part.fields.insert(NOMINATED_CLUSTERS.into(), Value::Null);
    }
    is_nominated
}

/// Ends a nomination of a binding that needs none.
pub(super) fn drop_nomination(binding: BindingRef<'_>, plan: &mut Plan<Effect>) -> Option<Outcome> {
    let mut part = StatusPart::default();
    end_nomination(binding, &mut part).then(|| {
        plan.effects.push(Effect::Status(part));
        Outcome::Dropped
    })
}

/// Ends what success ends: the nomination, and condition `Preempted`.
pub(super) fn settle(binding: BindingRef<'_>, part: &mut StatusPart) {
    end_nomination(binding, part);
    end_preempted(binding, part);
}

/// Ends condition `Preempted` of a binding that is placed.
pub(super) fn end_preempted(binding: BindingRef<'_>, part: &mut StatusPart) {
    let conditions = binding.status().map_or(&[][..], |status| &status.conditions);
    if conditions.iter().any(|condition| condition.type_ == PREEMPTED) {
        part.conditions.push(conditions::condition(PREEMPTED, "", "", ""));
    }
}
