//! Reasons of the events of rounds (specification/api.md 18), with the words of kube-controller-manager.
//! HorizontalPodAutoscalers of one cluster have the same ones.

/// On FederatedHPA: scaled.
pub const SUCCESSFUL_RESCALE: &str = "SuccessfulRescale";
/// On FederatedHPA: replicas not set.
pub const FAILED_RESCALE: &str = "FailedRescale";
/// On FederatedHPA: the replicas of its workload cannot be read.
pub const FAILED_GET_SCALE: &str = "FailedGetScale";
/// On FederatedHPA: nothing is scaled, since metrics failed.
pub const FAILED_COMPUTE_METRICS_REPLICAS: &str = "FailedComputeMetricsReplicas";
/// On FederatedHPA: the scale of its workload has no selector.
pub const SELECTOR_REQUIRED: &str = "SelectorRequired";
/// On FederatedHPA: the selector of its workload cannot be read.
pub const INVALID_SELECTOR: &str = "InvalidSelector";
/// On FederatedHPA: another FederatedHPA scales the same pods.
pub const AMBIGUOUS_SELECTOR: &str = "AmbiguousSelector";
/// On FederatedHPA: usage of pods could not be read.
pub const FAILED_GET_RESOURCE_METRIC: &str = "FailedGetResourceMetric";
/// On FederatedHPA: usage of containers could not be read.
pub const FAILED_GET_CONTAINER_RESOURCE_METRIC: &str = "FailedGetContainerResourceMetric";
/// On FederatedHPA: a custom metric of pods could not be read.
pub const FAILED_GET_PODS_METRIC: &str = "FailedGetPodsMetric";
/// On FederatedHPA: a custom metric of an object could not be read.
pub const FAILED_GET_OBJECT_METRIC: &str = "FailedGetObjectMetric";
/// On FederatedHPA: an external metric could not be read, or has no usable target.
pub const FAILED_GET_EXTERNAL_METRIC: &str = "FailedGetExternalMetric";
/// On FederatedHPA: the type of a metric is unknown or switched off.
pub const INVALID_METRIC_SOURCE_TYPE: &str = "InvalidMetricSourceType";
