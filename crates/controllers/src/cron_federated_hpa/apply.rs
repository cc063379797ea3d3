//! Sets replicas or bounds, and writes the history.

use std::sync::Arc;

use ironclad_api::{
    autoscaling::{CronFederatedHPA, CronFederatedHPAStatus, FederatedHPA},
    events::{SCALE_FAILED, UPDATE_CRON_FEDERATED_HPA_FAILED, UPDATE_STATUS_FAILED},
    work::ObjectReference,
};
use ironclad_autoscaling::cron::{Due, Set, bounds, is_federated_hpa};
use ironclad_fleet::{Event, Gvk};
use ironclad_runtime::{Api, Failure, Informer, Writer};
use kube::{Client, ResourceExt as _, api::DynamicObject};
use serde_json::json;

use crate::{controller::Reconciler as _, events::Events, mapper::Mapper, setup::Setup};

/// The writes of the controller.
pub(super) struct Applier {
    plane: Client,
    mapper: Arc<Mapper>,
    events: Events,
    writer: Writer,
    objects: Informer<CronFederatedHPA>,
    autoscalers: Informer<FederatedHPA>,
}

impl Applier {
    pub(super) fn new(setup: &Setup, objects: Informer<CronFederatedHPA>, autoscalers: Informer<FederatedHPA>) -> Self {
        let (plane, mapper, events) = (setup.plane.clone(), setup.mapper.clone(), setup.events.clone());
        Self { plane, mapper, events, writer: Writer::new(super::CronAutoscaler::NAME), objects, autoscalers }
    }

    /// Sets what the rule says. The inner error is the message of an execution that failed; the outer one is worth
    /// another attempt.
    pub(super) async fn execute(&self, object: &CronFederatedHPA, due: &Due) -> Result<Result<Set, String>, Failure> {
        let set = match &due.set {
            Ok(set) => *set,
            Err(message) => return Ok(Err(message.clone())),
        };
        let done = match set {
            Set::Replicas(replicas) => self.scale(object, replicas).await,
            Set::Bounds { min, max } => self.bound(object, min, max).await,
        };
        match done {
            Ok(done) => Ok(done.map(|()| set)),
            Err(failure) if failure.is_final() || failure.is_not_found() => {
                let target = &object.spec.scale_target_ref;
                Ok(Err(format!("failed to scale {} {}: {failure}", target.kind, target.name)))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn scale(&self, object: &CronFederatedHPA, replicas: i32) -> Result<Result<(), String>, Failure> {
        let target = &object.spec.scale_target_ref;
        let gvk = Gvk::from_manifest(target.api_version.as_deref().unwrap_or_default(), &target.kind);
        let Some(served) = self.mapper.served(&gvk).await? else {
            return Ok(Err(format!("the control plane does not serve {} of {}", gvk.kind, gvk.api_version())));
        };
        let api: Api<DynamicObject> = served.api(&self.plane, &object.namespace().unwrap_or_default());
        let now = api.get_scale(&target.name).await?;
        if now.spec.and_then(|spec| spec.replicas).unwrap_or(0) != replicas {
            self.writer.scale(&api, &target.name, replicas).await?;
        }
        Ok(Ok(()))
    }

    async fn bound(
        &self,
        object: &CronFederatedHPA,
        min: Option<i32>,
        max: Option<i32>,
    ) -> Result<Result<(), String>, Failure> {
        let namespace = object.namespace().unwrap_or_default();
        let name = &object.spec.scale_target_ref.name;
        let Some(hpa) = self.autoscalers.get(&namespace, name) else {
            return Ok(Err(format!("FederatedHPA {namespace}/{name} does not exist")));
        };
        let (least, most) = match bounds(&hpa.spec, min, max) {
            Ok(bounds) => bounds,
            Err(message) => return Ok(Err(message)),
        };
        if (hpa.spec.min_replicas, hpa.spec.max_replicas) != (Some(least), most) {
            let patch = json!({"spec": {"minReplicas": least, "maxReplicas": most}});
            let api = Api::namespaced(self.plane.clone(), &namespace);
            self.writer.patch(&api, Some(&self.autoscalers), &*hpa, patch).await?;
        }
        Ok(Ok(()))
    }

    pub(super) fn tell_of_failure(&self, object: &CronFederatedHPA, about: &ObjectReference, due: &Due, why: &str) {
        let is_hpa = is_federated_hpa(&object.spec);
        let reason = if is_hpa { UPDATE_CRON_FEDERATED_HPA_FAILED } else { SCALE_FAILED };
        self.events.record(&Event::warning(about.clone(), reason, format!("rule {}: {why}", due.rule)));
    }

    pub(super) async fn write_status(
        &self,
        object: &CronFederatedHPA,
        about: &ObjectReference,
        status: &CronFederatedHPAStatus,
    ) -> Result<(), Failure> {
        if object.status.as_ref().unwrap_or(&CronFederatedHPAStatus::default()) == status {
            return Ok(());
        }
        let api = Api::namespaced(self.plane.clone(), &object.namespace().unwrap_or_default());
        let base = object.resource_version().unwrap_or_default();
        let patch = json!({"executionHistories": status.execution_histories});
        let written = self.writer.patch_status(&api, Some(&self.objects), &object.name_any(), &base, patch).await;
        if let Err(failure) = &written
            && !failure.is_conflict()
        {
            let message = format!("failed to write the history: {failure}");
            self.events.record(&Event::warning(about.clone(), UPDATE_STATUS_FAILED, message));
        }
        written.map(drop)
    }
}
