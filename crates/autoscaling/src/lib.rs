//! Decisions of autoscalers (specification/autoscaling.md): those by the clock, and those that members run.
//!
//! Pure functions over what controllers read. Reading objects and writing replicas is theirs.

pub mod cron;
pub mod distributed_hpa;
