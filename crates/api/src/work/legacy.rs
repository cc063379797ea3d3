//! The bindings' v1alpha1: served for old clients, never stored (specification/api.md 7.3).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ResourceList, kind::kind, omit, schema::JsonSchema};

kind! {
    /// Binds a namespaced template to clusters.
    ResourceBinding: "work.karmada.io", "v1alpha1", "resourcebindings", Namespaced
    { spec: ResourceBindingSpec; status: ResourceBindingStatus }
}

kind! {
    /// Binds a cluster-scoped template to clusters.
    ClusterResourceBinding: "work.karmada.io", "v1alpha1", "clusterresourcebindings", Cluster
    { spec: ResourceBindingSpec; status: ResourceBindingStatus }
}

/// The bound template and its clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// The bound template.
    pub resource: ObjectReference,
    /// The schedule result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// The bound template and its requirements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// resourceVersion of the template when the binding was built.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Resources that one replica requests.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub resource_per_replicas: ResourceList,
    /// Desired replicas.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub replicas: i32,
}

/// Replicas of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetCluster {
    /// The cluster.
    pub name: String,
    /// Its replicas.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub replicas: i32,
}

/// Observed state of the binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// Scheduled and FullyApplied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Status per cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// Status of the template's copy in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// The cluster.
    pub cluster_name: String,
    /// The status that the interpreter reflected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub status: Option<Value>,
    /// True if the copy is applied.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub applied: bool,
    /// Reason for which it is not applied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
}
