//! Kubernetes event requested by a decision (specification/api.md 18).

use ironclad_api::{ObjectMeta, cluster::Cluster, work::ObjectReference};

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// For information.
    Normal,
    /// A person may have to act.
    Warning,
}

impl EventType {
    /// Value in the API.
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
    /// Human-readable message.
    pub message: String,
}

impl Event {
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

/// Reference to an object that an event is about. Events carry no resourceVersion.
#[must_use]
pub fn reference(api_version: &str, kind: &str, metadata: &ObjectMeta) -> ObjectReference {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
        resource_version: String::new(),
    }
}

/// Reference to a Cluster, for events.
#[must_use]
pub fn cluster_reference(cluster: &Cluster) -> ObjectReference {
    reference("cluster.karmada.io/v1alpha1", "Cluster", &cluster.metadata)
}
