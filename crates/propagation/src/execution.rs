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
mod owner;
mod remove;
mod report;
mod retention;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, time::Duration};

use ironclad_api::{
    annotations,
    cluster::Cluster,
    conditions, labels,
    work::{Named, ObjectReference, Work},
};
use ironclad_fleet::{Because, Event, Gvk, ObjectKey, Plan, StatusPart, WorkKey, because::propagation::Reason};
use ironclad_interpreter::Interpreter;
use jiff::Timestamp;
use serde_json::Value;

pub use self::awaited::{NAMESPACE_WAIT_MAX, Space, resolves_namespace};
pub use self::comparison::{Comparison, compare_content, content_hash};
pub use self::drifted::drifted;
use crate::{
    detector::binding::Binding,
    template,
    work::{self, manifest},
};

/// Time after which a manifest that the member found invalid is tried again without a change of member or Work:
/// admission rules of the member change without an event.
pub const INVALID_AGAIN: Duration = Duration::from_secs(600);

/// Knowledge about the object in the member.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Observed<'a> {
    /// Unknown: the cache of its kind is not synced and the object was not read. Where it matters, the answer is
    /// [`Effect::Read`].
    #[default]
    Unknown,
    /// The cache has no such object.
    ///
    /// Caches of members contain only objects with the label `karmada.io/managed=true`, so an unmanaged object looks
    /// absent. The create is then answered with AlreadyExists: read the object and decide again with
    /// [`Observed::Present`].
    Uncached,
    /// The object was read and does not exist.
    Absent,
    /// The cache has the object without its content.
    Cached {
        /// `apiVersion`, `kind`, `metadata` and `status`.
        object: &'a Value,
        /// Result of the last comparison of its content; `None` if it was not compared.
        found: Option<Comparison>,
    },
    /// The whole object.
    Present(&'a Value),
}

/// Whether the resource of the manifest's kind is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Served {
    /// Known from the control plane's discovery or, for a Work that is being deleted after its CRD, from
    /// `Cluster.status.apiEnablements`.
    #[default]
    Yes,
    /// The control plane does not serve the kind.
    No,
}

/// Snapshot of one Work.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The Work, with status parts that wait to be written.
    pub work: &'a Work,
    /// Its cluster; `None` if the Cluster does not exist.
    pub cluster: Option<&'a Cluster>,
    /// Whether there is a client for the member.
    pub connected: bool,
    /// The object of [`object_key`] in the member.
    pub object: Observed<'a>,
    /// Whether the resource of the manifest's kind is known.
    pub served: Served,
    /// True if the binding requires the copy again, although the Work is being deleted ([`is_wanted_again`]).
    pub wanted_again: bool,
    /// Propagation of the object's namespace to this member.
    pub namespace: Space<'a>,
    /// `specReplicasPath` (`.spec.replicas`) if the kind has a scale subresource, for the label `retain-replicas`.
    pub replicas_path: Option<&'a str>,
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Read the object from the member, then decide again with the answer. No effect follows it in a plan.
    Read(ObjectKey),
    /// Create the object in the member. On AlreadyExists read it and decide again; this is not a failure.
    CreateInMember(Value),
    /// Replace the object in the member: PUT of the whole object, with the resourceVersion that was read. On 409 read
    /// it and decide again; this is not a failure.
    ReplaceInMember(Value),
    /// Patch the object's metadata in the member. The patch contains the resourceVersion that was read.
    PatchInMember {
        /// Its key.
        key: ObjectKey,
        /// The merge patch.
        patch: Value,
    },
    /// Delete the object in the member with background propagation, which has to be explicit since Jobs default to
    /// orphaning. Not found is success.
    DeleteInMember {
        /// Its key.
        key: ObjectKey,
        /// The uid that it must have; empty if it has none.
        uid: String,
    },
    /// Set a part of the Work's status.
    WorkStatus(StatusPart),
    /// Patch that removes the Work's finalizer, without resourceVersion.
    ReleaseWork {
        /// `metadata.finalizers` without ours.
        patch: Value,
    },
    /// Wait, without counting an attempt, for a change of the Cluster or of its connection: it is created, becomes
    /// Ready, is connected, serves other APIs, or is deleted. When it becomes Ready, deletions run first
    /// (specification/propagation.md 31 row 3).
    Park,
    /// Reconcile on the next event about this namespace of the member: it exists, or the Work that propagates it
    /// succeeded or failed ([`resolves_namespace`], [`crate::drift::brings_namespace`]). Does not end a back-off or a
    /// wait.
    AwaitNamespace {
        /// Its name.
        namespace: String,
    },
    /// Reconcile again with back-off.
    Retry,
    /// Reconcile again after this time, unless a change of the Work or of the member does so earlier.
    RetryAfter(Duration),
    /// Record an event.
    Event(Event),
}

/// The object in the member that the Work is for; `None` if its manifest names none.
#[must_use]
pub fn object_key(work: &Work) -> Option<ObjectKey> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    let Named { api_version, kind, metadata } = manifest.named();
    let is_named = !kind.is_empty() && !metadata.name.is_empty();
    is_named.then(|| ObjectKey {
        gvk: Gvk::from_manifest(&api_version, &kind),
        namespace: metadata.namespace.into(),
        name: metadata.name.into(),
    })
}

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

/// Returns true if a failed write to the member is the member's answer about the Work, by the class of the failure.
/// Otherwise nothing is known, and the write is retried.
#[must_use]
pub fn is_verdict(class: &str) -> bool {
    matches!(class, "Denied" | "Invalid" | "NotFound")
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
    if seen.work.metadata.deletion_timestamp.is_some() {
        report::not_removed(&mut plan, &cx, error);
    } else if class == "Invalid" {
        report::refused(&mut plan, &cx, error);
        plan.effects.push(Effect::RetryAfter(INVALID_AGAIN));
    } else {
        report::failure(&mut plan, &cx, error);
        // Most often the namespace is missing or being deleted.
        if let Some(key) = object_key(seen.work).filter(|key| !key.namespace.is_empty() && !seen.namespace.stands) {
            plan.effects.push(Effect::AwaitNamespace { namespace: key.namespace.to_string() });
        }
    }
    plan
}

/// Reconcile of one Work.
struct Context<'a> {
    seen: &'a Seen<'a>,
    key: WorkKey,
    now: Timestamp,
}

impl Context<'_> {
    fn is_ready(&self) -> bool {
        self.seen.cluster.is_some_and(|cluster| cluster.ready() == Some(conditions::TRUE))
    }

    /// Reason for which nothing can be done in the member now.
    fn unreachable(&self) -> Option<Because> {
        let cluster = self.key.cluster.clone();
        match self.seen.cluster {
            None => Some(Reason::ClusterMissing { cluster }.into()),
            Some(_) if !self.is_ready() || !self.seen.connected => Some(Reason::ClusterNotReady { cluster }.into()),
            Some(_) => None,
        }
    }
}

/// The manifest as it is sent to the member. Our binding controller completes manifests itself; those of other writers
/// of Works may lack the labels and annotations by which their objects are found again (specification/propagation.md
/// 9.4).
fn finished<'a>(work: &'a Work, manifest: &'a Value) -> Cow<'a, Value> {
    let text = |field: &'a Option<String>| field.as_deref().unwrap_or_default();
    let (work_namespace, work_name) = (text(&work.metadata.namespace), text(&work.metadata.name));
    let is_finished = template::label(manifest, labels::MANAGED) == labels::TRUE
        && template::annotation(manifest, annotations::WORK_NAMESPACE) == work_namespace
        && template::annotation(manifest, annotations::WORK_NAME) == work_name;
    if is_finished {
        return Cow::Borrowed(manifest);
    }
    let mark = |map: &'a Option<ironclad_api::StringMap>, key| {
        map.as_ref().and_then(|map| map.get(key)).map_or("", String::as_str)
    };
    let marks = manifest::Marks {
        work_namespace,
        work_name,
        work_id: mark(&work.metadata.labels, labels::WORK_PERMANENT_ID),
        conflict_resolution: mark(&work.metadata.annotations, annotations::CONFLICT_RESOLUTION),
    };
    let mut manifest = manifest.clone();
    manifest::finish(&mut manifest, &marks);
    Cow::Owned(manifest)
}

fn reference(work: &Work) -> ObjectReference {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectReference {
        api_version: "work.karmada.io/v1alpha1".into(),
        kind: "Work".into(),
        namespace: text(&work.metadata.namespace),
        name: text(&work.metadata.name),
        uid: text(&work.metadata.uid),
        resource_version: String::new(),
    }
}
