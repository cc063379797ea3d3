//! Recorder of Kubernetes Events, with the times and names of the seam, deduplicated by message.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_seam::Seam;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;

/// Remembered pairs of object and reason. Beyond it the memory is cleared, and an event may be recorded twice.
const REMEMBERED_MAX: usize = 10_000;
/// Bytes of a message, beyond which it is cut: the server refuses longer ones.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Bytes of an object's name.
const NAME_BYTES_MAX: usize = 253;
/// Letters of the random suffix of an event's name.
const SUFFIX_LENGTH: usize = 10;

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// An expected change.
    Normal,
    /// A problem.
    Warning,
}

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventAbout {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects: their events live in `default`.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// Recorder of one component. It writes events in tasks of their own: no reconciler waits for them or fails because of
/// them.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    client: Client,
    seam: Seam,
    component: &'static str,
    last: Mutex<BTreeMap<(String, String), String>>,
}

impl Recorder {
    /// A recorder for this component.
    #[must_use]
    pub fn new(client: Client, seam: &Seam, component: &'static str) -> Self {
        Self(Arc::new(Shared { client, seam: seam.clone(), component, last: Mutex::default() }))
    }

    /// Records an event, unless the last one of this reason on this object had the same message.
    pub fn record(&self, about: &EventAbout, type_: EventType, reason: &str, message: &str) {
        self.record_from(self.0.component, about, type_, reason, message);
    }

    /// Records an event of another component than the recorder's.
    pub fn record_from(&self, component: &str, about: &EventAbout, type_: EventType, reason: &str, message: &str) {
        let message = cut(message, MESSAGE_BYTES_MAX);
        {
            let mut last = self.0.last.lock();
            if last.len() >= REMEMBERED_MAX {
                last.clear();
            }
            let before = last.insert((about.uid.clone(), reason.to_owned()), message.to_owned());
            if before.as_deref() == Some(message) {
                return;
            }
        }
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        let now = Time(self.0.seam.clock.wall_seconds());
        let event = Event {
            metadata: kube::api::ObjectMeta {
                name: Some(name_of(&about.name, &self.0.seam.rng.stream("events").suffix(SUFFIX_LENGTH))),
                namespace: Some(namespace.to_owned()),
                ..kube::api::ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(about.api_version.clone()),
                kind: Some(about.kind.clone()),
                namespace: Some(about.namespace.clone()).filter(|n| !n.is_empty()),
                name: Some(about.name.clone()),
                uid: Some(about.uid.clone()),
                ..ObjectReference::default()
            },
            type_: Some(if type_ == EventType::Normal { "Normal" } else { "Warning" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            source: Some(EventSource { component: Some(component.to_owned()), host: None }),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.0.client.clone(), namespace);
        let reason = reason.to_owned();
        self.0.seam.tasks.spawn("event", async move {
            if let Err(error) = api.create(&PostParams::default(), &event).await {
                tracing::debug!(%reason, %error, "event was not written");
            }
        });
    }
}

/// The name of an event about an object of this name.
fn name_of(about: &str, suffix: &str) -> String {
    let room = NAME_BYTES_MAX - 1 - suffix.len().min(SUFFIX_LENGTH);
    // Each part of a DNS name ends with a letter or a digit.
    format!("{}.{suffix}", cut(about, room).trim_end_matches(['.', '-']))
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_fit_the_limit_of_names() {
        let suffix = "0123456789";
        let long = "a".repeat(253);
        let parts = format!("{}.{}", "a".repeat(241), "b".repeat(11));
        for (about, want) in [
            ("web", "web.0123456789".to_owned()),
            (&long, format!("{}.{suffix}", "a".repeat(242))),
            (&parts, format!("{}.{suffix}", "a".repeat(241))),
        ] {
            let name = name_of(about, suffix);
            assert_eq!(name, want);
            assert!(name.len() <= NAME_BYTES_MAX);
        }
    }
}
