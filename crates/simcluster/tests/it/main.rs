//! Simulated members in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod around;
mod autoscaling;
mod bootstrap_tokens;
mod cascade;
mod faults;
mod front;
mod history;
mod lossy;
mod quotas;
mod rollout;
mod scheduling;
mod served;
mod workloads;

mod world;
