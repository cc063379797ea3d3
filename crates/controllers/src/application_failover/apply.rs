//! Writes evictions from clusters, provided that the binding is still the version seen, and records events.

use ironclad_failover::application_failover::{self, Decision, Effect};
use ironclad_runtime::{Failure, Key, Next, Writer};

use super::observe::Observed;
use crate::{bindings::Bindings, events::Events, setup::Setup};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    bindings: Bindings,
    events: Events,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        let writer = Writer::new("applicationFailover");
        Self { writer, bindings: setup.bindings().clone(), events: setup.events.clone() }
    }

    pub(super) async fn apply(&self, key: &Key, seen: &Observed, decision: &Decision) -> Result<Next, Failure> {
        for because in &decision.plan.because {
            tracing::debug!(binding = %key, %because, "application failover");
        }
        for effect in &decision.plan.effects {
            match effect {
                Effect::Depart { patch } => {
                    match self.bindings.patch(&self.writer, &seen.binding, patch.clone()).await {
                        Err(Failure::NotFound(_)) => return Ok(Next::Forget),
                        patched => patched?,
                    }
                    self.bindings.note_activity(key);
                }
                Effect::Event(event) => self.events.record(event),
            }
        }
        Ok(match decision.next {
            application_failover::Next::OnEvent => Next::Forget,
            application_failover::Next::After(wait) => Next::After(wait),
            application_failover::Next::Backoff => Next::Retry,
        })
    }
}
