//! Decisions of autoscalers (specification/autoscaling.md): those by the clock; and the metrics of many clusters, read
//! and merged.
//!
//! Pure functions over what controllers read. Reading objects and writing replicas is theirs.

pub mod cron;
pub mod metrics;
