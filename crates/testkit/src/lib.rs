//! The simulated world, its faults, scenarios, and real Kubernetes for tests.
