//! A Work's manifest becomes an object in its member, and goes with the Work (specification/propagation.md 13, 14, 31).
//!
//! Nothing here knows whether a write will succeed. The effects stand in the order in which they are to be sent, the
//! report of success after the writes to the member; whoever sends them stops at the first write that fails and sends
//! [`failed`] instead. Status of the object is not looked at (see [`crate::work_status`]), nor is namespace sync.

mod apply;
mod awaited;
pub mod compare;
mod drifted;
mod held;
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

pub use self::awaited::{NAMESPACE_WAIT_MAX, Space, settles_namespace};
pub use self::drifted::drifted;
pub use self::held::{Found, content_hash, found};
use crate::{
    detector::binding::Binding,
    template,
    work::{self, manifest},
};

/// How long a member that finds a manifest invalid is not asked again, if neither it nor the Work changes: rules of
/// admission in the member come and go without telling.
pub const INVALID_AGAIN: Duration = Duration::from_secs(600);

/// What is known of the object in the member.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Observed<'a> {
    /// Nothing yet: its kind's cache is not synced and nobody asked. Where it matters, the answer is [`Effect::Look`].
    #[default]
    Unknown,
    /// The cache has no such object.
    ///
    /// Caches of members hold only what carries the label `karmada.io/managed=true`: an object that is not managed looks
    /// absent, too. It shows when the create is answered with AlreadyExists: then read it and decide again with
    /// [`Observed::Present`].
    Uncached,
    /// It was asked for, and is not there.
    Absent,
    /// The cache has it, without its content.
    Held {
        /// `apiVersion`, `kind`, `metadata` and `status`.
        object: &'a Value,
        /// What its content was found to be when it was last seen; `None` if nobody compared it.
        found: Option<Found>,
    },
    /// The object as a whole.
    Present(&'a Value),
}

/// Whether it is known under which resource the manifest's kind is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Served {
    /// It is: by the control plane's discovery or, for a Work that is being deleted after its CRD, by
    /// `Cluster.status.apiEnablements`.
    #[default]
    Yes,
    /// The control plane does not serve the kind.
    No,
}

/// What is seen of one Work.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The Work, with its status as it will stand (status that waits to be written included).
    pub work: &'a Work,
    /// Its cluster, `None` if there is no such Cluster.
    pub cluster: Option<&'a Cluster>,
    /// Whether there is a client for the member.
    pub connected: bool,
    /// The object of [`object_key`] in the member.
    pub object: Observed<'a>,
    /// Whether the manifest's kind is known.
    pub served: Served,
    /// Whether the binding wants the copy after all, though the Work is being deleted ([`is_wanted_again`]).
    pub wanted_again: bool,
    /// How the object's namespace comes to this member.
    pub namespace: Space<'a>,
    /// `specReplicasPath` (`.spec.replicas`) where the kind has a scale subresource, for the label `retain-replicas`.
    pub replicas_path: Option<&'a str>,
    /// Answers about kinds.
    pub interpreter: &'a Interpreter,
}

/// One step, complete.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Read the object from the member, then decide again with the answer. Nothing follows it in a plan.
    Look(ObjectKey),
    /// Create the object in the member. AlreadyExists: read it and decide again; this is no failure.
    CreateInMember(Value),
    /// Replace the object in the member: a PUT of the whole, with the resourceVersion that was seen. On 409 read it
    /// again and decide again; this is no failure.
    ReplaceInMember(Value),
    /// Merge patch of the object in the member: metadata only, with the resourceVersion that was seen inside.
    PatchInMember {
        /// Which one.
        key: ObjectKey,
        /// Complete.
        patch: Value,
    },
    /// Delete the object in the member with background propagation, which is said explicitly as Jobs default to
    /// orphaning. Not found is success.
    DeleteInMember {
        /// Which one.
        key: ObjectKey,
        /// Only if it still is this one; empty if it has none.
        uid: String,
    },
    /// A part for the Work's status writer.
    WorkStatus(StatusPart),
    /// Merge patch of the Work that ends the finalizer, without resourceVersion.
    ReleaseWork {
        /// `metadata.finalizers` without ours.
        patch: Value,
    },
    /// Wait, without counting a try, for a change of the Cluster or of its connection: it appears, becomes Ready, is
    /// connected, serves other APIs, or leaves. When it becomes Ready, deletions go first (row 3 of 31).
    Park,
    /// Come as soon as anything is heard of this namespace of the member: it is there, or the Work that brings it says what came
    /// of it ([`settles_namespace`], [`crate::drift::brings_namespace`]). Does not end a back-off or a wait.
    AwaitNamespace {
        /// Its name.
        namespace: String,
    },
    /// Come again with back-off.
    Retry,
    /// Come again after this time; a change of the Work or of the member comes first.
    RetryAfter(Duration),
    /// Tell people.
    Event(Event),
}

/// The object in the member that the Work is about; `None` if its manifests name none.
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

/// Whether a Work that is being deleted stands for a copy that its binding wants in this cluster again: a cluster that comes
/// back must not delete what it was told to forget while it was away, if it is a target again by then (specification/failover.md 14.1).
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

/// Whether a failed write to the member says something about the Work, by the class of the failure; if not, nothing is known
/// about it and it is tried again.
#[must_use]
pub fn is_verdict(class: &str) -> bool {
    matches!(class, "Denied" | "Invalid" | "NotFound")
}

/// Whether the member had the object before, as far as the Work tells.
#[must_use]
pub fn was_applied(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::is_true(conditions, conditions::work::APPLIED)
}

/// Whether a part of a Work's status may not wait for others: that the object is not applied (1.1).
#[must_use]
pub fn is_urgent(part: &StatusPart) -> bool {
    part.conditions.iter().any(|c| c.type_ == conditions::work::APPLIED && c.status == conditions::FALSE)
}

/// Makes the member what the Work says. Quiet when it is; a failure that stands already leaves only [`Effect::Retry`].
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = work::key_of(seen.work) else { return plan };
    let road = Road { seen, key, now };
    if seen.work.metadata.deletion_timestamp.is_some() {
        remove::decide(&mut plan, &road);
    } else {
        apply::decide(&mut plan, &road);
    }
    plan
}

/// The report that a write to the member failed with `error`, in the member's own words, which are of this class.
///
/// For what the member answers. That it does not answer, or answers 409, says nothing about the Work: come again. What it
/// found invalid it will find invalid again: it is asked again late. What it forbade it may allow, as a quota does.
pub fn failed(seen: &Seen<'_>, class: &str, error: &str, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(key) = work::key_of(seen.work) else { return plan };
    plan.note(Reason::MemberRefused { cluster: key.cluster.clone(), message: error.to_owned() }.into());
    let road = Road { seen, key, now };
    if seen.work.metadata.deletion_timestamp.is_some() {
        report::not_removed(&mut plan, &road, error);
    } else if class == "Invalid" {
        report::refused(&mut plan, &road, error);
        plan.effects.push(Effect::RetryAfter(INVALID_AGAIN));
    } else {
        report::failure(&mut plan, &road, error);
        // A namespace that is missing, or on its way out, is the usual reason.
        if let Some(key) = object_key(seen.work).filter(|key| !key.namespace.is_empty() && !seen.namespace.stands) {
            plan.effects.push(Effect::AwaitNamespace { namespace: key.namespace.to_string() });
        }
    }
    plan
}

/// One Work on its way.
struct Road<'a> {
    seen: &'a Seen<'a>,
    key: WorkKey,
    now: Timestamp,
}

impl Road<'_> {
    fn is_ready(&self) -> bool {
        self.seen.cluster.is_some_and(|cluster| cluster.ready() == Some(conditions::TRUE))
    }

    /// Why nothing can be done in the member now.
    fn unreachable(&self) -> Option<Because> {
        let cluster = self.key.cluster.clone();
        match self.seen.cluster {
            None => Some(Reason::ClusterMissing { cluster }.into()),
            Some(_) if !self.is_ready() || !self.seen.connected => Some(Reason::ClusterNotReady { cluster }.into()),
            Some(_) => None,
        }
    }
}

/// The manifest as it goes to the member. Our binding controller finishes manifests itself; those of other writers of
/// Works may lack the marks by which their objects are found again (9.4).
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
