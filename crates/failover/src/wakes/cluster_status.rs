//! Rules of the cluster status controller: when to collect what a member serves.

use std::time::Duration;

use ironclad_api::{cluster::Cluster, conditions};

/// Time after which the APIs of a ready member are read again.
pub const COLLECT_EVERY: Duration = Duration::from_secs(60);

/// Time after a change of its definitions at which the APIs of a member are read once more: a server lists a new kind
/// only some time after its definition is established.
pub const DISCOVERY_LAG: Duration = Duration::from_secs(1);

/// Decides when to read what a member serves. Times are those since one moment.
#[derive(Debug, Default, Clone, Copy)]
pub struct Collection {
    /// Time of the last complete read, unless the definitions of the member changed since.
    read_at: Option<Duration>,
    /// Time of the second read after a change of definitions.
    again_at: Option<Duration>,
}

impl Collection {
    /// Takes in that definitions of the member changed.
    pub fn kinds_changed(&mut self, now: Duration) {
        *self = Self { read_at: None, again_at: Some(now.saturating_add(DISCOVERY_LAG)) };
    }

    /// Returns true if the APIs have to be read: they never were, that is a while ago, definitions changed, or the
    /// member is not ready.
    #[must_use]
    pub fn is_due(&self, now: Duration, cluster: &Cluster) -> bool {
        self.read_at.is_none_or(|at| now.saturating_sub(at) >= COLLECT_EVERY)
            || self.again_at.is_some_and(|at| at <= now)
            || cluster.ready() != Some(conditions::TRUE)
    }

    /// Takes in a read. One that is not complete is repeated at the next check.
    pub fn read(&mut self, now: Duration, is_complete: bool) {
        self.read_at = is_complete.then_some(now);
        self.again_at = self.again_at.filter(|at| *at > now);
    }

    /// Returns the wait until the next check of a member that is checked in this interval.
    #[must_use]
    pub fn next_check(&self, now: Duration, interval: Duration) -> Duration {
        // A second read that is overdue, for the member did not answer, waits for the interval.
        self.again_at.filter(|at| *at > now).map_or(interval, |at| interval.min(at - now))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(ready: &str) -> Cluster {
        serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        .unwrap()
    }

    const READ_AT: Duration = Duration::from_secs(100);
    const MOMENT: Duration = Duration::from_millis(1);

    fn read(is_complete: bool) -> Collection {
        let mut collection = Collection::default();
        collection.read(READ_AT, is_complete);
        collection
    }

    #[test]
    fn apis_are_read_every_minute_and_at_every_check_of_a_member_that_is_not_ready() {
        for (name, collection, now, ready, want) in [
            ("never read", Collection::default(), READ_AT, "True", true),
            ("the APIs were just read", read(true), READ_AT, "True", false),
            ("not all APIs were read", read(false), READ_AT, "True", true),
            ("just before the minute", read(true), READ_AT + COLLECT_EVERY - MOMENT, "True", false),
            ("after a minute", read(true), READ_AT + COLLECT_EVERY, "True", true),
            ("not ready", read(true), READ_AT, "False", true),
            ("unknown", read(true), READ_AT, "Unknown", true),
        ] {
            assert_eq!(collection.is_due(now, &cluster(ready)), want, "{name}");
        }
    }

    #[test]
    fn apis_are_read_at_once_and_once_more_after_definitions_changed() {
        let (ready, interval) = (cluster("True"), Duration::from_secs(10));
        let (changed, again) = (READ_AT + MOMENT, READ_AT + MOMENT + DISCOVERY_LAG);
        let mut collection = read(true);
        assert_eq!(collection.next_check(changed, interval), interval);
        collection.kinds_changed(changed);
        assert!(collection.is_due(changed, &ready), "at once");
        collection.read(changed, true);
        assert_eq!(collection.next_check(changed, interval), DISCOVERY_LAG);
        assert!(!collection.is_due(again - MOMENT, &ready));
        assert!(collection.is_due(again, &ready), "a new kind may be listed only now");
        assert_eq!(
            collection.next_check(again, interval),
            interval,
            "a member that does not answer is not asked faster"
        );
        collection.read(again, true);
        assert!(!collection.is_due(again, &ready));
        assert_eq!(collection.next_check(again, interval), interval);
    }
}
