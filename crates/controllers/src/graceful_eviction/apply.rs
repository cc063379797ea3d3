//! Writes the task list, provided that the binding is still the version seen, and records events.

use std::time::Duration;

use ironclad_failover::graceful_eviction::{Decision, Effect, Snapshot};
use ironclad_runtime::{Failure, Key, Next, Writer};
use ironclad_seam::Clock;

use super::metrics::GracefulMetrics;
use crate::{bindings::Bindings, events::Events, setup::Setup};

/// The shortest wait for a recheck.
const RECHECK_MIN: Duration = Duration::from_secs(1);

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    bindings: Bindings,
    events: Events,
    metrics: GracefulMetrics,
    clock: Clock,
}

impl Applier {
    pub(super) fn new(setup: &Setup, metrics: GracefulMetrics) -> Self {
        Self {
            writer: Writer::new("gracefulEviction"),
            bindings: setup.bindings().clone(),
            events: setup.events.clone(),
            metrics,
            clock: setup.seam.clock.clone(),
        }
    }

    pub(super) async fn apply(&self, key: &Key, seen: &Snapshot, decision: &Decision) -> Result<Next, Failure> {
        for because in &decision.plan.because {
            tracing::debug!(binding = %key, %because, "graceful eviction");
        }
        for effect in &decision.plan.effects {
            match effect {
                Effect::Tasks { patch } => {
                    match self.bindings.patch(&self.writer, &seen.binding, patch.clone()).await {
                        Err(Failure::NotFound(_)) => return Ok(Next::Forget),
                        patched => patched?,
                    }
                }
                Effect::Status(part) => {
                    self.bindings.request_status(key, seen.binding.uid(), "gracefulEviction", part.clone());
                }
                Effect::Event(event) => self.events.record(event),
            }
        }
        let now = self.clock.wall();
        for cleared in &decision.cleared {
            self.metrics.cleared(cleared, now);
        }
        Ok(decision.next.map_or(Next::Forget, |at| {
            Next::After(Duration::try_from(at.duration_since(now)).unwrap_or_default().max(RECHECK_MIN))
        }))
    }
}
