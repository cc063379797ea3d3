//! Writes that a binding leaves clusters, if it is still the one that was seen, and tells.

use ironclad_failover::application::{self, Decision, Effect};
use ironclad_runtime::{Failure, Key, Next, Writer};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, decision: &Decision) -> Result<Next, Failure> {
    for because in &decision.plan.because {
        tracing::debug!(binding = %key, %because, "application failover");
    }
    let writer = Writer::new("applicationFailover");
    for effect in &decision.plan.effects {
        match effect {
            Effect::Depart { patch } => match cx.bindings.patch(&writer, &seen.binding, patch.clone()).await {
                Err(Failure::NotFound(_)) => return Ok(Next::Forget),
                patched => {
                    patched?;
                    cx.bindings.note_activity(key);
                }
            },
            Effect::Event(event) => cx.events.record(event),
        }
    }
    Ok(match decision.next {
        application::Next::OnEvent => Next::Forget,
        application::Next::After(wait) => Next::After(wait),
        application::Next::Backoff => Next::Retry,
    })
}
