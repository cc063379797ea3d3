//! Writes attached bindings, after the finalizer by which they are released again.

use std::sync::Arc;

use ironclad_api::work::ResourceBinding;
use ironclad_fleet::{BindingKey, Plan};
use ironclad_propagation::{dependencies::Effect, detector::binding::Binding};
use ironclad_runtime::{Failure, Key, Next, Writer};
use kube::{Api, api::PropagationPolicy};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
    let writer = Writer::new("dependencies");
    for because in &plan.because {
        tracing::debug!(binding = %key, %because, "dependencies");
    }
    let api = |namespace: &str| Api::<ResourceBinding>::namespaced(cx.plane.clone(), namespace);
    let mut next = Next::Forget;
    for effect in plan.effects {
        match effect {
            Effect::PatchBinding { patch } => match cx.bindings.patch(&writer, &seen.binding, patch).await {
                Ok(()) | Err(Failure::NotFound(_)) => {}
                Err(other) => return Err(other),
            },
            Effect::Create(binding) => {
                let namespace = binding.metadata.namespace.clone().unwrap_or_default();
                writer.create(&api(&namespace), Some(&cx.bindings.namespaced), &*binding).await?;
            }
            Effect::Patch { key, patch } => {
                let Some(attached) = find(seen, &key) else { continue };
                match writer.patch(&api(&key.namespace), Some(&cx.bindings.namespaced), &**attached, patch).await {
                    Ok(_) | Err(Failure::NotFound(_)) => {}
                    Err(other) => return Err(other),
                }
            }
            Effect::Delete { key, uid } => {
                let Some(attached) = find(seen, &key).filter(|b| b.metadata.uid.as_deref() == Some(&uid)) else {
                    continue;
                };
                let background = PropagationPolicy::Background;
                writer.delete(&api(&key.namespace), Some(&cx.bindings.namespaced), &**attached, background).await?;
            }
            Effect::Retry => next = Next::Retry,
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    Ok(next)
}

fn find<'a>(seen: &'a Observed, key: &BindingKey) -> Option<&'a Arc<ResourceBinding>> {
    seen.attached.iter().find(|binding| Binding::from(&***binding).key() == *key)
}
