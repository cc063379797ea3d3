//! Violations of a fleet's invariants.

use std::fmt;

use serde::Serialize;

use crate::{BindingKey, ClusterName, ObjectKey, PolicyKey, WorkKey};

/// One broken invariant, by the names of the objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "violation", rename_all_fields = "camelCase")]
pub enum Violation {
    /// A template is claimed by a PropagationPolicy and by a ClusterPropagationPolicy.
    TwoClaims { template: ObjectKey },
    /// A template is claimed by a policy that does not exist, or by one that was made anew under the name.
    ClaimantMissing {
        template: ObjectKey,
        /// The policy of its claim.
        policy: PolicyKey,
    },
    /// A template is claimed and has no binding.
    BindingMissing {
        template: ObjectKey,
        /// The policy that claims it.
        policy: PolicyKey,
    },
    /// A binding carries another claim than its template.
    ClaimsDiffer { binding: BindingKey, template: ObjectKey },
    /// Two bindings are for one template.
    TwoBindings {
        template: ObjectKey,
        first: BindingKey,
        /// The other.
        second: BindingKey,
    },
    /// Two bindings, or two Works, have the same permanent id.
    IdShared {
        id: String,
        first: String,
        /// The other.
        second: String,
    },
    /// The parts of a divided binding are not its whole.
    SumDiffers {
        binding: BindingKey,
        /// Replicas that are wanted.
        wanted: i64,
        /// Replicas that are placed.
        placed: i64,
    },
    /// A cluster of a duplicated binding has not all replicas.
    NotDuplicated {
        binding: BindingKey,
        cluster: ClusterName,
        /// Replicas that are wanted.
        wanted: i64,
        /// Replicas that are placed there.
        placed: i64,
    },
    /// A binding names a cluster twice.
    TargetTwice { binding: BindingKey, cluster: ClusterName },
    /// A binding names a cluster that does not exist.
    TargetMissing { binding: BindingKey, cluster: ClusterName },
    /// A binding's status lists a cluster where no copy is expected.
    ReportUnexpected { binding: BindingKey, cluster: ClusterName },
    /// A target has no Work.
    WorkMissing {
        binding: BindingKey,
        /// The target.
        cluster: ClusterName,
    },
    /// A Work exists where its binding expects none.
    WorkUnexpected { work: WorkKey, binding: BindingKey },
    /// One binding has two Works in one cluster.
    WorkTwice {
        first: WorkKey,
        /// The other.
        second: WorkKey,
        binding: BindingKey,
    },
    /// A Work is not what its binding says.
    WorkDiffers {
        work: WorkKey,
        binding: BindingKey,
        /// The field that differs.
        field: &'static str,
    },
    /// A Work carries the id of a binding that does not exist.
    WorkWithoutBinding { work: WorkKey, id: String },
    /// A Work is owned by a Namespace that does not exist.
    WorkWithoutNamespace { work: WorkKey, namespace: String },
    /// A Work of a binding has not exactly one manifest.
    ManifestCount {
        work: WorkKey,
        /// Its number.
        count: usize,
    },
    /// A manifest does not carry a mark of its Work.
    ManifestUnmarked {
        work: WorkKey,
        /// The label or annotation that is missing or wrong.
        key: &'static str,
    },
    /// A member object is marked as ours, and its Work does not exist.
    ObjectWithoutWork {
        /// The member cluster.
        cluster: ClusterName,
        object: ObjectKey,
        /// The Work that it names.
        work: String,
    },
    /// A member object names a Work that is for another object, or that has another id.
    ObjectOfAnotherWork {
        /// The member cluster.
        cluster: ClusterName,
        object: ObjectKey,
        /// The Work that it names.
        work: WorkKey,
    },
    /// A Work says that it is applied, and the member does not have the object.
    ObjectMissing { work: WorkKey, object: ObjectKey },
    /// A cluster has two taints of one key and effect.
    TaintTwice {
        cluster: ClusterName,
        /// Key and effect.
        taint: String,
    },
    /// A Push cluster is said to be unknown, although the control plane itself looks at it.
    PushUnknown { cluster: ClusterName },
    /// A binding has two tasks for leaving one cluster.
    TaskTwice { binding: BindingKey, cluster: ClusterName },
    /// A binding has a task for leaving a cluster that is its target.
    TaskOfTarget { binding: BindingKey, cluster: ClusterName },
    /// A binding is said to be scheduled on fewer clusters than its spread constraint asks for.
    SpreadTooSmall {
        binding: BindingKey,
        /// Clusters that are asked for.
        wanted: i64,
        /// Clusters that it has.
        placed: usize,
    },
}

impl Violation {
    /// Returns whether it may be transient while a change is in progress. Any other violation is a fault at once.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::TwoClaims { .. }
            | Self::TwoBindings { .. }
            | Self::IdShared { .. }
            | Self::SumDiffers { .. }
            | Self::NotDuplicated { .. }
            | Self::TargetTwice { .. }
            | Self::WorkWithoutBinding { .. }
            | Self::ManifestCount { .. }
            | Self::ManifestUnmarked { .. }
            | Self::ObjectWithoutWork { .. }
            | Self::TaintTwice { .. }
            | Self::PushUnknown { .. }
            | Self::TaskTwice { .. } => false,
            Self::ClaimantMissing { .. }
            | Self::BindingMissing { .. }
            | Self::ClaimsDiffer { .. }
            | Self::TargetMissing { .. }
            | Self::ReportUnexpected { .. }
            | Self::WorkMissing { .. }
            | Self::WorkUnexpected { .. }
            | Self::WorkTwice { .. }
            | Self::WorkDiffers { .. }
            | Self::WorkWithoutNamespace { .. }
            | Self::ObjectOfAnotherWork { .. }
            | Self::ObjectMissing { .. }
            | Self::TaskOfTarget { .. }
            | Self::SpreadTooSmall { .. } => true,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoClaims { template } => {
                write!(f, "{template} is claimed by a PropagationPolicy and by a ClusterPropagationPolicy")
            }
            Self::BindingMissing { template, policy } => {
                write!(f, "{template} is claimed by {policy} and has no binding")
            }
            Self::ClaimantMissing { template, policy } => {
                write!(f, "{template} is claimed by {policy}, which does not exist")
            }
            Self::ClaimsDiffer { binding, template } => {
                write!(f, "binding {binding} carries another claim than {template}")
            }
            Self::TwoBindings { template, first, second } => {
                write!(f, "bindings {first} and {second} are both for {template}")
            }
            Self::IdShared { id, first, second } => write!(f, "{first} and {second} have the same permanent id {id}"),
            Self::SumDiffers { binding, wanted, placed } => {
                write!(f, "binding {binding} wants {wanted} replicas and places {placed}")
            }
            Self::NotDuplicated { binding, cluster, wanted, placed } => {
                write!(f, "binding {binding} is duplicated: cluster {cluster} has {placed} of {wanted} replicas")
            }
            Self::TargetTwice { binding, cluster } => write!(f, "binding {binding} names cluster {cluster} twice"),
            Self::TargetMissing { binding, cluster } => {
                write!(f, "binding {binding} names cluster {cluster}, which does not exist")
            }
            Self::ReportUnexpected { binding, cluster } => {
                write!(f, "the status of binding {binding} lists cluster {cluster}, where no copy is expected")
            }
            Self::WorkMissing { binding, cluster } => {
                write!(f, "binding {binding} has no Work in its target {cluster}")
            }
            Self::WorkUnexpected { work, binding } => {
                write!(f, "Work {work} exists where its binding {binding} expects none")
            }
            Self::WorkTwice { first, second, binding } => {
                write!(f, "Works {first} and {second} of binding {binding} are in one cluster")
            }
            Self::WorkDiffers { work, binding, field } => {
                write!(f, "Work {work} differs from its binding {binding} in {field}")
            }
            Self::WorkWithoutBinding { work, id } => {
                write!(f, "Work {work} carries the id {id} of a binding that does not exist")
            }
            Self::WorkWithoutNamespace { work, namespace } => {
                write!(f, "Work {work} is owned by Namespace {namespace}, which does not exist")
            }
            Self::ManifestCount { work, count } => write!(f, "Work {work} has {count} manifests, not one"),
            Self::ManifestUnmarked { work, key } => write!(f, "the manifest of Work {work} lacks the right {key}"),
            Self::ObjectWithoutWork { cluster, object, work } => {
                write!(f, "{object} in cluster {cluster} is marked as ours, but its Work {work} does not exist")
            }
            Self::ObjectOfAnotherWork { cluster, object, work } => {
                write!(f, "{object} in cluster {cluster} names Work {work}, which is not for it")
            }
            Self::ObjectMissing { work, object } => {
                write!(f, "Work {work} is applied, but the member has no {object}")
            }
            Self::TaintTwice { cluster, taint } => write!(f, "cluster {cluster} has taint {taint} twice"),
            Self::PushUnknown { cluster } => {
                write!(f, "cluster {cluster} is a Push cluster and its Ready condition is Unknown")
            }
            Self::TaskTwice { binding, cluster } => {
                write!(f, "binding {binding} has two tasks for leaving cluster {cluster}")
            }
            Self::TaskOfTarget { binding, cluster } => {
                write!(f, "binding {binding} has a task for leaving cluster {cluster}, which is its target")
            }
            Self::SpreadTooSmall { binding, wanted, placed } => {
                write!(f, "binding {binding} is scheduled on {placed} clusters, and its spread asks for {wanted}")
            }
        }
    }
}
