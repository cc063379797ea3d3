//! When the clock alone gives a binding its next turn (specification/scheduling.md 14.1, 16.2, 16.3).

use std::time::Duration;

use jiff::Timestamp;

use super::Next;

/// A binding that is placed nowhere gets another turn after this time, even if nothing is known to have changed.
pub const UNSCHEDULABLE_AGAIN: Duration = Duration::from_secs(300);
/// The soonest turn that the end of a promise gives.
const PROMISE_AGAIN: Duration = Duration::from_secs(15);
/// The soonest turn at a moment that is told in whole seconds.
const MOMENT_AGAIN: Duration = Duration::from_secs(1);

/// When a binding is scheduled again after a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nothing.
    Never,
    /// It backs off.
    Backoff,
    /// Another turn after this time, unless an event gives it one before.
    After(Duration),
}

/// When a binding whose turn ended so gets another. `promise_ends`: in how long the first promise ends, if there is one: room
/// that nobody reports comes free with it.
#[must_use]
pub fn again(next: Next, now: Timestamp, promise_ends: Option<Duration>) -> Again {
    match next {
        Next::OnEvent => Again::Never,
        Next::Backoff => Again::Backoff,
        Next::Recheck => Again::After(UNSCHEDULABLE_AGAIN),
        Next::WhenRoom => {
            let ends = promise_ends.unwrap_or(UNSCHEDULABLE_AGAIN);
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
    fn what_the_clock_does() {
        const S: fn(u64) -> Duration = Duration::from_secs;
        let now = at(1_000);
        for (name, next, promise_ends, want) in [
            ("placed", Next::OnEvent, Some(S(60)), Again::Never),
            ("no cluster fits: a safety re-check after five minutes", Next::Recheck, None, Again::After(S(300))),
            ("and promises are nothing to it", Next::Recheck, Some(S(60)), Again::After(S(300))),
            ("no room: five minutes, too", Next::WhenRoom, None, Again::After(S(300))),
            ("or when a promise ends", Next::WhenRoom, Some(S(60)), Again::After(S(60))),
            ("but not at once", Next::WhenRoom, Some(S(14)), Again::After(S(15))),
            ("nor later", Next::WhenRoom, Some(S(301)), Again::After(S(300))),
            ("an error", Next::Backoff, None, Again::Backoff),
            ("a result is withdrawn then", Next::At(at(1_240)), None, Again::After(S(240))),
            ("which is now", Next::At(now), None, Again::After(S(1))),
            ("which was before", Next::At(at(900)), None, Again::After(S(1))),
        ] {
            assert_eq!(again(next, now, promise_ends), want, "{name}");
        }
    }
}
