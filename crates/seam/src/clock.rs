//! One clock with two readings: `wall` for appointments and stored timestamps, `mono` for durations.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The only source of the time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    System,
    /// Virtual time: a start, what tokio's paused clock has elapsed since, and a skew that faults move.
    Simulated {
        epoch: Timestamp,
        start: Instant,
        skew_ms: AtomicI64,
    },
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Arc::new(Source::System))
    }

    /// A clock that follows tokio's (paused) time from `epoch` on. Must be called inside a tokio runtime.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self(Arc::new(Source::Simulated { epoch, start: now_of_tokio(), skew_ms: AtomicI64::new(0) }))
    }

    /// Returns a clock of the same time for another process, with a wall clock that can be skewed separately.
    pub fn for_process(&self) -> Self {
        match &*self.0 {
            Source::System => self.clone(),
            Source::Simulated { epoch, start, .. } => {
                Self(Arc::new(Source::Simulated { epoch: *epoch, start: *start, skew_ms: AtomicI64::new(0) }))
            }
        }
    }

    /// Skews the wall clock of this simulated process by this many milliseconds; `mono` is unaffected. The system's
    /// clock ignores it.
    pub fn set_skew_ms(&self, ms: i64) {
        if let Source::Simulated { skew_ms, .. } = &*self.0 {
            skew_ms.store(ms, Ordering::Relaxed);
        }
    }

    /// The time of day: for appointments and stored timestamps.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    pub fn wall(&self) -> Timestamp {
        match &*self.0 {
            Source::System => Timestamp::now(),
            Source::Simulated { epoch, start, skew_ms } => {
                let elapsed = SignedDuration::try_from(self.mono() - *start).unwrap_or(SignedDuration::ZERO);
                let skew = SignedDuration::from_millis(skew_ms.load(Ordering::Relaxed));
                epoch.saturating_add(elapsed + skew).unwrap_or(*epoch)
            }
        }
    }

    /// Returns the time of day in whole seconds, the precision of the API: two equal writes must not differ by a
    /// fraction.
    pub fn wall_seconds(&self) -> Timestamp {
        Timestamp::from_second(self.wall().as_second()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Monotonic time: for rates, backoff and debounce.
    pub fn mono(&self) -> Instant {
        now_of_tokio()
    }

    /// Waits for a duration of monotonic time.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits until a moment of monotonic time.
    pub async fn sleep_until(&self, until: Instant) {
        tokio::time::sleep_until(until).await;
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads monotonic time")]
fn now_of_tokio() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_wall_follows_virtual_time_and_skew_moves_only_wall() {
        let clock = Clock::simulated(Timestamp::from_second(1_000).unwrap());
        let mono = clock.mono();
        clock.sleep(Duration::from_millis(90_500)).await;
        assert_eq!(clock.wall_seconds().as_second(), 1_090);
        let other = clock.for_process();
        other.set_skew_ms(-60_000);
        assert_eq!(other.wall_seconds().as_second(), 1_030);
        assert_eq!(clock.wall_seconds().as_second(), 1_090);
        assert_eq!(clock.mono() - mono, Duration::from_millis(90_500));
    }
}
