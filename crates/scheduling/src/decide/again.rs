//! Retries by time alone (specification/scheduling.md 14.1, 16.2, 16.3).

use std::time::Duration;

use jiff::Timestamp;

use super::Next;

/// Interval at which an unplaced binding is scheduled again even without any event.
pub const UNSCHEDULABLE_AGAIN: Duration = Duration::from_secs(300);
/// Shortest retry interval for a time given in whole seconds.
const MOMENT_AGAIN: Duration = Duration::from_secs(1);
/// Longest retry interval of a binding for which capacity is held: the longest backoff (specification/scheduling.md
/// 15.7).
const NOMINATED_AGAIN: Duration = Duration::from_secs(10);

/// Time of the next scheduling cycle of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It is not.
    Never,
    /// After a backoff.
    Backoff,
    /// After this time, unless an event enqueues it earlier.
    After(Duration),
}

/// Returns when a binding is scheduled again.
#[must_use]
pub fn again(next: Next, now: Timestamp) -> Again {
    match next {
        Next::OnEvent => Again::Never,
        Next::Backoff => Again::Backoff,
        Next::Recheck | Next::WhenCapacity | Next::WhenCapacityOrQuota => Again::After(UNSCHEDULABLE_AGAIN),
        Next::Nominated => Again::After(NOMINATED_AGAIN),
        Next::At(at) => {
            let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Again::After(wait.max(MOMENT_AGAIN))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::at;

    #[test]
    fn retry_times_by_outcome() {
        const S: fn(u64) -> Duration = Duration::from_secs;
        let now = at(1_000);
        for (name, next, want) in [
            ("placed", Next::OnEvent, Again::Never),
            ("no cluster fits: a safety re-check after five minutes", Next::Recheck, Again::After(S(300))),
            ("insufficient capacity: the same", Next::WhenCapacity, Again::After(S(300))),
            ("quota may be freed, too", Next::WhenCapacityOrQuota, Again::After(S(300))),
            ("capacity is held for it", Next::Nominated, Again::After(S(10))),
            ("an error", Next::Backoff, Again::Backoff),
            ("a result is withdrawn later", Next::At(at(1_240)), Again::After(S(240))),
            ("withdrawn now", Next::At(now), Again::After(S(1))),
            ("withdrawn in the past", Next::At(at(900)), Again::After(S(1))),
        ] {
            assert_eq!(again(next, now), want, "{name}");
        }
    }
}
