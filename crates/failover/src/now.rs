//! Wall and monotonic time, as decisions on evictions take them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A moment: `wall` for what is stored and compared with stored times, `mono` for waits and rates, so that a clock that
/// jumps moves neither a wait nor the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time of day.
    pub wall: Timestamp,
    /// Monotonic time since any fixed origin.
    pub mono: Duration,
}

impl Now {
    /// The monotonic moment at which the time of day will be this, by the clock of today; now if it has been.
    #[must_use]
    pub fn mono_at(&self, wall: Timestamp) -> Duration {
        let wait = wall.duration_since(self.wall);
        self.mono.saturating_add(Duration::try_from(wait).unwrap_or(Duration::ZERO))
    }

    /// The time of day at a monotonic moment, by the clock of today.
    #[must_use]
    pub fn wall_at(&self, mono: Duration) -> Timestamp {
        let ahead = SignedDuration::try_from(mono.saturating_sub(self.mono)).unwrap_or(SignedDuration::MAX);
        let behind = SignedDuration::try_from(self.mono.saturating_sub(mono)).unwrap_or(SignedDuration::MAX);
        self.wall.saturating_add(ahead).and_then(|at| at.saturating_sub(behind)).unwrap_or(Timestamp::MAX)
    }
}
