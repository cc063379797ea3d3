//! Decisions of autoscalers (specification/autoscaling.md): those by the clock, those by metrics of many clusters, and
//! those that members run. Further, what goes with autoscalers that are propagated as they are.
//!
//! Pure functions over what controllers read. Reading objects and asking for metrics, and writing replicas, is theirs.
//! Rounds of autoscalers by metrics are in the crate `ironclad-hpa`, which knows nothing of the control plane's kinds.

pub mod cron;
pub mod distributed_hpa;
pub mod federated_hpa;
pub mod idle;
pub mod replicas_sync;
pub mod rivals;
pub mod scale_target_marker;
pub mod wakes;
