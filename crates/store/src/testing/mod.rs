//! Faults and loads for tests: a disk that loses unsynced writes, and a backend that fails on demand.

pub mod bench;
mod disk;
mod faulty;

pub use disk::{Disk, DiskFault, DiskStorage, Loss};
pub use faulty::{FailurePoint, FaultyBackend};
