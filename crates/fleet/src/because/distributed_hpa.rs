//! Reasons of distributed HorizontalPodAutoscalers: shares of members, and what becomes of members' decisions.

use std::fmt;

use ironclad_api::reasons;
use serde::Serialize;

use crate::{ClusterName, Gvk, ObjectKey};

/// Reason why a cluster of the binding has no share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all_fields = "camelCase")]
pub enum Left {
    /// There is no such Cluster, or it is being deleted.
    Gone,
    /// Its copy is being evicted.
    Evicted,
    /// It has a NoExecute taint that is not tolerated.
    Tainted { taint: String },
    /// It has not been Ready for longer than the grace period.
    NotReady,
    /// It serves no version of HorizontalPodAutoscaler that reports conditions.
    NoVersion,
    /// It does not serve the kind of the autoscaler.
    NotServed { kind: Gvk },
}

impl Left {
    /// The CamelCase word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Gone => "Gone",
            Self::Evicted => "Evicted",
            Self::Tainted { .. } => "Tainted",
            Self::NotReady => "NotReady",
            Self::NoVersion => "NoVersion",
            Self::NotServed { .. } => "NotServed",
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("there is no such cluster"),
            Self::Evicted => f.write_str("its copy is being evicted"),
            Self::Tainted { taint } => write!(f, "it has the taint {taint}, which is not tolerated"),
            Self::NotReady => f.write_str("it has not been Ready for longer than the grace period"),
            Self::NoVersion => {
                f.write_str("it serves neither autoscaling/v2 nor v2beta2 nor v2beta1, and v1 has no conditions")
            }
            Self::NotServed { kind } => write!(f, "it does not serve {kind}: install its controller there"),
        }
    }
}

/// Reason why a report of a member changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Ignored {
    /// There is no report for the present content of its Work.
    Missing,
    /// Its condition AbleToScale does not have one of the four reasons, or it desires nothing.
    NotAble,
    /// It may be from before a change of the replicas by a user, or from before the member was lost.
    Held,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is no report for the present content of its Work",
            Self::NotAble => "its condition AbleToScale is not True with a reason that counts",
            Self::Held => "the report may be older than the last change of the replicas",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// It has no label, and nothing of it is left.
    NotEnabled,
    /// Another autoscaler has the target, and it is older.
    Conflict {
        /// Kind and name of the other one.
        with: String,
        /// Its kind is the same.
        same_kind: bool,
    },
    /// The target does not exist.
    TargetMissing { target: ObjectKey },
    /// The target's kind has no scale subresource.
    NoScale { target: ObjectKey },
    /// The target has no binding, or one without clusters.
    NoBinding { target: ObjectKey },
    /// The target has no replicas and no place: a user switched it off.
    SwitchedOff { target: ObjectKey },
    /// No cluster of the binding counts now.
    NoCluster,
    /// A cluster of the binding has no share.
    ClusterLeft {
        cluster: ClusterName,
        /// The reason.
        why: Left,
    },
    /// Minimum and maximum of a cluster.
    Share {
        cluster: ClusterName,
        /// Its minimum.
        min: i32,
        /// Its maximum.
        max: i32,
        /// Its share of the maximum without loans.
        share: i32,
    },
    /// The copy runs on in a cluster that has no share: its autoscaler may not grow.
    Frozen {
        cluster: ClusterName,
        /// Its maximum.
        max: i32,
    },
    /// The maximum grows once others have given up what they have.
    GrowsLater {
        cluster: ClusterName,
        /// The maximum then.
        max: i32,
    },
    /// The member runs more than its new maximum.
    Cut {
        cluster: ClusterName,
        /// Replicas that it runs.
        runs: i32,
        /// The maximum.
        max: i32,
    },
    /// The member takes over a part of what leaves other clusters.
    TakesOver {
        cluster: ClusterName,
        /// Its minimum meanwhile.
        min: i32,
    },
    /// Works of the cluster are not dispatched.
    Suspended { cluster: ClusterName },
    /// The target's Work does not yet say that the member decides its replicas.
    AwaitsTarget { cluster: ClusterName },
    /// Members lend shares of the maximum to members that are limited.
    Lends {
        /// Replicas that change hands.
        replicas: i32,
        /// Those that get them.
        to: Vec<ClusterName>,
    },
    /// A quota of the namespace leaves fewer replicas than the maxima add up to.
    QuotaLeaves {
        /// Its namespace and name.
        quota: String,
        /// The key that it limits.
        key: String,
        /// Sum of the lowered maxima.
        replicas: i64,
        /// Sum of the maxima without it.
        wanted: i64,
    },
    /// A member decided.
    Decided {
        cluster: ClusterName,
        /// The number.
        replicas: i32,
    },
    /// A report changes nothing.
    Ignored {
        cluster: ClusterName,
        /// The reason.
        why: Ignored,
    },
    /// The template's replicas changed: that is what a user wants.
    UserScaled {
        /// Replicas before.
        from: i64,
        /// Replicas now.
        to: i64,
    },
    /// Members' numbers are written together, a short time later.
    Batched,
    /// The controller started a short time ago, and not every member has reported.
    Starting,
    /// The OverridePolicy has said what the binding says for a while.
    OverrideNotNeeded,
    /// The template takes over what members decided.
    HandsOver {
        /// The number.
        replicas: i64,
    },
    /// The scheduler has not divided the replicas that the template took over.
    AwaitsScheduler,
    /// The object is released: its Works and its OverridePolicy go.
    Released,
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotEnabled => "NotEnabled",
            Self::Conflict { same_kind: true, .. } => "AmbiguousTarget",
            Self::Conflict { .. } => "ConflictingAutoscaler",
            Self::TargetMissing { .. } => "FailedGetScaleTargetRef",
            Self::NoScale { .. } => "FailedGetScale",
            Self::NoBinding { .. } => "FailedGetBinding",
            Self::SwitchedOff { .. } => reasons::federated_hpa::SCALING_DISABLED,
            Self::NoCluster => "FailedGetTargetClusters",
            Self::ClusterLeft { why, .. } => why.reason(),
            Self::Share { .. } => "Share",
            Self::Frozen { .. } => "Frozen",
            Self::GrowsLater { .. } => "GrowsLater",
            Self::Cut { .. } => "Cut",
            Self::TakesOver { .. } => "TakesOver",
            Self::Suspended { .. } => "Suspended",
            Self::AwaitsTarget { .. } => "AwaitsTarget",
            Self::Lends { .. } => "Lends",
            Self::QuotaLeaves { .. } => reasons::federated_hpa::QUOTA_EXCEEDED,
            Self::Decided { .. } => "Decided",
            Self::Ignored { .. } => "Ignored",
            Self::UserScaled { .. } => "UserScaled",
            Self::Batched => "Batched",
            Self::Starting => "Starting",
            Self::OverrideNotNeeded => "OverrideNotNeeded",
            Self::HandsOver { .. } => "HandsOver",
            Self::AwaitsScheduler => "AwaitsScheduler",
            Self::Released => "Released",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnabled => f.write_str(
                "no member runs it: label federatedhpa.karmada.io/enabled is not \"true\", and nothing scales its target here",
            ),
            Self::Conflict { with, same_kind: true } => write!(
                f,
                "{with} is older and scales the same target: take the label federatedhpa.karmada.io/enabled off one of them"
            ),
            Self::Conflict { with, .. } => {
                write!(f, "{with} is older and scales the same target: delete one of them")
            }
            Self::TargetMissing { target } => write!(f, "there is no {target}"),
            Self::NoScale { target } => {
                write!(f, "{target} cannot be scaled: {} has no scale subresource", target.gvk)
            }
            Self::NoBinding { target } => {
                write!(f, "{target} is in no cluster: a policy has to select it, and the scheduler has to place it")
            }
            Self::SwitchedOff { target } => {
                write!(f, "scaling is disabled since the replica count of {target} is zero: scale it to begin again")
            }
            Self::NoCluster => f.write_str("no cluster of the target can be used now: nothing is changed"),
            Self::ClusterLeft { cluster, why } => write!(f, "cluster {cluster} has no share: {why}"),
            Self::Share { cluster, min, max, share } if max == share => {
                write!(f, "cluster {cluster} has {min} to {max} replicas")
            }
            Self::Share { cluster, min, max, share } => {
                write!(f, "cluster {cluster} has {min} to {max} replicas, {share} of them without loans")
            }
            Self::Frozen { cluster, max } => {
                write!(f, "the autoscaler in cluster {cluster} may not grow beyond {max} until its copy is gone")
            }
            Self::GrowsLater { cluster, max } => {
                write!(f, "cluster {cluster} may have {max} replicas once others have given up theirs")
            }
            Self::Cut { cluster, runs, max } => write!(
                f,
                "cluster {cluster} runs {runs} replicas and may have {max}: all members together run more than the maximum"
            ),
            Self::TakesOver { cluster, min } => {
                write!(f, "cluster {cluster} has at least {min} replicas while it takes over what leaves other clusters")
            }
            Self::Suspended { cluster } => write!(f, "dispatching to cluster {cluster} is suspended"),
            Self::AwaitsTarget { cluster } => {
                write!(f, "the target's Work of cluster {cluster} does not yet leave its replicas to the member")
            }
            Self::Lends { replicas, to } => {
                let to: Vec<String> = to.iter().map(ToString::to_string).collect();
                write!(f, "{replicas} replicas of the maximum are lent to {}, which need more", to.join(", "))
            }
            Self::QuotaLeaves { quota, key, replicas, wanted } => write!(
                f,
                "FederatedResourceQuota {quota} leaves {replicas} of {wanted} replicas for {key}: raise its limit, or \
                 lower maxReplicas or what a replica requests"
            ),
            Self::Decided { cluster, replicas } => write!(f, "cluster {cluster} decided for {replicas} replicas"),
            Self::Ignored { cluster, why } => write!(f, "the report of cluster {cluster} changes nothing: {why}"),
            Self::UserScaled { from, to } => {
                write!(f, "the replicas of the target were changed from {from} to {to}: members get them first")
            }
            Self::Batched => f.write_str("smaller numbers of members are recorded at most every 5 s"),
            Self::Starting => f.write_str("the controller waits for the reports of all members after its start"),
            Self::OverrideNotNeeded => f.write_str("members have what the target says"),
            Self::HandsOver { replicas } => write!(f, "the target takes over {replicas} replicas"),
            Self::AwaitsScheduler => f.write_str("the scheduler has not yet divided the replicas of the target"),
            Self::Released => f.write_str("members' autoscalers are removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_what_to_do() {
        let with = || "FederatedHPA web".to_owned();
        for (reason, word, text) in [
            (
                Reason::Conflict { with: with(), same_kind: false },
                "ConflictingAutoscaler",
                "FederatedHPA web is older and scales the same target: delete one of them",
            ),
            (
                Reason::Share { cluster: "m1".into(), min: 1, max: 5, share: 3 },
                "Share",
                "cluster m1 has 1 to 5 replicas, 3 of them without loans",
            ),
            (
                Reason::ClusterLeft { cluster: "m1".into(), why: Left::Tainted { taint: "k:NoExecute".into() } },
                "Tainted",
                "cluster m1 has no share: it has the taint k:NoExecute, which is not tolerated",
            ),
            (
                Reason::QuotaLeaves { quota: "shop/q".into(), key: "cpu".into(), replicas: 9, wanted: 20 },
                "QuotaExceeded",
                "FederatedResourceQuota shop/q leaves 9 of 20 replicas for cpu: raise its limit, or lower maxReplicas or \
                 what a replica requests",
            ),
        ] {
            assert_eq!((reason.reason(), reason.to_string().as_str()), (word, text));
        }
    }
}
