//! Reasons of the decisions on evictions by taints: who is affected, when, how fast, and why not
//! (specification/failover.md 3, 6).

use std::fmt;

use serde::Serialize;

use super::schedule::Refusal;
use crate::{ClusterName, count::count};

/// Decision on a binding on a faulty cluster, or on the whole queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// No taint of the cluster evicts anything.
    NotTainted,
    /// Every NoExecute taint is tolerated without end, and PreferNoExecute was not opted in to.
    Tolerated,
    /// Only PreferNoExecute taints, and the binding has no `failover.cluster`.
    NotOptedIn,
    /// Only NoExecute taints, and `--enable-no-execute-taint-eviction=false`.
    NoExecuteOff,
    /// The binding leaves the cluster when its time has come.
    Affected {
        /// The taints that evict it, as messages print them.
        taints: Vec<String>,
        /// Due time, as RFC 3339.
        due: String,
    },
    /// The placement that was applied last can't be read, so its tolerations are unknown.
    PlacementUnreadable {
        /// Reason.
        error: String,
    },
    /// The eviction is written.
    Evict {
        /// The cluster that is left.
        from: ClusterName,
        /// The taints that evict it.
        taints: Vec<String>,
    },
    /// The eviction would be written, but for `--failover-mode=observe`.
    WouldEvict {
        /// The cluster that would be left.
        from: ClusterName,
    },
    /// The cluster has no evicting taint any more.
    Recovered,
    /// The binding is deleted, being deleted, recreated, or not on the cluster any more.
    Obsolete,
    /// The cluster was deleted or recreated under the same name.
    ClusterGone,
    /// No cluster would take the workload.
    NoTarget(NoTarget),
    /// The cluster is ready again and its taints only wait to be removed.
    SourceRecovering { cluster: ClusterName },
    /// An earlier eviction of the same binding is under way, and the scheduler has not seen it yet.
    WaitsForScheduler,
    /// The state to preserve from the old copy can't be read.
    StateUnreadable {
        /// Reason.
        error: String,
    },
    WriteFailed {
        /// The server's answer.
        error: String,
    },
    /// `--max-evictions-per-episode` is reached: a person has to decide.
    EpisodeLimit {
        /// The limit.
        max: u32,
    },
}

/// Reason why the pre-scheduling check finds no target (6.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "noTarget", rename_all_fields = "camelCase")]
pub enum NoTarget {
    /// No other cluster that the affinity chooses can take it.
    NoCandidate,
    /// Groups of workloads bar every other cluster that could take it (specification/scheduling.md 5.8).
    BarredByGroups {
        /// The first such cluster.
        cluster: ClusterName,
        /// Reason, which names the other workload.
        refusal: Refusal,
    },
    /// No scheduler would place it anew.
    NotScheduled {
        /// Reason.
        why: String,
    },
    /// No Work would be written for a new copy.
    NotDispatched,
    /// A duplicated workload without spread constraints is not moved.
    NoSpreadConstraint,
    /// A constraint wants more groups than are left.
    TooFewGroups {
        /// Field that the constraint groups by.
        by: String,
        /// Required number.
        wanted: i64,
        /// Remaining number.
        found: usize,
    },
    /// Every other cluster that could take it runs it already.
    AllInUse {
        /// Number of them.
        candidates: usize,
    },
    /// The candidates lack the capacity (`--eviction-capacity-check`, specification/failover.md 14.2).
    InsufficientCapacity {
        /// Replicas that have to go somewhere.
        wanted: i64,
        /// Replicas that fit.
        found: i64,
    },
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotTainted => "NotTainted",
            Self::Tolerated => "Tolerated",
            Self::NotOptedIn => "NotOptedIn",
            Self::NoExecuteOff => "NoExecuteOff",
            Self::Affected { .. } => "Affected",
            Self::PlacementUnreadable { .. } => "PlacementUnreadable",
            Self::Evict { .. } => "Evict",
            Self::WouldEvict { .. } => "WouldEvict",
            Self::Recovered => "Recovered",
            Self::Obsolete => "Obsolete",
            Self::ClusterGone => "ClusterGone",
            Self::NoTarget(_) => "NoTarget",
            Self::SourceRecovering { .. } => "SourceRecovering",
            Self::WaitsForScheduler => "WaitsForScheduler",
            Self::StateUnreadable { .. } => "StateUnreadable",
            Self::WriteFailed { .. } => "WriteFailed",
            Self::EpisodeLimit { .. } => "EpisodeLimit",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTainted => f.write_str("no taint of the cluster evicts anything"),
            Self::Tolerated => f.write_str("every NoExecute taint of the cluster is tolerated without end"),
            Self::NotOptedIn => {
                f.write_str("the cluster has only PreferNoExecute taints and the binding has no failover.cluster")
            }
            Self::NoExecuteOff => {
                f.write_str("NoExecute taints evict nothing: --enable-no-execute-taint-eviction=false")
            }
            Self::Affected { taints, due } => write!(f, "to be evicted at {due} because of {}", taints.join(", ")),
            Self::PlacementUnreadable { error } => write!(f, "the applied placement can't be read: {error}"),
            Self::Evict { from, taints } => write!(f, "evicted from cluster {from} because of {}", taints.join(", ")),
            Self::WouldEvict { from } => {
                write!(f, "would be evicted from cluster {from}, but --failover-mode=observe writes nothing")
            }
            Self::Recovered => f.write_str("the cluster has no evicting taint any more"),
            Self::Obsolete => f.write_str("the binding is not on the cluster any more"),
            Self::ClusterGone => f.write_str("the cluster was deleted"),
            Self::NoTarget(why) => write!(f, "no available target cluster: {why}"),
            Self::SourceRecovering { cluster } => {
                write!(f, "cluster {cluster} is ready again and its taints wait only to be removed")
            }
            Self::WaitsForScheduler => f.write_str("an earlier eviction of the binding has no replacement yet"),
            Self::StateUnreadable { error } => write!(f, "the state to preserve can't be read: {error}"),
            Self::WriteFailed { error } => write!(f, "the eviction could not be written: {error}"),
            Self::EpisodeLimit { max } => {
                let evicted = count(max, "binding");
                write!(f, "evicted {evicted} in this episode, as many as --max-evictions-per-episode allows")
            }
        }
    }
}

impl fmt::Display for NoTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCandidate => f.write_str("no other cluster that the affinity chooses can take it"),
            Self::BarredByGroups { cluster, refusal } => {
                write!(f, "its groups of workloads bar every other cluster: {cluster} {refusal}")
            }
            Self::NotScheduled { why } => write!(f, "it would not be scheduled anew: {why}"),
            Self::NotDispatched => f.write_str("its dispatching is suspended (spec.suspension.dispatching)"),
            Self::NoSpreadConstraint => f.write_str("it is duplicated and has no spread constraint"),
            Self::TooFewGroups { by, wanted, found } => {
                let wanted = count(wanted, "group");
                write!(f, "its spread constraint wants {wanted} by {by}, left: {found}")
            }
            Self::InsufficientCapacity { wanted, found } => {
                let wanted = count(wanted, "replica");
                write!(f, "insufficient_capacity: {wanted} to move, and only {found} would fit elsewhere")
            }
            Self::AllInUse { candidates: 1 } => f.write_str("the one other cluster that could take it runs it already"),
            Self::AllInUse { candidates } => {
                write!(f, "all {candidates} other clusters that could take it run it already")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::wrong_plural;

    #[test]
    fn reasons_about_one_thing_are_singular() {
        for reason in [
            Reason::EpisodeLimit { max: 1 },
            Reason::NoTarget(NoTarget::TooFewGroups { by: "region".into(), wanted: 1, found: 0 }),
            Reason::NoTarget(NoTarget::InsufficientCapacity { wanted: 1, found: 0 }),
            Reason::NoTarget(NoTarget::AllInUse { candidates: 1 }),
        ] {
            assert_eq!(wrong_plural(&reason.to_string()), None, "{reason}");
        }
    }
}
