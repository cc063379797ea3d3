//! Writes the result of a pass: the result first, then the status that speaks of it.

use std::time::Duration;

use ironclad_runtime::{Failure, Key, Next, Writer};
use ironclad_scheduling::{self as scheduling, Decision, Effect};

use super::observe::Observed;
use crate::Context;

/// A binding without room gets another turn after this time even if nothing is known to have changed.
const UNSCHEDULABLE_AGAIN: Duration = Duration::from_secs(300);

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, decision: &Decision) -> Result<Next, Failure> {
    for reason in &decision.plan.because {
        tracing::debug!(binding = %key, %reason, "scheduled");
    }
    let writer = Writer::new("scheduler");
    for effect in &decision.plan.effects {
        match effect {
            Effect::Result { patch } => {
                cx.patch_binding(&writer, &seen.binding, patch.clone()).await?;
            }
            Effect::Status(part) => cx.want_binding_status(key, seen.binding.uid(), "scheduler", part.clone()),
            Effect::Event(event) => cx.emit(event),
        }
    }
    Ok(match &decision.next {
        scheduling::Next::OnEvent => Next::Forget,
        scheduling::Next::WhenRoom => Next::After(UNSCHEDULABLE_AGAIN),
        scheduling::Next::Backoff => Next::Retry,
        scheduling::Next::At(at) => {
            let wait = at.duration_since(cx.seam.clock.wall());
            Next::After(Duration::try_from(wait).unwrap_or(Duration::from_secs(1)).max(Duration::from_secs(1)))
        }
    })
}
