//! Status of Works, with one writer for all controllers that contribute to it.

use std::sync::Arc;

use ironclad_api::work::Work;
use ironclad_fleet::StatusPart;
use ironclad_runtime::{Api, Informer, Key, StatusWriter, Writer};
use ironclad_seam::Seam;
use kube::Client;
use parking_lot::RwLock;

use crate::{
    events::Events,
    targets::{Typed, json},
};

type OnRequest = Box<dyn Fn(&Work) + Send + Sync>;

/// Status of Works as requested: what is stored and what the writer still holds back. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WorkStatus {
    writer: StatusWriter<Typed<Work>>,
    handlers: Arc<RwLock<Vec<OnRequest>>>,
}

impl WorkStatus {
    pub(crate) fn start(seam: &Seam, plane: Client, works: Informer<Work>, events: Events) -> Self {
        let target = Typed {
            client: plane,
            cache: works,
            writer: Writer::new("workStatus"),
            events,
            api: |client, namespace| Api::namespaced(client.clone(), namespace),
            status: |w: &Work| json(&w.status),
        };
        Self { writer: StatusWriter::start("status/works", seam, target), handlers: Arc::default() }
    }

    /// Calls this for every Work whose status is requested. It must not wait.
    pub(crate) fn on_request(&self, handler: impl Fn(&Work) + Send + Sync + 'static) {
        self.handlers.write().push(Box::new(handler));
    }

    /// The Work with its status as it will be once all requests are written.
    pub(crate) fn as_requested(&self, work: &Arc<Work>) -> Arc<Work> {
        let uid = work.metadata.uid.as_deref().unwrap_or_default();
        match self.writer.read(&Key::of(&**work), uid, || json(&work.status)) {
            None => work.clone(),
            Some(status) => Arc::new(Work { status: serde_json::from_value(status).ok(), ..(**work).clone() }),
        }
    }

    /// Requests a part of a Work's status. Handlers are called at once: they read back what is not written yet.
    pub(crate) fn request(&self, work: &Work, contributor: &'static str, part: StatusPart, urgent: bool) {
        let uid = work.metadata.uid.as_deref().unwrap_or_default();
        self.writer.request(&Key::of(work), uid, contributor, part, urgent);
        self.handlers.read().iter().for_each(|handler| handler(work));
    }

    /// Notes that a Work was created: its status will soon change more than once.
    pub(crate) fn note_activity(&self, key: Key) {
        self.writer.note_activity(key);
    }

    /// True if every requested status is written.
    pub(crate) fn is_quiet(&self) -> bool {
        self.writer.is_quiet()
    }
}
