//! Decisions on the health of clusters, their taints and their coming and going (failover.md).
//!
//! [`health`] turns probes into the status of a Cluster, [`membership`] gives a Cluster its execution space, its
//! finalizer and its automatic taints, and takes them away when it leaves. The crate probes nothing itself.

pub mod flags;
pub mod health;
pub mod membership;
pub mod taints;

pub use flags::Flags;

#[cfg(test)]
mod testkit;
