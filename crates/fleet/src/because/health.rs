//! Reasons of the decisions on a cluster's health, its taints and its coming and going.

use std::fmt;

use ironclad_api::reasons::cluster as reasons;
use jiff::Timestamp;
use serde::Serialize;

use crate::{ClusterName, count::count};

/// A cluster's health and its consequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// Its health endpoint answered ok.
    Ready,
    /// It answered, but not ok.
    NotReady,
    /// It did not answer.
    NotReachable,
    /// No client for it could be made.
    NoClient {
        /// Error of the client.
        error: String,
    },
    /// It is the control plane itself.
    IsControlPlane {
        /// The uid of namespace kube-system in both.
        uid: String,
    },
    /// The observation differs from what is published, and has not lasted long enough.
    Debouncing {
        /// Time for which it has been observed, in milliseconds.
        observed_ms: u64,
        /// Required time in milliseconds.
        needed_ms: u64,
    },
    /// The cluster's served APIs are completely known.
    ApisComplete,
    /// The cluster's served APIs are partly known.
    ApisPartial,
    /// The cluster's served APIs are unknown.
    ApisUnknown,
    /// Enough of the cluster's nodes are ready.
    NodesReady {
        /// Ready nodes.
        ready: i32,
        /// All nodes.
        total: i32,
    },
    /// Too few of the cluster's nodes are ready.
    NodesNotReady {
        /// Ready nodes.
        ready: i32,
        /// All nodes.
        total: i32,
    },
    /// The cluster has no nodes of which anything could be said.
    NoNodes,
    /// The cluster's agent renews its lease or reports.
    Heard,
    /// The cluster's agent stopped to be heard of.
    Silent,
    /// The cluster's agent was never heard of.
    NeverHeard,
    /// The clock of the cluster's agent is not the control plane's.
    ClockSkew {
        /// Seconds by which it is ahead; negative if it is behind.
        seconds: i64,
    },
    /// The certificate of the cluster's agent ends, and was not renewed.
    CertificateEnds {
        /// Its end.
        until: Timestamp,
    },
    /// The agent keeps a tunnel to the control plane open.
    TunnelOpen,
    /// The agent has no tunnel to the control plane.
    TunnelMissing {
        /// Reason of the last attempt.
        why: String,
    },
    /// The control plane itself probes the cluster.
    ProbedHere,
    /// The status is as it is published.
    StatusUnchanged,
    /// The taints follow the Ready condition.
    TaintsFollowReady {
        /// `True`, `False`, `Unknown`, or `Missing`.
        ready: String,
    },
    /// The taints are as the Ready condition wants them, or their automatic is off.
    TaintsUnchanged,
    /// The cluster joined: it gets an execution space and the finalizer that guards it.
    Joining,
    /// The cluster is set up.
    SetUp,
    /// The cluster leaves, and its execution space still contains Works.
    WorksRemain {
        /// Number.
        works: usize,
    },
    /// The cluster leaves and cannot be reached: nobody else will release its Works.
    WorksReleased {
        /// Number.
        works: usize,
    },
    /// The cluster leaves, and bindings still name it.
    TargetedBy {
        /// Number.
        bindings: usize,
    },
    /// The cluster leaves, and its execution space is still going.
    ExecutionSpaceGoing,
    /// The cluster leaves, and nothing of it is left.
    MayGo,
    /// Another controller's finalizer holds the cluster.
    NotOurs { cluster: ClusterName },
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Ready => "ClusterReady",
            Self::NotReady => "ClusterNotReady",
            Self::NotReachable => "ClusterNotReachable",
            Self::NoClient { .. } => "StatusCollectionFailed",
            Self::IsControlPlane { .. } => "ClusterIsControlPlane",
            Self::Debouncing { .. } => "Debouncing",
            Self::ApisComplete => "Complete",
            Self::ApisPartial => "Partial",
            Self::ApisUnknown => "Empty",
            Self::NodesReady { .. } => "NodesReady",
            Self::NodesNotReady { .. } => "NodesNotReady",
            Self::NoNodes => "NoNodes",
            Self::Heard => "ClusterHeard",
            Self::Silent => "ClusterStatusUnknown",
            Self::NeverHeard => "ClusterStatusNeverUpdated",
            Self::ClockSkew { .. } => reasons::AGENT_CLOCK_DIFFERS,
            Self::CertificateEnds { .. } => reasons::CERTIFICATE_NOT_RENEWED,
            Self::TunnelOpen => reasons::TUNNEL_OPEN,
            Self::TunnelMissing { .. } => reasons::TUNNEL_MISSING,
            Self::ProbedHere => "ClusterProbedHere",
            Self::StatusUnchanged => "StatusUnchanged",
            Self::TaintsFollowReady { .. } => "TaintsFollowReady",
            Self::TaintsUnchanged => "TaintsUnchanged",
            Self::Joining => "Joining",
            Self::SetUp => "SetUp",
            Self::WorksRemain { .. } => "WorksRemain",
            Self::WorksReleased { .. } => "WorksReleased",
            Self::TargetedBy { .. } => "TargetedBy",
            Self::ExecutionSpaceGoing => "ExecutionSpaceGoing",
            Self::MayGo => "MayGo",
            Self::NotOurs { .. } => "NotOurs",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("cluster is healthy and ready to accept workloads"),
            Self::NotReady => f.write_str("cluster is reachable but health endpoint responded without ok"),
            Self::NotReachable => f.write_str("cluster is not reachable"),
            Self::NoClient { error } => write!(f, "failed to create a ClusterClient: {error}"),
            Self::IsControlPlane { uid } => write!(
                f,
                "the cluster is the control plane itself (namespace kube-system has uid {uid} in both), so nothing is \
                 written to it: correct spec.apiEndpoint and the credentials, or delete the Cluster"
            ),
            Self::Debouncing { observed_ms, needed_ms } => {
                write!(f, "observed for {observed_ms} ms of {needed_ms} ms that it takes")
            }
            Self::ApisComplete => f.write_str("collected all APIs of the cluster"),
            Self::ApisPartial => f.write_str("some APIs of the cluster could not be collected"),
            Self::ApisUnknown => f.write_str("no API of the cluster could be collected"),
            Self::NodesReady { ready, total } | Self::NodesNotReady { ready, total } => {
                write!(f, "{ready} of {total} nodes are ready")
            }
            Self::NoNodes => f.write_str("the cluster has no nodes"),
            Self::Heard => f.write_str("the cluster's agent reports"),
            Self::Silent => f.write_str("Cluster status controller stopped posting cluster status."),
            Self::NeverHeard => f.write_str("Cluster status controller never posted cluster status."),
            Self::ClockSkew { seconds } => {
                let where_ = if *seconds < 0 { "behind" } else { "ahead of" };
                write!(
                    f,
                    "the clock of the cluster's agent is {} s {where_} the control plane's",
                    seconds.unsigned_abs()
                )
            }
            Self::CertificateEnds { until } => write!(f, "the certificate of the cluster's agent ends at {until}"),
            Self::TunnelOpen => f.write_str("the control plane reaches the cluster over its agent"),
            Self::TunnelMissing { why } => write!(f, "the agent opens no tunnel to the control plane: {why}"),
            Self::ProbedHere => f.write_str("the control plane probes the cluster itself"),
            Self::StatusUnchanged => f.write_str("the published status is current"),
            Self::TaintsFollowReady { ready } => write!(f, "the taints follow condition Ready, which is {ready}"),
            Self::TaintsUnchanged => f.write_str("the taints are current"),
            Self::Joining => f.write_str("the cluster joined: it gets its execution space and its finalizer"),
            Self::SetUp => f.write_str("the cluster has its execution space and its finalizer"),
            Self::WorksRemain { works } => write!(f, "{} left in the execution space", count(*works, "Work")),
            Self::WorksReleased { works } => {
                let works = count(*works, "Work");
                write!(f, "the cluster cannot be reached: {works} released without it")
            }
            Self::TargetedBy { bindings } => {
                write!(f, "the cluster is still a target of {}", count(*bindings, "binding"))
            }
            Self::ExecutionSpaceGoing => f.write_str("the execution space is being deleted"),
            Self::MayGo => f.write_str("all objects of the cluster are removed"),
            Self::NotOurs { cluster } => write!(f, "{cluster} is managed by others"),
        }
    }
}
