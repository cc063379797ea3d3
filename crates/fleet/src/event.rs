//! A Kubernetes event that a decision wants told (api.md 18).

use ironclad_api::work::ObjectReference;

/// Whether an event is good to know or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// A person may want to look.
    Warning,
}

impl EventType {
    /// As it goes over the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One event, complete but for its writer and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The object that it is about.
    pub about: ObjectReference,
    /// Normal or Warning.
    pub type_: EventType,
    /// One of `ironclad_api::events`.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
}

impl Event {
    /// A warning.
    #[must_use]
    pub fn warning(about: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self { about, type_: EventType::Warning, reason, message: message.into() }
    }

    /// A normal event.
    #[must_use]
    pub fn normal(about: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self { about, type_: EventType::Normal, reason, message: message.into() }
    }
}
