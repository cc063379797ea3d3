//! Status of a binding (specification/api.md 7.2).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::TargetCluster;
use crate::{JsonText, omit, schema::JsonSchema};

/// Observed state of a binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// Generation of the last finished scheduling.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub scheduler_observed_generation: i64,
    /// Affinity group that was used.
    #[serde(rename = "schedulerObservingAffinityName", default, skip_serializing_if = "String::is_empty")]
    pub scheduler_observed_affinity_name: String,
    /// Last successful scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// Scheduled, FullyApplied, EvictionPending, Preempted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Status per cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
    /// Clusters reserved for a preemptor; of ResourceBindings only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nominated_clusters: Vec<TargetCluster>,
    /// The last five migrations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failover_history: Vec<FailoverRecord>,
}

/// Health of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ResourceHealth {
    /// The object does what it should.
    Healthy,
    /// The object does not do what it should.
    Unhealthy,
    /// The health is not known.
    #[default]
    Unknown,
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
    pub status: Option<JsonText>,
    /// True if the copy is applied.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub applied: bool,
    /// Reason for which it is not applied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    /// Health of the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
    /// Time of the last change of health, in whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_transition_time: Option<Time>,
}

/// One migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverRecord {
    /// The failover episode of the fleet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub episode: String,
    /// The cluster from which the workload was moved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Reason of the migration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// Time at which the eviction task was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted_at: Option<Time>,
    /// Clusters to which the workload was moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Time at which the old copy was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared_at: Option<Time>,
    /// Clusters that ran the workload before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub original_clusters: Vec<String>,
}
