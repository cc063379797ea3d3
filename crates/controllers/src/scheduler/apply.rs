//! Writes the result of a pass: the result first, then the status that speaks of it.

use std::time::Duration;

use ironclad_runtime::{Failure, Key, Next, Writer};
use ironclad_scheduling::{self as scheduling, Decision, Effect};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, decision: &Decision) -> Result<Next, Failure> {
    for reason in &decision.plan.because {
        tracing::debug!(binding = %key, %reason, "scheduled");
    }
    let writer = Writer::new("scheduler");
    for effect in &decision.plan.effects {
        match effect {
            Effect::Result { patch } => match cx.patch_binding(&writer, &seen.binding, patch.clone()).await {
                // There may be room again at any time, and nothing is broken.
                Err(Failure::OverQuota(refusal)) => {
                    tell_refusal(cx, key, seen, &refusal);
                    return Ok(Next::Retry);
                }
                Err(failure) => {
                    // Whatever may pass by itself is tried again in silence.
                    if failure.is_final() {
                        tell_refusal(cx, key, seen, &failure.to_string());
                    }
                    return Err(failure);
                }
                Ok(_) => {
                    if let Some(written) = cx.binding(key) {
                        cx.scheduler.assigned(&seen.binding.for_scheduler(), &written.spec().clusters);
                    }
                }
            },
            told => tell(cx, key, seen, told),
        }
    }
    Ok(match &decision.next {
        scheduling::Next::OnEvent => Next::Forget,
        scheduling::Next::WhenRoom => Next::After(cx.scheduler.look_again()),
        scheduling::Next::Backoff => Next::Retry,
        scheduling::Next::At(at) => {
            let wait = at.duration_since(cx.seam.clock.wall());
            Next::After(Duration::try_from(wait).unwrap_or(Duration::from_secs(1)).max(Duration::from_secs(1)))
        }
    })
}

fn tell_refusal(cx: &Context, key: &Key, seen: &Observed, refusal: &str) {
    let plan = scheduling::refused(&seen.binding.for_scheduler(), refusal, cx.seam.clock.wall_seconds());
    plan.effects.iter().for_each(|effect| tell(cx, key, seen, effect));
}

fn tell(cx: &Context, key: &Key, seen: &Observed, effect: &Effect) {
    match effect {
        Effect::Result { .. } => {}
        Effect::Status(part) => cx.want_binding_status(key, seen.binding.uid(), "scheduler", part.clone()),
        Effect::Event(event) => cx.emit(event),
    }
}
