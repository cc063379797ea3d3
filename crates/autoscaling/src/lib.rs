//! Decisions of autoscalers: central, by the clock, and distributed over the clusters (specification/autoscaling.md).
//!
//! Pure functions over what controllers read. Reading metrics and writing replicas is theirs.
