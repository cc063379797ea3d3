//! The leader's report on its queue, for other processes: the rate in force and why, sums, and the
//! head of the queue.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Evictions, rows::Row};
use crate::{
    Now,
    flags::eviction::{Check, Mode},
    taint_manager::queue::Place,
};

/// The ConfigMap of namespace `karmada-system` by which people pause evictions: `paused: "true"`.
pub const PAUSE_CONFIG_MAP: &str = "ironclad-failover";
/// The ConfigMap of namespace `karmada-system` in which the leader reports.
pub const REPORT_CONFIG_MAP: &str = "ironclad-failover-status";
/// Maximum number of elements that are listed.
pub const ROWS_MAX: usize = 200;
/// The key of the report in the ConfigMap's data.
const KEY: &str = "report.json";

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Time of the report.
    pub at: Timestamp,
    /// Evictions per second in force.
    pub rate: f64,
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
    /// Ready elements.
    pub ready: usize,
    /// Elements that wait for their time or another try.
    pub delayed: usize,
    /// Elements without a target.
    pub parked: usize,
    /// Time at which the queue will be empty at the rate in force; `None`: not at this rate.
    pub drained_at: Option<Timestamp>,
    /// The faulty clusters.
    pub episodes: Vec<EpisodeReport>,
    /// The head of the queue, in order.
    pub rows: Vec<Row>,
}

/// One faulty cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpisodeReport {
    /// Names the episode.
    pub id: String,
    /// The cluster.
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
}

impl Report {
    /// True if there is no faulty cluster and nothing is queued.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.episodes.is_empty() && self.rows.is_empty()
    }

    /// True if another report is equal except for its time. A fleet without a faulty cluster reports only that, or
    /// every cluster that joins would be news.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let settled = self.is_quiet() && other.is_quiet() && self.state == other.state && self.rate == other.rate;
        settled || *self == Self { at: self.at, drained_at: self.drained_at, ..other.clone() }
    }

    /// As the data of a ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        // Plain data always serialises.
        let text = serde_json::to_string(self).unwrap_or_default();
        BTreeMap::from([(KEY.to_owned(), text)])
    }

    /// From the data of a ConfigMap; `None` if it can't be read.
    #[must_use]
    pub fn parse(data: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(data.get(KEY)?).ok()
    }
}

impl Evictions {
    /// Events and conditions that are due now.
    #[must_use]
    pub fn report(&self, now: Now) -> Report {
        let allowed = self.allowed(now);
        let count = |wanted: fn(Place) -> bool| self.queue.iter().filter(|(_, _, e)| wanted(e.place)).count();
        let mut rows = self.rows(now);
        rows.truncate(ROWS_MAX);
        let whole = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        let reported = |(name, episode): (&ironclad_fleet::ClusterName, &super::Episode)| EpisodeReport {
            id: episode.id.to_string(),
            cluster: name.to_string(),
            since: whole(now.wall_at(episode.began)),
            taints: episode.taints_text(),
            evicted: episode.evicted,
            pending: self.queue.of_cluster(name).count(),
            recovering: episode.recovering,
        };
        Report {
            at: whole(now.wall),
            rate: allowed.rate,
            state: allowed.state.as_str().to_owned(),
            because: allowed.why.to_string(),
            clusters: allowed.counts.total,
            unhealthy: allowed.counts.unhealthy,
            check: self.flags.eviction.pre_scheduling_check,
            mode: self.flags.eviction.failover_mode,
            ready: self.queue.tally().ready(),
            delayed: count(|place| matches!(place, Place::Delayed | Place::Backoff)),
            parked: count(|place| place == Place::Parked),
            drained_at: self.drains_in(now).map(|wait| whole(now.wall_at(now.mono.saturating_add(wait)))),
            episodes: self.episodes.iter().map(reported).collect(),
            rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        Evictions::new(crate::Flags::default(), now).report(now)
    }

    #[test]
    fn report_round_trips() {
        let report = report();
        assert_eq!(Report::parse(&report.data()), Some(report.clone()));
        assert_eq!(Report::parse(&BTreeMap::new()), None);
        let later = Report { at: Timestamp::MAX, ..report.clone() };
        assert!(report.says_the_same(&later) && report.is_quiet());
        let resumed = Report { state: "normal".into(), ..report.clone() };
        assert!(!report.says_the_same(&resumed), "a changed state is written");
        let joined = Report { clusters: 3, ..report.clone() };
        assert!(
            report.says_the_same(&joined),
            "the number of clusters alone is not written while no cluster is unhealthy"
        );
    }
}
