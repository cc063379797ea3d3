//! ResourceBinding and its cluster-scoped twin, v1alpha2 (specification/api.md 7.1).

use k8s_openapi::{
    api::core::v1::{NodeSelector, Toleration},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde::{Deserialize, Serialize};

use super::ResourceBindingStatus;
use crate::{
    ResourceList, Shared, StringMap,
    kind::kind,
    omit,
    policy::{ConflictResolution, FailoverBehavior, Placement, PurgeMode, SuspendClusters},
    schema::JsonSchema,
};

kind! {
    /// Binds a namespaced template to clusters.
    ResourceBinding: "work.karmada.io", "v1alpha2", "resourcebindings", Namespaced
    { spec: ResourceBindingSpec; status: ResourceBindingStatus }
}

kind! {
    /// Binds a cluster-scoped template to clusters.
    ClusterResourceBinding: "work.karmada.io", "v1alpha2", "clusterresourcebindings", Cluster
    { spec: ResourceBindingSpec; status: ResourceBindingStatus }
}

/// The bound template, its requirements and its clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// The bound template.
    pub resource: ObjectReference,
    /// Propagates objects that the template refers to, too; from the policy.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub propagate_deps: bool,
    /// Requirements of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<Shared<ReplicaRequirements>>,
    /// Desired replicas.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub replicas: i32,
    /// Several pod templates, in place of replicas and replicaRequirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The schedule result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// Placement of the policy. Absent: the binding exists only as a dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Shared<Placement>>,
    /// Evictions under way, at most one per cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// Bindings that depend on this template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// The scheduler that handles the binding, from the policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// Reaction to failures, from the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Shared<FailoverBehavior>>,
    /// Handling of an unmanaged object that exists in a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Forces a full reschedule when later than status.lastScheduledTime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// Suspends dispatching or scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// Keeps the objects in members when the template is deleted; copied to every Work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// The resolved priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<ResolvedPriority>,
    /// The resolved co-location groups; of ResourceBindings only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

impl ResourceBindingSpec {
    /// Returns true if the template runs replicas (specification/api.md 7.1).
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.replica_requirements.is_some() || !self.components.is_empty()
    }

    /// Returns true if the template is scaled to no replicas, so that it need not be in any cluster.
    pub fn is_scaled_to_zero(&self) -> bool {
        self.replicas == 0 && self.replica_requirements.is_some() && self.components.is_empty()
    }

    /// The schedule result of one cluster.
    pub fn target(&self, cluster: &str) -> Option<&TargetCluster> {
        self.clusters.iter().find(|target| target.name == cluster)
    }

    /// The graceful eviction task of one cluster.
    pub fn eviction(&self, cluster: &str) -> Option<&GracefulEvictionTask> {
        self.graceful_eviction_tasks.iter().find(|task| task.from_cluster == cluster)
    }

    /// Returns true if scheduling is suspended.
    pub fn scheduling_suspended(&self) -> bool {
        self.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true))
    }
}

/// The bound template.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped templates.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID of the template when the binding was built.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// resourceVersion of the template when the binding was built.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// Requirements of one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// Requirements on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The resources it requests.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub resource_request: ResourceList,
    /// The namespace it runs in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The priority class of its pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}

/// Requirements on the node of a replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// The node affinity that is required during scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub node_selector: StringMap,
    /// Tolerated taints of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One of several pod templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name, unique in the binding.
    #[schemars(length(max = 32))]
    pub name: String,
    /// Desired replicas.
    pub replicas: i32,
    /// Requirements of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// Requirements of one replica of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaRequirements {
    /// Requirements on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The resources it requests.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub resource_request: ResourceList,
    /// The priority class of its pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}

/// Replicas of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetCluster {
    /// The cluster.
    pub name: String,
    /// Its replicas.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub replicas: i32,
    /// Its replicas per component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// Replicas of one component in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetComponent {
    /// The component.
    pub name: String,
    /// Its replicas.
    pub replicas: i32,
}

/// Binding that depends on the template, with its schedule result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSnapshot {
    /// Namespace of the depending binding.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the depending binding.
    pub name: String,
    /// Its schedule result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// Running eviction from one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster from which the copy is evicted.
    pub from_cluster: String,
    /// Handling of the old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Replicas of the old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Reason in one word.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Component that requested the eviction.
    pub producer: String,
    /// A grace period of its own in seconds; not together with suppressDeletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// True keeps the old copy until the field changes, false deletes it; not together with gracePeriodSeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// Labels for the new copy.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub preserved_label_state: StringMap,
    /// Start time; set by the controller, not by clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Clusters that ran the workload before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

/// Suspends dispatching, everywhere or on some clusters, or scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// True suspends dispatching to all clusters; not together with dispatchingOnClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Suspends dispatching to these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// While true, the scheduler ignores the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// Preemption of bindings of lower priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionPolicy {
    /// The binding does not preempt.
    #[default]
    Never,
    /// The binding preempts.
    PreemptLowerPriority,
}

/// Priority of a binding, resolved from its policy and class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedPriority {
    /// Higher values are scheduled first.
    #[serde(default, skip_serializing_if = "omit::zero")]
    #[schemars(extend("x-ironclad-default" = 0))]
    pub priority: i32,
    /// Permission to preempt bindings of lower priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = "Never"))]
    pub preemption_policy: Option<PreemptionPolicy>,
}

/// The resolved co-location groups, each as `<labelKey>=<labelValue>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// Group whose clusters the workload shares.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub affinity_group: String,
    /// Group whose clusters the workload avoids.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub anti_affinity_group: String,
}
