//! Rules of the cluster status controller: when to collect what a member serves.

use std::time::Duration;

use ironclad_api::{cluster::Cluster, conditions};

/// Time after which the APIs of a ready member are read again.
pub const COLLECT_EVERY: Duration = Duration::from_secs(60);

/// Time after a change of its definitions at which the APIs of a member are read once more: a server lists a new kind
/// only some time after its definition is established.
pub const DISCOVERY_LAG: Duration = Duration::from_secs(1);

/// Returns true if the APIs of a member have to be read: they never were, that is a while ago, or the member is not
/// ready. `since` is the time since they were last read.
#[must_use]
pub fn collection_is_due(since: Option<Duration>, cluster: &Cluster) -> bool {
    since.is_none_or(|since| since >= COLLECT_EVERY) || cluster.ready() != Some(conditions::TRUE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn apis_are_read_every_minute_and_at_every_check_of_a_member_that_is_not_ready() {
        let cluster = |ready: &str| -> Cluster {
            serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
                "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap()
        };
        let almost = COLLECT_EVERY - Duration::from_millis(1);
        for (name, since, ready, want) in [
            ("never read", None, "True", true),
            ("the APIs were just read", Some(Duration::ZERO), "True", false),
            ("just before the minute", Some(almost), "True", false),
            ("after a minute", Some(COLLECT_EVERY), "True", true),
            ("not ready", Some(Duration::ZERO), "False", true),
            ("unknown", Some(Duration::ZERO), "Unknown", true),
        ] {
            assert_eq!(collection_is_due(since, &cluster(ready)), want, "{name}");
        }
    }
}
