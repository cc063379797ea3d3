//! Writes a claim: the policy's permanent id first, then the template, then the binding.

use std::sync::Arc;

use ironclad_fleet::{BindingKey, BindingRef, Plan};
use ironclad_propagation::{
    detector::{self, Effect},
    success,
};
use ironclad_runtime::{Api, Failure, Next, StatusWriter, Writer};
use ironclad_scheduling as scheduling;
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::{Client, api::DynamicObject};
use serde_json::Value;

use super::observe::Observed;
use crate::{
    bindings::{Bindings, queue_key},
    events::Events,
    objects::Objects,
    policies::Policies,
    setup::Setup,
    targets::Templates,
    templates::TemplateQueue,
};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    policies: Policies,
    bindings: Bindings,
    templates: Arc<Objects<DynamicObject>>,
    template_status: StatusWriter<Templates>,
    queue: TemplateQueue,
    events: Events,
    clock: Clock,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            writer: setup.writer("detector"),
            plane: setup.plane.clone(),
            policies: Policies::take(&setup.caches, &setup.plane),
            bindings: setup.bindings().clone(),
            templates: setup.templates().clone(),
            template_status: setup.template_status().clone(),
            queue: setup.template_queue().clone(),
            events: setup.events.clone(),
            clock: setup.seam.clock.clone(),
        }
    }

    pub(super) async fn apply(&self, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
        for because in &plan.because {
            tracing::debug!(template = %seen.key, %because, "detected");
        }
        let successes = self.events.successes(|| success::of_detector(seen.json(), &plan.effects));
        let (mut next, mut refused) = (Next::Forget, false);
        for effect in plan.effects {
            match effect {
                Effect::PatchPolicy { policy, patch } => {
                    if let Some(policy) = seen.policies.iter().find(|seen| seen.view().key() == policy) {
                        self.policies.patch(&self.writer, policy, patch).await?;
                    }
                }
                Effect::PatchTemplate { patch } => self.patch_template(seen, patch).await?,
                Effect::CreateBinding(binding) => {
                    let namespace = binding.metadata.namespace.clone().unwrap_or_default();
                    let api = Api::namespaced(self.plane.clone(), &namespace);
                    self.writer
                        .create(&api, Some(&self.bindings.namespaced), &*binding)
                        .await
                        .map_err(|failure| self.report_refusal(seen, failure))?;
                }
                Effect::CreateClusterBinding(binding) => {
                    let api = Api::all(self.plane.clone());
                    let created = self.writer.create(&api, Some(&self.bindings.cluster_scoped), &*binding).await;
                    created.map_err(|failure| self.report_refusal(seen, failure))?;
                }
                Effect::PatchBinding { key, patch } => match self.patch_binding(seen, &key, patch).await {
                    // Quota may be freed at any time, and nothing is broken.
                    Err(Failure::OverQuota(refusal)) => {
                        self.report_quota(seen, |binding, now| {
                            (binding.key() == key).then(|| scheduling::template_refused(binding, &refusal, now))
                        });
                        refused = true;
                        next = Next::Retry;
                    }
                    patched => patched?,
                },
                Effect::Wait(what) => {
                    self.queue.wait(&seen.key, what);
                }
                Effect::StopWaiting => {
                    self.queue.stop_waiting(&seen.key);
                }
                Effect::Retry => next = Next::Retry,
                Effect::Event(event) => self.events.record(&event),
            }
        }
        self.events.record_all(&successes);
        if !refused {
            self.report_quota(seen, |binding, now| Some(scheduling::template_accepted(binding, now)));
        }
        Ok(next)
    }

    /// Writes what a quota has to do with the template's bindings.
    fn report_quota(
        &self,
        seen: &Observed,
        report: impl Fn(BindingRef<'_>, Timestamp) -> Option<Plan<scheduling::Effect>>,
    ) {
        for binding in seen.bindings() {
            let Some(plan) = report(binding.view(), self.clock.wall_seconds()) else { continue };
            for effect in plan.effects {
                match effect {
                    scheduling::Effect::Result { .. } | scheduling::Effect::Preempt(_) => {}
                    scheduling::Effect::Status(part) => {
                        self.bindings.request_status(&queue_key(binding), binding.uid(), "detector", part);
                    }
                    scheduling::Effect::Event(event) => self.events.record(&event),
                }
            }
        }
    }

    /// Records on the template that its binding was refused.
    fn report_refusal(&self, seen: &Observed, failure: Failure) -> Failure {
        if let Some(event) = detector::binding_failed_event(seen.json(), failure.class(), &failure.to_string()) {
            self.events.record(&event);
        }
        failure
    }

    async fn patch_template(&self, seen: &Observed, patch: Value) -> Result<(), Failure> {
        let Some((served, cache)) = self.templates.watched(&seen.key.gvk) else { return Ok(()) };
        let api = served.api(&self.plane, &seen.key.namespace);
        // A claimed template soon has a status: parts that follow each other closely are written as one.
        self.template_status.note_activity(seen.key.clone());
        self.writer.patch(&api, Some(&cache), &*seen.template, patch).await.map(drop)
    }

    async fn patch_binding(&self, seen: &Observed, key: &BindingKey, patch: Value) -> Result<(), Failure> {
        // The version that the decision saw, not a newer one: what it did not see must not be overwritten.
        match seen.bindings().find(|binding| binding.view().key() == *key) {
            Some(binding) => self.bindings.patch(&self.writer, binding, patch).await,
            None => Ok(()),
        }
    }
}
