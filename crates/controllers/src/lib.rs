//! The controllers: one folder each, and one row in `registry.rs`.
//!
//! `observe` reads caches into a snapshot, a pure decision in a core crate makes a plan of it, `apply` sends the plan.
//! No controller decides anything about the domain itself; which change enqueues which key is a decision, too (modules
//! `wakes` of the core crates).

mod agent;
mod agent_csr_approving;
mod agent_rights;
mod announce;
mod application_failover;
mod backends;
mod binding;
mod binding_status;
mod bindings;
mod caches;
mod capacity;
mod cluster;
mod cluster_status;
mod clusters;
mod controller;
mod cron_federated_hpa;
mod dependencies;
mod deployment_replicas_syncer;
mod descheduler;
mod detector;
mod distributed_hpa;
mod estimates;
mod events;
mod execution;
mod explain;
mod federated_hpa;
mod graceful_eviction;
mod groups;
mod history;
mod hpa_scale_target_marker;
mod index;
mod interpreter;
mod mapper;
mod member_object;
mod metrics;
#[cfg(test)]
mod metrics_tests;
mod namespace;
mod not_made;
mod objects;
mod owned;
mod pause;
mod policies;
mod policy;
mod process;
mod quota;
mod rebalance;
mod registry;
mod remedy;
mod scalers;
mod scheduler;
mod selected;
mod services;
mod settings;
mod setup;
mod taint_failure;
mod taint_manager;
mod taint_policy;
mod targets;
mod templates;
mod unified_auth;
mod without_effect;
mod without_node;
mod work_status;
mod works;

pub use backends::{Backends, NetworkBackends};
pub use process::Controllers;
pub use registry::{ControllerRow, RunsIn, UnknownController, controller_names, controller_rows};
pub use settings::{ControllerList, EstimatorSettings, Settings};
