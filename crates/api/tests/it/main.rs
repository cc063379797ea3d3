//! Tests of the wire contract as a whole.

mod fields;
mod goldens;
mod inventory;
mod reference;
mod round_trip;
mod shape;
mod well_known;
