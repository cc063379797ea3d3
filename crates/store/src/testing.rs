//! Faults for tests: a disk that forgets what was not synced, and a backend that fails on purpose.

mod disk;
mod faulty;

pub use disk::{Disk, DiskFault, DiskStorage, Loss};
pub use faulty::{FaultyBackend, Moment};
