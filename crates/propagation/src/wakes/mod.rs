//! Wake rules: which change of an object enqueues which key of a controller. A module per controller; [`changes`]
//! and [`drift`] serve several.

pub mod binding;
pub mod binding_status;
pub mod changes;
pub mod dependencies;
pub mod drift;
pub mod execution;
pub mod namespace;
pub mod policy;
pub mod quota;
pub mod services;
pub mod unified_auth;
