//! Writes the task list, if it is still the one that was seen, and tells.

use std::time::Duration;

use ironclad_failover::graceful::{Decision, Effect};
use ironclad_runtime::{Failure, Key, Next, Writer};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, decision: &Decision) -> Result<Next, Failure> {
    for because in &decision.plan.because {
        tracing::debug!(binding = %key, %because, "graceful eviction");
    }
    let writer = Writer::new("gracefulEviction");
    for effect in &decision.plan.effects {
        match effect {
            Effect::Tasks { patch } => match cx.bindings.patch(&writer, &seen.binding, patch.clone()).await {
                Err(Failure::NotFound(_)) => return Ok(Next::Forget),
                patched => patched?,
            },
            Effect::Status(part) => {
                cx.bindings.request_status(key, seen.binding.uid(), "gracefulEviction", part.clone());
            }
            Effect::Event(event) => cx.events.record(event),
        }
    }
    let now = cx.seam.clock.wall();
    for cleared in &decision.cleared {
        cx.metrics.graceful.cleared(cleared, now);
    }
    Ok(decision.next.map_or(Next::Forget, |at| {
        let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        Next::After(wait.max(Duration::from_secs(1)))
    }))
}
