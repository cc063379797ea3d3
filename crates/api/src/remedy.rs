//! Group `remedy.karmada.io/v1alpha1`: Remedy (specification/api.md 11.4).

use serde::{Deserialize, Serialize};

use crate::{kind::kind, schema::JsonSchema};

/// The only action: no traffic for the backends of the cluster.
pub const TRAFFIC_CONTROL: &str = "TrafficControl";

kind! {
    /// Requests actions for clusters in some condition.
    Remedy: "remedy.karmada.io", "v1alpha1", "remedies", Cluster
    { spec: RemedySpec }
}

/// Actions, clusters and conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemedySpec {
    /// The clusters; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Conditions, of which any must match. Absent means always, an empty list never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_matches: Option<Vec<DecisionMatch>>,
    /// The actions, which go to the status of the Cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

/// Clusters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// One trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionMatch {
    /// A condition of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_condition_match: Option<ClusterConditionRequirement>,
}

/// Required status of a cluster's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConditionRequirement {
    /// Type of the condition.
    pub condition_type: String,
    /// Operator: the status must be equal or different.
    pub operator: ClusterConditionOperator,
    /// The status.
    pub condition_status: String,
}

/// Comparison of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClusterConditionOperator {
    /// Equal.
    #[default]
    Equal,
    /// Different.
    NotEqual,
}
