//! Retries by time alone (specification/scheduling.md 14.1, 16.2, 16.3).

use std::time::Duration;

use jiff::Timestamp;

use super::Next;

/// Interval at which an unplaced binding is scheduled again even without any event.
pub const UNSCHEDULABLE_AGAIN: Duration = Duration::from_secs(300);
/// Shortest retry interval when assumed replicas expire.
const PROMISE_AGAIN: Duration = Duration::from_secs(15);
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

/// Returns when a binding is scheduled again. `assumed_expires` is the time until the first assumed replicas expire,
/// which frees capacity without any report.
#[must_use]
pub fn again(next: Next, now: Timestamp, assumed_expires: Option<Duration>) -> Again {
    match next {
        Next::OnEvent => Again::Never,
        Next::Backoff => Again::Backoff,
        Next::Recheck => Again::After(UNSCHEDULABLE_AGAIN),
        Next::Nominated => Again::After(NOMINATED_AGAIN),
        Next::WhenCapacity | Next::WhenCapacityOrQuota => {
            let ends = assumed_expires.unwrap_or(UNSCHEDULABLE_AGAIN);
            Again::After(ends.clamp(PROMISE_AGAIN, UNSCHEDULABLE_AGAIN))
        }
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
        for (name, next, assumed_expires, want) in [
            ("placed", Next::OnEvent, Some(S(60)), Again::Never),
            ("no cluster fits: a safety re-check after five minutes", Next::Recheck, None, Again::After(S(300))),
            ("assumed replicas do not matter", Next::Recheck, Some(S(60)), Again::After(S(300))),
            ("insufficient capacity: after five minutes", Next::WhenCapacity, None, Again::After(S(300))),
            ("or when assumed replicas expire", Next::WhenCapacity, Some(S(60)), Again::After(S(60))),
            ("but not immediately", Next::WhenCapacity, Some(S(14)), Again::After(S(15))),
            ("but not later", Next::WhenCapacity, Some(S(301)), Again::After(S(300))),
            ("quota may be freed, too", Next::WhenCapacityOrQuota, None, Again::After(S(300))),
            ("capacity is held for it", Next::Nominated, Some(S(60)), Again::After(S(10))),
            ("an error", Next::Backoff, None, Again::Backoff),
            ("a result is withdrawn later", Next::At(at(1_240)), None, Again::After(S(240))),
            ("withdrawn now", Next::At(now), None, Again::After(S(1))),
            ("withdrawn in the past", Next::At(at(900)), None, Again::After(S(1))),
        ] {
            assert_eq!(again(next, now, assumed_expires), want, "{name}");
        }
    }
}
