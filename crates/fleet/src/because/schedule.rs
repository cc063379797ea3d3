//! Reasons of the scheduling decisions: why a pass ran, and for every cluster why it was or wasn't chosen.
//!
//! The texts of [`Refusal`] are those of specification/scheduling.md 5, byte for byte: a fit error counts them.

use std::fmt;

use serde::Serialize;

use crate::ClusterName;

/// Why a binding runs where it runs, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The binding has no placement, so it is not the scheduler's.
    NoPlacement,
    /// Another scheduler is named.
    NotResponsible {
        /// Which one.
        scheduler: String,
    },
    /// No policy and no controller owns the binding.
    Unmanaged,
    /// Scheduling is suspended.
    Suspended,
    /// The binding is being deleted.
    BeingDeleted,
    /// A pass runs: the placement is not the one of the present result.
    PlacementChanged,
    /// A pass runs: the result does not add up to what is wanted.
    ReplicasChanged,
    /// A pass runs: somebody asked for a fresh one.
    RescheduleRequested,
    /// A pass runs: this kind of binding follows every change of the fleet.
    FollowsFleet,
    /// A pass runs: a target is being removed from the fleet, or is gone.
    TargetLeaving {
        /// Which one.
        cluster: ClusterName,
    },
    /// A pass runs: the affinity does not choose a target any more.
    TargetDrifted {
        /// Which one.
        cluster: ClusterName,
    },
    /// A pass runs: the last one failed and left nothing.
    LastAttemptFailed,
    /// No pass: what stands is what is wanted.
    ResultStands,
    /// The cluster did not pass the filters.
    Refused {
        /// Which one.
        cluster: ClusterName,
        /// The first filter that it failed.
        because: Refusal,
    },
    /// The cluster passed the filters; the figures are those that selection and division look at.
    Fits {
        /// Which one.
        cluster: ClusterName,
        /// The tier of the affinity group that opens it: 0 is the group itself.
        tier: u32,
        /// The sum of the scores.
        score: i64,
        /// Further replicas that it holds by the estimators; nothing if none has an opinion.
        room: Option<i64>,
    },
    /// The cluster is being removed from the fleet.
    ClusterLeaving {
        /// Which one.
        cluster: ClusterName,
    },
    /// The placement names a cluster that does not exist.
    Missing {
        /// Which one.
        cluster: ClusterName,
    },
    /// The cluster would do, but the spread constraints are satisfied by others.
    NotSelected {
        /// Which one.
        cluster: ClusterName,
    },
    /// The cluster is selected, but no replica falls to it.
    NoShare {
        /// Which one.
        cluster: ClusterName,
    },
    /// The cluster is a target.
    Target {
        /// Which one.
        cluster: ClusterName,
        /// Its replicas.
        replicas: i32,
        /// How many it had; nothing if it was no target.
        before: Option<i32>,
    },
    /// A group of the ordered affinity groups did not do; the next one is tried.
    GroupFailed {
        /// Which one.
        group: String,
        /// Its place in the list.
        index: usize,
        /// Why.
        error: String,
    },
    /// The binding is scheduled.
    Scheduled,
    /// No cluster passes the filters, or too few for the spread constraints.
    NoClusterFit {
        /// The whole text.
        error: String,
    },
    /// Clusters fit, but they have no room.
    Unschedulable {
        /// The whole text.
        error: String,
    },
    /// The placement cannot be carried out.
    SchedulerError {
        /// The whole text.
        error: String,
    },
    /// Nothing fits, and the result stays as it is for the time being.
    ResultKept {
        /// Why it stays.
        because: Keeping,
    },
    /// Nothing fits, and the result is withdrawn.
    ResultWithdrawn,
}

/// Why a cluster did not pass the filters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "filter", rename_all_fields = "camelCase")]
pub enum Refusal {
    /// It was left for a reason that would send the binding straight back.
    BeingEvicted,
    /// The affinity does not choose it.
    Affinity,
    /// It has a taint that is not tolerated, as `key=value:effect`.
    Taint {
        /// The first such taint.
        taint: String,
    },
    /// It is not known to serve the kind.
    ApiNotEnabled,
    /// A spread constraint needs a provider, and it names none.
    NoProvider,
    /// A spread constraint needs a region, and it names none.
    NoRegion,
    /// A spread constraint needs zones, and it names none.
    NoZones,
}

/// Why a result that nothing fits any more is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Keeping {
    /// Evictions are under way: the survivors may be the only ones.
    EvictionsUnderWay,
    /// The fleet may come back to its senses; the wait is not over.
    Waiting,
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPlacement => "NoPlacement",
            Self::NotResponsible { .. } => "NotResponsible",
            Self::Unmanaged => "Unmanaged",
            Self::Suspended => "Suspended",
            Self::BeingDeleted => "BeingDeleted",
            Self::PlacementChanged => "PlacementChanged",
            Self::ReplicasChanged => "ReplicasChanged",
            Self::RescheduleRequested => "RescheduleRequested",
            Self::FollowsFleet => "FollowsFleet",
            Self::TargetLeaving { .. } => "TargetLeaving",
            Self::TargetDrifted { .. } => "TargetDrifted",
            Self::LastAttemptFailed => "LastAttemptFailed",
            Self::ResultStands => "ResultStands",
            Self::Refused { .. } => "Refused",
            Self::Fits { .. } => "Fits",
            Self::ClusterLeaving { .. } => "ClusterLeaving",
            Self::Missing { .. } => "Missing",
            Self::NotSelected { .. } => "NotSelected",
            Self::NoShare { .. } => "NoShare",
            Self::Target { .. } => "Target",
            Self::GroupFailed { .. } => "GroupFailed",
            Self::Scheduled => "Success",
            Self::NoClusterFit { .. } => "NoClusterFit",
            Self::Unschedulable { .. } => "Unschedulable",
            Self::SchedulerError { .. } => "SchedulerError",
            Self::ResultKept { .. } => "ResultKept",
            Self::ResultWithdrawn => "ResultWithdrawn",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlacement => f.write_str("the binding has no placement"),
            Self::NotResponsible { scheduler } => write!(f, "the binding is scheduled by {scheduler}"),
            Self::Unmanaged => f.write_str("neither a policy nor a controller owns the binding"),
            Self::Suspended => f.write_str("scheduling is suspended"),
            Self::BeingDeleted => f.write_str("the binding is being deleted"),
            Self::PlacementChanged => f.write_str("the placement changed"),
            Self::ReplicasChanged => f.write_str("the replicas changed"),
            Self::RescheduleRequested => f.write_str("a fresh scheduling was asked for"),
            Self::FollowsFleet => f.write_str("every change of the fleet is followed"),
            Self::TargetLeaving { cluster } => write!(f, "target {cluster} leaves the fleet or is gone"),
            Self::TargetDrifted { cluster } => write!(f, "the affinity does not choose target {cluster} any more"),
            Self::LastAttemptFailed => f.write_str("the last attempt failed and left no result"),
            Self::ResultStands => f.write_str("the result stands"),
            Self::Refused { cluster, because } => write!(f, "{cluster}: {because}"),
            Self::Fits { cluster, tier, score, room } => {
                write!(f, "{cluster}: passes the filters, score {score}")?;
                if *tier > 0 {
                    write!(f, ", tier {tier}")?;
                }
                room.map_or(Ok(()), |room| write!(f, ", room for {room}"))
            }
            Self::ClusterLeaving { cluster } => write!(f, "{cluster}: it is being removed from the fleet"),
            Self::Missing { cluster } => write!(f, "{cluster}: named by the placement, but it does not exist"),
            Self::NotSelected { cluster } => write!(f, "{cluster}: the spread constraints are satisfied by others"),
            Self::NoShare { cluster } => write!(f, "{cluster}: no replica falls to it"),
            Self::Target { cluster, replicas, before: None } => write!(f, "{cluster}: chosen, replicas {replicas}"),
            Self::Target { cluster, replicas, before: Some(before) } if before == replicas => {
                write!(f, "{cluster}: kept, replicas {replicas}")
            }
            Self::Target { cluster, replicas, before: Some(before) } => {
                write!(f, "{cluster}: kept, replicas {before} to {replicas}")
            }
            Self::GroupFailed { group, index, error } => write!(f, "affinity group {group} (index {index}): {error}"),
            Self::Scheduled => f.write_str("Binding has been scheduled successfully."),
            Self::NoClusterFit { error } | Self::Unschedulable { error } | Self::SchedulerError { error } => {
                f.write_str(error)
            }
            Self::ResultKept { because: Keeping::EvictionsUnderWay } => {
                f.write_str("the result is kept: evictions are under way")
            }
            Self::ResultKept { because: Keeping::Waiting } => f.write_str("the result is kept for the time being"),
            Self::ResultWithdrawn => f.write_str("the result is withdrawn"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeingEvicted => f.write_str("cluster(s) is in the process of eviction"),
            Self::Affinity => f.write_str("cluster(s) did not match the placement cluster affinity constraint"),
            Self::Taint { taint } => write!(f, "cluster(s) had untolerated taint {{{taint}}}"),
            Self::ApiNotEnabled => f.write_str("cluster(s) did not have the API resource"),
            Self::NoProvider => f.write_str("cluster(s) did not have provider property"),
            Self::NoRegion => f.write_str("cluster(s) did not have region property"),
            Self::NoZones => f.write_str("cluster(s) did not have zones property"),
        }
    }
}
