//! Writes what a policy's life wants of it, its templates and its bindings.

use ironclad_fleet::Plan;
use ironclad_propagation::policy::{self, Effect};
use ironclad_runtime::{Failure, Next, Writer};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
    let writer = Writer::new("detector");
    for because in &plan.because {
        tracing::debug!(policy = %seen.policy.view().key(), %because, "policy");
    }
    let mut next = Next::Forget;
    for effect in plan.effects {
        match effect {
            Effect::PatchPolicy { patch } => match seen.policy.patch(cx, &writer, patch).await {
                Ok(()) | Err(Failure::NotFound(_)) => {}
                Err(other) => return Err(other),
            },
            Effect::PatchTemplate { key, patch } => {
                let Some(held) = seen.held().find(|held| held.key == key) else { continue };
                let Some((served, cache)) = cx.templates.watched(&key.gvk) else { continue };
                let api = served.api(&cx.plane, &key.namespace);
                if let Err(failure) = writer.patch(&api, Some(&cache), &*held.object, patch).await {
                    let (class, message) = (failure.class(), failure.to_string());
                    let told = policy::preemption_failed_event(seen.policy.view(), &held.json, class, &message);
                    if let Some(event) = &told {
                        cx.metrics.road.told(event);
                        cx.events.record(event);
                    }
                    return Err(failure);
                }
            }
            Effect::PatchBinding { key, patch } => {
                let Some(binding) = seen.bindings().find(|binding| binding.view().key() == key) else { continue };
                cx.bindings.patch(&writer, binding, patch).await?;
            }
            Effect::Enqueue { template } => cx.queues.detector.add_replay(template),
            Effect::RequeueAfter(wait) => next = Next::After(wait),
            Effect::Retry => next = Next::Retry,
            Effect::Event(event) => {
                cx.metrics.road.told(&event);
                cx.events.record(&event);
            }
        }
    }
    Ok(next)
}
