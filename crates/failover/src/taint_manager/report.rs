//! The leader's report on its queue, for other processes: the rate in force and why, sums, and the
//! head of the queue.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Evictions,
    reported_flags::{EvictionSettings, ReportedFlags},
    rows::Row,
};
use crate::{
    Flags, Now,
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
    /// The other flags; defaults if the leader is of a version that reports none.
    #[serde(default)]
    pub flags: ReportedFlags,
    /// Ready elements.
    pub ready: usize,
    /// Those of them that are held.
    #[serde(default)]
    pub held: usize,
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
    /// Reason why its elements are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
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

    /// Flags of the leader, as far as it reports them; the others are the defaults.
    #[must_use]
    pub fn flags(&self) -> Flags {
        EvictionSettings { check: self.check, mode: self.mode, flags: self.flags.clone() }.flags()
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
            held: self.held_because(name),
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
            flags: ReportedFlags::from(&self.flags),
            ready: self.queue.tally().ready(),
            held: self.queue.tally().ready().saturating_sub(self.queue.lined_up()),
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
    use std::time::Duration;

    use ironclad_api::policy::PurgeMode;
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        Evictions::new(crate::Flags::default(), now).report(now)
    }

    #[test]
    fn flags_of_a_leader_are_those_that_it_was_given() {
        let mut flags = Flags::default();
        flags.health.failure_threshold = Duration::from_millis(1_500);
        flags.health.status_update_frequency = Duration::from_secs(1);
        let eviction = &mut flags.eviction;
        (eviction.resource_eviction_rate, eviction.secondary_resource_eviction_rate) = (7.0, 0.25);
        (eviction.unhealthy_cluster_threshold, eviction.large_cluster_num_threshold) = (0.9, 3);
        (eviction.enable_no_execute_taint_eviction, eviction.eviction_capacity_check) = (false, true);
        eviction.no_execute_taint_eviction_purge_mode = PurgeMode::Directly;
        (eviction.pre_scheduling_check, eviction.failover_mode) = (Check::Strict, Mode::Observe);
        (eviction.halt_eviction_on_total_outage, eviction.max_evictions_per_episode) = (false, 9);
        eviction.mass_failure_hold = Duration::from_secs(5);
        let now = Now { wall: jiff::Timestamp::UNIX_EPOCH, mono: Duration::ZERO };
        let report = Evictions::new(flags.clone(), now).report(now);
        let read: Report = serde_json::from_value(json!(report)).unwrap();
        assert_eq!(read.flags(), flags);

        let mut older = json!(report);
        older.as_object_mut().unwrap().remove("flags");
        let older: Report = serde_json::from_value(older).unwrap();
        assert_eq!(older.flags().eviction.pre_scheduling_check, Check::Strict, "it has always been reported");
        assert_eq!(older.flags().health, Flags::default().health, "a leader that reports no flags");
        let mut negative = json!(report);
        negative["flags"]["massFailureHoldSeconds"] = json!(-1.0);
        let negative: Report = serde_json::from_value(negative).unwrap();
        assert_eq!(negative.flags().eviction.mass_failure_hold, Duration::ZERO);
    }

    /// The form that leaders and verbs of other versions read and write.
    #[test]
    fn flags_are_reported_under_their_names() {
        let flags = ReportedFlags::default();
        let text = r#"{"resourceEvictionRate":0.5,"secondaryResourceEvictionRate":0.1,"unhealthyClusterThreshold":0.55,"largeClusterNumThreshold":10,"enableNoExecuteTaintEviction":true,"noExecuteTaintEvictionPurgeMode":"Gracefully","evictionCapacityCheck":false,"haltEvictionOnTotalOutage":true,"massFailureHoldSeconds":60.0,"maxEvictionsPerEpisode":0,"clusterStatusUpdateFrequencySeconds":10.0,"clusterFailureThresholdSeconds":30.0,"clusterSuccessThresholdSeconds":30.0}"#;
        assert_eq!(json!(flags), serde_json::from_str::<serde_json::Value>(text).unwrap());
        let read = |text: &str| serde_json::from_str::<ReportedFlags>(text);
        assert_eq!(read(text).unwrap(), flags);
        let newer = read(r#"{"maxEvictionsPerEpisode": 9, "clusterFailureThresholdSeconds": 1, "later": {}}"#).unwrap();
        assert_eq!(
            (newer.eviction.max_evictions_per_episode, newer.health.failure_threshold),
            (9, Duration::from_secs(1))
        );
        for wrong in [r#"{"maxEvictionsPerEpisode": -1}"#, r#"{"noExecuteTaintEvictionPurgeMode": "Later"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
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
