//! Faults and loads for tests: a disk that forgets what was not synced, and a backend that fails on purpose.

pub mod bench;
mod disk;
mod faulty;

pub use disk::{Disk, DiskFault, DiskStorage, Loss};
pub use faulty::{FailurePoint, FaultyBackend};
