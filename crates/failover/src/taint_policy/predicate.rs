//! True if a cluster's conditions match, and since when (specification/failover.md 2.2, 2.4, IR-5).

use std::time::Duration;

use ironclad_api::{cluster::Cluster, conditions, policy::MatchCondition};
use jiff::Timestamp;

/// Result of the conditions at one moment, without history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// True if all match.
    pub(crate) holds: bool,
    /// Start by the conditions' own times; `None` if they have none: then it starts now.
    pub(crate) since: Option<Timestamp>,
}

/// Evaluates ANDed conditions. An empty list is `empty`, since `from_start`.
pub(crate) fn evaluate(
    conditions: &[MatchCondition],
    cluster: &Cluster,
    empty: bool,
    from_start: Timestamp,
) -> Verdict {
    if conditions.is_empty() {
        return Verdict { holds: empty, since: Some(from_start) };
    }
    let present = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let (mut matching, mut failing) = (None::<Timestamp>, Vec::new());
    for wanted in conditions {
        let found = conditions::get(present, &wanted.condition_type);
        let since = found.map(|condition| condition.last_transition_time.0);
        if found.is_some_and(|condition| matches(wanted, &condition.status)) {
            matching = matching.max(since);
        } else {
            // A missing condition has no time, nor has an unknown operator.
            failing.push(since.filter(|_| is_known(wanted)));
        }
    }
    if failing.is_empty() {
        Verdict { holds: true, since: matching }
    } else {
        Verdict { holds: false, since: failing.into_iter().flatten().min() }
    }
}

/// True if the operator of a condition is supported.
pub(crate) fn is_known(condition: &MatchCondition) -> bool {
    matches!(condition.operator.as_str(), "In" | "NotIn")
}

fn matches(wanted: &MatchCondition, status: &str) -> bool {
    let listed = wanted.status_values.iter().any(|value| value == status);
    match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// Time for which a predicate has had its truth value. It is measured in monotonic time from the first observation, so
/// that neither a clock that jumps nor a condition that changes to an equivalent status (IR-5) moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopwatch {
    pub(crate) holds: bool,
    /// Start that is shown in statuses.
    pub(crate) since: Timestamp,
    first_seen: Duration,
    elapsed_then: Duration,
    last_seen: Duration,
}

impl Stopwatch {
    /// Continues the previous measurement, unless the truth value changed. `now` is wall time, `mono` monotonic time.
    pub(crate) fn follow(before: Option<Self>, verdict: Verdict, now: Timestamp, mono: Duration) -> Self {
        if let Some(before) = before.filter(|before| before.holds == verdict.holds) {
            return Self { last_seen: mono, ..before };
        }
        // The clock of a writer may be ahead: the age is not negative.
        let since = verdict.since.unwrap_or(now).min(now);
        let reported = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        // The clock of a writer may be behind, or its time unchanged: the age is at most the observed one.
        let seen = before.map_or(Duration::MAX, |before| mono.saturating_sub(before.last_seen));
        let elapsed_then = reported.min(seen);
        let since = if elapsed_then < reported { earlier(now, elapsed_then) } else { since };
        Self { holds: verdict.holds, since, first_seen: mono, elapsed_then, last_seen: mono }
    }

    /// Stopwatch of the negated predicate.
    pub(crate) fn opposite(self) -> Self {
        Self { holds: !self.holds, ..self }
    }

    /// Remaining time of a window; zero once it passed.
    pub(crate) fn left_of(&self, window: Duration, mono: Duration) -> Duration {
        let elapsed = self.elapsed_then.saturating_add(mono.saturating_sub(self.first_seen));
        window.saturating_sub(elapsed)
    }

    /// Time at which a running window ends, for statuses.
    pub(crate) fn end_of(&self, window: Duration) -> Timestamp {
        let window = jiff::SignedDuration::try_from(window).unwrap_or(jiff::SignedDuration::MAX);
        let end = self.since.saturating_add(window).unwrap_or(Timestamp::MAX);
        Timestamp::from_second(end.as_second()).unwrap_or(end)
    }
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = jiff::SignedDuration::try_from(by).unwrap_or(jiff::SignedDuration::ZERO);
    now.saturating_sub(by).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, cluster, condition, when};

    #[test]
    fn predicates_evaluate_conditions() {
        let up = |name: &str, status: &str, since| condition(name, status, since);
        for (name, wanted, present, holds, since) in [
            (
                "In, listed",
                vec![when("Ready", "In", &["False", "Unknown"])],
                vec![up("Ready", "False", 7)],
                true,
                Some(7),
            ),
            ("In, not listed", vec![when("Ready", "In", &["False"])], vec![up("Ready", "True", 7)], false, Some(7)),
            (
                "NotIn, not listed",
                vec![when("Ready", "NotIn", &["True"])],
                vec![up("Ready", "False", 7)],
                true,
                Some(7),
            ),
            ("NotIn, listed", vec![when("Ready", "NotIn", &["True"])], vec![up("Ready", "True", 7)], false, Some(7)),
            ("In: an absent condition does not match", vec![when("Ready", "In", &["False"])], vec![], false, None),
            (
                "NotIn: an absent condition does not match (a cluster that just joined)",
                vec![when("Ready", "NotIn", &["True"])],
                vec![],
                false,
                None,
            ),
            (
                "an unknown operator does not match",
                vec![when("Ready", "Is", &["True"])],
                vec![up("Ready", "True", 7)],
                false,
                None,
            ),
            (
                "all match since the last one matched",
                vec![when("Net", "In", &["False"]), when("Disk", "In", &["False"])],
                vec![up("Net", "False", 9), up("Disk", "False", 5)],
                true,
                Some(9),
            ),
            (
                "one mismatches since it changed",
                vec![when("Net", "In", &["False"]), when("Disk", "In", &["False"])],
                vec![up("Net", "False", 5), up("Disk", "True", 9)],
                false,
                Some(9),
            ),
            (
                "both mismatch since the first one changed",
                vec![when("Net", "In", &["False"]), when("Disk", "In", &["False"])],
                vec![up("Net", "True", 5), up("Disk", "True", 9)],
                false,
                Some(5),
            ),
            (
                "one mismatches and one is absent",
                vec![when("Net", "In", &["False"]), when("Disk", "In", &["False"])],
                vec![up("Net", "True", 5)],
                false,
                Some(5),
            ),
        ] {
            let mut cluster = cluster("m1");
            cluster.status.get_or_insert_default().conditions = present;
            let got = evaluate(&wanted, &cluster, true, at(0));
            assert_eq!(got, Verdict { holds, since: since.map(at) }, "{name}");
        }
        for empty in [true, false] {
            let verdict = evaluate(&[], &cluster("m1"), empty, at(3));
            assert_eq!(
                verdict,
                Verdict { holds: empty, since: Some(at(3)) },
                "an empty list evaluates to the given default"
            );
        }
    }

    #[test]
    fn stopwatch_measures_how_long_a_verdict_lasts() {
        let s = Duration::from_secs;
        let verdict = |holds, since: i64| Verdict { holds, since: Some(at(since)) };
        let first = Stopwatch::follow(None, verdict(true, 100), at(160), s(5));
        assert_eq!(first.left_of(s(300), s(5)), s(240), "time before the controller started counts");
        assert_eq!(first.left_of(s(300), s(244)), s(1), "one second before");
        assert_eq!(first.left_of(s(300), s(245)), s(0), "exactly");
        let equivalent = Stopwatch::follow(Some(first), verdict(true, 200), at(200), s(45));
        assert_eq!(equivalent, Stopwatch { last_seen: s(45), ..first }, "False to Unknown does not reset (B10)");
        let jumped = Stopwatch::follow(Some(first), verdict(true, 100), at(9_999), s(45));
        assert_eq!(jumped.left_of(s(300), s(45)), s(200), "a jump of the wall clock does not reset it");
        let flipped = Stopwatch::follow(Some(first), verdict(false, 190), at(200), s(45));
        assert_eq!(flipped.left_of(s(180), s(45)), s(170), "a change of the verdict restarts it");
        let behind = Stopwatch::follow(Some(first), verdict(false, 0), at(200), s(45));
        assert_eq!(
            (behind.since, behind.left_of(s(180), s(45))),
            (at(160), s(140)),
            "it does not start before the opposite was seen"
        );
        let ahead = Stopwatch::follow(None, verdict(true, 500), at(200), s(0));
        assert_eq!(
            (ahead.since, ahead.left_of(s(300), s(0))),
            (at(200), s(300)),
            "a transition time in the future counts as now"
        );
        let absent = Stopwatch::follow(None, Verdict { holds: false, since: None }, at(200), s(0));
        assert_eq!(absent.left_of(s(180), s(60)), s(120), "an absent condition counts since it was first seen absent");
        assert_eq!(first.end_of(s(300)), at(400));
    }
}
