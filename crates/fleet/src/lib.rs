//! Input and output of decisions: keys, plans and reasons, the world, and the invariants of a fleet.
//!
//! A decision is a pure function from an owned snapshot to a [`Plan`]: what to write, and why.
//! This crate does no IO, reads no clock and draws no random numbers.

pub mod affinity;
pub mod because;
mod binding;
mod check;
pub mod count;
pub mod divide;
mod event;
pub mod eviction_task;
pub mod finalizer;
pub mod gates;
mod key;
mod patch;
mod plan;
mod readiness;
mod status;
pub mod taint;
pub mod targets;
pub mod tree;
mod world;

pub use because::{Because, propagation::PolicyKey};
pub use binding::{Binding, BindingRef};
pub use check::{Violation, check};
pub use event::{Event, EventType, cluster_reference, reference};
pub use key::{BindingKey, ClusterName, Gvk, ObjectKey, WorkKey};
pub use patch::merge_patch_between;
pub use plan::Plan;
pub use readiness::not_ready;
pub use status::StatusPart;
pub use world::{Clusters, World};
