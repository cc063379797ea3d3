//! A backend that fails on demand.

use std::io;

use crate::{Backend, BackendError, BackendStats, Loaded, Record, Revision};

/// Forwards to another backend until the n-th changing call fails.
pub struct FaultyBackend<B> {
    inner: B,
    calls_left: u64,
    moment: FailurePoint,
}

/// Time of a failure within a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePoint {
    /// Before anything was done.
    Before,
    /// After the work was done: only the response is lost.
    After,
}

impl<B> FaultyBackend<B> {
    /// Creates a backend that fails at the commit or compaction after this many successful ones, and at all later ones.
    pub fn new(inner: B, good_calls: u64, moment: FailurePoint) -> Self {
        Self { inner, calls_left: good_calls, moment }
    }

    fn call(&mut self, f: impl FnOnce(&mut B) -> Result<(), BackendError>) -> Result<(), BackendError> {
        if let Some(left) = self.calls_left.checked_sub(1) {
            self.calls_left = left;
            return f(&mut self.inner);
        }
        if self.moment == FailurePoint::After {
            f(&mut self.inner)?;
        }
        Err(BackendError::Io { path: "(faulty)".into(), source: io::Error::from_raw_os_error(5) })
    }
}

impl<B: Backend> Backend for FaultyBackend<B> {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        self.inner.load()
    }

    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError> {
        self.call(|inner| inner.commit(group))
    }

    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError> {
        self.call(|inner| inner.compact(server, floor))
    }

    fn stats(&self) -> BackendStats {
        self.inner.stats()
    }
}
