//! Decisions on cluster health, taints and failover (specification/failover.md). The crate probes nothing and writes
//! nothing itself.
//!
//! | module | decision |
//! | --- | --- |
//! | [`cluster`] | status, execution space, finalizer and automatic taints of a Cluster |
//! | [`taint_policy`] | taints that the ClusterTaintPolicies add and remove |
//! | [`taint_manager`] | evictions from faulty clusters: which bindings, when, and how fast |
//! | [`application_failover`] | evictions of workloads that are unhealthy |
//! | [`graceful_eviction`] | end of eviction tasks |
//! | [`drain`] | evictions that a person asks for |
//! | [`remedy`] | actions that Remedies ask of a cluster |
//!
//! [`ironclad_fleet::eviction_task`] is the one write by which a binding leaves a cluster.

pub mod application_failover;
pub mod cluster;
pub mod deprecated;
pub mod drain;
mod eviction_history;
pub mod flags;
pub mod graceful_eviction;
mod now;
pub mod preserved_state;
pub mod purge;
pub mod remedy;
pub mod taint_manager;
pub mod taint_policy;
pub mod taints;
pub mod wakes;

pub use flags::Flags;
pub use now::Now;
pub use taint_manager::Evictions;

#[cfg(test)]
mod testkit;
