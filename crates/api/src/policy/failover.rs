//! Failover of a workload whose cluster or copy fails (specification/api.md 3.2).

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;

/// Handling of the old copy of a migrated workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PurgeMode {
    /// The old copy is deleted first, then the workload is rescheduled.
    Directly,
    /// The old copy is kept until the new one is healthy or the grace period ends.
    #[default]
    Gracefully,
    /// The old copy is kept until a user deletes it.
    Never,
}

/// Reaction to failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverBehavior {
    /// Failover when the workload is unhealthy. Requires propagateDeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// Failover when the cluster is tainted. Absent: no migration on PreferNoExecute taints, and evictions by
    /// NoExecute taints use the controller-wide purge mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

/// Failover of an unhealthy workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailoverBehavior {
    /// Conditions of the failover.
    pub decision_conditions: DecisionConditions,
    /// Handling of the old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = "Gracefully"))]
    pub purge_mode: Option<PurgeMode>,
    /// Longest wait in seconds before the old copy is deleted anyway; only with purgeMode Gracefully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Values read from the old copy's status, which the new copy gets as labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// Conditions of an application failover.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds for which the workload must be unhealthy before the failover starts; 0 starts it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = 300))]
    pub toleration_seconds: Option<i32>,
}

/// Failover from a tainted cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailoverBehavior {
    /// Handling of the old copy; Never is not valid here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Directly", "Gracefully"], "x-ironclad-default" = "Gracefully"))]
    pub purge_mode: Option<PurgeMode>,
    /// Wait in seconds after a PreferNoExecute taint appears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = 300))]
    pub toleration_seconds: Option<i32>,
    /// Values read from the old copy's status, which the new copy gets as labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// Status values of the old copy that the new copy gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservation {
    /// One rule per label.
    pub rules: Vec<StatePreservationRule>,
}

/// One label taken from the old copy's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatePreservationRule {
    /// Label on the new copy.
    pub alias_label_name: String,
    /// Kubernetes JSONPath template into the old copy's status, as `{.field}`.
    pub json_path: String,
}

impl ApplicationFailoverBehavior {
    /// The purge mode with its default.
    pub fn purge_mode(&self) -> PurgeMode {
        self.purge_mode.unwrap_or_default()
    }
}

impl ClusterFailoverBehavior {
    /// The purge mode with its default.
    pub fn purge_mode(&self) -> PurgeMode {
        self.purge_mode.unwrap_or_default()
    }
}
