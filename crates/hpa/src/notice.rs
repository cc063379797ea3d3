//! Events on autoscalers.

/// Event on the autoscaler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// True for a Warning.
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Notice {
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}
