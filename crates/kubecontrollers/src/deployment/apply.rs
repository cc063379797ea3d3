//! Applies a Deployment's plan.

use ironclad_runtime::{Api, Failure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PropagationPolicy},
};
use serde_json::{Value, json};

use super::{
    Controller, KIND,
    decide::{Plan, Update, has_wanted_template},
    revision::REVISION,
};
use crate::{
    owner::{adopting, check_adopter, controller_reference, releasing},
    status_debounce::status_patch,
};

const MANAGER: &str = "ironclad-deployment-controller";

impl Controller {
    pub(super) async fn apply(&self, deployment: &Deployment, plan: &Plan) -> Result<(), Failure> {
        let api: Api<ReplicaSet> = Api::namespaced(self.cluster.client.clone(), namespace(deployment));
        if !plan.adopt.is_empty() {
            let deployments: Api<Deployment> = Api::namespaced(self.cluster.client.clone(), namespace(deployment));
            check_adopter(&deployments, &deployment.metadata).await?;
        }
        for set in &plan.adopt {
            let patch = adopting(&set.metadata, &controller_reference("apps/v1", KIND, &deployment.metadata));
            self.writer.patch(&api, Some(&self.sets), set, patch).await?;
        }
        for set in &plan.release {
            let patch = releasing(&set.metadata, &[deployment.metadata.uid.as_deref().unwrap_or("")]);
            self.writer.patch(&api, Some(&self.sets), set, patch).await?;
        }
        if let Some(set) = &plan.create {
            self.create(deployment, &api, set).await?;
        }
        for update in &plan.update {
            self.writer.patch(&api, Some(&self.sets), &update.set, patch_of(update)).await?;
        }
        for set in &plan.delete {
            self.writer.delete(&api, Some(&self.sets), set, PropagationPolicy::Background).await?;
        }
        Ok(())
    }

    async fn create(&self, deployment: &Deployment, api: &Api<ReplicaSet>, set: &ReplicaSet) -> Result<(), Failure> {
        match self.writer.create(api, Some(&self.sets), set).await {
            Ok(_) => Ok(()),
            Err(Failure::AlreadyExists(_)) => match api.get_opt(&set.name_any()).await? {
                Some(found) if has_wanted_template(deployment, &found) => {
                    self.sets.written(None, found);
                    Ok(())
                }
                Some(_) => self.count_collision(deployment).await,
                None => Ok(()),
            },
            Err(failure) => Err(failure),
        }
    }

    /// Raises the collision count, which changes the next name: another template has the same hash.
    async fn count_collision(&self, deployment: &Deployment) -> Result<(), Failure> {
        let count = deployment.status.as_ref().and_then(|s| s.collision_count).unwrap_or(0) + 1;
        self.patch_status(deployment, json!({"collisionCount": count}), None).await
    }

    /// Writes the status together with the revision: a status write of a Deployment keeps annotations and does not
    /// raise the generation (specification/apiserver.md 7).
    pub(super) async fn write_status(&self, deployment: &Deployment, plan: &Plan) -> Result<(), Failure> {
        let status = status_patch(deployment.status.as_ref(), &plan.status);
        self.patch_status(deployment, status, plan.revision.as_deref()).await
    }

    async fn patch_status(
        &self,
        deployment: &Deployment,
        status: Value,
        revision: Option<&str>,
    ) -> Result<(), Failure> {
        let api: Api<Deployment> = Api::namespaced(self.cluster.client.clone(), namespace(deployment));
        let base = deployment.resource_version().unwrap_or_default();
        let mut patch = json!({"metadata": {"resourceVersion": base}, "status": status});
        if let Some(revision) = revision {
            patch["metadata"]["annotations"] = json!({REVISION: revision});
        }
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = api.patch_status(&deployment.name_any(), &params, &Patch::Merge(&patch)).await?;
        self.deployments.written(Some(&base), patched);
        Ok(())
    }
}

fn namespace(deployment: &Deployment) -> &str {
    deployment.metadata.namespace.as_deref().unwrap_or("")
}

fn patch_of(update: &Update) -> Value {
    let mut patch = json!({});
    if !update.annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(update.annotations);
    }
    if let Some(replicas) = update.replicas {
        patch["spec"]["replicas"] = json!(replicas);
    }
    if let Some(seconds) = update.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = json!(seconds);
    }
    patch
}
