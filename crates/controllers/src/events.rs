//! Events of decisions, recorded in the control plane.

use ironclad_api::events::{SCHEDULE_BINDING_FAILED, SCHEDULE_BINDING_SUCCEED, source};
use ironclad_fleet::{Event, EventType};
use ironclad_runtime::{EventAbout, EventType as RecordedType, Recorder};
use ironclad_seam::Seam;
use kube::Client;

use crate::settings::Settings;

/// Recorder of events. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events {
    recorder: Recorder,
    /// `--scheduler-name`, which events of the scheduler come from.
    scheduler: String,
    /// `--success-events`.
    successes: bool,
}

impl Events {
    pub(crate) fn new(plane: Client, seam: &Seam, settings: &Settings) -> Self {
        Self {
            recorder: Recorder::new(plane, seam, "ironclad"),
            scheduler: settings.scheduler.scheduler_name.clone(),
            successes: settings.success_events,
        }
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
        let component = match event.reason {
            SCHEDULE_BINDING_SUCCEED | SCHEDULE_BINDING_FAILED => &self.scheduler,
            reason => source(reason, &about.kind, &about.namespace),
        };
        self.recorder.record_from(component, &about, type_, event.reason, &event.message);
    }

    /// Success events of a plan, to be recorded once its effects are applied; none unless they are wanted.
    pub(crate) fn successes(&self, of_plan: impl FnOnce() -> Vec<Event>) -> Vec<Event> {
        if self.successes { of_plan() } else { Vec::new() }
    }

    pub(crate) fn record_all(&self, events: &[Event]) {
        events.iter().for_each(|event| self.record(event));
    }
}
