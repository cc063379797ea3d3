//! Events on autoscalers.

/// Event on the autoscaler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// True for a Warning.
    pub is_warning: bool,
    /// Reason.
    pub reason: &'static str,
    /// Message.
    pub message: String,
}

impl Notice {
    /// A Warning.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}
