//! Events of decisions, recorded in the control plane.

use ironclad_fleet::{Event, EventType};
use ironclad_runtime::{EventAbout, EventType as RecordedType, Recorder};
use ironclad_seam::Seam;
use kube::Client;

/// Recorder of events. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events(Recorder);

impl Events {
    pub(crate) fn new(plane: Client, seam: &Seam) -> Self {
        Self(Recorder::new(plane, seam, "ironclad"))
    }

    /// Records an event, without waiting for it to be written.
    pub(crate) fn record(&self, event: &Event) {
        let about = EventAbout {
            api_version: event.about.api_version.clone(),
            kind: event.about.kind.clone(),
            namespace: event.about.namespace.clone(),
            name: event.about.name.clone(),
            uid: event.about.uid.clone(),
        };
        let type_ = match event.type_ {
            EventType::Normal => RecordedType::Normal,
            EventType::Warning => RecordedType::Warning,
        };
        self.0.record(&about, type_, event.reason, &event.message);
    }
}
