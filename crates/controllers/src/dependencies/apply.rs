//! Writes attached bindings, after the finalizer by which they are released later.

use std::sync::Arc;

use ironclad_api::work::ResourceBinding;
use ironclad_fleet::{BindingKey, BindingRef, Plan};
use ironclad_propagation::{dependencies::Effect, success};
use ironclad_runtime::{Api, Failure, Key, Next, Writer};
use kube::{Client, api::PropagationPolicy};

use super::observe::Observed;
use crate::{bindings::Bindings, events::Events, setup::Setup};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    bindings: Bindings,
    events: Events,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            writer: setup.writer("dependencies"),
            plane: setup.plane.clone(),
            bindings: setup.bindings().clone(),
            events: setup.events.clone(),
        }
    }

    pub(super) async fn apply(&self, key: &Key, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
        for because in &plan.because {
            tracing::debug!(binding = %key, %because, "dependencies");
        }
        let api = |namespace: &str| Api::<ResourceBinding>::namespaced(self.plane.clone(), namespace);
        let successes = self
            .events
            .successes(|| seen.with_seen(|s| success::of_dependencies(s.binding, s.template, &plan.effects)));
        let mut next = Next::Forget;
        for effect in plan.effects {
            match effect {
                Effect::PatchBinding { patch } => match self.bindings.patch(&self.writer, &seen.binding, patch).await {
                    Ok(()) | Err(Failure::NotFound(_)) => {}
                    Err(other) => return Err(other),
                },
                Effect::Create(binding) => {
                    let namespace = binding.metadata.namespace.clone().unwrap_or_default();
                    self.writer.create(&api(&namespace), Some(&self.bindings.namespaced), &*binding).await?;
                }
                Effect::Patch { key, patch } => {
                    let Some(attached) = find(seen, &key) else { continue };
                    match self
                        .writer
                        .patch(&api(&key.namespace), Some(&self.bindings.namespaced), &**attached, patch)
                        .await
                    {
                        Ok(_) | Err(Failure::NotFound(_)) => {}
                        Err(other) => return Err(other),
                    }
                }
                Effect::Delete { key, uid } => {
                    let Some(attached) = find(seen, &key).filter(|b| b.metadata.uid.as_deref() == Some(&uid)) else {
                        continue;
                    };
                    let background = PropagationPolicy::Background;
                    self.writer
                        .delete(&api(&key.namespace), Some(&self.bindings.namespaced), &**attached, background)
                        .await?;
                }
                Effect::Retry => next = Next::Retry,
                Effect::Event(event) => self.events.record(&event),
            }
        }
        self.events.record_all(&successes);
        Ok(next)
    }
}

fn find<'a>(seen: &'a Observed, key: &BindingKey) -> Option<&'a Arc<ResourceBinding>> {
    seen.attached.iter().find(|binding| BindingRef::from(&***binding).key() == *key)
}
