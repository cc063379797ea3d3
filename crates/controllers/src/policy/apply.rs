//! Writes a policy, its templates and its bindings.

use std::sync::Arc;

use ironclad_fleet::Plan;
use ironclad_propagation::policy::{self, Effect};
use ironclad_runtime::{Failure, Next, Writer};
use kube::{Client, api::DynamicObject};

use super::{metrics::PolicyMetrics, observe::Observed};
use crate::{
    bindings::Bindings, events::Events, objects::Objects, policies::Policies, setup::Setup, templates::TemplateQueue,
};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    policies: Policies,
    bindings: Bindings,
    templates: Arc<Objects<DynamicObject>>,
    queue: TemplateQueue,
    events: Events,
    metrics: PolicyMetrics,
}

impl Applier {
    pub(super) fn new(setup: &Setup, policies: Policies) -> Self {
        Self {
            writer: setup.writer("detector"),
            plane: setup.plane.clone(),
            policies,
            bindings: setup.bindings().clone(),
            templates: setup.templates().clone(),
            queue: setup.template_queue().clone(),
            events: setup.events.clone(),
            metrics: setup.register(PolicyMetrics::register),
        }
    }

    pub(super) async fn apply(&self, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
        for because in &plan.because {
            tracing::debug!(policy = %seen.policy.view().key(), %because, "policy");
        }
        let mut next = Next::Forget;
        for effect in plan.effects {
            match effect {
                Effect::PatchPolicy { patch } => match self.policies.patch(&self.writer, &seen.policy, patch).await {
                    Ok(()) | Err(Failure::NotFound(_)) => {}
                    Err(other) => return Err(other),
                },
                Effect::PatchTemplate { key, patch } => {
                    let Some(cached) = seen.cached().find(|cached| cached.key == key) else { continue };
                    let Some((served, cache)) = self.templates.watched(&key.gvk) else { continue };
                    let api = served.api(&self.plane, &key.namespace);
                    if let Err(failure) = self.writer.patch(&api, Some(&cache), &*cached.object, patch).await {
                        let (class, message) = (failure.class(), failure.to_string());
                        let event = policy::preemption_failed_event(seen.policy.view(), &cached.json, class, &message);
                        if let Some(event) = &event {
                            self.metrics.count(event);
                            self.events.record(event);
                        }
                        return Err(failure);
                    }
                }
                Effect::PatchBinding { key, patch } => {
                    let Some(binding) = seen.bindings().find(|binding| binding.view().key() == key) else { continue };
                    self.bindings.patch(&self.writer, binding, patch).await?;
                }
                Effect::Enqueue { template } => self.queue.queue.add_low_priority(template),
                Effect::RequeueAfter(wait) => next = Next::After(wait),
                Effect::Retry => next = Next::Retry,
                Effect::Event(event) => {
                    self.metrics.count(&event);
                    self.events.record(&event);
                }
            }
        }
        Ok(next)
    }
}
