//! Circuit breaker for a webhook that fails repeatedly (specification/propagation.md 31.3, row 34).

use std::time::Duration;

/// Consecutive failures that open the breaker.
pub const FAILURES_MAX: u32 = 3;
/// First pause; each further failure doubles it.
pub const PAUSE: Duration = Duration::from_secs(10);
/// Longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Failures of one webhook. Times come from a monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    until: Duration,
}

impl Breaker {
    /// Remaining time of the pause; `None` if the webhook may be called.
    #[must_use]
    pub fn pause(&self, now: Duration) -> Option<Duration> {
        self.until.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Records the outcome of a call. Returns true if this call opened the breaker.
    pub fn record(&mut self, succeeded: bool, now: Duration) -> bool {
        if succeeded {
            *self = Self::default();
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        let Some(more) = self.failures.checked_sub(FAILURES_MAX) else { return false };
        self.until = now + PAUSE.saturating_mul(1 << more.min(10)).min(PAUSE_MAX);
        more == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_consecutive_failures_open_the_breaker() {
        let s = Duration::from_secs;
        let mut breaker = Breaker::default();
        for (name, now, succeeded, begins, pause) in [
            ("the first", 0, false, false, None),
            ("the second", 1, false, false, None),
            ("an answer in between counts", 2, true, false, None),
            ("the first", 3, false, false, None),
            ("the second", 4, false, false, None),
            ("the third", 5, false, true, Some(10)),
            ("the try after the pause", 15, false, false, Some(20)),
            ("and the next", 35, false, false, Some(40)),
            ("an answer ends it", 75, true, false, None),
        ] {
            assert_eq!(breaker.pause(s(now)), None, "{name}: it may be asked");
            assert_eq!(breaker.record(succeeded, s(now)), begins, "{name}");
            assert_eq!(breaker.pause(s(now)), pause.map(s), "{name}");
        }
        for _ in 0..40 {
            breaker.record(false, s(100));
        }
        assert_eq!(breaker.pause(s(100)), Some(PAUSE_MAX), "never longer");
    }
}
