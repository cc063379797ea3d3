//! Decision of the execution controller: applies a Work's manifest to its member, and deletes the object with the Work
//! (specification/propagation.md 13, specification/propagation.md 14, specification/propagation.md 31).
//!
//! The decision does not know whether a write will succeed. Effects are listed in the order in which to send them,
//! with the report of success after the writes to the member. The sender stops at the first write that fails and sends
//! [`failed`] instead. The object's status (see [`crate::work_status`]) and namespace sync are handled elsewhere.

mod apply;
mod awaited;
pub mod compare;
mod comparison;
mod drifted;
mod object;
mod owner;
mod remove;
mod report;
mod retention;
mod snapshot;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ironclad_api::{conditions, policy::PurgeMode, work::Work};
use ironclad_fleet::{Plan, StatusPart, WorkKey, because::propagation::Reason};
use jiff::Timestamp;

pub use self::awaited::{NAMESPACE_WAIT_MAX, resolves_namespace};
pub use self::comparison::{Comparison, compare_content, content_hash};
pub use self::drifted::drifted;
pub use self::object::{missing_replicas_path, object_key, serving_api, successor};
pub(crate) use self::report::template_of;
use self::snapshot::Context;
pub use self::snapshot::{Effect, Observed, Seen, Served, Space, WantedAgain};
use crate::{detector::binding::Binding, work};

/// Time after which a manifest that the member found invalid is tried again without a change of member or Work:
/// admission rules of the member change without an event.
pub const INVALID_AGAIN: Duration = Duration::from_secs(600);

/// Returns true if a Work that is being deleted is for a copy that its binding requires in this cluster again. A
/// cluster that recovers must not delete a copy that was evicted while it was unreachable, if it is a target again by
/// then (specification/failover.md 14.1).
#[must_use]
pub fn is_wanted_again(work: &Work, binding: Binding<'_>) -> bool {
    let spec = binding.spec();
    let resource = &spec.resource;
    let id = work.metadata.labels.as_ref().and_then(|labels| labels.get(binding.id_label()));
    let same_binding = id.is_some_and(|id| !id.is_empty() && Some(id.as_str()) == binding.permanent_id());
    let same_object = object_key(work).is_some_and(|key| {
        (&*key.gvk.kind, &*key.namespace, &*key.name)
            == (resource.kind.as_str(), resource.namespace.as_str(), resource.name.as_str())
    });
    let here = |key: WorkKey| ironclad_fleet::targets::targets(spec).iter().any(|target| target.cluster == key.cluster);
    !binding.is_deleting() && same_binding && same_object && work::key_of(work).is_some_and(here)
}

/// Returns true if new copies of the binding wait for the end of the copy of this Work, which is being deleted
/// (purge mode Directly; specification/failover.md 4.4).
#[must_use]
pub fn is_awaited(work: &Work, binding: Binding<'_>) -> bool {
    let Some(key) = work::key_of(work) else { return false };
    let spec = binding.spec();
    let mut tasks = spec.graceful_eviction_tasks.iter();
    spec.target(&key.cluster.0).is_none()
        && tasks.any(|task| task.purge_mode == Some(PurgeMode::Directly) && *task.from_cluster == *key.cluster.0)
}

/// Returns true if a failed write to the member is the member's answer about the Work, by the class of the failure, or
/// if the write was not sent, since something else changes the object back again and again. Otherwise nothing is known,
/// and the write is retried.
#[must_use]
pub fn is_verdict(class: &str) -> bool {
    matches!(class, "Denied" | "Invalid" | "NotFound" | "HotLoop")
}

/// Returns true if the member had the object before, according to the Work's status.
#[must_use]
pub fn was_applied(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::is_true(conditions, conditions::work::APPLIED)
}

/// Returns true if a part of a Work's status must be written at once: that the object is not applied
/// (specification/propagation.md 1.1).
#[must_use]
pub fn is_urgent(part: &StatusPart) -> bool {
    part.conditions.iter().any(|c| c.type_ == conditions::work::APPLIED && c.status == conditions::FALSE)
}

/// Makes the member match the Work. No effects if it does; a failure that is reported already leaves only
/// [`Effect::Retry`].
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = work::key_of(seen.work) else { return plan };
    let cx = Context { seen, key, now };
    if seen.work.metadata.deletion_timestamp.is_some() {
        remove::decide(&mut plan, &cx);
    } else {
        apply::decide(&mut plan, &cx);
    }
    plan
}

/// Reports that a write to the member failed with `error`, in the member's own words, which are of this class.
///
/// For answers of the member. No answer, or 409, says nothing about the Work: retry. An invalid manifest stays
/// invalid: retry late. A forbidden one may be allowed later, as with a quota.
pub fn failed(seen: &Seen<'_>, class: &str, error: &str, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = work::key_of(seen.work) else { return plan };
    plan.note(Reason::MemberRefused { cluster: key.cluster.clone(), message: error.to_owned() }.into());
    let cx = Context { seen, key, now };
    if class == "HotLoop" {
        report::contested(&mut plan, &cx);
    } else if seen.work.metadata.deletion_timestamp.is_some() {
        report::not_removed(&mut plan, &cx, error);
    } else if class == "Invalid" {
        report::refused(&mut plan, &cx, error);
        plan.effects.push(Effect::RetryAfter(INVALID_AGAIN));
    } else {
        report::failure(&mut plan, &cx, error);
        // Most often the namespace is missing or being deleted.
        if let Some(key) = object_key(seen.work).filter(|key| !key.namespace.is_empty() && !seen.namespace.exists) {
            plan.effects.push(Effect::AwaitNamespace { namespace: key.namespace.to_string() });
        }
    }
    plan
}
