//! Reasons of propagation: policy to binding to Work to member object and back.

use std::{fmt, sync::Arc};

use ironclad_api::labels;
use serde::Serialize;

use crate::{BindingKey, ClusterName, ObjectKey, WorkKey};

/// A policy, by what people call it. The namespace is empty for a ClusterPropagationPolicy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PolicyKey {
    /// Empty for a ClusterPropagationPolicy.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "ClusterPropagationPolicy {}", self.name)
        } else {
            write!(f, "PropagationPolicy {}/{}", self.namespace, self.name)
        }
    }
}

/// Reason why an object was written or left unchanged during propagation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// No policy selects the template; it waits for one.
    NoPolicyMatches { template: ObjectKey },
    /// Another controller owns the template.
    ClaimedElsewhere {
        /// Value of the label `resourcetemplate.karmada.io/claimed-by`.
        by: String,
    },
    /// The policy selects the template best.
    PolicyChosen {
        /// The winner.
        policy: PolicyKey,
        /// Match of its selector: by name, by label, or all of the kind.
        by: &'static str,
    },
    /// A policy selects the template too, and lost.
    PolicyLost {
        /// The loser.
        policy: PolicyKey,
        /// Reason of the preference.
        why: &'static str,
    },
    /// The template stays with the policy that claimed it.
    StaysClaimed { policy: PolicyKey },
    /// The policy that claimed the template was deleted: the claim is removed, the copies remain.
    ClaimantGone {
        /// The policy that was.
        policy: PolicyKey,
    },
    /// The policy that claimed the template is being deleted.
    ClaimantDeleting { policy: PolicyKey },
    /// The policy that claimed the template does not select it any more.
    SelectorsLeft { policy: PolicyKey },
    /// The policy wants override policies that do not exist yet.
    OverridesMissing {
        policy: PolicyKey,
        /// Their names.
        missing: Vec<String>,
    },
    /// A lazy policy waits for the next edit of the template.
    LazyWaits { policy: PolicyKey },
    /// The binding belongs to a deleted template of the same name and must go first.
    BindingOfOldTemplate { binding: BindingKey },
    /// The name is taken by an object of another group or kind; another name is used.
    NameTaken {
        /// The name that is taken.
        name: String,
        /// The object that has it, as messages name it.
        by: String,
    },
    /// The interpreter found the template misshapen.
    NotInterpreted {
        /// Its answer.
        message: String,
    },
    /// The policy took the template from another one.
    Preempts {
        /// The one that takes it.
        policy: PolicyKey,
        /// The one that had it.
        from: PolicyKey,
    },
    /// The policy may not take the template from the one that has it.
    MayNotPreempt {
        /// The one that wants it.
        policy: PolicyKey,
        /// The one that has it.
        from: PolicyKey,
    },
    /// The binding is being deleted, so its Works go.
    BindingDeleted { binding: BindingKey },
    /// The binding does not want this cluster any more.
    NotATarget {
        /// The Work that goes.
        work: WorkKey,
    },
    /// The binding does not want this cluster any more, but no target can have its copy yet: the old one stays.
    KeptForWantOfAnother {
        /// The Work that stays.
        work: WorkKey,
    },
    /// Replicas changed: the binding is scheduled before its Works change.
    AwaitsScheduler {
        /// Key of the binding.
        binding: BindingKey,
    },
    /// The old copy must be deleted before a new one starts (purge mode Directly).
    OldCopyRemains {
        /// The cluster that still has it.
        cluster: ClusterName,
    },
    /// The scheduler placed a copy there.
    PlacedOn {
        /// The target cluster.
        cluster: ClusterName,
    },
    /// The cluster is named by the binding, but there is no such Cluster.
    ClusterMissing { cluster: ClusterName },
    /// The Work is still being deleted; it is made anew afterwards.
    WorkTerminating { work: WorkKey },
    /// The Work belongs to another object, which asks for the same object in the member.
    WorkOwned { work: WorkKey, owner: String },
    /// An override could not be applied; the last good Work stays.
    OverrideFailed {
        /// For which cluster.
        cluster: ClusterName,
        /// The error.
        message: String,
    },
    /// Dispatching is suspended.
    Suspended { work: WorkKey },
    /// The cluster is not Ready: the Work waits, without counting tries.
    ClusterNotReady { cluster: ClusterName },
    /// The member does not serve the API.
    ApiNotInstalled {
        cluster: ClusterName,
        /// `apiVersion Kind`.
        api: String,
    },
    /// The control plane does not know the kind, so nobody knows where the member serves it.
    KindNotServed {
        /// `apiVersion Kind`.
        api: String,
    },
    /// The member kept the object without fields of the manifest.
    FieldsDropped {
        cluster: ClusterName,
        /// JSON pointers of the first ones.
        fields: String,
    },
    /// The Work has no manifest, or several.
    NotOneManifest {
        /// Number of manifests.
        count: usize,
    },
    /// The object's namespace is on its way to the member.
    AwaitsNamespace { namespace: String },
    /// The member's object is unknown; it is read first.
    NotLookedUp { object: ObjectKey },
    /// A write to the member failed.
    MemberRefused {
        /// Which member.
        cluster: ClusterName,
        /// Its answer.
        message: String,
    },
    /// The member object is missing.
    MemberObjectMissing { object: ObjectKey },
    /// The member object differs from the manifest.
    MemberObjectDiffers {
        object: ObjectKey,
        /// JSON pointer to the first difference.
        at: String,
    },
    /// The member object exists and is not ours.
    NotOurs {
        object: ObjectKey,
        /// Owner, if known.
        owner: Option<String>,
    },
    /// The member object is being deleted; it is made anew afterwards.
    MemberObjectTerminating { object: ObjectKey },
    /// The namespace exists in the member, which is enough.
    NamespaceExists { object: ObjectKey },
    /// The member object stays, without our marks.
    Released { object: ObjectKey },
    /// The Work goes, so the member object does.
    MemberObjectDeleted { object: ObjectKey },
    /// The cluster leaves and can't be reached: its copies are left behind.
    LeftBehind { cluster: ClusterName },
    /// The Work is being deleted, but its binding needs its copy in this cluster again: the copy remains for the
    /// recreated Work.
    WantedAgain {
        /// Object that remains.
        object: ObjectKey,
    },
    /// The member reported.
    Reported { cluster: ClusterName },
    /// A workload refers to the object.
    NeededBy {
        /// The workload's binding.
        binding: BindingKey,
    },
    /// No workload refers to the object any more, and no policy selects it.
    NotNeeded {
        /// The object's binding.
        binding: BindingKey,
    },
    /// Somebody asked for a fresh placement.
    RescheduleAsked { binding: BindingKey },
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPolicyMatches { .. } => "NoPolicyMatches",
            Self::ClaimedElsewhere { .. } => "ClaimedElsewhere",
            Self::PolicyChosen { .. } => "PolicyChosen",
            Self::PolicyLost { .. } => "PolicyLost",
            Self::StaysClaimed { .. } => "StaysClaimed",
            Self::ClaimantGone { .. } => "ClaimantGone",
            Self::ClaimantDeleting { .. } => "ClaimantDeleting",
            Self::SelectorsLeft { .. } => "SelectorsLeft",
            Self::OverridesMissing { .. } => "OverridesMissing",
            Self::LazyWaits { .. } => "LazyWaits",
            Self::BindingOfOldTemplate { .. } => "BindingOfOldTemplate",
            Self::NameTaken { .. } => "NameTaken",
            Self::NotInterpreted { .. } => "NotInterpreted",
            Self::Preempts { .. } => "Preempts",
            Self::MayNotPreempt { .. } => "MayNotPreempt",
            Self::BindingDeleted { .. } => "BindingDeleted",
            Self::NotATarget { .. } => "NotATarget",
            Self::KeptForWantOfAnother { .. } => "KeptForWantOfAnother",
            Self::AwaitsScheduler { .. } => "AwaitsScheduler",
            Self::OldCopyRemains { .. } => "OldCopyRemains",
            Self::PlacedOn { .. } => "PlacedOn",
            Self::ClusterMissing { .. } => "ClusterMissing",
            Self::WorkTerminating { .. } => "WorkTerminating",
            Self::WorkOwned { .. } => "WorkOwned",
            Self::OverrideFailed { .. } => "OverrideFailed",
            Self::Suspended { .. } => "SuspendDispatching",
            Self::ClusterNotReady { .. } => "ClusterNotReady",
            Self::ApiNotInstalled { .. } => "APINotInstalled",
            Self::KindNotServed { .. } => "KindNotServed",
            Self::FieldsDropped { .. } => "FieldsDropped",
            Self::NotOneManifest { .. } => "NotOneManifest",
            Self::AwaitsNamespace { .. } => "AwaitsNamespace",
            Self::NotLookedUp { .. } => "NotLookedUp",
            Self::MemberRefused { .. } => "MemberRefused",
            Self::MemberObjectMissing { .. } => "MemberObjectMissing",
            Self::MemberObjectDiffers { .. } => "MemberObjectDiffers",
            Self::NotOurs { .. } => "NotOurs",
            Self::MemberObjectTerminating { .. } => "Terminating",
            Self::NamespaceExists { .. } => "AlreadyExists",
            Self::Released { .. } => "Released",
            Self::MemberObjectDeleted { .. } => "MemberObjectDeleted",
            Self::LeftBehind { .. } => "LeftBehind",
            Self::WantedAgain { .. } => "WantedAgain",
            Self::Reported { .. } => "Reported",
            Self::NeededBy { .. } => "NeededBy",
            Self::NotNeeded { .. } => "NotNeeded",
            Self::RescheduleAsked { .. } => "RescheduleAsked",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicyMatches { template } => write!(f, "no policy selects {template}"),
            Self::ClaimedElsewhere { by } if by == labels::CLAIMED_BY_DISTRIBUTED_HPA => write!(
                f,
                "the members of its target run it (label {}), policies leave it alone",
                labels::FEDERATED_HPA_ENABLED
            ),
            Self::ClaimedElsewhere { by } => write!(f, "the template belongs to a {by}, policies leave it alone"),
            Self::PolicyChosen { policy, by } => write!(f, "{policy} selects the template by {by}"),
            Self::PolicyLost { policy, why } => write!(f, "{policy} selects it too: {why}"),
            Self::StaysClaimed { policy } => write!(f, "the template is claimed by {policy} and stays with it"),
            Self::ClaimantGone { policy } => write!(f, "policy removed, propagated copies are kept: {policy}"),
            Self::ClaimantDeleting { policy } => write!(f, "{policy} is being deleted"),
            Self::SelectorsLeft { policy } => write!(f, "{policy} does not select the template any more"),
            Self::OverridesMissing { policy, missing } => {
                write!(f, "waiting for dependent overrides of {policy}: {}", missing.join(", "))
            }
            Self::LazyWaits { policy } => write!(f, "{policy} is lazy and waits for the next edit of the template"),
            Self::BindingOfOldTemplate { binding } => {
                write!(f, "binding {binding} belongs to a deleted template of the same name")
            }
            Self::NameTaken { name, by } => write!(f, "the name {name} is taken by {by}"),
            Self::NotInterpreted { message } => f.write_str(message),
            Self::Preempts { policy, from } => write!(f, "{policy} takes the template from {from}"),
            Self::MayNotPreempt { policy, from } => write!(f, "{policy} may not take the template from {from}"),
            Self::BindingDeleted { binding } => write!(f, "binding {binding} is being deleted"),
            Self::NotATarget { work } => write!(f, "{} is no target any more", work.cluster),
            Self::KeptForWantOfAnother { work } => {
                write!(f, "{} is no target any more, but keeps its copy until another one can be written", work.cluster)
            }
            Self::AwaitsScheduler { binding } => {
                write!(f, "the replicas of {binding} changed, the scheduler shares them out first")
            }
            Self::OldCopyRemains { cluster } => write!(f, "the copy in cluster {cluster} must be deleted first"),
            Self::PlacedOn { cluster } => write!(f, "the binding places a copy on cluster {cluster}"),
            Self::ClusterMissing { cluster } => write!(f, "there is no cluster {cluster}"),
            Self::WorkTerminating { work } => write!(f, "Work {work} is still being deleted"),
            Self::WorkOwned { work, owner } => {
                write!(f, "Work {work} belongs to {owner}, which asks for the same object: delete one of the two")
            }
            Self::OverrideFailed { cluster, message } => write!(f, "override for cluster {cluster}: {message}"),
            Self::Suspended { .. } => f.write_str("Work dispatching is in a suspended state."),
            Self::ClusterNotReady { cluster } => write!(f, "cluster {cluster} is not ready"),
            Self::ApiNotInstalled { cluster, api } => write!(f, "cluster {cluster} does not serve {api}"),
            Self::KindNotServed { api } => write!(f, "the control plane does not serve {api}"),
            Self::FieldsDropped { fields, .. } => write!(f, "the member keeps the object without {fields}"),
            Self::NotOneManifest { count } => write!(f, "a Work holds one manifest, this one holds {count}"),
            Self::AwaitsNamespace { namespace } => write!(f, "namespace {namespace} is on its way"),
            Self::NotLookedUp { object } => write!(f, "{object} has to be read from the member first"),
            Self::MemberRefused { cluster, message } => write!(f, "cluster {cluster}: {message}"),
            Self::MemberObjectMissing { object } => write!(f, "{object} is missing in the member"),
            Self::MemberObjectDiffers { object, at } => write!(f, "{object} differs from the manifest at {at}"),
            Self::NotOurs { object, owner: Some(owner) } => write!(f, "{object} belongs to {owner}"),
            Self::NotOurs { object, owner: None } => write!(f, "{object} is not managed by this control plane"),
            Self::MemberObjectTerminating { object } => write!(f, "{object} is being deleted in the member"),
            Self::NamespaceExists { object } => write!(f, "{object} exists in the member, which is enough"),
            Self::Released { object } => write!(f, "{object} stays in the member without our labels"),
            Self::MemberObjectDeleted { object } => write!(f, "{object} is deleted with its Work"),
            Self::LeftBehind { cluster } => {
                write!(f, "cluster {cluster} is being removed and can't be reached: copies stay")
            }
            Self::WantedAgain { object } => write!(f, "{object} is wanted again: it stays"),
            Self::Reported { cluster } => write!(f, "cluster {cluster} reported"),
            Self::NeededBy { binding } => write!(f, "the workload of binding {binding} refers to it"),
            Self::NotNeeded { binding } => write!(f, "nothing refers to the object of binding {binding} any more"),
            Self::RescheduleAsked { binding } => write!(f, "a fresh placement of {binding} was requested"),
        }
    }
}
