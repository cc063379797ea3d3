//! Decisions of autoscalers (specification/autoscaling.md): those by the clock, and those by metrics.
//!
//! Pure functions over what controllers read. Reading objects and metrics, and writing replicas, is theirs.

pub mod cron;
pub mod federated_hpa;
