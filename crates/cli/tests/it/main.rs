//! The verbs against embedded servers in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bounds;
mod crds;
mod doctor;
mod drain;
mod interpret;
mod join;
mod ownership;
mod plan_apply;
mod register;
mod support;
mod taint;
mod unjoin;
