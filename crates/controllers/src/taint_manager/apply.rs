//! Writes evictions, each over the very version that was seen, and what bindings show of the queue.

use ironclad_api::conditions::{binding::EVICTION_PENDING, condition};
use ironclad_failover::eviction::{Eviction, Notice, Outcome};
use ironclad_fleet::StatusPart;
use ironclad_runtime::{Failure, Key, Writer};

use crate::{AnyBinding, Context};

/// Who says it, to the writer of statuses.
const CONTRIBUTOR: &str = "taintManager";

/// One eviction, unless its cluster has recovered since it was handed out.
pub(super) async fn evict(cx: &Context, eviction: &Eviction) -> Outcome {
    let wanted = cx.taint_manager.running.lock().as_ref().is_some_and(|r| r.evictions.is_under_way(&eviction.key));
    if !wanted {
        return Outcome::Withdrawn;
    }
    let seen = AnyBinding::from(eviction.binding.clone());
    let writer = Writer::new("taint-manager");
    match cx.bindings.patch(&writer, &seen, eviction.patch.clone()).await {
        Ok(()) => {
            let key = &eviction.key;
            tracing::info!(episode = %eviction.record.episode, binding = %key.binding, because = %eviction.because, "evicted");
            let at = Key::new(&key.binding.namespace, &key.binding.name);
            cx.bindings.note_activity(&at);
            cx.bindings.request_status(&at, eviction.binding.uid(), CONTRIBUTOR, eviction.status());
            Outcome::Written
        }
        Err(failure @ Failure::Conflict(_)) => {
            tracing::debug!(binding = %eviction.key.binding, %failure, "the binding changed, observing again");
            Outcome::Conflict
        }
        Err(failure) => {
            tracing::warn!(binding = %eviction.key.binding, class = failure.class(), %failure, "eviction was not written");
            Outcome::Failed(failure.to_string())
        }
    }
}

/// Condition `EvictionPending` of one binding.
pub(super) fn show(cx: &Context, notice: &Notice) {
    let key = Key::new(&notice.binding.namespace, &notice.binding.name);
    let Some(binding) = cx.bindings.get(&key) else { return };
    // Without a status it takes the standing one out.
    let condition = notice.condition.clone().unwrap_or_else(|| condition(EVICTION_PENDING, "", "", ""));
    cx.bindings.request_status(&key, binding.uid(), CONTRIBUTOR, StatusPart::condition(condition));
}
