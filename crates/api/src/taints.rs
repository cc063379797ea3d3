//! Taints of Clusters (api.md 2.3, 12.4).

/// The member says that it is not ready, or has never said anything.
pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
/// Nobody knows how the member is.
pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
/// Cordoned.
pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
/// Reserved; not added any more.
pub const TERMINATING: &str = "cluster.karmada.io/terminating";
/// Effect: no new placements unless tolerated.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect: no new placements, and those that are there are evicted, unless tolerated.
pub const NO_EXECUTE: &str = "NoExecute";
/// Effect: placements whose binding asks for cluster failover move away; tolerations do not count.
pub const PREFER_NO_EXECUTE: &str = "PreferNoExecute";
