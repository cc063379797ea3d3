//! The dashboard: embedded pages, and views of the fleet as JSON, on a loopback port.
//!
//! This crate serves, and decides who may ask. It does not know how a view is computed: [`Views`] has a method for
//! each, and whoever serves brings them. Nothing here writes: every method but GET and HEAD is refused.

#![warn(missing_docs)]

mod answer;
mod assets;
mod door;
mod route;
mod rows;
mod secret;
mod serve;
mod stream;
mod views;

pub use self::{
    serve::Dashboard,
    views::{Account, Change, Failed, Look, Reference, Views},
};
