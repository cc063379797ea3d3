//! The eviction decisions with their clock. Metrics read them, too.

use std::sync::Arc;

use ironclad_failover::{Evictions, Now};
use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Decisions that run.
pub(crate) struct Running {
    pub(crate) evictions: Evictions,
    pub(super) began: Instant,
    clock: Clock,
}

impl Running {
    /// Decisions whose monotonic time began at `began`.
    pub(super) fn since(began: Instant, evictions: Evictions, clock: Clock) -> Self {
        Self { evictions, began, clock }
    }

    /// Decisions whose monotonic time begins now.
    #[cfg(test)]
    pub(crate) fn new(evictions: Evictions, clock: Clock) -> Self {
        Self::since(clock.mono(), evictions, clock)
    }

    pub(crate) fn now(&self) -> Now {
        Now { wall: self.clock.wall(), mono: self.clock.mono() - self.began }
    }
}

/// `None` until the taint manager has started.
pub(crate) type Shared = Arc<Mutex<Option<Running>>>;
