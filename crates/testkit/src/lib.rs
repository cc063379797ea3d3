//! The simulated world, its faults, scenarios, and real Kubernetes for tests.

pub mod binary;
pub mod differential;
pub mod eviction_rate;
pub mod real;
pub mod scenario;
pub mod sim;
