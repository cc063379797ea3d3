//! Reasons of scheduling decisions: why a cycle ran, and why each cluster was or was not selected.
//!
//! The texts of [`Refusal`] are those of specification/scheduling.md 5, byte for byte: a fit error counts them.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::{ClusterName, count::count};

/// Reason of a scheduling decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The binding has no placement and is not scheduled.
    NoPlacement,
    /// Another scheduler is responsible.
    NotResponsible {
        /// Its name.
        scheduler: String,
    },
    /// Neither a policy nor a controller owns the binding.
    Unmanaged,
    /// Scheduling is suspended.
    Suspended,
    /// The binding is being deleted.
    BeingDeleted,
    /// A cycle runs: the placement differs from the one of the present result.
    PlacementChanged,
    /// A cycle runs: the result does not add up to the desired replicas.
    ReplicasChanged,
    /// A cycle runs: a reschedule was requested.
    RescheduleRequested,
    /// A cluster that did not serve the kind of the template serves it now.
    ApiAppeared,
    /// A cycle runs: bindings of this kind follow every change of the fleet.
    FollowsFleet,
    /// A cycle runs: a target is being removed from the fleet, or does not exist.
    TargetLeaving { cluster: ClusterName },
    /// A cycle runs: the affinity does not select a target any more.
    TargetDrifted { cluster: ClusterName },
    /// A cycle runs: the last one failed without a result.
    LastAttemptFailed,
    /// No cycle: the result is up to date.
    ResultStands,
    /// The cluster did not pass the filters.
    Refused {
        cluster: ClusterName,
        /// First filter that rejected it.
        because: Refusal,
    },
    /// The cluster passed the filters; with the figures that selection and division use.
    Fits {
        cluster: ClusterName,
        /// Tier of the affinity group that selects it: 0 is the group itself.
        tier: u32,
        /// The sum of the scores.
        score: i64,
        /// Further replicas that fit by the estimators; `None` without an estimate.
        #[serde(rename = "room")]
        available: Option<i64>,
    },
    /// The descheduler took replicas back from the cluster: it gets no further ones until this time.
    Descheduled {
        cluster: ClusterName,
        /// The time.
        until: Timestamp,
    },
    /// The descheduler takes replicas back that the cluster found no node for.
    TakenBack {
        cluster: ClusterName,
        /// Their number.
        replicas: i32,
    },
    /// The cluster is being removed from the fleet.
    ClusterLeaving { cluster: ClusterName },
    /// The placement names a cluster that does not exist.
    Missing { cluster: ClusterName },
    /// The cluster is feasible, but the spread constraints are satisfied by others.
    NotSelected { cluster: ClusterName },
    /// The cluster is selected, but gets no replica.
    NoShare { cluster: ClusterName },
    /// The cluster is a target.
    Target {
        cluster: ClusterName,
        replicas: i32,
        /// Its replicas before; `None` if it was no target.
        before: Option<i32>,
    },
    /// An affinity group failed; the next one is tried.
    GroupFailed {
        /// Its name.
        group: String,
        /// Its index in the list.
        index: usize,
        /// Error of its scheduling cycle.
        error: String,
    },
    /// The binding is scheduled.
    Scheduled,
    /// No cluster passes the filters, or too few for the spread constraints.
    NoClusterFit {
        /// Complete error text.
        error: String,
    },
    /// Feasible clusters lack the capacity.
    Unschedulable {
        /// Complete error text.
        error: String,
    },
    /// The placement cannot be carried out.
    SchedulerError {
        /// Complete error text.
        error: String,
    },
    /// No cluster fits, and the result is kept for now.
    ResultKept {
        /// Reason.
        because: Keeping,
    },
    /// No cluster fits, and the result is withdrawn.
    ResultWithdrawn,
    /// A part of the replicas moves, and the others stay in the cluster that they are leaving.
    MovesInPart {
        /// Replicas that move.
        moves: i32,
        /// Replicas that stay.
        stays: i32,
    },
    /// Bindings of lower priority leave clusters to make room.
    Preempts {
        /// Each victim as `namespace/name@cluster`, the lowest priority first.
        victims: Vec<String>,
        /// True if flag `--preemption-mode` says to observe only.
        observed: bool,
    },
    /// Capacity is held for the binding; bindings that it preempted are leaving, or the clusters have not reported the
    /// freed capacity yet.
    Nominated { clusters: Vec<String> },
    /// Preemption does not help.
    NotPreempting {
        /// Why.
        because: Unhelpful,
    },
}

/// Reason why no binding is preempted for one that lacks capacity (specification/scheduling.md 15.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unhelpful {
    /// No binding of lower priority may leave a cluster that passes the filters.
    NoVictims,
    /// It would not fit even if all of them left.
    StillTooLittle,
    /// More would have to leave than the flags allow.
    TooMany,
    /// Bindings were preempted before, and it did not fit.
    NoProgress,
    /// Bindings of higher priority were scheduled into the capacity that was held.
    Overtaken,
    /// A quota would refuse the result.
    OverQuota,
    /// The pods of some clusters are not listed yet since the restart of the scheduler.
    Recounting,
    /// Replicas that were assigned in the clusters of the victims have no nodes yet.
    Settling,
    /// A person paused evictions.
    Paused,
}

impl fmt::Display for Unhelpful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoVictims => "no lower priority bindings",
            Self::StillTooLittle => "insufficient capacity even after preemption",
            Self::TooMany => "victim limit exceeded",
            Self::NoProgress => "preemption made no progress",
            Self::Overtaken => "bindings of higher priority took the capacity",
            Self::OverQuota => "a quota would refuse the result",
            Self::Recounting => "the pods of some clusters are not listed yet since the restart",
            Self::Settling => "replicas that were just assigned have no nodes yet",
            Self::Paused => "evictions are paused (ironclad failover resume)",
        })
    }
}

/// A cluster that only an affinity group chooses that comes before the one in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedOver {
    /// Name of the group that chooses it.
    pub group: String,
    /// Name of the group in use.
    pub in_use: String,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, in_use } = self;
        write!(f, "is chosen only by affinity group {group}, before the one in use ({in_use}): nothing goes back to ")?;
        f.write_str("earlier groups by itself")
    }
}

/// Reason why a filter rejected a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "filter", rename_all_fields = "camelCase")]
pub enum Refusal {
    /// It is being evicted; the eviction's reason would make the binding return at once.
    BeingEvicted,
    /// The affinity does not select it.
    Affinity,
    /// It has a taint that is not tolerated, as `key=value:effect`.
    Taint {
        /// The first such taint.
        taint: String,
    },
    /// It does not serve the template's API, as far as known.
    ApiNotEnabled,
    /// A spread constraint needs a provider, but it has none.
    NoProvider,
    /// A spread constraint needs a region, but it has none.
    NoRegion,
    /// A spread constraint needs zones, but it has none.
    NoZones,
    /// A spread constraint needs a label, but it has none.
    NoLabel {
        /// The label's key.
        key: String,
    },
    /// A workload of the same affinity group does not run there.
    WithoutPeer {
        /// Its binding.
        peer: String,
    },
    /// A workload of the same anti-affinity group runs there.
    BesidePeer {
        /// Its binding.
        peer: String,
    },
    /// Its capacity is held for workloads of higher priority, or promised to them.
    HeldForOthers,
}

/// Reason why a result is kept although no cluster fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Keeping {
    /// Evictions are pending: the remaining targets may be the only ones.
    EvictionsUnderWay,
    /// The waiting time is not over; the fleet may recover.
    Waiting,
}

impl Reason {
    /// CamelCase reason in conditions and events.
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
            Self::ApiAppeared => "ApiAppeared",
            Self::FollowsFleet => "FollowsFleet",
            Self::TargetLeaving { .. } => "TargetLeaving",
            Self::TargetDrifted { .. } => "TargetDrifted",
            Self::LastAttemptFailed => "LastAttemptFailed",
            Self::ResultStands => "ResultStands",
            Self::Refused { .. } => "Refused",
            Self::Fits { .. } => "Fits",
            Self::Descheduled { .. } => "Descheduled",
            Self::TakenBack { .. } => "TakenBack",
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
            Self::MovesInPart { .. } => "MovesInPart",
            Self::Preempts { .. } => "Preempts",
            Self::Nominated { .. } => "Nominated",
            Self::NotPreempting { .. } => "NotPreempting",
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
            Self::RescheduleRequested => f.write_str("a fresh scheduling was requested"),
            Self::ApiAppeared => f.write_str("a cluster serves the kind now that did not before"),
            Self::FollowsFleet => f.write_str("every change of the fleet is followed"),
            Self::TargetLeaving { cluster } => write!(f, "target {cluster} is being removed or does not exist"),
            Self::TargetDrifted { cluster } => write!(f, "the affinity does not choose target {cluster} any more"),
            Self::LastAttemptFailed => f.write_str("the last attempt failed and left no result"),
            Self::ResultStands => f.write_str("the result is up to date"),
            Self::Refused { cluster, because } => write!(f, "{cluster}: {because}"),
            Self::Fits { cluster, tier, score, available } => {
                write!(f, "{cluster}: passes the filters, score {score}")?;
                if *tier > 0 {
                    write!(f, ", tier {tier}")?;
                }
                available.map_or(Ok(()), |available| write!(f, ", available replicas {available}"))
            }
            Self::Descheduled { cluster, until } => {
                write!(f, "{cluster}: found no nodes for replicas of it, gets no further ones until {until}")
            }
            Self::TakenBack { cluster, replicas } => {
                write!(f, "{cluster}: found no nodes for {}, taken back", count(replicas, "replica"))
            }
            Self::ClusterLeaving { cluster } => write!(f, "{cluster}: it is being removed from the fleet"),
            Self::Missing { cluster } => write!(f, "{cluster}: named by the placement, but it does not exist"),
            Self::NotSelected { cluster } => write!(f, "{cluster}: the spread constraints are satisfied by others"),
            Self::NoShare { cluster } => write!(f, "{cluster}: no replicas assigned"),
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
            Self::MovesInPart { moves, stays } => {
                write!(f, "{} fit elsewhere and move, {stays} stay until others have room", count(moves, "replica"))
            }
            Self::Preempts { victims, observed } => {
                let verb = if *observed { "would preempt (--preemption-mode observe)" } else { "preempts" };
                write!(f, "{verb} {}", victims.join(", "))
            }
            Self::Nominated { clusters } => {
                write!(f, "capacity is held on {} until preempted bindings have left", clusters.join(", "))
            }
            Self::NotPreempting { because } => write!(f, "preemption is not helpful: {because}"),
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
            Self::NoLabel { key } => write!(f, "cluster(s) did not have {key} label"),
            Self::WithoutPeer { peer } => {
                write!(f, "ResourceBinding with the same affinity group does not target this cluster ({peer})")
            }
            Self::BesidePeer { peer } => {
                write!(f, "cluster already has workload with the same anti-affinity group ({peer})")
            }
            Self::HeldForOthers => f.write_str("cluster(s) held their capacity for workloads of higher priority"),
        }
    }
}
