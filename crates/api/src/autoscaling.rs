//! Group `autoscaling.karmada.io/v1alpha1`: autoscalers over the fleet (specification/api.md 10).

use k8s_openapi::{
    api::autoscaling::v2::{
        CrossVersionObjectReference, HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerStatus, MetricSpec,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde::{Deserialize, Serialize};

use crate::{kind::kind, schema::JsonSchema};

kind! {
    /// Scales a target over all its clusters by metrics.
    FederatedHPA: "autoscaling.karmada.io", "v1alpha1", "federatedhpas", Namespaced
    { spec: FederatedHPASpec; status: HorizontalPodAutoscalerStatus }
}

kind! {
    /// Scales a target, or changes the bounds of a FederatedHPA, on a schedule.
    CronFederatedHPA: "autoscaling.karmada.io", "v1alpha1", "cronfederatedhpas", Namespaced
    { spec: CronFederatedHPASpec; status: CronFederatedHPAStatus }
}

/// Target, bounds and metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedHPASpec {
    /// The target, which has a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,
    /// Lower bound of replicas; admission sets 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Upper bound of replicas.
    pub max_replicas: i32,
    /// The metrics; the largest proposal is used. Without any, admission sets 80 % of requested CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
    /// Rate of scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// Target and schedules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPASpec {
    /// The target: a FederatedHPA, or anything with a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,
    /// The schedules.
    pub rules: Vec<CronFederatedHPARule>,
}

/// One schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPARule {
    /// Name of the rule, unique in the list.
    #[schemars(length(min = 1, max = 32))]
    pub name: String,
    /// Schedule, as a cron expression of five fields or a macro.
    pub schedule: String,
    /// Replicas to set; required unless the target is a FederatedHPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_replicas: Option<i32>,
    /// Lower bound to set on a FederatedHPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_min_replicas: Option<i32>,
    /// Upper bound to set on a FederatedHPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_max_replicas: Option<i32>,
    /// Pauses the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = false))]
    pub suspend: Option<bool>,
    /// IANA zone of the schedule; absent means the controller's zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Number of successes in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32), extend("x-ironclad-default" = 3))]
    pub successful_history_limit: Option<i32>,
    /// Number of failures in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32), extend("x-ironclad-default" = 3))]
    pub failed_history_limit: Option<i32>,
}

/// History of executions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronFederatedHPAStatus {
    /// History per rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub execution_histories: Vec<ExecutionHistory>,
}

/// History of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionHistory {
    /// The rule.
    pub rule_name: String,
    /// Time of the next execution; absent when suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_execution_time: Option<Time>,
    /// Successful executions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successful_executions: Vec<SuccessfulExecution>,
    /// Failed executions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_executions: Vec<FailedExecution>,
}

/// An execution that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuccessfulExecution {
    /// Scheduled time.
    pub schedule_time: Time,
    /// Time of the execution.
    pub execution_time: Time,
    /// Replicas that were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_replicas: Option<i32>,
    /// Upper bound that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_max_replicas: Option<i32>,
    /// Lower bound that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_min_replicas: Option<i32>,
}

/// An execution that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedExecution {
    /// Scheduled time.
    pub schedule_time: Time,
    /// Time of the execution.
    pub execution_time: Time,
    /// Error of the execution.
    pub message: String,
}
