//! Evictions from faulty clusters: `ironclad failover`, `ironclad get evictions`, `ironclad why evicted`
//! (specification/operations.md 2.20).
//!
//! The leader is asked (group `explain.ironclad.io`); where it says nothing, the very decisions are re-run over the
//! objects, and what only its memory knows is said to be unknown.

pub mod failover;
pub(crate) mod list;
pub(crate) mod observe;
mod show;
pub mod why;

pub use list::{Query, run as get};
