//! Writes what the descheduler decided.

use std::sync::Arc;

use ironclad_api::{events::DESCHEDULE_BINDING_FAILED, work::ResourceBinding};
use ironclad_fleet::{Binding, Event, Plan};
use ironclad_runtime::{Failure, Writer};
use ironclad_scheduling::deschedule::Effect;

use crate::{bindings::Bindings, events::Events, setup::Setup};

/// The writes of the descheduler.
pub(super) struct Applier {
    writer: Writer,
    bindings: Bindings,
    events: Events,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { writer: setup.writer("descheduler"), bindings: setup.bindings().clone(), events: setup.events.clone() }
    }

    /// Applies a plan. What fails is decided anew after the next interval.
    pub(super) async fn apply(&self, binding: &Arc<ResourceBinding>, plan: &Plan<Effect>) {
        let seen = Binding::Namespaced(binding.clone());
        for reason in &plan.because {
            tracing::info!(binding = %seen.key(), %reason, "descheduled");
        }
        for effect in &plan.effects {
            match effect {
                Effect::Patch(patch) => match self.bindings.patch(&self.writer, &seen, patch.clone()).await {
                    Ok(()) => {}
                    Err(Failure::Conflict(_)) => return,
                    Err(failure) => {
                        for about in [seen.view().reference(), binding.spec.resource.clone()] {
                            self.events.record(&Event::warning(about, DESCHEDULE_BINDING_FAILED, failure.to_string()));
                        }
                        return;
                    }
                },
                Effect::Event(event) => self.events.record(event),
            }
        }
    }
}
