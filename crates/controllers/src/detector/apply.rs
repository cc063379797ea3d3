//! Writes what a claim wants: the policy's identity first, then the template, then the binding.

use std::sync::Arc;

use ironclad_fleet::{BindingKey, Plan};
use ironclad_propagation::detector::{self, Effect};
use ironclad_runtime::{Failure, Next, Writer};
use kube::Api;
use serde_json::Value;

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Arc<Context>, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
    let writer = Writer::new("detector");
    for because in &plan.because {
        tracing::debug!(template = %seen.key, %because, "detected");
    }
    let mut next = Next::Forget;
    for effect in plan.effects {
        match effect {
            Effect::PatchPolicy { policy, patch } => {
                if let Some(policy) = seen.policies.iter().find(|seen| seen.view().key() == policy) {
                    policy.patch(cx, &writer, patch).await?;
                }
            }
            Effect::PatchTemplate { patch } => patch_template(cx, &writer, seen, patch).await?,
            Effect::CreateBinding(binding) => {
                let namespace = binding.metadata.namespace.clone().unwrap_or_default();
                let api = Api::namespaced(cx.plane.clone(), &namespace);
                writer
                    .create(&api, Some(&cx.bindings.namespaced), &*binding)
                    .await
                    .map_err(|failure| told(cx, seen, failure))?;
            }
            Effect::CreateClusterBinding(binding) => {
                let api = Api::all(cx.plane.clone());
                let created = writer.create(&api, Some(&cx.bindings.cluster_scoped), &*binding).await;
                created.map_err(|failure| told(cx, seen, failure))?;
            }
            Effect::PatchBinding { key, patch } => patch_binding(cx, &writer, seen, &key, patch).await?,
            Effect::Wait(what) => {
                cx.waiting.0.lock().insert(seen.key.clone(), what);
            }
            Effect::StopWaiting => {
                cx.waiting.0.lock().remove(&seen.key);
            }
            Effect::Retry => next = Next::Retry,
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    Ok(next)
}

/// What a refused binding means to people, on its template.
fn told(cx: &Context, seen: &Observed, failure: Failure) -> Failure {
    if let Some(event) = detector::binding_failed_event(seen.json(), failure.class(), &failure.to_string()) {
        cx.events.record(&event);
    }
    failure
}

async fn patch_template(cx: &Context, writer: &Writer, seen: &Observed, patch: Value) -> Result<(), Failure> {
    let Some((served, cache)) = cx.templates.watched(&seen.key.gvk) else { return Ok(()) };
    let api = served.api(&cx.plane, &seen.key.namespace);
    // Claimed, it soon has a status to report: whatever comes within moments goes out as one.
    cx.template_status.noise(seen.key.clone());
    writer.patch(&api, Some(&cache), &*seen.template, patch).await.map(drop)
}

async fn patch_binding(
    cx: &Context,
    writer: &Writer,
    seen: &Observed,
    key: &BindingKey,
    patch: Value,
) -> Result<(), Failure> {
    // The version that the decision saw, not a newer one: what it did not see must not be overwritten.
    match seen.bindings().find(|binding| binding.view().key() == *key) {
        Some(binding) => cx.bindings.patch(writer, binding, patch).await,
        None => Ok(()),
    }
}
