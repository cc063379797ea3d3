//! Reasons of the road: policy to binding to Work to member object and back.

use std::fmt;

use serde::Serialize;

use crate::ObjectKey;

/// Why something on the road was written or left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// No policy selects the template; it waits for one.
    NoPolicyMatches {
        /// The template.
        template: ObjectKey,
    },
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPolicyMatches { .. } => "NoPolicyMatches",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicyMatches { template } => write!(f, "no policy selects {template}"),
        }
    }
}
