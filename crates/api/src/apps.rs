//! Group `apps.karmada.io/v1alpha1`: WorkloadRebalancer (specification/api.md 11.3).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::{kind::kind, omit, schema::JsonSchema};

/// Result: the workload's binding will be rescheduled.
pub const SUCCESSFUL: &str = "Successful";
/// Result: the workload's binding could not be triggered.
pub const FAILED: &str = "Failed";

kind! {
    /// Reschedules workloads from scratch.
    WorkloadRebalancer: "apps.karmada.io", "v1alpha1", "workloadrebalancers", Cluster
    { spec: WorkloadRebalancerSpec; status: WorkloadRebalancerStatus }
}

/// The workloads to reschedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerSpec {
    /// The templates to reschedule from scratch.
    #[schemars(length(min = 1))]
    pub workloads: Vec<ObjectReference>,
    /// Seconds until the object deletes itself once finished; 0 at once, absent never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Names a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace; empty for cluster-scoped workloads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// Progress of the rebalancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerStatus {
    /// Result per workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<ObservedWorkload>,
    /// Generation that the status describes.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub observed_generation: i64,
    /// Time at which all workloads had a final result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
}

/// Result of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkload {
    /// The workload.
    pub workload: ObjectReference,
    /// Successful or Failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}
