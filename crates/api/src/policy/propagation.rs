//! PropagationPolicy and its cluster-scoped twin (specification/api.md 3.1).

use serde::{Deserialize, Serialize};

use super::{DEFAULT_SCHEDULER_NAME, FailoverBehavior, Placement, ResourceSelector};
use crate::{kind::kind, omit, schema::JsonSchema};

kind! {
    /// Propagates templates of its own namespace.
    PropagationPolicy: "policy.karmada.io", "v1alpha1", "propagationpolicies", Namespaced
    { spec: PropagationSpec }
}

kind! {
    /// Propagates cluster-scoped templates and templates of any namespace that is not reserved.
    ClusterPropagationPolicy: "policy.karmada.io", "v1alpha1", "clusterpropagationpolicies", Cluster
    { spec: PropagationSpec }
}

/// Templates, clusters and behaviour of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// The templates that this policy claims.
    #[schemars(length(min = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated predecessor of propagateDeps: stored, without effect.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub association: bool,
    /// Propagates objects that the template refers to, too.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub propagate_deps: bool,
    /// Clusters and division of replicas.
    #[serde(default)]
    pub placement: Placement,
    /// Explicit priority among policies; the higher one is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = 0))]
    pub priority: Option<i32>,
    /// Permission to preempt policies of lower priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = "Never"))]
    pub preemption: Option<PolicyPreemption>,
    /// Names of override policies that must exist before this policy acts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// The scheduler that handles the bindings; immutable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-ironclad-default" = "default-scheduler"))]
    pub scheduler_name: String,
    /// Reaction to failures. Absent means no application failover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// Handling of an unmanaged object that exists in a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Lazy: changes of the policy apply with the next change of the template. Absent: they apply at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// Pauses dispatching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Keeps the objects in members when the template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Scheduling priority of the bindings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
}

impl PropagationSpec {
    /// The explicit priority; the default is 0.
    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or_default()
    }

    /// The scheduler's name, or its default.
    pub fn scheduler_name(&self) -> &str {
        if self.scheduler_name.is_empty() { DEFAULT_SCHEDULER_NAME } else { &self.scheduler_name }
    }
}

/// Preemption of other policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PolicyPreemption {
    /// The policy preempts.
    Always,
    /// The policy does not preempt.
    #[default]
    Never,
}

/// Handling of an unmanaged object of the same name in a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConflictResolution {
    /// Keep it and report a conflict.
    #[default]
    Abort,
    /// Take it over.
    Overwrite,
}

/// Time at which a changed policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ActivationPreference {
    /// At the next change of the template.
    Lazy,
}

/// Suspends dispatching, everywhere or on some clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// True suspends all clusters; not together with dispatchingOnClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Suspends these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// Clusters to which dispatching is suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// Source of the priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassSource {
    /// A class of the federation: a valid value that admission refuses.
    FederatedPriorityClass,
    /// The named PriorityClass of group scheduling.k8s.io, else the global default.
    #[default]
    KubePriorityClass,
    /// The class named in the workload's pod template.
    PodPriorityClass,
}

/// Scheduling priority of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Required by the schema, which sets its default first; optional here, for older objects.
#[schemars(extend("required" = ["priorityClassSource"]))]
pub struct SchedulePriority {
    /// Source of the priority class.
    #[serde(default)]
    #[schemars(extend("x-ironclad-default" = "KubePriorityClass"))]
    pub priority_class_source: PriorityClassSource,
    /// The name of the class.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}
