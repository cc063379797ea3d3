//! Wake rules: which change of an object enqueues which key of a controller. A module per controller.

pub mod deployment_replicas_syncer;
pub mod distributed_hpa;
pub mod federated_hpa;
pub mod hpa_scale_target_marker;
