//! Why a decision came out as it did: structured values with one rendering.
//!
//! Conditions, events, `ironclad why`, `ironclad plan` and test snapshots all print the same ones.

use std::fmt;

use serde::Serialize;

use crate::{ClusterName, ObjectKey};

/// One reason. A variant exists because some decision comes to it; its text is made in one place, below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Because {
    /// The object is not there any more.
    Gone {
        /// Which one.
        object: ObjectKey,
    },
    /// What stands is what is wanted.
    UpToDate,
    /// The cluster was named by the placement.
    ClusterSelected {
        /// Which one.
        cluster: ClusterName,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { object } => write!(f, "{object} does not exist"),
            Self::UpToDate => f.write_str("nothing changed"),
            Self::ClusterSelected { cluster } => write!(f, "the placement selects cluster {cluster}"),
        }
    }
}
