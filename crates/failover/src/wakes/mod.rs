//! Wake rules: which change of an object enqueues which key of a controller. A module per controller.

pub mod application_failover;
pub mod cluster;
pub mod cluster_status;
pub mod graceful_eviction;
pub mod remedy;
pub mod taint_manager;
pub mod taint_policy;

use ironclad_api::{
    ObjectMeta,
    work::{ResourceBindingSpec, ResourceBindingStatus},
};

/// Metadata, spec and status of a binding of either kind.
pub type Parts<'a> = (&'a ObjectMeta, &'a ResourceBindingSpec, Option<&'a ResourceBindingStatus>);
