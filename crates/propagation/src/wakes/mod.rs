//! Wake rules: which change of an object enqueues which key of a controller. A module per controller.

pub mod binding;
pub mod binding_status;
pub mod quota;
pub mod services;
pub mod unified_auth;
