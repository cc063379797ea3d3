//! Label and field selectors (apiserver.md 10).

mod fields;
mod labels;
mod parser;

pub use self::{
    fields::{FieldRequirement, FieldSelector},
    labels::{LabelSelector, Operator, Requirement},
};

/// Why a text is no selector: the message of a 400 answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
