//! Reasons of the health and taint decisions.

use std::fmt;

use serde::Serialize;

/// What a cluster's health is, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The cluster has not told its status yet.
    NotYetKnown,
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotYetKnown => "NotYetKnown",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYetKnown => f.write_str("the cluster has not reported yet"),
        }
    }
}
