//! Simulated members in virtual time.

mod cascade;
mod faults;
mod history;
mod rollout;
mod scheduling;
mod world;
