//! The kinds of the core group.

pub(in crate::kinds) mod binding;
pub(in crate::kinds) mod component_status;
pub(in crate::kinds) mod config_map;
mod data;
pub(in crate::kinds) mod endpoints;
pub(in crate::kinds) mod event;
pub(in crate::kinds) mod limit_range;
pub(in crate::kinds) mod namespace;
pub(in crate::kinds) mod node;
pub(in crate::kinds) mod persistent_volume;
pub(in crate::kinds) mod persistent_volume_claim;
pub(in crate::kinds) mod pod;
pub(in crate::kinds) mod pod_template;
pub(in crate::kinds) mod replication_controller;
pub(in crate::kinds) mod resource_quota;
pub(in crate::kinds) mod secret;
pub(in crate::kinds) mod service;
pub(in crate::kinds) mod service_account;
