//! The store against a model, under faults, and at its bounds.

#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod backup;
mod crash;
mod data_dir;
mod durability;
mod history;
mod model;
mod oracle;
mod support;
mod transactions;
mod watches;
