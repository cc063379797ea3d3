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

/// Everything that is wrong with this state, in an order that depends on nothing but the state.
///
/// Some violations stand for a moment while a change is on its way: [`Violation::is_passing`] tells them. In a quiet
/// fleet there must be none at all.
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
