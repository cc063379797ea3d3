//! Reasons of conditions by kind (specification/api.md 13).

/// Reasons on Clusters (specification/api.md 13.1).
pub mod cluster {
    /// The health endpoint reports success.
    pub const CLUSTER_READY: &str = "ClusterReady";
    /// Reachable, but the health endpoint reports failure.
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
    /// Not reachable.
    pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
    /// The member is the control plane itself.
    pub const CLUSTER_IS_CONTROL_PLANE: &str = "ClusterIsControlPlane";
    /// No client for the member can be built.
    pub const STATUS_COLLECTION_FAILED: &str = "StatusCollectionFailed";
    /// No status was ever written.
    pub const CLUSTER_STATUS_NEVER_UPDATED: &str = "ClusterStatusNeverUpdated";
    /// Status is no longer written.
    pub const CLUSTER_STATUS_UNKNOWN: &str = "ClusterStatusUnknown";
    /// Discovery is complete.
    pub const COMPLETE: &str = "Complete";
    /// Discovery is partial.
    pub const PARTIAL: &str = "Partial";
    /// Discovery found nothing.
    pub const EMPTY: &str = "Empty";
    /// The agent's clock differs.
    pub const AGENT_CLOCK_DIFFERS: &str = "AgentClockDiffers";
    /// The agent has a tunnel.
    pub const TUNNEL_OPEN: &str = "TunnelOpen";
    /// The agent has no tunnel.
    pub const TUNNEL_MISSING: &str = "TunnelMissing";
    /// The agent's certificate ends.
    pub const CERTIFICATE_NOT_RENEWED: &str = "CertificateNotRenewed";
    /// Names resolve.
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";
    /// Names do not resolve.
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_FAILED: &str = "ServiceDomainNameResolutionFailed";
}

/// Reasons on bindings (specification/api.md 13.2).
pub mod binding {
    /// A schedule result was written.
    pub const SUCCESS: &str = "Success";
    /// No cluster passes the filters.
    pub const NO_CLUSTER_FIT: &str = "NoClusterFit";
    /// Clusters fit, but not now.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// A quota refuses the result.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// Any other error.
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    /// Every expected cluster has its copy.
    pub const FULLY_APPLIED_SUCCESS: &str = "FullyAppliedSuccess";
    /// Not every expected cluster has its copy.
    pub const FULLY_APPLIED_FAILED: &str = "FullyAppliedFailed";
    /// An eviction is queued.
    pub const QUEUED: &str = "Queued";
    /// An eviction is delayed.
    pub const DELAYED: &str = "Delayed";
    /// An eviction waits for a target cluster.
    pub const PARKED: &str = "Parked";
    /// A binding of higher priority preempted it.
    pub const PREEMPTED_BY_HIGHER_PRIORITY: &str = "PreemptedByHigherPriority";
}

/// Reasons on Works (specification/api.md 13.3).
pub mod work {
    /// All manifests are applied.
    pub const APPLIED_SUCCESSFUL: &str = "AppliedSuccessful";
    /// At least one manifest is not applied.
    pub const APPLIED_FAILED: &str = "AppliedFailed";
    /// Dispatched.
    pub const DISPATCHING: &str = "Dispatching";
    /// Dispatching is suspended.
    pub const SUSPEND_DISPATCHING: &str = "SuspendDispatching";
    /// The member kept the object without some fields of the manifest.
    pub const FIELDS_DROPPED: &str = "FieldsDropped";
    /// The object in the member is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// The member does not serve the kind.
    pub const API_NOT_INSTALLED: &str = "APINotInstalled";
    /// Something else in the member changes the object back again and again.
    pub const CHANGED_BY_ANOTHER_WRITER: &str = "ChangedByAnotherWriter";
    /// The object stays as it was applied.
    pub const STAYS_APPLIED: &str = "StaysApplied";
    /// The namespace existed already.
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
}

/// Reasons on MultiClusterServices (specification/api.md 13.4).
pub mod multi_cluster_service {
    /// The Service exists in its clusters.
    pub const SERVICE_APPLIED_SUCCEED: &str = "ServiceAppliedSucceed";
    /// The Service is missing in a cluster.
    pub const SERVICE_APPLIED_FAILED: &str = "ServiceAppliedFailed";
    /// The EndpointSlices exist in their clusters.
    pub const ENDPOINT_SLICE_DISPATCHED_SUCCEED: &str = "EndpointSliceDispatchedSucceed";
    /// EndpointSlices are missing in a cluster.
    pub const ENDPOINT_SLICE_DISPATCHED_FAILED: &str = "EndpointSliceDispatchedFailed";
}

/// Reasons on FederatedHPAs (specification/api.md 13.5).
pub mod federated_hpa {
    /// The scale was read.
    pub const SUCCEEDED_GET_SCALE: &str = "SucceededGetScale";
    /// The target was scaled.
    pub const SUCCEEDED_RESCALE: &str = "SucceededRescale";
    /// The target can be scaled.
    pub const READY_FOR_NEW_SCALE: &str = "ReadyForNewScale";
    /// Stabilization delays a scale-up.
    pub const SCALE_UP_STABILIZED: &str = "ScaleUpStabilized";
    /// Stabilization delays a scale-down.
    pub const SCALE_DOWN_STABILIZED: &str = "ScaleDownStabilized";
    /// The scale cannot be read.
    pub const FAILED_GET_SCALE: &str = "FailedGetScale";
    /// The target cannot be found.
    pub const FAILED_GET_SCALE_TARGET_REF: &str = "FailedGetScaleTargetRef";
    /// The target's binding cannot be found.
    pub const FAILED_GET_BINDING: &str = "FailedGetBinding";
    /// The target's clusters cannot be found.
    pub const FAILED_GET_TARGET_CLUSTERS: &str = "FailedGetTargetClusters";
    /// The target cannot be scaled.
    pub const FAILED_UPDATE_SCALE: &str = "FailedUpdateScale";
    /// Of a distributed HPA: the maximum is smaller than the number of clusters, of which each has at least 1.
    pub const MAX_BELOW_CLUSTER_COUNT: &str = "MaxBelowClusterCount";
    /// A FederatedResourceQuota leaves a distributed HPA fewer replicas than its maximum.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// A metric gives a desired replica count.
    pub const VALID_METRIC_FOUND: &str = "ValidMetricFound";
    /// The target has no replicas.
    pub const SCALING_DISABLED: &str = "ScalingDisabled";
    /// The target's selector cannot be read.
    pub const INVALID_SELECTOR: &str = "InvalidSelector";
    /// Several autoscalers select the pods.
    pub const AMBIGUOUS_SELECTOR: &str = "AmbiguousSelector";
    /// A resource metric cannot be read.
    pub const FAILED_GET_RESOURCE_METRIC: &str = "FailedGetResourceMetric";
    /// A container's resource metric cannot be read.
    pub const FAILED_GET_CONTAINER_RESOURCE_METRIC: &str = "FailedGetContainerResourceMetric";
    /// A pods metric cannot be read.
    pub const FAILED_GET_PODS_METRIC: &str = "FailedGetPodsMetric";
    /// An object metric cannot be read.
    pub const FAILED_GET_OBJECT_METRIC: &str = "FailedGetObjectMetric";
    /// An external metric cannot be read.
    pub const FAILED_GET_EXTERNAL_METRIC: &str = "FailedGetExternalMetric";
    /// The metric's type is not known.
    pub const INVALID_METRIC_SOURCE_TYPE: &str = "InvalidMetricSourceType";
    /// A policy limits the scale-up.
    pub const SCALE_UP_LIMIT: &str = "ScaleUpLimit";
    /// A policy limits the scale-down.
    pub const SCALE_DOWN_LIMIT: &str = "ScaleDownLimit";
    /// The maximum limits the desired replica count.
    pub const TOO_MANY_REPLICAS: &str = "TooManyReplicas";
    /// The minimum raises the desired replica count.
    pub const TOO_FEW_REPLICAS: &str = "TooFewReplicas";
    /// The desired replica count is within its bounds.
    pub const DESIRED_WITHIN_RANGE: &str = "DesiredWithinRange";
}

/// Reasons in WorkloadRebalancers (specification/api.md 11.3).
pub mod workload_rebalancer {
    /// The workload has no binding.
    pub const REFERENCED_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";
}
