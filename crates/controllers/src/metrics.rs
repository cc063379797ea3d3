//! Labels that the metrics of several controllers share.

use prometheus_client::encoding::EncodeLabelSet;

/// End of an operation: `success` or `error`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResultLabel {
    result: &'static str,
}

impl ResultLabel {
    /// The label for an outcome.
    pub(crate) fn of<T, E>(outcome: &Result<T, E>) -> Self {
        Self { result: result(outcome) }
    }
}

/// The value of a label `result`.
pub(crate) fn result<T, E>(outcome: &Result<T, E>) -> &'static str {
    if outcome.is_ok() { "success" } else { "error" }
}
