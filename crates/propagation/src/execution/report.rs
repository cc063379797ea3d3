//! Conditions and events of a Work (specification/propagation.md 13.1, specification/propagation.md 13.8,
//! specification/propagation.md 1.1 for events).

use std::borrow::Cow;

use ironclad_api::{
    Condition, Time, annotations,
    conditions::{self, work as types},
    events,
    reasons::work as reasons,
    work::Work,
};
use ironclad_fleet::{Because, Event, Plan, StatusPart};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{
    object::reference,
    snapshot::{Context, Effect},
};
use crate::template::{self, Identity};

/// Longest error that is repeated, in bytes: a member's answer has no limit, a condition's message has (32768).
const ERROR_BYTES_MAX: usize = 4096;

/// Shortest time for which a contested object is reported.
const CONTESTED_MIN: SignedDuration = SignedDuration::from_secs(60);

/// First words of the refusal of an object that is not ours. Clients of Karmada match on them
/// (specification/propagation.md 31 row 19).
pub(super) const EXISTS: &str = "already exists in the cluster";

pub(super) fn present_conditions<'a>(cx: &'a Context<'_>) -> &'a [Condition] {
    cx.seen.work.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// Returns true if the present manifest was sent to the member as a whole before.
pub(super) fn was_sent(cx: &Context<'_>) -> bool {
    conditions::get(present_conditions(cx), types::APPLIED)
        .is_some_and(|applied| applied.status == conditions::TRUE && applied.observed_generation == generation(cx))
}

/// Returns true if an object that is not ours kept this manifest from the member.
pub(super) fn is_refused_by_another(cx: &Context<'_>) -> bool {
    conditions::get(present_conditions(cx), types::APPLIED).is_some_and(|applied| {
        applied.status == conditions::FALSE
            && applied.observed_generation == generation(cx)
            && applied.message.contains(EXISTS)
    })
}

/// Dispatching is suspended.
pub(super) fn suspended(plan: &mut Plan<Effect>, cx: &Context<'_>, because: &Because) {
    let type_ = types::DISPATCHING;
    let message = because.to_string();
    let condition = conditions::condition(type_, conditions::FALSE, reasons::SUSPEND_DISPATCHING, message);
    set_conditions(plan, cx, vec![condition]);
}

/// Dispatching is no longer suspended, but has to wait. Only corrects conditions that would be wrong.
pub(super) fn waiting(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    if conditions::get(present_conditions(cx), types::DISPATCHING).is_some() {
        set_conditions(plan, cx, vec![dispatching()]);
    }
}

/// The object is applied. Writes an event only if it ends a reported failure.
pub(super) fn success(plan: &mut Plan<Effect>, cx: &Context<'_>, reason: &str, message: &str) {
    let condition = applied(cx, conditions::TRUE, reason, message.to_owned());
    set_conditions(plan, cx, vec![dispatching(), condition]);
    let ends_failure = conditions::get(present_conditions(cx), types::APPLIED)
        .is_some_and(|before| before.status == conditions::FALSE && before.reason != reasons::TERMINATING);
    if ends_failure {
        let text = format!("Successfully applied all manifests in cluster {}", cx.key.cluster);
        record_event(plan, cx, |about| Event::normal(about, events::SYNC_SUCCEED, text.clone()));
    }
}

/// The object is not applied; a retry may help.
pub(super) fn failure(plan: &mut Plan<Effect>, cx: &Context<'_>, error: &str) {
    refused(plan, cx, error);
    plan.effects.push(Effect::Retry);
}

/// The object is not applied; only a change of the Work helps.
pub(super) fn refused(plan: &mut Plan<Effect>, cx: &Context<'_>, error: &str) {
    let total = cx.seen.work.spec.workload.manifests.len();
    let message = format!("Failed to apply all manifests (0/{total}): {}", bounded(error));
    blocked(plan, cx, reasons::APPLIED_FAILED, &message);
}

/// The object is not applied, for a known reason. Writes an event if the reason is new, except for an old object that
/// is being deleted: that is not a failure.
pub(super) fn blocked(plan: &mut Plan<Effect>, cx: &Context<'_>, reason: &str, message: &str) {
    let is_new = conditions::get(present_conditions(cx), types::APPLIED)
        .is_none_or(|before| before.status != conditions::FALSE || before.message != message);
    let condition = applied(cx, conditions::FALSE, reason, message.to_owned());
    set_conditions(plan, cx, vec![dispatching(), condition]);
    if is_new && reason != reasons::TERMINATING {
        let text = format!("cluster {}: {message}", cx.key.cluster);
        record_event(plan, cx, |about| Event::warning(about, events::SYNC_FAILED, text.clone()));
    }
}

/// Something else changes the object back again and again, so the next write has to wait. Applied stays as it is: the
/// copy runs, and its status counts.
pub(super) fn contested(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    let is_new = !conditions::is_true(present_conditions(cx), types::DEGRADED);
    let object = cx.seen.work.spec.workload.manifests.first().map(|manifest| Identity::of(&manifest.object()).key());
    let object = object.map_or_else(String::new, |key| key.to_string());
    let message = format!(
        "something else in cluster {} changes {object} back again and again, so it is repaired with pauses: find the \
         other writer in metadata.managedFields of the object, and take the fields that it owns out of the template, or \
         do not propagate the object to this cluster",
        cx.key.cluster
    );
    let type_ = types::DEGRADED;
    let reason = reasons::CHANGED_BY_ANOTHER_WRITER;
    set_conditions(plan, cx, vec![conditions::condition(type_, conditions::TRUE, reason, message.clone())]);
    if is_new {
        record_event(plan, cx, |about| Event::warning(about, events::HOT_LOOP, message.clone()));
    }
}

/// Ends the report of [`contested`] once the object stayed as it was applied for a minute.
pub(super) fn end_of_contest(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    let degraded = conditions::get(present_conditions(cx), types::DEGRADED);
    let Some(degraded) = degraded.filter(|condition| condition.status == conditions::TRUE) else { return };
    let since = cx.now.duration_since(degraded.last_transition_time.0);
    let writes = plan.effects.iter().any(|effect| {
        matches!(effect, Effect::CreateInMember(_) | Effect::ReplaceInMember(_) | Effect::PatchInMember { .. })
    });
    if writes || since < CONTESTED_MIN {
        plan.effects.push(Effect::RetryAfter(CONTESTED_MIN.unsigned_abs()));
        return;
    }
    let (type_, message) = (types::DEGRADED, "The object stays as it was applied");
    set_conditions(plan, cx, vec![conditions::condition(type_, conditions::FALSE, reasons::STAYS_APPLIED, message)]);
}

/// The object could not be deleted; the Work remains until it is.
pub(super) fn not_removed(plan: &mut Plan<Effect>, cx: &Context<'_>, error: &str) {
    let text = format!("Failed to delete the object in cluster {}: {}", cx.key.cluster, bounded(error));
    record_event(plan, cx, |about| Event::warning(about, events::SYNC_FAILED, text.clone()));
    plan.effects.push(Effect::Retry);
}

fn dispatching() -> Condition {
    let message = "Work is being dispatched to member clusters.";
    conditions::condition(types::DISPATCHING, conditions::TRUE, reasons::DISPATCHING, message)
}

fn applied(cx: &Context<'_>, status: &str, reason: &str, message: String) -> Condition {
    let mut condition = conditions::condition(types::APPLIED, status, reason, message);
    condition.observed_generation = generation(cx);
    condition
}

fn generation(cx: &Context<'_>) -> Option<i64> {
    cx.seen.work.metadata.generation
}

/// Sets the conditions unless they are present. Writes an event if dispatching is suspended or resumed, but not for
/// its first start.
fn set_conditions(plan: &mut Plan<Effect>, cx: &Context<'_>, mut list: Vec<Condition>) {
    let before = conditions::get(present_conditions(cx), types::DISPATCHING).map(|condition| condition.status.as_str());
    let transition = conditions::get(&list, types::DISPATCHING)
        .filter(|now| before != Some(&*now.status) && (before.is_some() || now.status == conditions::FALSE));
    let transition = transition.map(|condition| condition.message.clone());
    let now = Timestamp::from_second(cx.now.as_second()).expect("the second of a timestamp is a timestamp");
    for condition in &mut list {
        condition.last_transition_time = Time(now);
    }
    let part = StatusPart { conditions: list, ..StatusPart::default() };
    // The reflected status of members is much larger than the conditions; do not compare it.
    if StatusPart::patch(&json!({"conditions": present_conditions(cx)}), &[&part]).is_some() {
        plan.effects.push(Effect::WorkStatus(part));
    }
    // Not on the template: it has as many Works as members, and its policy shows the suspension.
    if let Some(text) = transition {
        plan.effects.push(Effect::Event(Event::normal(reference(cx.seen.work), events::WORK_DISPATCHING, text)));
    }
}

/// Records the same event on the Work and on its template.
fn record_event(
    plan: &mut Plan<Effect>,
    cx: &Context<'_>,
    event: impl Fn(ironclad_api::work::ObjectReference) -> Event,
) {
    let work = cx.seen.work;
    let both = std::iter::once(reference(work)).chain(template_of(work));
    plan.effects.extend(both.map(|about| Effect::Event(event(about))));
}

/// Reference to the template of a Work, for events.
pub(crate) fn template_of(work: &Work) -> Option<ironclad_api::work::ObjectReference> {
    let manifest = &work.spec.workload.manifests.first()?.object();
    let uid = template::annotation(manifest, annotations::TEMPLATE_UID).to_owned();
    (!uid.is_empty()).then(|| ironclad_api::work::ObjectReference { uid, ..Identity::of(manifest).reference() })
}

fn bounded(error: &str) -> Cow<'_, str> {
    if error.len() <= ERROR_BYTES_MAX {
        return error.into();
    }
    let end = (0..=ERROR_BYTES_MAX).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
    format!("{} ...", &error[..end]).into()
}
