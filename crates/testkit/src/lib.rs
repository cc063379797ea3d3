//! Test infrastructure: the simulation with its faults, scenarios, and real Kubernetes.

pub mod binary;
pub mod browser;
pub mod differential;
pub mod eviction_rate;
pub mod karmada;
mod numbers;
pub mod real;
pub mod scenario;
pub mod sim;
pub mod tenant;
