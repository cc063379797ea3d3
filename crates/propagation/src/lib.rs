//! Decisions from policy to binding to Work to member object and back (propagation.md).
//!
//! Every decision is a pure function of what was seen; its effects are complete writes (design.md 2). Nothing here
//! relies on admission webhooks: defaults, permanent ids and finalizers are put in by the decisions themselves.

pub mod aggregate;
pub mod binding;
pub mod changes;
pub mod choose;
pub mod claim;
pub mod content;
pub mod defaults;
pub mod dependencies;
pub mod detect;
pub mod drift;
pub mod execute;
pub mod flags;
pub mod namespace;
pub mod overrides;
pub mod policy;
pub mod priority;
pub mod quota;
pub mod rebalance;
pub mod selector;
pub mod template;
pub mod unified_auth;
pub mod work_status;
pub mod works;

#[cfg(test)]
mod testkit;
