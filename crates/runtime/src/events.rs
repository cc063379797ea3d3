//! Kubernetes Events, stamped by our clock and named by our chance, de-duplicated by message.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_seam::Seam;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;

/// So many (object, reason) pairs are remembered; beyond it the memory starts anew and an event may come twice.
const REMEMBERED_MAX: usize = 10_000;
/// Longer messages are cut: the server refuses more than 1,024 bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Good or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Good.
    Normal,
    /// Bad.
    Warning,
}

/// What an event is about.
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

/// Writes events of one component as tasks of its own: no reconciler waits for them or fails by them.
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

    /// Records an event, unless the last one of this reason on this object said the same.
    pub fn record(&self, about: &EventAbout, type_: EventType, reason: &str, message: &str) {
        let message = cut(message);
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
                name: Some(format!("{}.{}", about.name, self.0.seam.rng.stream("events").suffix(10))),
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
            source: Some(EventSource { component: Some(self.0.component.to_owned()), host: None }),
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

fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}
