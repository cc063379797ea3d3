//! Writes Works, the OverridePolicy, the object and its target, in the order of the plan.

use std::{sync::Arc, time::Duration};

use ironclad_api::policy::OverridePolicy;
use ironclad_autoscaling::distributed_hpa::{Effect, target_key};
use ironclad_fleet::{ObjectKey, Plan, StatusPart};
use ironclad_runtime::{Api, Failure, Informer, Key, Next, StatusWriter, Writer};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, PropagationPolicy},
};
use serde_json::Value;

use super::{
    NAME,
    observe::{Observed, Observer},
};
use crate::{
    bindings::Bindings,
    events::Events,
    mapper::Mapper,
    objects::Objects,
    owned::OwnedWorks,
    setup::Setup,
    targets::{Templates, Typed, json},
};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    mapper: Arc<Mapper>,
    events: Events,
    bindings: Bindings,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    templates: Arc<Objects<DynamicObject>>,
    /// Of objects of other kinds.
    template_status: StatusWriter<Templates>,
    overrides: Informer<OverridePolicy>,
    works: OwnedWorks,
    status: StatusWriter<Typed<HorizontalPodAutoscaler>>,
}

impl Applier {
    pub(super) fn new(setup: &Setup, observer: &Observer) -> Self {
        let target = Typed {
            client: setup.plane.clone(),
            cache: observer.scalers.hpas.clone(),
            writer: Writer::new(NAME),
            events: setup.events.clone(),
            api: |client, namespace| Api::namespaced(client.clone(), namespace),
            status: |hpa: &HorizontalPodAutoscaler| json(&hpa.status),
        };
        Self {
            writer: setup.writer(NAME),
            plane: setup.plane.clone(),
            mapper: setup.mapper.clone(),
            events: setup.events.clone(),
            bindings: setup.bindings().clone(),
            autoscalers: observer.scalers.hpas.clone(),
            templates: setup.templates().clone(),
            template_status: setup.template_status().clone(),
            overrides: observer.overrides.clone(),
            works: OwnedWorks::new(setup, NAME),
            status: StatusWriter::start("status/horizontalpodautoscalers", &setup.seam, target),
        }
    }

    /// True if every requested status is written.
    pub(super) fn is_quiet(&self) -> bool {
        self.status.is_quiet()
    }

    pub(super) async fn apply(&self, key: &ObjectKey, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
        for because in &plan.because {
            tracing::debug!(autoscaler = %key, %because, "distributed autoscaler");
        }
        let (mut next, mut failed) = (Next::Forget, None);
        for effect in plan.effects {
            let outcome = match effect {
                Effect::Patch { patch } => {
                    self.patch(seen, patch).await?;
                    Ok(())
                }
                Effect::Release { .. } if failed.is_some() => Ok(()),
                Effect::Release { patch } => self.patch(seen, patch).await,
                Effect::Work(write) => self.works.send(&seen.works, write).await,
                Effect::DeleteOwnBinding { key } => self.delete_binding(&Key::new(&key.namespace, &key.name)).await,
                Effect::CreatePolicy(policy) => {
                    let api = Api::namespaced(self.plane.clone(), &key.namespace);
                    self.writer.create(&api, Some(&self.overrides), &*policy).await.map(drop)
                }
                Effect::PatchPolicy { patch } => match &seen.policy {
                    Some(policy) => {
                        let api = Api::namespaced(self.plane.clone(), &key.namespace);
                        self.writer.patch(&api, Some(&self.overrides), &**policy, patch).await.map(drop)
                    }
                    None => Ok(()),
                },
                Effect::DeletePolicy => match &seen.policy {
                    Some(policy) => {
                        let api = Api::namespaced(self.plane.clone(), &key.namespace);
                        let background = PropagationPolicy::Background;
                        self.writer.delete(&api, Some(&self.overrides), &**policy, background).await
                    }
                    None => Ok(()),
                },
                Effect::ScaleTarget { replicas } => self.scale(seen, replicas).await,
                Effect::Status(part) => {
                    self.request(key, seen, part);
                    Ok(())
                }
                Effect::Event(event) => {
                    self.events.record(&event);
                    Ok(())
                }
                Effect::RequeueAfter(wait) => {
                    next = Next::After(Duration::try_from(wait).unwrap_or(Duration::from_secs(1)));
                    Ok(())
                }
            };
            if let Err(failure) = outcome {
                failed.get_or_insert(failure);
            }
        }
        failed.map_or(Ok(next), Err)
    }

    fn request(&self, key: &ObjectKey, seen: &Observed, part: StatusPart) {
        let uid = seen.scaler.hpa.uid().unwrap_or_default();
        match seen.scaler.kind.is_hpa() {
            true => self.status.request(&Key::new(&key.namespace, &key.name), &uid, NAME, part, false),
            false => self.template_status.request(key, &uid, NAME, part, false),
        }
    }

    async fn patch(&self, seen: &Observed, patch: Value) -> Result<(), Failure> {
        let key = seen.scaler.key();
        let done = if seen.scaler.kind.is_hpa() {
            let api = Api::namespaced(self.plane.clone(), &key.namespace);
            self.writer.patch(&api, Some(&self.autoscalers), &*seen.scaler.hpa, patch).await.map(drop)
        } else {
            let Some((served, cache)) = self.templates.watched(&key.gvk) else { return Ok(()) };
            let Some(object) = cache.get(&key.namespace, &key.name) else { return Ok(()) };
            if object.resource_version() != seen.scaler.hpa.resource_version() {
                return Err(Failure::Conflict(format!("{key} changed")));
            }
            self.writer.patch(&served.api(&self.plane, &key.namespace), Some(&cache), &*object, patch).await.map(drop)
        };
        match done {
            Err(Failure::NotFound(_)) => Ok(()),
            other => other,
        }
    }

    async fn delete_binding(&self, key: &Key) -> Result<(), Failure> {
        let Some(binding) = self.bindings.namespaced.get_key(key) else { return Ok(()) };
        let api = Api::namespaced(self.plane.clone(), &key.namespace);
        let background = PropagationPolicy::Background;
        self.writer.delete(&api, Some(&self.bindings.namespaced), &*binding, background).await
    }

    async fn scale(&self, seen: &Observed, replicas: i32) -> Result<(), Failure> {
        let target = target_key(&seen.scaler.hpa);
        let Some(served) = self.mapper.served(&target.gvk).await? else { return Ok(()) };
        let api: Api<DynamicObject> = served.api(&self.plane, &target.namespace);
        match self.writer.scale(&api, &target.name, replicas).await {
            Err(Failure::NotFound(_)) => Ok(()),
            other => other,
        }
    }
}
