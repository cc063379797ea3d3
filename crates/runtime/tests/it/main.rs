//! The runtime against the embedded server, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod leader;
