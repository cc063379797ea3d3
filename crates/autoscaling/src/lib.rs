//! Decisions of autoscalers (specification/autoscaling.md): those by the clock, those by metrics, and those that
//! members run; and the metrics of many clusters, read and merged. Further, what goes with autoscalers that are
//! propagated as they are.
//!
//! Pure functions over what controllers read. Reading objects and asking for metrics, and writing replicas, is theirs.

pub mod cron;
pub mod distributed_hpa;
pub mod federated_hpa;
pub mod metrics;
pub mod replicas_sync;
pub mod rivals;
pub mod scale_target_marker;
