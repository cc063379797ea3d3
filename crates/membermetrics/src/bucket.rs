//! A token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// Tokens that are filled up at a rate and taken one at a time. A token may be taken in advance, for a wait.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate_per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket. A rate of zero or less has no bound.
    pub(crate) fn new(rate_per_second: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate_per_second, burst, tokens: burst, at: now }
    }

    /// Takes a token and returns the wait until it is there. Takes none and returns the wait as the error if that is
    /// longer than `patience`.
    pub(crate) fn take(&mut self, now: Instant, patience: Duration) -> Result<Duration, Duration> {
        if self.rate_per_second <= 0.0 {
            return Ok(Duration::ZERO);
        }
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let tokens = (self.tokens + elapsed * self.rate_per_second).min(self.burst);
        let missing = (1.0 - tokens).max(0.0);
        let wait = Duration::try_from_secs_f64(missing / self.rate_per_second).unwrap_or(Duration::MAX);
        if wait > patience {
            return Err(wait);
        }
        (self.tokens, self.at) = (tokens - 1.0, now.max(self.at));
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokens_are_filled_up_at_the_rate_and_no_further_than_the_burst() {
        let start = ironclad_seam::Clock::system().mono();
        let at = |ms| start + Duration::from_millis(ms);
        let second = Duration::from_secs(1);
        let mut bucket = Bucket::new(10.0, 2, start);
        for (name, now, want) in [
            ("the burst is there", 0, Ok(0)),
            ("all of it", 0, Ok(0)),
            ("then each waits for the rate", 0, Ok(100)),
            ("one after the other", 0, Ok(200)),
            ("time passes", 200, Ok(100)),
            ("a long rest fills the burst", 10_000, Ok(0)),
            ("and not more", 10_000, Ok(0)),
            ("as before", 10_000, Ok(100)),
        ] {
            let got = bucket.take(at(now), second).map(|wait| wait.as_millis());
            assert_eq!(got, want, "{name}");
        }
        let short = Duration::from_millis(50);
        assert!(bucket.take(at(10_000), short).is_err(), "the wait is too long");
        let again = bucket.take(at(10_000), second).map(|wait| wait.as_millis());
        assert_eq!(again, Ok(200), "what was refused took nothing");
        let mut unbounded = Bucket::new(0.0, 1, start);
        assert!((0..1_000).all(|_| unbounded.take(start, Duration::ZERO) == Ok(Duration::ZERO)));
    }
}
