//! Decisions of autoscalers (specification/autoscaling.md): those by the clock.
//!
//! Pure functions over what controllers read. Reading objects and writing replicas is theirs.

pub mod cron;
