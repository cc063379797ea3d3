//! Decisions on the health of clusters, their taints and their coming and going (failover.md).
//!
//! [`health`] turns probes into the status of a Cluster, [`membership`] gives a Cluster its execution space, its
//! finalizer and its automatic taints, and takes them away when it leaves, [`lease`] finds out whose agent fell silent, and
//! [`taint_policy`] which taints the ClusterTaintPolicies want. [`depart`] is the one write by which a binding leaves a
//! cluster, [`graceful`] says when the copy that is left may go. The crate probes nothing itself.

pub mod depart;
pub mod deprecated;
pub mod flags;
pub mod graceful;
pub mod health;
pub mod lease;
pub mod membership;
pub mod preserved;
pub mod purge;
pub mod taint_policy;
pub mod taints;

pub use flags::Flags;

#[cfg(test)]
mod testkit;
