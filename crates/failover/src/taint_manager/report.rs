//! The leader's report on its queue: the rate in force and why, sums, and the faulty clusters.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Evictions, reported_flags::ReportedFlags};
use crate::{
    Now,
    flags::eviction::{Check, Mode},
    taint_manager::queue::Place,
};

/// The ConfigMap of namespace `karmada-system` by which people pause evictions: `paused: "true"`.
pub const PAUSE_CONFIG_MAP: &str = "ironclad-failover";
/// The ConfigMap of namespace `karmada-system` in which leaders of older versions reported.
pub const OLD_REPORT_CONFIG_MAP: &str = "ironclad-failover-status";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Time of the report.
    pub at: Timestamp,
    /// Evictions per second in force.
    pub rate: f64,
    /// Evictions per second over the last half minute, if they are fewer than the rate in force allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
    /// normal, secondary, halted or held.
    pub state: String,
    /// Reason of the state.
    pub because: String,
    /// Clusters that count.
    pub clusters: usize,
    /// Those of them that are unhealthy.
    pub unhealthy: usize,
    /// `--pre-scheduling-check`.
    pub check: Check,
    /// `--failover-mode`.
    pub mode: Mode,
    /// The other flags, for verbs of the former version; others read them in its configuration.
    #[serde(default)]
    pub flags: ReportedFlags,
    /// Ready elements.
    pub ready: usize,
    /// Those of them that are held.
    #[serde(default)]
    pub held: usize,
    /// Since when the oldest one that is not held waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
    /// Elements that wait for their time or another try.
    pub delayed: usize,
    /// Elements without a target.
    pub parked: usize,
    /// Time at which the queue will be empty at the rate in force; `None`: not at this rate.
    pub drained_at: Option<Timestamp>,
    /// The faulty clusters.
    pub episodes: Vec<EpisodeReport>,
}

/// One faulty cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpisodeReport {
    /// Names the episode.
    pub id: String,
    pub cluster: String,
    /// Time at which this leader first saw it.
    pub since: Timestamp,
    /// Its evicting taints.
    pub taints: String,
    /// Evicted in this episode.
    pub evicted: u32,
    /// Waiting.
    pub pending: usize,
    /// True if it is ready again and its taints are about to be removed: its elements are held.
    pub recovering: bool,
    /// Reason why its elements are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

impl Evictions {
    /// The rate in force and why, sums, and the faulty clusters.
    #[must_use]
    pub fn report(&self, now: Now) -> Report {
        let allowed = self.allowed(now);
        let count = |wanted: fn(Place) -> bool| self.queue.iter().filter(|(_, _, e)| wanted(e.place)).count();
        let queued =
            self.queue.iter().filter(|(cluster, _, e)| e.place == Place::Ready && !self.queue.is_paused(cluster));
        let oldest = queued.filter_map(|(_, _, element)| element.enqueued_at).min();
        let whole = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        let reported = |(name, episode): (&ironclad_fleet::ClusterName, &super::Episode)| EpisodeReport {
            id: episode.id.to_string(),
            cluster: name.to_string(),
            since: whole(now.wall_at(episode.began)),
            taints: episode.taints_text(),
            evicted: episode.evicted,
            pending: self.queue.of_cluster(name).count(),
            recovering: episode.recovering,
            held: self.held_because(name),
        };
        Report {
            at: whole(now.wall),
            rate: allowed.rate,
            reached: self.reached.less_than_allowed(now.mono),
            state: allowed.state.as_str().to_owned(),
            because: allowed.why.to_string(),
            clusters: allowed.counts.total,
            unhealthy: allowed.counts.unhealthy,
            check: self.flags.eviction.pre_scheduling_check,
            mode: self.flags.eviction.failover_mode,
            flags: ReportedFlags::from(&self.flags),
            ready: self.queue.tally().ready(),
            held: self.queue.tally().ready().saturating_sub(self.queue.lined_up()),
            oldest: oldest.map(|at| whole(now.wall_at(at))),
            delayed: count(|place| matches!(place, Place::Delayed | Place::Backoff)),
            parked: count(|place| place == Place::Parked),
            drained_at: self.drains_in(now).map(|wait| whole(now.wall_at(now.mono.saturating_add(wait)))),
            episodes: self.episodes.iter().map(reported).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Reports of leaders of the former version are read, and their verbs find all that they need in ours.
    #[test]
    fn the_former_version_is_understood() {
        let former = json!({
            "at": "1970-01-01T00:00:09Z", "rate": 0.5, "state": "normal", "because": "x", "clusters": 3, "unhealthy": 1,
            "check": "strict", "mode": "enforce", "flags": {}, "ready": 2, "held": 0, "delayed": 1, "parked": 0,
            "drainedAt": null, "kind": "EvictionRate", "later": 1,
            "episodes": [{"id": "m1-1", "cluster": "m1", "since": "1970-01-01T00:00:00Z", "taints": "k:NoExecute",
                "evicted": 1, "pending": 3, "recovering": false}],
        });
        let read: Report = serde_json::from_value(former.clone()).unwrap();
        assert_eq!((read.rate, read.oldest, read.episodes.len()), (0.5, None, 1));
        let ours: Value = json!(read);
        for key in former.as_object().unwrap().keys().filter(|key| !["kind", "later"].contains(&key.as_str())) {
            assert!(ours.get(key).is_some(), "{key}");
        }
    }
}
