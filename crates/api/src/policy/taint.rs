//! ClusterTaintPolicy: taints that follow the conditions of Clusters (specification/api.md 5).
//!
//! The schema is the union of two shapes; one object uses exactly one of them, which admission checks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::ClusterAffinity;
use crate::{kind::kind, omit, schema::JsonSchema};

kind! {
    /// Adds taints to Clusters, and removes them, as their conditions change.
    ClusterTaintPolicy: "policy.karmada.io", "v1alpha1", "clustertaintpolicies", Cluster
    { spec: ClusterTaintPolicySpec; status: ClusterTaintPolicyStatus }
}

/// Taints and their conditions: either targetClusters, addOnConditions, removeOnConditions and taints, or
/// targetCluster, matchConditions and taintsToAdd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTaintPolicySpec {
    /// The selected clusters; absent means all. A cluster that no longer matches keeps its taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
    /// Adds taints when all of these match; empty means never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// Removes taints when all of these match; empty means never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_on_conditions: Vec<MatchCondition>,
    /// The taints that are added and removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub taints: Vec<PolicyTaint>,
    /// The selected clusters; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Conditions that must all match. Empty means that the taints are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_conditions: Vec<MatchCondition>,
    /// Taints that are added while the conditions match, and removed when they do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints_to_add: Vec<TaintToAdd>,
}

/// Matches the status of one condition of a Cluster. A missing condition never matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// Type of the condition.
    pub condition_type: String,
    /// In or NotIn; anything else never matches.
    pub operator: String,
    /// The statuses: True, False, Unknown.
    pub status_values: Vec<String>,
}

/// Taint with conditions for adding and removing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTaint {
    /// Key of the taint.
    pub key: String,
    /// Effect of the taint.
    pub effect: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Seconds of continuous match before it is added; absent means at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_match_seconds: Option<i32>,
    /// Seconds of continuous match before it is removed; absent means at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_on_mismatch_seconds: Option<i32>,
}

/// Taint that exists while conditions match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaintToAdd {
    /// Key of the taint.
    pub key: String,
    /// Effect of the taint.
    pub effect: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Seconds of continuous match before it is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-ironclad-default" = 300))]
    pub add_on_match_seconds: Option<i32>,
    /// Seconds of continuous mismatch before it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-ironclad-default" = 180))]
    pub remove_on_mismatch_seconds: Option<i32>,
}

impl TaintToAdd {
    /// Seconds of continuous match before the taint is added, with its default.
    pub fn add_on_match_seconds(&self) -> i32 {
        self.add_on_match_seconds.unwrap_or(300)
    }

    /// Seconds of continuous mismatch before the taint is removed, with its default.
    pub fn remove_on_mismatch_seconds(&self) -> i32 {
        self.remove_on_mismatch_seconds.unwrap_or(180)
    }
}

/// Observed state of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTaintPolicyStatus {
    /// Generation of the policy that the status describes.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub observed_generation: i64,
    /// The selected clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TaintPolicyCluster>,
}

/// One selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaintPolicyCluster {
    /// The cluster.
    pub name: String,
    /// Returns true if the conditions match.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub matched: bool,
    /// Time of the last change of matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Its taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<TaintPolicyTaint>,
}

/// One taint on one selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaintPolicyTaint {
    /// Key of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Effect of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// State of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaintState>,
    /// Time at which it entered, or will enter, the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// State of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TaintState {
    /// It will be added.
    Pending,
    /// It exists.
    Added,
    /// It will be removed.
    Removing,
    /// It does not exist.
    NotAdded,
}
