//! What would happen to a fleet: clusters are lost, come back or are tainted, and the same decisions that a running control
//! plane takes are taken over a copy of the fleet, in virtual time (failover.md 14.3, invariant 32).
//!
//! [`foresee`] is an event loop with a clock of its own. Probes, taints by condition and by policy, verdicts, the queue with
//! its rate, the pre-scheduling check, the scheduler and the graceful eviction of old copies are those of the crates that
//! decide them; the only thing made up is how long a new copy takes until it is healthy ([`Options::startup`]). It writes
//! nothing and reads no clock.

mod copy;
mod loops;
mod report;
mod script;
#[cfg(test)]
mod tests;

pub use loops::foresee;
pub use report::{Fate, Foreseen, Line, Move, Waits};
pub use script::{Change, Options, Script};
