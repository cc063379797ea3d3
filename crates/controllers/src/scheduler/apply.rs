//! Writes the result of a pass: the result first, then the status that speaks of it.

use ironclad_runtime::{Failure, Key, Next, Writer};
use ironclad_scheduling::{self as scheduling, Again, Decision, Effect};

use super::{observe::Observed, state::BeingWritten};
use crate::Context;

/// `assumed`: the result that the plan has, which others are decided with already.
pub(super) async fn apply(
    cx: &Context,
    key: &Key,
    seen: &Observed,
    decision: &Decision,
    mut assumed: Option<BeingWritten<'_>>,
) -> Result<Next, Failure> {
    for reason in &decision.plan.because {
        tracing::debug!(binding = %key, %reason, "scheduled");
    }
    let writer = Writer::new("scheduler");
    for effect in &decision.plan.effects {
        match effect {
            Effect::Result { patch, targets } => {
                let written = cx.bindings.patch(&writer, &seen.binding, patch.clone()).await;
                // An answer that was lost, or that a later one overtook, may be to a write that was made.
                if written.is_ok() || cx.bindings.get(key).is_some_and(|now| now.spec().clusters == *targets) {
                    assumed.take().into_iter().for_each(BeingWritten::written);
                }
                match written {
                    Ok(()) => {}
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
                }
            }
            told => tell(cx, key, seen, told),
        }
    }
    Ok(match scheduling::again(decision.next, cx.seam.clock.wall(), cx.scheduler.promise_ends()) {
        Again::Never => Next::Forget,
        Again::Backoff => Next::Retry,
        Again::After(wait) => Next::After(wait),
    })
}

fn tell_refusal(cx: &Context, key: &Key, seen: &Observed, refusal: &str) {
    let plan = scheduling::refused(&seen.binding.for_scheduler(), refusal, cx.seam.clock.wall_seconds());
    plan.effects.iter().for_each(|effect| tell(cx, key, seen, effect));
}

fn tell(cx: &Context, key: &Key, seen: &Observed, effect: &Effect) {
    match effect {
        Effect::Result { .. } => {}
        Effect::Status(part) => cx.bindings.request_status(key, seen.binding.uid(), "scheduler", part.clone()),
        Effect::Event(event) => cx.events.record(event),
    }
}
