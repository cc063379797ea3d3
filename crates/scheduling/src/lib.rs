//! Decisions on where a binding runs and with how many replicas (scheduling.md).
//!
//! [`decide`] is the scheduler's turn with one binding: whether a pass runs, the pass, and what is written of it.
//! [`dry_run`] is the pass alone, for whoever only asks. [`trigger`] says which events give a binding a turn. The crate
//! keeps no queue, estimates no capacity and does no IO: capacities come in as values.

#![cfg_attr(test, allow(clippy::type_complexity, reason = "the type of a table is its heading"))]

pub mod assign;
mod candidate;
mod decide;
pub mod filter;
pub mod groups;
mod pass;
pub mod plugins;
mod region;
mod seen;
pub mod spread;
pub mod summary;
#[cfg(test)]
mod testkit;
pub mod trigger;

pub use candidate::Candidate;
pub use ironclad_fleet::divide;

pub use decide::{Decision, Effect, Next, ScheduleType, decide, observed_generation};
pub use pass::{Class, Failure, Found, dry_run};
pub use plugins::Plugins;
pub use seen::{Available, Binding, BindingKind, Clusters, Options, Seen};
