//! Taints of Clusters (specification/api.md 2.3, 12.4).

/// The member reports that it is not ready, or never reported anything.
pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
/// The state of the member is unknown.
pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
/// Cordoned.
pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
/// Reserved; no longer added.
pub const TERMINATING: &str = "cluster.karmada.io/terminating";
/// Effect: no new placements unless tolerated.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect: no new placements, and existing ones are evicted, unless tolerated.
pub const NO_EXECUTE: &str = "NoExecute";
/// Effect: placements whose binding requests cluster failover are moved; tolerations do not apply.
pub const PREFER_NO_EXECUTE: &str = "PreferNoExecute";
