//! Decisions on where a binding runs and with how many replicas (specification/scheduling.md).
//!
//! [`decide`] reconciles one binding: whether a scheduling cycle runs, the cycle, and the effects of its result.
//! [`dry_run`] is the cycle alone, without effects. [`preempt`] chooses the bindings that make room for others.
//! [`wakes`] says which changes enqueue a binding, and [`trigger`] if a cycle runs then. [`Index`] spares a cycle the
//! clusters that it cannot use. [`Capacity`] estimates what fits from the clusters' reports; answers of other
//! estimators are input. The crate has no queue and does no IO.

#![cfg_attr(test, allow(clippy::type_complexity, reason = "the type of a table is its heading"))]

pub mod assign;
mod avoided;
mod candidate;
pub mod capacity;
mod combine;
mod cycle;
mod decide;
pub mod deschedule;
pub mod estimator;
pub mod filter;
pub mod groups;
pub mod index;
pub mod interests;
mod line;
mod memberships;
mod options;
mod peers;
pub mod plugin;
pub mod plugins;
pub mod preempt;
mod priority;
mod seen;
pub mod spread;
pub mod summary;
#[cfg(test)]
mod testkit;
mod topology;
pub mod trigger;
pub mod wakes;
pub mod without_node;

pub use candidate::Candidate;
pub use capacity::Capacity;
pub use index::Index;
pub use ironclad_fleet::divide;

pub use cycle::{Class, Failure, ScheduleResult, available_replicas, dry_run, question_of};
pub use decide::{
    Again, Attempt, Decision, Effect, Next, Part, ScheduleType, UNSCHEDULABLE_AGAIN, again, decide, decide_timed,
    moves_in_part, observed_generation, part_that_fits, refused, success, template_accepted, template_refused,
};
pub use interests::Interests;
pub use line::Line;
pub use options::Options;
pub use peers::Peers;
pub use plugin::{CycleEvent, Plugin, Step};
pub use plugins::Plugins;
pub use priority::priority;
pub use seen::{Available, Seen, Since};
