//! Result of planning for changes of clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use ironclad_fleet::{BindingKey, ClusterName};
use serde::Serialize;

/// One line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// Time after the start.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// The cluster or binding that it is about.
    pub about: String,
    /// Change to the clusters.
    pub what: String,
}

/// Eviction of a binding from a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    pub binding: BindingKey,
    /// Its template, as `apps/v1/Deployment shop/web`.
    pub resource: String,
    /// The cluster that it is evicted from.
    pub from: ClusterName,
    /// The reason in its task.
    pub reason: String,
    /// Purge mode of the old copy.
    pub purge_mode: String,
    /// Time of the eviction.
    #[serde(serialize_with = "seconds")]
    pub evicted: Duration,
    /// Time of rescheduling; `None` if it is never rescheduled.
    #[serde(serialize_with = "maybe_seconds")]
    pub placed: Option<Duration>,
    /// Time when its old copy may be removed; `None` if it stays.
    #[serde(serialize_with = "maybe_seconds")]
    pub cleared: Option<Duration>,
    /// Replicas by cluster in the end.
    pub ends: BTreeMap<String, i32>,
    /// Result of the move.
    pub status: MoveStatus,
    /// Reason why the new copy does not start, if it doesn't; of a move, why it is not certain that it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Result of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum MoveStatus {
    /// It runs elsewhere, and its old copy is removed.
    Moved,
    /// It runs elsewhere; its old copy remains.
    MovedButKept,
    /// It runs in its former cluster again.
    Returned,
    /// It is placed elsewhere, and the new copy can't start there.
    NotRunning,
    /// No cluster takes it.
    Unschedulable,
}

/// Eviction that did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingEviction {
    pub binding: BindingKey,
    /// Its template.
    pub resource: String,
    /// The cluster that it would be evicted from.
    pub from: ClusterName,
    /// State in the queue: Queued, Delayed, Parked, Held …; or Abandoned.
    pub state: String,
    /// Its place in the queue.
    pub position: Option<usize>,
    /// The taints that would evict it.
    pub causes: Vec<String>,
    /// Reason that it is not evicted.
    pub because: String,
}

/// Consequences for the fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailoverPlan {
    /// Events, in order.
    pub timeline: Vec<TimelineEntry>,
    /// Every eviction, in order.
    pub moves: Vec<Move>,
    /// Evictions that did not happen: cancelled by recovery, or still waiting in the end.
    pub waits: Vec<PendingEviction>,
    /// Number of waiting evictions that recovery cancelled.
    pub abandoned: u64,
    /// The highest rate that was in force while something was evicted, per second.
    pub peak_rate: f64,
    /// The most evictions within any minute.
    pub peak_per_minute: usize,
    /// From the beginning to the last thing that happens.
    #[serde(serialize_with = "seconds")]
    pub lasts: Duration,
    /// True if the fleet was still changing at the horizon.
    pub cut_off: bool,
    /// Evictions by namespace; empty is cluster-scoped.
    pub by_namespace: BTreeMap<String, usize>,
    /// Evictions by kind.
    pub by_kind: BTreeMap<String, usize>,
    /// Reason that nothing is evicted or waits; `None` if something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_because: Option<String>,
    /// Clusters whose nodes decide on workloads, and that were not asked for them.
    #[serde(skip)]
    pub unasked: BTreeSet<ClusterName>,
    /// Clusters whose nodes could not be asked, each with the reason: what fits there is by their summaries.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes_unknown: BTreeMap<ClusterName, String>,
}

impl FailoverPlan {
    /// True if nothing is moved, now or later.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.moves.is_empty()
    }

    /// Number of evicted bindings that no cluster takes.
    #[must_use]
    pub fn unschedulable(&self) -> usize {
        self.moves.iter().filter(|one| one.status == MoveStatus::Unschedulable).count()
    }

    /// Counts and peaks, from the moves.
    pub(crate) fn sum_up(&mut self) {
        for one in &self.moves {
            *self.by_namespace.entry(one.binding.namespace.to_string()).or_default() += 1;
            let kind = one.resource.split_whitespace().next().unwrap_or_default();
            *self.by_kind.entry(kind.to_owned()).or_default() += 1;
        }
        let times: Vec<Duration> = self.moves.iter().map(|one| one.evicted).collect();
        let minute = Duration::from_secs(60);
        let within = |first: usize| times[first..].partition_point(|at| *at < times[first] + minute);
        self.peak_per_minute = (0..times.len()).map(within).max().unwrap_or_default();
        let last_move = self.moves.iter().flat_map(|one| [Some(one.evicted), one.placed, one.cleared]).flatten().max();
        let last_line = self.timeline.last().map(|line| line.at);
        self.lasts = last_move.max(last_line).unwrap_or_default();
    }
}

impl fmt::Display for MoveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Moved => "moved",
            Self::MovedButKept => "moved, the old copy stays",
            Self::Returned => "returned",
            Self::NotRunning => "placed, but does not start",
            Self::Unschedulable => "unschedulable",
        })
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_millis() as f64 / 1_000.0)
}

fn maybe_seconds<S: serde::Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}
