//! Label and field selectors (specification/apiserver.md 10).

mod fields;
mod labels;
mod parser;

pub use self::{
    fields::{FieldRequirement, FieldSelector},
    labels::{LabelSelector, Operator, Requirement},
};

/// Reason why a text is not a selector: the message of a 400 response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
