//! Decisions on where a binding runs and with how many replicas (specification/scheduling.md).
//!
//! [`decide`] is the scheduler's turn with one binding: whether a pass runs, the pass, and what is written of it.
//! [`dry_run`] is the pass alone, for whoever only asks. [`trigger`] says which events give a binding a turn. [`Capacity`]
//! knows what fits where by what clusters report; what other estimators say comes in as values. The crate keeps no queue and
//! does no IO.

#![cfg_attr(test, allow(clippy::type_complexity, reason = "the type of a table is its heading"))]

pub mod assign;
mod candidate;
pub mod capacity;
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
pub mod wakes;

pub use candidate::Candidate;
pub use capacity::Capacity;
pub use ironclad_fleet::divide;

pub use decide::{
    Again, Attempt, Decision, Effect, Next, ScheduleType, UNSCHEDULABLE_AGAIN, again, decide, decide_timed,
    observed_generation, refused,
};
pub use pass::{Class, Failure, Found, Step, Tick, dry_run, room_for, room_for_leaving};
pub use plugins::{Plugin, Plugins};
pub use seen::{Available, Options, Seen};
