//! How a Work says what became of its manifest (specification/propagation.md 13.1, 13.8; 1.1 for events).

use std::borrow::Cow;

use ironclad_api::{
    Condition, Time, annotations,
    conditions::{self, work as types},
    events,
    reasons::work as reasons,
};
use ironclad_fleet::{Because, Event, Plan, StatusPart};
use jiff::Timestamp;
use serde_json::json;

use super::{Effect, Road, reference};
use crate::template::{self, Identity};

/// Longest error that is repeated: a member's answer is not ours to bound, a condition's message is (32768).
const ERROR_BYTES_MAX: usize = 4096;

/// What a refusal of an object that is not ours says first: clients of Karmada look for it (row 19 of 31).
pub(super) const EXISTS: &str = "already exists in the cluster";

/// The conditions as they stand.
pub(super) fn standing<'a>(road: &'a Road<'_>) -> &'a [Condition] {
    road.seen.work.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// Whether the manifest as it is was sent to the member as a whole before.
pub(super) fn was_sent(road: &Road<'_>) -> bool {
    conditions::get(standing(road), types::APPLIED)
        .is_some_and(|applied| applied.status == conditions::TRUE && applied.observed_generation == generation(road))
}

/// Whether this very manifest was kept from the member by an object that is not ours.
pub(super) fn met_another(road: &Road<'_>) -> bool {
    conditions::get(standing(road), types::APPLIED).is_some_and(|applied| {
        applied.status == conditions::FALSE
            && applied.observed_generation == generation(road)
            && applied.message.contains(EXISTS)
    })
}

/// Dispatching is held.
pub(super) fn suspended(plan: &mut Plan<Effect>, road: &Road<'_>, because: &Because) {
    let type_ = types::DISPATCHING;
    let message = because.to_string();
    let condition = conditions::condition(type_, conditions::FALSE, reasons::SUSPEND_DISPATCHING, message);
    want(plan, road, vec![condition]);
}

/// Dispatching is not held any more, though it has to wait; only corrects what would be wrong otherwise.
pub(super) fn waiting(plan: &mut Plan<Effect>, road: &Road<'_>) {
    if conditions::get(standing(road), types::DISPATCHING).is_some() {
        want(plan, road, vec![dispatching()]);
    }
}

/// The member has what it should. Its event is written only where it ends a failure that was told.
pub(super) fn success(plan: &mut Plan<Effect>, road: &Road<'_>, reason: &str, message: &str) {
    let condition = applied(road, conditions::TRUE, reason, message.to_owned());
    want(plan, road, vec![dispatching(), condition]);
    let told = conditions::get(standing(road), types::APPLIED)
        .is_some_and(|before| before.status == conditions::FALSE && before.reason != reasons::TERMINATING);
    if told {
        let text = format!("Successfully applied all manifests in cluster {}", road.key.cluster);
        tell(plan, road, |about| Event::normal(about, events::SYNC_SUCCEED, text.clone()));
    }
}

/// The member has not what it should, and a later try may help.
pub(super) fn failure(plan: &mut Plan<Effect>, road: &Road<'_>, error: &str) {
    refused(plan, road, error);
    plan.effects.push(Effect::Retry);
}

/// The member has not what it should, and only another Work helps.
pub(super) fn refused(plan: &mut Plan<Effect>, road: &Road<'_>, error: &str) {
    let total = road.seen.work.spec.workload.manifests.len();
    let message = format!("Failed to apply all manifests (0/{total}): {}", bounded(error));
    blocked(plan, road, reasons::APPLIED_FAILED, &message);
}

/// The member has not what it should, for a reason that has a name. Told when it is new, but for an old object that
/// takes its time to go: it has not failed.
pub(super) fn blocked(plan: &mut Plan<Effect>, road: &Road<'_>, reason: &str, message: &str) {
    let is_new = conditions::get(standing(road), types::APPLIED)
        .is_none_or(|before| before.status != conditions::FALSE || before.message != message);
    let condition = applied(road, conditions::FALSE, reason, message.to_owned());
    want(plan, road, vec![dispatching(), condition]);
    if is_new && reason != reasons::TERMINATING {
        let text = format!("cluster {}: {message}", road.key.cluster);
        tell(plan, road, |about| Event::warning(about, events::SYNC_FAILED, text.clone()));
    }
}

/// The object could not be taken from the member; the Work stays until it is.
pub(super) fn not_removed(plan: &mut Plan<Effect>, road: &Road<'_>, error: &str) {
    let text = format!("Failed to delete the object in cluster {}: {}", road.key.cluster, bounded(error));
    tell(plan, road, |about| Event::warning(about, events::SYNC_FAILED, text.clone()));
    plan.effects.push(Effect::Retry);
}

fn dispatching() -> Condition {
    let message = "Work is being dispatched to member clusters.";
    conditions::condition(types::DISPATCHING, conditions::TRUE, reasons::DISPATCHING, message)
}

fn applied(road: &Road<'_>, status: &str, reason: &str, message: String) -> Condition {
    let mut condition = conditions::condition(types::APPLIED, status, reason, message);
    condition.observed_generation = generation(road);
    condition
}

fn generation(road: &Road<'_>) -> Option<i64> {
    road.seen.work.metadata.generation
}

/// Wants the conditions, unless they stand already. That dispatching is held, or not any more, is told; that it begins is no news.
fn want(plan: &mut Plan<Effect>, road: &Road<'_>, mut list: Vec<Condition>) {
    let before = conditions::get(standing(road), types::DISPATCHING).map(|condition| condition.status.as_str());
    let turned = conditions::get(&list, types::DISPATCHING)
        .filter(|now| before != Some(&*now.status) && (before.is_some() || now.status == conditions::FALSE));
    let turned = turned.map(|condition| format!("cluster {}: {}", road.key.cluster, condition.message));
    let now = Timestamp::from_second(road.now.as_second()).expect("the second of a timestamp is a timestamp");
    for condition in &mut list {
        condition.last_transition_time = Time(now);
    }
    let part = StatusPart { conditions: list, ..StatusPart::default() };
    // What the members report is much larger than the conditions and does not count here.
    if StatusPart::patch(&json!({"conditions": standing(road)}), &[&part]).is_some() {
        plan.effects.push(Effect::WorkStatus(part));
    }
    // Not on the template: it has as many Works as members, and its policy says that it is held.
    if let Some(text) = turned {
        plan.effects.push(Effect::Event(Event::normal(reference(road.seen.work), events::WORK_DISPATCHING, text)));
    }
}

/// The same event on the Work and on the template that it came from.
fn tell(plan: &mut Plan<Effect>, road: &Road<'_>, event: impl Fn(ironclad_api::work::ObjectReference) -> Event) {
    let work = road.seen.work;
    let template = work.spec.workload.manifests.first().and_then(|manifest| {
        let manifest = &manifest.object();
        let uid = template::annotation(manifest, annotations::TEMPLATE_UID).to_owned();
        (!uid.is_empty()).then(|| ironclad_api::work::ObjectReference { uid, ..Identity::of(manifest).reference() })
    });
    plan.effects.extend(std::iter::once(reference(work)).chain(template).map(|about| Effect::Event(event(about))));
}

fn bounded(error: &str) -> Cow<'_, str> {
    if error.len() <= ERROR_BYTES_MAX {
        return error.into();
    }
    let end = (0..=ERROR_BYTES_MAX).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
    format!("{} ...", &error[..end]).into()
}
