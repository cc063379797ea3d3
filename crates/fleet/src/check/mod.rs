//! The invariants of a fleet that a single state can violate: checked by tests after every step and by
//! `ironclad doctor`.

mod bindings;
mod failover;
mod members;
#[cfg(test)]
pub(crate) mod tests;
mod violation;
mod works;

pub use self::violation::Violation;
use crate::World;

/// All invariant violations of this state, in a deterministic order.
///
/// Some violations are transient while a change is in progress: see [`Violation::is_passing`]. A quiet fleet has none
/// at all.
#[must_use]
pub fn check(world: &World) -> Vec<Violation> {
    let mut found = Vec::new();
    bindings::claims(world, &mut found);
    bindings::bindings(world, &mut found);
    works::works(world, &mut found);
    members::members(world, &mut found);
    failover::failover(world, &mut found);
    found
}
