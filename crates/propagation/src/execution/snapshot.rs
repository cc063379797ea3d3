//! Snapshot of one Work, and the effects of its decision.

use std::time::Duration;

use ironclad_api::{cluster::Cluster, conditions, work::Work};
use ironclad_fleet::{Because, Event, ObjectKey, StatusPart, WorkKey, because::propagation::Reason};
use ironclad_interpreter::Interpreter;
use jiff::Timestamp;
use serde_json::Value;

use super::comparison::Comparison;
use crate::skipped_resources::Skipped;

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

/// Knowledge about whether a binding requires a copy again whose Work is being deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WantedAgain {
    /// It does not.
    #[default]
    No,
    /// The cached binding does. It may be older than the one because of which the Work was deleted: in the cache of a
    /// new leader, or if a watch is late.
    Cached,
    /// The binding was read and does.
    Read,
}

/// Availability of the resource of the manifest's kind.
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
    /// True if there is a client for the member.
    pub connected: bool,
    /// The object of [`super::object_key`] in the member.
    pub object: Observed<'a>,
    /// Availability of the resource of the manifest's kind.
    pub served: Served,
    /// Knowledge about whether the binding requires the copy again, although the Work is being deleted
    /// ([`super::is_wanted_again`]).
    pub wanted_again: WantedAgain,
    /// True if new copies wait for the end of this one ([`super::is_awaited`]).
    pub is_awaited: bool,
    /// Propagation of the object's namespace to this member.
    pub namespace: Space<'a>,
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Read the object from the member, then decide again with the answer. No effect follows it in a plan.
    Read(ObjectKey),
    /// Read the binding from the control plane, then decide again with the answer. No effect follows it in a plan.
    ReadBinding,
    /// Create the object in the member. On AlreadyExists read it and decide again; this is not a failure.
    CreateInMember(Value),
    /// Replace the object in the member: PUT of the whole object, with the resourceVersion that was read. On 409 read
    /// it and decide again; this is not a failure.
    ReplaceInMember(Value),
    /// Patch the object's metadata in the member. The patch contains the resourceVersion that was read.
    PatchInMember {
        key: ObjectKey,
        /// The merge patch.
        patch: Value,
    },
    /// Delete the object in the member with background propagation, which has to be explicit since Jobs default to
    /// orphaning. Not found is success.
    DeleteInMember {
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
    /// succeeded or failed ([`crate::wakes::execution::resolves_namespace`],
    /// [`crate::wakes::drift::brings_namespace`]). Does not end a
    /// back-off or a wait.
    AwaitNamespace {
        /// Its name.
        namespace: String,
        /// True if others may make it: the caches of the member hold only what this control plane made.
        by_others: bool,
    },
    /// Reconcile again with back-off.
    Retry,
    /// Reconcile again after this time, unless a change of the Work or of the member does so earlier.
    RetryAfter(Duration),
    /// Record an event.
    Event(Event),
}

/// Propagation of the object's namespace to the member. Empty for cluster-scoped objects.
#[derive(Debug, Clone, Copy, Default)]
pub struct Space<'a> {
    /// The Work with the namespace for this member: of namespace sync, or of a binding.
    pub work: Option<&'a Work>,
    /// The Namespace in the control plane. Not needed if there is a Work.
    pub namespace: Option<&'a Value>,
    /// Resources that namespace sync skips; `None` if it does not run.
    pub synced: Option<&'a Skipped>,
    /// True if the member's cache has the namespace, and it is not being deleted. An unmanaged namespace is in no
    /// cache; the status of its Work is used.
    pub exists: bool,
}

/// Reconcile of one Work.
pub(super) struct Context<'a> {
    pub(super) seen: &'a Seen<'a>,
    pub(super) key: WorkKey,
    pub(super) now: Timestamp,
}

impl Context<'_> {
    pub(super) fn is_ready(&self) -> bool {
        self.seen.cluster.is_some_and(|cluster| cluster.ready() == Some(conditions::TRUE))
    }

    /// Reason for which nothing can be done in the member now.
    pub(super) fn unreachable(&self) -> Option<Because> {
        let cluster = self.key.cluster.clone();
        match self.seen.cluster {
            None => Some(Reason::ClusterMissing { cluster }.into()),
            Some(_) if !self.is_ready() || !self.seen.connected => Some(Reason::ClusterNotReady { cluster }.into()),
            Some(_) => None,
        }
    }
}
