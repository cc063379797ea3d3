//! Tests of the wire contract as a whole.

#![allow(clippy::unwrap_used, reason = "the whole file is tests, the makers between them too")]

mod crds;
mod docs;
mod events;
mod fields;
mod inventory;
mod prose;
mod round_trip;
mod shape;
mod well_known;
