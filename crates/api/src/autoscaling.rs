//! Group `autoscaling.karmada.io/v1alpha1`: autoscalers over the fleet (api.md 10).

use k8s_openapi::{
    api::autoscaling::v2::{
        CrossVersionObjectReference, HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerStatus, MetricSpec,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::kind;

kind! {
    /// Scales a target over all its clusters by metrics.
    FederatedHPA: "autoscaling.karmada.io", "v1alpha1", "federatedhpas", Namespaced
    { spec: FederatedHPASpec; status: HorizontalPodAutoscalerStatus }
}

kind! {
    /// Scales a target, or moves the bounds of a FederatedHPA, by the clock.
    CronFederatedHPA: "autoscaling.karmada.io", "v1alpha1", "cronfederatedhpas", Namespaced
    { spec: CronFederatedHPASpec; status: CronFederatedHPAStatus }
}

/// What is scaled, between which bounds, by which metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedHPASpec {
    /// The target, which has a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,
    /// Lower bound of replicas; admission makes absent to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Upper bound of replicas.
    pub max_replicas: i32,
    /// The metrics; the largest proposal counts. Admission makes none to 80 % of requested CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
    /// How fast it scales.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// What is scaled, and when.
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
    /// When, as a cron expression of five fields or a macro.
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
    /// How many successes the history keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32), extend("x-ironclad-default" = 3))]
    pub successful_history_limit: Option<i32>,
    /// How many failures the history keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32), extend("x-ironclad-default" = 3))]
    pub failed_history_limit: Option<i32>,
}

impl CronFederatedHPARule {
    /// How many successes the history keeps, with the default.
    #[must_use]
    pub fn successful_history_limit(&self) -> i32 {
        self.successful_history_limit.unwrap_or(3)
    }

    /// How many failures the history keeps, with the default.
    #[must_use]
    pub fn failed_history_limit(&self) -> i32 {
        self.failed_history_limit.unwrap_or(3)
    }
}

/// What was done.
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
    /// When it acts next; absent when suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_execution_time: Option<Time>,
    /// What succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successful_executions: Vec<SuccessfulExecution>,
    /// What failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_executions: Vec<FailedExecution>,
}

/// An execution that succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuccessfulExecution {
    /// When it was due.
    pub schedule_time: Time,
    /// When it was done.
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
    /// When it was due.
    pub schedule_time: Time,
    /// When it was tried.
    pub execution_time: Time,
    /// Why it failed.
    pub message: String,
}
