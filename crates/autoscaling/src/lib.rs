//! Decisions of autoscalers (specification/autoscaling.md): those by the clock, and those by metrics; and the metrics of
//! many clusters, read and merged.
//!
//! Pure functions over what controllers read. Reading objects and asking for metrics, and writing replicas, is theirs.

pub mod cron;
pub mod federated_hpa;
pub mod metrics;
