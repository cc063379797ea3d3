//! Decisions on the health of clusters, their taints and their coming and going (specification/failover.md).
//!
//! [`health`] turns probes into the status of a Cluster, [`membership`] gives a Cluster its execution space, its
//! finalizer and its automatic taints, and takes them away when it leaves, [`nodes`] says whether enough of its nodes are ready, [`lease`] finds out whose agent fell silent, and
//! [`taint_policy`] which taints the ClusterTaintPolicies want. [`Evictions`] decides who leaves a faulty cluster, when and
//! how fast, [`depart`] is the one write by which a binding leaves a cluster, [`graceful`] says when the copy that is left
//! may go, and [`application`] which workloads leave because they fail. The crate probes nothing and writes nothing itself.

pub mod application;
pub mod depart;
pub mod deprecated;
pub mod drain;
pub mod eviction;
pub mod flags;
pub mod graceful;
pub mod guards;
pub mod health;
pub mod lease;
pub mod membership;
pub mod nodes;
mod now;
pub mod precheck;
pub mod preserved;
pub mod purge;
pub mod queue;
pub mod rate;
pub mod taint_policy;
pub mod taints;
pub mod verdict;
pub mod wakes;

pub use eviction::Evictions;
pub use flags::Flags;
pub use now::Now;

#[cfg(test)]
mod testkit;
