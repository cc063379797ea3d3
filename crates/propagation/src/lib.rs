//! Decisions from policy to binding to Work to member object and back (specification/propagation.md).
//!
//! Every decision is a pure function of what was seen; its effects are complete writes (design.md 2). Nothing here
//! relies on admission webhooks: defaults, permanent ids and finalizers are put in by the decisions themselves.

pub mod binding;
pub mod binding_status;
pub mod changes;
pub mod defaults;
pub mod dependencies;
pub mod detector;
pub mod drift;
pub mod execution;
pub mod flags;
pub mod namespace;
pub mod new_ids;
pub mod overrides;
pub mod policy;
pub mod policy_match;
pub mod priority;
pub mod quota;
pub mod rebalance;
pub mod selector;
pub mod skipped_resources;
pub mod template;
pub mod template_hash;
pub mod unified_auth;
pub mod work;
pub mod work_status;

#[cfg(test)]
mod testkit;
