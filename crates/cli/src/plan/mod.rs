//! `ironclad plan`: what would happen if clusters were lost or tainted (specification/failover.md 14.3,
//! specification/operations.md 2.20).
//!
//! The fleet is read from the control plane by one list per kind, or from a dump; what follows is decided by crate
//! `planning`. Nothing is written.

pub mod apply;
pub mod command;
pub mod load;
pub mod preemption;
mod print;
pub(crate) mod read;
#[cfg(test)]
mod tests;
pub(crate) mod victims;

pub use print::table;
pub use read::{dump, lists};
