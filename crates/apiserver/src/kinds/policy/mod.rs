//! The kinds of policy.

pub(in crate::kinds) mod pod_disruption_budget;
