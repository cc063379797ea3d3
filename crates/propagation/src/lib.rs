//! Propagation: decisions from policy to binding to Work to member object, and back to the status
//! (specification/propagation.md).
//!
//! Every decision is a pure function of a snapshot, and its effects are complete writes. The decision of controller
//! `x` lives in module `x`. Nothing here relies on admission webhooks: the decisions set defaults, permanent ids and
//! finalizers themselves.

pub mod binding;
pub mod binding_status;
pub mod defaults;
pub mod dependencies;
pub mod detector;
pub mod execution;
pub mod flags;
pub mod generated_policy;
pub mod namespace;
pub mod new_ids;
pub mod node_ports;
pub mod overrides;
pub mod policy;
pub mod policy_match;
pub mod priority;
pub mod promotion;
pub mod quota;
pub mod rebalance;
pub mod selector;
pub mod services;
pub mod skipped_resources;
pub mod success;
pub mod template;
pub mod template_hash;
pub mod unified_auth;
pub mod wakes;
pub mod work;
pub mod work_status;

#[cfg(test)]
mod testkit;
