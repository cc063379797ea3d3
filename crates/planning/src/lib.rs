//! Replay of the decisions of the control plane, taken over a copy of the fleet (specification/failover.md 14.3,
//! invariant 32).
//!
//! The verbs of the command line read the fleet, ask this crate, and print the answer:
//!
//! | verb | asks |
//! | --- | --- |
//! | `why` | [`why::explain`] |
//! | `why evicted` | [`evicted::explain`] |
//! | `plan apply` | [`apply::plan_apply`] |
//! | `plan cluster-loss`, `plan taint`, `plan rate` | [`plan_failover`] |
//! | `plan preemption` | [`preemption::preemption`] |
//! | `plan load` | [`load::foresee`] |
//! | `drain --dry-run` | [`drain::Survey`] |
//! | `taint --dry-run` | [`taint::Impact`] |
//! | `unjoin --dry-run` | [`unjoin::Impact`] |
//! | `doctor` | [`doctor::findings`], [`doctor::drift`] |
//! | `dashboard` | [`views`] |
//!
//! [`Fleet`] is the copy; [`replay::Replay`] takes decisions of policies, detector, scheduler and dependencies over it.
//! [`plan_failover`] is an event loop with a clock of its own. Probes, taints by condition and by policy, verdicts, the
//! queue with its rate, the pre-scheduling check, the scheduler and the graceful eviction of old copies are those of
//! the crates that decide them; the only assumption is how long a new copy takes until it is healthy
//! ([`Options::startup`]).
//!
//! Nothing here writes, reads a clock, or decides on its own.

pub mod announcement;
pub mod apply;
pub mod coming;
pub mod doctor;
pub mod drain;
pub mod evicted;
pub mod history;
pub mod leader;
pub mod load;
mod loops;
pub mod preemption;
pub mod replay;
mod report;
pub mod schedule;
mod script;
pub mod taint;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
pub mod unjoin;
pub mod views;
pub mod why;
pub mod world;

pub use leader::Settings;
pub use loops::plan_failover;
pub use replay::Preemption;
pub use report::{FailoverPlan, Move, MoveStatus, PendingEviction, TimelineEntry};
pub use schedule::Scheduling;
pub use script::{Change, Options, Script};
pub use world::Fleet;
