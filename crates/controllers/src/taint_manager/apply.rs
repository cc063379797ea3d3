//! Writes evictions, each provided that the binding is still the version seen, and the conditions about the queue.

use ironclad_api::conditions::{binding::EVICTION_PENDING, condition};
use ironclad_failover::taint_manager::{Eviction, Notice, Outcome};
use ironclad_fleet::StatusPart;
use ironclad_runtime::{Failure, Key, Writer};

use super::running::Shared;
use crate::{bindings::Bindings, events::Events, setup::Setup};

/// Its name as a contributor of status.
const CONTRIBUTOR: &str = "taintManager";

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    bindings: Bindings,
    pub(super) events: Events,
    running: Shared,
}

impl Applier {
    pub(super) fn new(setup: &Setup, running: Shared) -> Self {
        let writer = Writer::new("taint-manager");
        Self { writer, bindings: setup.bindings().clone(), events: setup.events.clone(), running }
    }

    /// Writes one eviction, unless its cluster has recovered since it was handed out.
    pub(super) async fn evict(&self, eviction: &Eviction) -> Outcome {
        let key = &eviction.key;
        let wanted = self.running.lock().as_ref().is_some_and(|r| r.evictions.is_under_way(key));
        if !wanted {
            return Outcome::Withdrawn;
        }
        match self.bindings.patch(&self.writer, &eviction.binding, eviction.patch.clone()).await {
            Ok(()) => {
                let (episode, because) = (&eviction.record.episode, &eviction.because);
                tracing::info!(%episode, binding = %key.binding, %because, "evicted");
                let at = Key::new(&key.binding.namespace, &key.binding.name);
                self.bindings.note_activity(&at);
                self.bindings.request_status(&at, eviction.binding.uid(), CONTRIBUTOR, eviction.status());
                Outcome::Written
            }
            Err(failure @ Failure::Conflict(_)) => {
                tracing::debug!(binding = %key.binding, %failure, "the binding changed, observing again");
                Outcome::Conflict
            }
            Err(failure) => {
                tracing::warn!(binding = %key.binding, class = failure.class(), %failure, "eviction was not written");
                Outcome::Failed(failure.to_string())
            }
        }
    }

    /// Requests condition `EvictionPending` of one binding.
    pub(super) fn show(&self, notice: &Notice) {
        let key = Key::new(&notice.binding.namespace, &notice.binding.name);
        let Some(binding) = self.bindings.get(&key) else { return };
        // An empty status removes the condition.
        let condition = notice.condition.clone().unwrap_or_else(|| condition(EVICTION_PENDING, "", "", ""));
        self.bindings.request_status(&key, binding.uid(), CONTRIBUTOR, StatusPart::condition(condition));
    }
}
