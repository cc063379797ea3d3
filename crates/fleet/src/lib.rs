//! What decisions read and return: the world, the plan and its reasons, and the invariants of a fleet.
