//! The simulated world, its faults, scenarios, and real Kubernetes for tests.

pub mod binary;
pub mod differential;
pub mod eviction_rate;
mod numbers;
pub mod real;
pub mod scenario;
pub mod sim;
