//! The binary as people run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asked;
mod members;
mod messages;
mod standby;
mod verb;
