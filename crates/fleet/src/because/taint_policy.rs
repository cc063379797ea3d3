//! Reasons of the decision on which taints ClusterTaintPolicies want on a cluster.

use std::fmt;

use serde::Serialize;

/// A policy's taint and the decision on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The policy's condition lasted long enough: the taint is added.
    Added {
        policy: String,
        /// `key:effect`.
        taint: String,
    },
    /// The policy's condition holds, but not yet for long enough.
    AddPending {
        policy: String,
        /// `key:effect`.
        taint: String,
        /// Milliseconds that are left.
        wait_ms: u64,
    },
    /// The policy wants the taint, and it is there.
    Asserted {
        policy: String,
        /// `key:effect`.
        taint: String,
    },
    /// The policy no longer requires the taint, and it is removed.
    Removed {
        policy: String,
        /// `key:effect`.
        taint: String,
    },
    /// The policy no longer requires the taint, but not yet for long enough.
    RemovePending {
        policy: String,
        /// `key:effect`.
        taint: String,
        /// Milliseconds that are left.
        wait_ms: u64,
    },
    /// The policy no longer requires the taint, but another one still does.
    Shared {
        policy: String,
        /// `key:effect`.
        taint: String,
    },
    /// The taint has no policy any more: it stays, and is a person's to remove.
    Orphaned {
        /// `key:effect`.
        taint: String,
    },
    /// An older policy wants the same taint with another value.
    Conflict {
        /// The younger policy.
        policy: String,
        /// `key:effect`.
        taint: String,
        /// The older policy.
        older: String,
    },
    /// The policy can't be evaluated: it does nothing.
    Unusable {
        policy: String,
        /// Reason.
        why: String,
    },
    /// The policy does not select the cluster.
    NotSelected { policy: String },
    /// The cluster is being deleted: its taints are left alone.
    Leaving,
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Added { .. } => "TaintAdded",
            Self::AddPending { .. } => "TaintPending",
            Self::Asserted { .. } => "TaintAsserted",
            Self::Removed { .. } => "TaintRemoved",
            Self::RemovePending { .. } => "TaintRemoving",
            Self::Shared { .. } => "TaintShared",
            Self::Orphaned { .. } => "TaintOrphaned",
            Self::Conflict { .. } => "TaintConflict",
            Self::Unusable { .. } => "PolicyUnusable",
            Self::NotSelected { .. } => "ClusterNotSelected",
            Self::Leaving => "ClusterLeaving",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { policy, taint } => write!(f, "policy {policy} adds taint {taint}"),
            Self::AddPending { policy, taint, wait_ms } => {
                write!(f, "policy {policy} adds taint {taint} in {wait_ms} ms, if its conditions hold")
            }
            Self::Asserted { policy, taint } => write!(f, "policy {policy} wants taint {taint}, which exists"),
            Self::Removed { policy, taint } => write!(f, "policy {policy} removes taint {taint}"),
            Self::RemovePending { policy, taint, wait_ms } => {
                write!(f, "policy {policy} removes taint {taint} in {wait_ms} ms, if its conditions still match")
            }
            Self::Shared { policy, taint } => {
                write!(f, "policy {policy} no longer wants taint {taint}, but another policy does")
            }
            Self::Orphaned { taint } => {
                write!(f, "taint {taint} has no policy any more and stays until somebody removes it")
            }
            Self::Conflict { policy, taint, older } => {
                write!(f, "taint {taint} has the value of policy {older}, not that of policy {policy}")
            }
            Self::Unusable { policy, why } => write!(f, "policy {policy} does nothing: {why}"),
            Self::NotSelected { policy } => write!(f, "policy {policy} does not select the cluster"),
            Self::Leaving => f.write_str("the cluster is being deleted"),
        }
    }
}
