//! Reasons and producers of graceful eviction tasks (specification/api.md 12.5).

/// Reason: a NoExecute taint is not tolerated.
pub const TAINT_UNTOLERATED: &str = "TaintUntolerated";
/// Reason: a PreferNoExecute taint.
pub const TAINT_PREFER_NO_EXECUTE: &str = "TaintPreferNoExecute";
/// Reason: the workload was unhealthy for too long.
pub const APPLICATION_FAILURE: &str = "ApplicationFailure";
/// Reason: the cluster is drained.
pub const CLUSTER_DRAIN: &str = "ClusterDrain";
/// Reason: a binding of higher priority needs the replicas.
pub const BINDING_PREEMPTED: &str = "BindingPreempted";
/// Producer of evictions by taints.
pub const PRODUCER_TAINT_MANAGER: &str = "TaintManager";
/// Producer of evictions of unhealthy ResourceBindings.
pub const PRODUCER_APPLICATION_FAILOVER: &str = "resource-binding-application-failover-controller";
/// Producer of evictions of unhealthy ClusterResourceBindings.
pub const PRODUCER_CLUSTER_APPLICATION_FAILOVER: &str = "cluster-resource-binding-application-failover-controller";
/// Producer of evictions by a drain.
pub const PRODUCER_DRAIN: &str = "Drain";
/// Producer of evictions by preemption.
pub const PRODUCER_SCHEDULER: &str = "Scheduler";
