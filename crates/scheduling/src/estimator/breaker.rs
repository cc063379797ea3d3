//! Circuit breaker: an estimator whose calls fail again and again is not asked for some time, so that it delays no
//! scheduling cycle.

use std::time::Duration;

/// Consecutive failures after which the estimator is not asked.
const FAILURES: u32 = 3;
/// First time for which it is not asked.
const OPEN_FIRST: Duration = Duration::from_secs(10);
/// Longest time for which it is not asked.
const OPEN_MAX: Duration = Duration::from_secs(300);

/// State of one estimator. Times are monotonic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    /// It is not asked before this time.
    open_until: Option<Duration>,
    /// A single call tests it at present.
    probing: bool,
}

impl Breaker {
    /// Returns whether to ask the estimator now. After a pause one call is let through, and the next one once that one
    /// has ended.
    pub fn admit(&mut self, now: Duration) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until || self.probing => false,
            Some(_) => {
                self.probing = true;
                true
            }
        }
    }

    /// Records the end of a call that was let through.
    pub fn record(&mut self, works: bool, now: Duration) {
        self.probing = false;
        if works {
            *self = Self::default();
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if let Some(times) = self.failures.checked_sub(FAILURES) {
            self.open_until = Some(now + (OPEN_FIRST * 2_u32.pow(times.min(8))).min(OPEN_MAX));
        }
    }

    /// Records that a call was given up without an answer to judge.
    pub fn abandon(&mut self) {
        self.probing = false;
    }

    /// Time until which it is not asked.
    #[must_use]
    pub fn open_until(&self) -> Option<Duration> {
        self.open_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn failing_estimator_is_asked_less_and_less() {
        let mut breaker = Breaker::default();
        for n in 1..FAILURES {
            assert!(breaker.admit(s(0)));
            breaker.record(false, s(0));
            assert_eq!(breaker.open_until(), None, "failure {n}");
        }
        assert!(breaker.admit(s(0)));
        breaker.record(false, s(0));
        assert_eq!(breaker.open_until(), Some(s(10)), "the third in a row opens it");
        assert!(!breaker.admit(Duration::from_millis(9_999)));
        assert!(breaker.admit(s(10)), "one call tests it");
        assert!(!breaker.admit(s(10)), "and only one");
        breaker.record(false, s(13));
        assert_eq!(breaker.open_until(), Some(s(33)), "twice as long");
        let mut now = s(33);
        for want in [40, 80, 160, 300, 300, 300, 300, 300, 300, 300] {
            assert!(breaker.admit(now));
            breaker.record(false, now);
            assert_eq!(breaker.open_until(), Some(now + s(want)));
            now += s(want);
        }
        assert!(breaker.admit(now));
        breaker.abandon();
        assert!(breaker.admit(now), "a call that was given up does not block the next one");
        breaker.record(true, now);
        assert_eq!(breaker, Breaker::default(), "an answer closes it");
    }

    #[test]
    fn answers_in_between_reset_the_count() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.record(false, s(0));
            breaker.record(false, s(0));
            breaker.record(true, s(0));
        }
        assert!(breaker.admit(s(0)));
    }
}
