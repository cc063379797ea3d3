//! State in memory of one autoscaler (specification/autoscaling.md 2.1).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;

use crate::{notice::Notice, options::Options, spec::Spec};

/// Recommendations and changes of an autoscaler. They are lost with the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Proposals before stabilization, the oldest first.
    recommended: Vec<(Timestamp, i32)>,
    /// Replicas added (above zero) or removed, the oldest first.
    changed: Vec<(Timestamp, i32)>,
    /// Time of a change by an earlier process, whose size is not known.
    changed_before: Option<Timestamp>,
    /// Time since which the replicas have been on their way to the members.
    settling: Option<Timestamp>,
    /// Warnings of the last round.
    warned: Vec<Notice>,
}

impl History {
    /// State of an autoscaler that is seen for the first time. The present size counts as a recommendation, so that a
    /// start scales nothing down before the window is over. The last change counts that the status shows; if only its
    /// time is left there, it counts as one that used up every rate, so that a restart does not scale twice.
    #[must_use]
    pub fn begin(current: i32, status: Option<&HorizontalPodAutoscalerStatus>, now: Timestamp) -> Self {
        let last = status.and_then(|status| {
            let by = status.desired_replicas.saturating_sub(status.current_replicas?);
            let at = status.last_scale_time.as_ref()?.0;
            (status.desired_replicas == current && at <= now).then_some((at, by))
        });
        let changed = last.filter(|(_, by)| *by != 0);
        Self {
            recommended: vec![(now, current)],
            changed: changed.into_iter().collect(),
            changed_before: last.filter(|(_, by)| *by == 0).map(|(at, _)| at),
            ..Self::default()
        }
    }

    /// State with these recommendations and changes, oldest first.
    #[must_use]
    pub fn of(recommended: Vec<(Timestamp, i32)>, changed: Vec<(Timestamp, i32)>) -> Self {
        Self { recommended, changed, ..Self::default() }
    }

    /// Records a proposal. The same one within a second is recorded once: rounds are repeated after failures.
    pub fn recommend(&mut self, replicas: i32, now: Timestamp) {
        if self.recommended.last() != Some(&(now, replicas)) {
            self.recommended.push((now, replicas));
        }
    }

    /// Records a change of the replicas.
    pub fn change(&mut self, from: i32, to: i32, now: Timestamp) {
        self.changed.push((now, to.saturating_sub(from)));
    }

    /// Records that replicas are on their way to the members, or that none are.
    pub fn settle(&mut self, is_settling: bool, now: Timestamp) {
        self.settling = is_settling.then(|| self.settling.unwrap_or(now));
    }

    /// Returns the time since which replicas have been on their way.
    #[must_use]
    pub fn settling_since(&self) -> Option<Timestamp> {
        self.settling
    }

    /// Returns the events that say something new: a warning that stays the same is reported once, not in every round.
    #[must_use]
    pub fn news(&mut self, events: Vec<Notice>) -> Vec<Notice> {
        let warnings: Vec<Notice> = events.iter().filter(|event| event.is_warning).cloned().collect();
        let before = std::mem::replace(&mut self.warned, warnings);
        events.into_iter().filter(|event| !event.is_warning || !before.contains(event)).collect()
    }

    /// Drops what no window reaches any more.
    pub fn forget(&mut self, spec: &Spec<'_>, options: &Options, now: Timestamp) {
        let since = |longest: SignedDuration| now.checked_sub(longest).unwrap_or(now);
        let (recommended, changed) = (since(spec.longest_window(options)), since(spec.longest_period()));
        self.recommended.retain(|(at, _)| *at >= recommended);
        self.changed.retain(|(at, _)| *at >= changed);
        self.changed_before = self.changed_before.filter(|at| *at >= changed);
    }

    /// Returns the recommendations that are younger than the window.
    pub(crate) fn recommended_within(&self, window: SignedDuration, now: Timestamp) -> impl Iterator<Item = i32> {
        within(&self.recommended, window, now)
    }

    /// Returns the replicas added less those removed within the period.
    pub(crate) fn changed_within(&self, period: SignedDuration, now: Timestamp) -> i64 {
        within(&self.changed, period, now).map(i64::from).sum()
    }

    /// True if an earlier process changed the replicas within the period, and nobody knows by how many.
    pub(crate) fn is_changed_before(&self, period: SignedDuration, now: Timestamp) -> bool {
        let since = now.checked_sub(period).unwrap_or(now);
        self.changed_before.is_some_and(|at| at > since)
    }

    /// Returns the recommendations, for people.
    #[must_use]
    pub fn recommendations(&self) -> &[(Timestamp, i32)] {
        &self.recommended
    }
}

fn within(list: &[(Timestamp, i32)], window: SignedDuration, now: Timestamp) -> impl Iterator<Item = i32> {
    let since = now.checked_sub(window).unwrap_or(now);
    list.iter().filter(move |(at, _)| *at > since).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::testkit::at;

    #[test]
    fn the_last_change_survives_a_restart() {
        let status = |from: i32, to: i32| HorizontalPodAutoscalerStatus {
            current_replicas: Some(from),
            desired_replicas: to,
            last_scale_time: Some(Time(at(90))),
            ..HorizontalPodAutoscalerStatus::default()
        };
        for (name, current, status, want, unknown) in [
            ("it is in the status", 8, Some(status(5, 8)), 3, false),
            ("somebody else changed the size since", 9, Some(status(5, 8)), 0, false),
            ("a later round changed nothing: only its time is known", 8, Some(status(8, 8)), 0, true),
            ("there is no status", 8, None, 0, false),
        ] {
            let history = History::begin(current, status.as_ref(), at(100));
            let period = SignedDuration::from_secs;
            assert_eq!(history.is_changed_before(period(60), at(100)), unknown, "{name}");
            assert!(!history.is_changed_before(period(10), at(100)), "{name}: it was before the period");
            assert_eq!(history.changed_within(SignedDuration::from_secs(60), at(100)), want, "{name}");
            assert_eq!(
                history.recommended_within(SignedDuration::from_secs(60), at(100)).max(),
                Some(current),
                "{name}"
            );
        }
    }

    #[test]
    fn warnings_are_told_when_they_change() {
        let warning = |message: &str| Notice::warning("FailedGetResourceMetric", message);
        let rescaled = Notice { is_warning: false, reason: "SuccessfulRescale", message: "New size: 2".into() };
        let mut history = History::default();
        for (name, events, want) in [
            ("the first time", vec![warning("a")], vec![warning("a")]),
            ("the same", vec![warning("a")], vec![]),
            ("another one", vec![warning("a"), warning("b")], vec![warning("b")]),
            ("none", vec![], vec![]),
            ("again, after it had ended", vec![warning("a"), rescaled.clone()], vec![warning("a"), rescaled.clone()]),
            ("changes are always reported", vec![warning("a"), rescaled.clone()], vec![rescaled.clone()]),
        ] {
            assert_eq!(history.news(events), want, "{name}");
        }
    }

    #[test]
    fn rounds_that_are_repeated_leave_one_recommendation() {
        let mut history = History::begin(5, None, at(100));
        history.recommend(7, at(100));
        history.recommend(7, at(100));
        history.recommend(6, at(101));
        assert_eq!(
            history.recommendations(),
            [(at(100), 5), (at(100), 7), (at(101), 6)],
            "the size at the start stays"
        );
    }
}
