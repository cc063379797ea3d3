//! Reasons of decisions: structured values with one rendering.
//!
//! Conditions, events, `ironclad why`, `ironclad plan` and test snapshots all print the same ones. Each topic has its
//! own enum in a file of its own; [`Because`] joins them.

pub mod distributed_hpa;
pub mod eviction;
pub mod health;
pub mod migration;
pub mod propagation;
pub mod schedule;
pub mod taint_policy;

use std::fmt;

use serde::Serialize;

use crate::{ClusterName, ObjectKey};

/// One reason. A variant exists because some decision comes to it; its text is made in one place, its topic's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "topic", rename_all_fields = "camelCase")]
pub enum Because {
    /// The object does not exist any more.
    Gone { object: ObjectKey },
    /// The object is up to date.
    UpToDate,
    /// The cluster was named by the placement.
    ClusterSelected { cluster: ClusterName },
    /// Propagation from policy to member object, and status collection.
    Propagation(propagation::Reason),
    /// Schedule results.
    Schedule(schedule::Reason),
    /// A cluster's health and its consequences.
    Health(health::Reason),
    /// Decisions on evicted copies.
    Migration(migration::Reason),
    /// Taints of ClusterTaintPolicies.
    TaintPolicy(taint_policy::Reason),
    /// Evictions because of taints.
    Eviction(eviction::Reason),
    /// HorizontalPodAutoscalers that members run for the control plane.
    DistributedHpa(distributed_hpa::Reason),
}

impl Because {
    /// The CamelCase word that a condition or an event prints as its reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Gone { .. } => "Gone",
            Self::UpToDate => "UpToDate",
            Self::ClusterSelected { .. } => "ClusterSelected",
            Self::Propagation(reason) => reason.reason(),
            Self::Schedule(reason) => reason.reason(),
            Self::Health(reason) => reason.reason(),
            Self::Migration(reason) => reason.reason(),
            Self::TaintPolicy(reason) => reason.reason(),
            Self::Eviction(reason) => reason.reason(),
            Self::DistributedHpa(reason) => reason.reason(),
        }
    }
}

impl From<propagation::Reason> for Because {
    fn from(reason: propagation::Reason) -> Self {
        Self::Propagation(reason)
    }
}

impl From<eviction::Reason> for Because {
    fn from(reason: eviction::Reason) -> Self {
        Self::Eviction(reason)
    }
}

impl From<distributed_hpa::Reason> for Because {
    fn from(reason: distributed_hpa::Reason) -> Self {
        Self::DistributedHpa(reason)
    }
}

impl From<schedule::Reason> for Because {
    fn from(reason: schedule::Reason) -> Self {
        Self::Schedule(reason)
    }
}

impl From<health::Reason> for Because {
    fn from(reason: health::Reason) -> Self {
        Self::Health(reason)
    }
}

impl From<migration::Reason> for Because {
    fn from(reason: migration::Reason) -> Self {
        Self::Migration(reason)
    }
}

impl From<taint_policy::Reason> for Because {
    fn from(reason: taint_policy::Reason) -> Self {
        Self::TaintPolicy(reason)
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { object } => write!(f, "{object} does not exist"),
            Self::UpToDate => f.write_str("nothing changed"),
            Self::ClusterSelected { cluster } => write!(f, "the placement selects cluster {cluster}"),
            Self::Propagation(reason) => reason.fmt(f),
            Self::Schedule(reason) => reason.fmt(f),
            Self::Health(reason) => reason.fmt(f),
            Self::Migration(reason) => reason.fmt(f),
            Self::TaintPolicy(reason) => reason.fmt(f),
            Self::Eviction(reason) => reason.fmt(f),
            Self::DistributedHpa(reason) => reason.fmt(f),
        }
    }
}
