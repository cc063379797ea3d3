//! The simulated world, its faults, scenarios, and real Kubernetes for tests.

pub mod differential;
pub mod pace;
pub mod product;
pub mod real;
pub mod scenario;
pub mod sim;
