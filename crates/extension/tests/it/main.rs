//! Admission at work.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod agents;
mod carry_over;
mod clusters;
mod explain;
mod in_process;
mod metrics;
mod proxy;
mod support;
mod tunnel;
