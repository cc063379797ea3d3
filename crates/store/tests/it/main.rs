//! The store against a model, under faults, and at its bounds.

mod crash;
mod data_dir;
mod durability;
mod history;
mod model;
mod oracle;
mod support;
mod transactions;
mod watches;
