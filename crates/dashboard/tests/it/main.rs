//! The dashboard over its listeners, with views and actions that are made up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod actions;
mod contrast;
mod fake;
mod teams;
