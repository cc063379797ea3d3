//! Reasons of the scheduling decisions.

use std::fmt;

use serde::Serialize;

/// Why a binding runs where it runs, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The binding has no placement, so it is not the scheduler's.
    NoPlacement,
}

impl Reason {
    /// The CamelCase word that a condition or an event prints.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoPlacement => "NoPlacement",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlacement => f.write_str("the binding has no placement"),
        }
    }
}
