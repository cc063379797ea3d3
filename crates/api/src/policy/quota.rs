//! FederatedResourceQuota: a quota over all clusters (specification/api.md 6).

use serde::{Deserialize, Serialize};

use crate::{ResourceList, kind::kind, schema::JsonSchema};

kind! {
    /// Limits the resources of a namespace over all clusters.
    FederatedResourceQuota: "policy.karmada.io", "v1alpha1", "federatedresourcequotas", Namespaced
    { spec: FederatedResourceQuotaSpec; status: FederatedResourceQuotaStatus }
}

/// The limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaSpec {
    /// Limit over all clusters.
    pub overall: ResourceList,
    /// A ResourceQuota of the same name and namespace in each of these clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// The limit of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterAssignment {
    /// The cluster.
    pub cluster_name: String,
    /// Its limit.
    pub hard: ResourceList,
}

/// The limits in force and their usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaStatus {
    /// The limit in force.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub overall: ResourceList,
    /// Total usage.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub overall_used: ResourceList,
    /// Limit and usage per cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
}

/// Limit and usage in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQuotaStatus {
    /// The cluster.
    pub cluster_name: String,
    /// Its limit.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// Its usage.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}
