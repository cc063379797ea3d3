//! Reasons of the decisions on copies that are left: which go when, and which workloads leave a cluster because they
//! fail there or because it is drained (specification/failover.md 5, 7, 9.4).

use std::fmt;

use ironclad_api::annotations::PROCEED_WITHOUT_CLEANUP;
use jiff::Timestamp;
use serde::Serialize;

use crate::ClusterName;

/// Decision on an evicted copy, and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The task was seen for the first time: its clock starts.
    TaskBegins {
        /// The cluster that is left.
        from: ClusterName,
    },
    /// No taint manager runs, so no eviction is pending.
    NothingPends,
    /// A person keeps the old copy.
    Suppressed {
        /// The cluster that is left.
        from: ClusterName,
    },
    /// A person lets the old copy go.
    Released {
        /// The cluster that is left.
        from: ClusterName,
    },
    /// A plugin lets the task end.
    Cleared {
        /// The cluster that is left.
        from: ClusterName,
        /// The plugin.
        by: &'static str,
    },
    /// Its own grace period is over.
    GraceEnded {
        /// The cluster that is left.
        from: ClusterName,
    },
    /// The binding that preempted this one is deleted.
    PreemptorDeleted {
        /// The cluster that was left.
        from: ClusterName,
    },
    /// The result is of an older spec than the binding's.
    SchedulerLags {
        /// The cluster that is left.
        from: ClusterName,
    },
    /// The schedule result is empty: the old copy may be the only one.
    ResultEmpty {
        /// The cluster that is left.
        from: ClusterName,
    },
    /// The new copies are not healthy yet.
    ReplacementNotReady {
        /// The cluster that is left.
        from: ClusterName,
        /// End of the task's own grace period, if it has one.
        until: Option<Timestamp>,
    },
    /// The old copy must be deleted before a new one starts, but its cluster cannot delete it.
    WaitsForSource {
        /// The cluster that is left.
        from: ClusterName,
        /// For how many minutes.
        minutes: i64,
    },
    /// The workload has no application failover, or no interpreter reports its health.
    NotWatched,
    /// The workload is unhealthy, and is tolerated for a while.
    UnhealthyTolerated {
        /// The cluster of the copy.
        cluster: ClusterName,
        /// For how many seconds it has been unhealthy.
        for_seconds: u64,
        /// Required number.
        of_seconds: u64,
    },
    /// The workload was unhealthy for too long and leaves.
    UnhealthyTooLong {
        /// The cluster of the copy.
        cluster: ClusterName,
    },
    /// The workload was unhealthy for too long, but there is nothing that would take its place.
    NoSubstitute {
        /// The cluster of the copy.
        cluster: ClusterName,
    },
    /// The workload was unhealthy for too long, but evictions are paused.
    Paused {
        /// The cluster of the copy.
        cluster: ClusterName,
    },
    /// The state that the new copy shall inherit can't be read.
    StateUnreadable {
        /// The cluster of the copy.
        cluster: ClusterName,
        /// Reason.
        error: String,
    },
    /// The drain moves the binding away.
    Drains {
        /// From where.
        cluster: ClusterName,
    },
    /// The drain leaves the binding: it follows the bindings that it belongs to.
    FollowsItsOwner,
    /// The drain leaves the binding: what it ran has ended.
    HasFinished,
    /// The drain leaves the binding: it has nowhere to go.
    NowhereToGo {
        /// Reason.
        why: String,
    },
    /// The drain leaves the binding: it was pinned.
    Pinned {
        /// By what.
        by: &'static str,
    },
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TaskBegins { .. } => "TaskBegins",
            Self::NothingPends => "NothingPends",
            Self::Suppressed { .. } => "DeletionSuppressed",
            Self::Released { .. } => "DeletionReleased",
            Self::Cleared { .. } => "TaskCleared",
            Self::GraceEnded { .. } => "GracePeriodEnded",
            Self::PreemptorDeleted { .. } => "PreemptorDeleted",
            Self::SchedulerLags { .. } => "SchedulerLags",
            Self::ResultEmpty { .. } => "ResultEmpty",
            Self::ReplacementNotReady { .. } => "ReplacementNotReady",
            Self::WaitsForSource { .. } => "WaitingForSourceCleanup",
            Self::NotWatched => "NotWatched",
            Self::UnhealthyTolerated { .. } => "UnhealthyTolerated",
            Self::UnhealthyTooLong { .. } => "UnhealthyTooLong",
            Self::NoSubstitute { .. } => "NoSubstitute",
            Self::Paused { .. } => "EvictionsPaused",
            Self::StateUnreadable { .. } => "StateUnreadable",
            Self::Drains { .. } => "Drains",
            Self::FollowsItsOwner => "FollowsItsOwner",
            Self::HasFinished => "HasFinished",
            Self::NowhereToGo { .. } => "NowhereToGo",
            Self::Pinned { .. } => "Pinned",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TaskBegins { from } => write!(f, "the eviction from {from} begins"),
            Self::NothingPends => f.write_str("no taint manager runs, so no eviction is pending"),
            Self::Suppressed { from } => write!(f, "the copy in {from} stays until suppressDeletion is set to false"),
            Self::Released { from } => write!(f, "suppressDeletion is false: the copy in {from} may go"),
            Self::Cleared { from, by } => write!(f, "the copy in {from} is not needed any more: {by}"),
            Self::GraceEnded { from } => write!(f, "the grace period of the copy in {from} is over"),
            Self::PreemptorDeleted { from } => {
                write!(f, "it may return to {from}: the binding that preempted it is deleted")
            }
            Self::SchedulerLags { from } => {
                write!(f, "the copy in {from} stays: the scheduler has not observed the changed binding")
            }
            Self::ResultEmpty { from } => {
                write!(f, "the copy in {from} stays: the schedule result is empty, and it may be the only copy")
            }
            Self::ReplacementNotReady { from, until: None } => {
                write!(f, "the copy in {from} stays until every new one is healthy")
            }
            Self::ReplacementNotReady { from, until: Some(until) } => {
                write!(f, "the copy in {from} stays until every new one is healthy, {until} at the latest")
            }
            Self::WaitsForSource { from, minutes } => write!(
                f,
                "cluster {from} is not ready, and its copy must be deleted before a new one starts; \
                 waiting for {minutes} min. Annotate the binding with {PROCEED_WITHOUT_CLEANUP}=true to go on without"
            ),
            Self::NotWatched => f.write_str("application failover is not configured, or health is unknown"),
            Self::UnhealthyTolerated { cluster, for_seconds, of_seconds } => {
                write!(f, "unhealthy in {cluster} for {for_seconds} s, tolerated for {of_seconds} s")
            }
            Self::UnhealthyTooLong { cluster } => write!(f, "unhealthy in {cluster} for longer than tolerated"),
            Self::NoSubstitute { cluster } => {
                write!(f, "unhealthy in {cluster}, but it stays: no other cluster would take its place")
            }
            Self::Paused { cluster } => {
                write!(f, "unhealthy in {cluster}, but it stays: evictions are paused (ironclad failover resume)")
            }
            Self::StateUnreadable { cluster, error } => write!(f, "it stays in {cluster}: {error}"),
            Self::Drains { cluster } => write!(f, "cluster {cluster} is drained"),
            Self::FollowsItsOwner => f.write_str("it follows the workload that refers to it"),
            Self::HasFinished => f.write_str("it has finished, and is not run again elsewhere"),
            Self::NowhereToGo { why } => write!(f, "nowhere to go: {why}"),
            Self::Pinned { by } => write!(f, "pinned by {by}"),
        }
    }
}
