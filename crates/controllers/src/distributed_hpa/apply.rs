//! Writes Works, the OverridePolicy, the object and its target, in the order of the plan.

use std::{sync::Arc, time::Duration};

use ironclad_api::policy::OverridePolicy;
use ironclad_autoscaling::distributed_hpa::{Effect, target_key};
use ironclad_fleet::{Plan, StatusPart};
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
    owned::OwnedWorks,
    setup::Setup,
    targets::{Typed, json},
};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    mapper: Arc<Mapper>,
    events: Events,
    bindings: Bindings,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    overrides: Informer<OverridePolicy>,
    works: OwnedWorks,
    status: StatusWriter<Typed<HorizontalPodAutoscaler>>,
}

impl Applier {
    pub(super) fn new(setup: &Setup, observer: &Observer) -> Self {
        let target = Typed {
            client: setup.plane.clone(),
            cache: observer.autoscalers.clone(),
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
            autoscalers: observer.autoscalers.clone(),
            overrides: observer.overrides.clone(),
            works: OwnedWorks::new(setup, NAME),
            status: StatusWriter::start("status/horizontalpodautoscalers", &setup.seam, target),
        }
    }

    /// True if every requested status is written.
    pub(super) fn is_quiet(&self) -> bool {
        self.status.is_quiet()
    }

    pub(super) async fn apply(&self, key: &Key, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
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

    fn request(&self, key: &Key, seen: &Observed, part: StatusPart) {
        let uid = seen.hpa.uid().unwrap_or_default();
        self.status.request(key, &uid, NAME, part, false);
    }

    async fn patch(&self, seen: &Observed, patch: Value) -> Result<(), Failure> {
        let api = Api::namespaced(self.plane.clone(), &seen.hpa.namespace().unwrap_or_default());
        match self.writer.patch(&api, Some(&self.autoscalers), &*seen.hpa, patch).await {
            Err(Failure::NotFound(_)) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn delete_binding(&self, key: &Key) -> Result<(), Failure> {
        let Some(binding) = self.bindings.namespaced.get_key(key) else { return Ok(()) };
        let api = Api::namespaced(self.plane.clone(), &key.namespace);
        let background = PropagationPolicy::Background;
        self.writer.delete(&api, Some(&self.bindings.namespaced), &*binding, background).await
    }

    async fn scale(&self, seen: &Observed, replicas: i32) -> Result<(), Failure> {
        let target = target_key(&seen.hpa);
        let Some(served) = self.mapper.served(&target.gvk).await? else { return Ok(()) };
        let api: Api<DynamicObject> = served.api(&self.plane, &target.namespace);
        match self.writer.scale(&api, &target.name, replicas).await {
            Err(Failure::NotFound(_)) => Ok(()),
            other => other,
        }
    }
}
