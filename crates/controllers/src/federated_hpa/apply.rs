//! Writes replicas and status.

use std::sync::Arc;

use ironclad_api::{autoscaling::FederatedHPA, events::FAILED_UPDATE_STATUS, work::ObjectReference};
use ironclad_fleet::{Event, EventType, Gvk};
use ironclad_hpa::{Notice, Plan, plan::Written};
use ironclad_runtime::{Api, Failure, Informer, Writer};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use kube::{Client, ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

use crate::{events::Events, mapper::Mapper};

/// The writes of the controller.
pub(super) struct Applier {
    pub(super) plane: Client,
    pub(super) mapper: Arc<Mapper>,
    pub(super) events: Events,
    pub(super) writer: Writer,
    pub(super) objects: Informer<FederatedHPA>,
}

impl Applier {
    /// Sets the replicas of the plan through the scale subresource of the template.
    pub(super) async fn scale(&self, object: &FederatedHPA, plan: &Plan) -> Written {
        if !plan.rescales() {
            return Written::Nothing;
        }
        match self.write_scale(object, plan.desired).await {
            Ok(()) => Written::Rescaled,
            Err(failure) => Written::Failed(failure.to_string()),
        }
    }

    async fn write_scale(&self, object: &FederatedHPA, replicas: i32) -> Result<(), Failure> {
        let target = &object.spec.scale_target_ref;
        let gvk = Gvk::from_manifest(target.api_version.as_deref().unwrap_or_default(), &target.kind);
        let served = self.mapper.served(&gvk).await?;
        let served = served.ok_or_else(|| Failure::NotFound(format!("{gvk} is not served")))?;
        let api: Api<DynamicObject> = served.api(&self.plane, &object.namespace().unwrap_or_default());
        self.writer.scale(&api, &target.name, replicas).await
    }

    pub(super) fn record_events(&self, about: &ObjectReference, notices: Vec<Notice>) {
        for notice in notices {
            let type_ = if notice.is_warning { EventType::Warning } else { EventType::Normal };
            let about = about.clone();
            self.events.record(&Event { about, type_, reason: notice.reason, message: notice.message });
        }
    }

    /// Writes the status, if it changed.
    pub(super) async fn write_status(
        &self,
        object: &FederatedHPA,
        about: &ObjectReference,
        status: &HorizontalPodAutoscalerStatus,
    ) -> Result<(), Failure> {
        if object.status.as_ref() == Some(status) {
            return Ok(());
        }
        let api = Api::namespaced(self.plane.clone(), &object.namespace().unwrap_or_default());
        let base = object.resource_version().unwrap_or_default();
        let patch = patch(status)?;
        let written = self.writer.patch_status(&api, Some(&self.objects), &object.name_any(), &base, patch).await;
        if let Err(failure) = &written
            && !failure.is_conflict()
        {
            let message = format!("failed to write the status: {failure}");
            self.events.record(&Event::warning(about.clone(), FAILED_UPDATE_STATUS, message));
        }
        written.map(drop)
    }
}

/// A merge patch to this status. Its lists are replaced as a whole; what is absent is removed.
fn patch(status: &HorizontalPodAutoscalerStatus) -> Result<Value, Failure> {
    let mut patch = serde_json::to_value(status).map_err(|error| Failure::Invalid(error.to_string()))?;
    for field in ["conditions", "currentMetrics", "currentReplicas", "lastScaleTime", "observedGeneration"] {
        if patch.get(field).is_none() {
            patch[field] = json!(null);
        }
    }
    Ok(patch)
}
