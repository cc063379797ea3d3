//! Lifecycle and health of member clusters.

pub mod agent;
pub mod health;
pub mod lease;
pub mod lifecycle;
pub mod nodes;
pub mod report;
