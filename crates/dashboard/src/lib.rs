//! The dashboard: embedded pages, and views of the fleet as JSON, on a loopback port for one user ([`Dashboard`]), or
//! over TLS for users who log in ([`TeamDashboard`]).
//!
//! This crate serves, and decides who may ask. It does not know how a view is computed: whoever serves brings
//! [`Views`]. Every method but GET and HEAD is refused, except POST where a user logs in or
//! out, and, where that is wanted, for a fixed list of [`Actions`].

#![warn(missing_docs)]

mod action;
mod answer;
mod assets;
mod desk;
mod door;
mod route;
mod rows;
mod secret;
mod serve;
mod sessions;
mod stream;
mod teams;
mod token;
mod views;

pub use self::{
    action::{Action, Actions, Done},
    serve::Dashboard,
    teams::TeamDashboard,
    token::Token,
    views::{Account, Admitted, Change, Failed, Look, Manifests, Question, Reference, Users, Version, Views},
};
