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
mod ownership;
mod remove;
mod report;
mod retention;
mod snapshot;
#[cfg(test)]
mod tests;

use ironclad_api::{conditions, policy::PurgeMode, reasons, work::Work};
use ironclad_fleet::{Because, Plan, StatusPart, WorkKey, because::propagation::Reason};
use jiff::Timestamp;

pub use self::awaited::NAMESPACE_WAIT_MAX;
pub(crate) use self::awaited::is_being_propagated;
pub use self::comparison::{Comparison, compare_content, content_hash};
pub use self::drifted::drifted;
pub use self::object::{missing_replicas_path, object_key, serving_api, successor};
pub(crate) use self::ownership::applied_fields;
pub(crate) use self::report::template_of;
use self::snapshot::Context;
pub use self::snapshot::{Effect, Observed, Seen, Served, Space, WantedAgain};
use crate::{detector::binding::Binding, work};

/// Failures in a row before which the answer of a server that fails says nothing about the Work: about a second, for
/// which a server that restarts answers so.
const FAILURES_THAT_LAST: u32 = 8;

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

/// Returns true if a failed request to the member is its answer about the Work, by the class of the failure, or if it
/// was not sent, since something else changes the object back again and again. A server that fails, such as one whose
/// webhook is down, gives an answer once it has failed for a while; `failures` are those in a row before this one.
/// Otherwise nothing is known, and the request is sent again.
#[must_use]
pub fn is_verdict(class: &str, failures: u32) -> bool {
    match class {
        "Denied" | "OverQuota" | "Invalid" | "NotFound" | "HotLoop" => true,
        "ServerError" | "Unavailable" | "Throttled" => failures >= FAILURES_THAT_LAST,
        _ => false,
    }
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

/// Reports that the answer to a write lacks these fields of the manifest: the member's schema of the kind does not have
/// them, or its admission took them away. The Work is tried again with backoff, since schemas change without an event.
pub fn dropped(seen: &Seen<'_>, fields: &[String], now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = work::key_of(seen.work) else { return plan };
    let because = Because::from(Reason::FieldsDropped { cluster: key.cluster.clone(), fields: fields.join(", ") });
    let message = format!("{because}: update the definition of the kind there, or take the fields out of the template");
    plan.note(because);
    report::blocked(&mut plan, &Context { seen, key, now }, reasons::work::FIELDS_DROPPED, &message);
    plan.effects.push(Effect::Retry);
    plan
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
/// For answers of the member ([`is_verdict`]). Whatever it answers may end without an event: a port is freed, an
/// admission rule lifted, a webhook is back. So the Work is tried again with backoff.
pub fn failed(seen: &Seen<'_>, class: &str, error: &str, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = work::key_of(seen.work) else { return plan };
    plan.note(Reason::MemberRefused { cluster: key.cluster.clone(), message: error.to_owned() }.into());
    let cx = Context { seen, key, now };
    if class == "HotLoop" {
        report::contested(&mut plan, &cx);
    } else if seen.work.metadata.deletion_timestamp.is_some() {
        report::not_removed(&mut plan, &cx, error);
    } else {
        report::failure(&mut plan, &cx, error);
        // Most often the namespace is missing or being deleted.
        if let Some(key) = object_key(seen.work)
            .filter(|key| class != "Invalid" && !key.namespace.is_empty() && !seen.namespace.exists)
        {
            let by_others = class == "NotFound" || error.contains("because it is being terminated");
            plan.effects.push(Effect::AwaitNamespace { namespace: key.namespace.to_string(), by_others });
        }
    }
    plan
}
