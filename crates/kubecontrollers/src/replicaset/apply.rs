//! The requests that a ReplicaSet's plan is.

use std::sync::Arc;

use futures::future::join_all;
use ironclad_runtime::Failure;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::{Api, ResourceExt as _, api::PropagationPolicy};

use super::{
    Controller, KIND,
    decide::{Plan, Trouble},
};
use crate::{
    owner::{adopting, controller_of, controller_reference, releasing},
    pace::status_patch,
    pods::{from_template, name_base},
};

/// Requests that go out at once for one set. The first failure stops those that follow.
const AT_ONCE: usize = 16;
/// Letters that are drawn for the name of a pod.
const DRAWN: usize = 5;

impl Controller {
    pub(super) async fn apply(&self, set: &Arc<ReplicaSet>, plan: &Plan) -> Result<(), Failure> {
        let api: Api<Pod> =
            Api::namespaced(self.cluster.client.clone(), set.metadata.namespace.as_deref().unwrap_or(""));
        for pod in &plan.adopt {
            let patch = adopting(&pod.metadata, &controller_reference("apps/v1", KIND, &set.metadata));
            self.writer.patch(&api, Some(&self.pods), pod, patch).await?;
        }
        for pod in &plan.release {
            let patch = releasing(&pod.metadata, &[set.metadata.uid.as_deref().unwrap_or("")]);
            self.writer.patch(&api, Some(&self.pods), pod, patch).await?;
        }
        if plan.create > 0 {
            let created = self.create(set, &api, plan.create).await;
            self.remember(set, "FailedCreate", created)?;
        }
        if !plan.delete.is_empty() {
            let deleted = self.delete(set, &api, &plan.delete).await;
            self.remember(set, "FailedDelete", deleted)?;
        }
        Ok(())
    }

    pub(super) async fn write_status(&self, set: &ReplicaSet, status: &ReplicaSetStatus) -> Result<(), Failure> {
        let api: Api<ReplicaSet> =
            Api::namespaced(self.cluster.client.clone(), set.metadata.namespace.as_deref().unwrap_or(""));
        let patch = status_patch(set.status.as_ref(), status);
        let version = set.resource_version().unwrap_or_default();
        self.writer.patch_status(&api, Some(&self.sets), &set.name_any(), &version, patch).await?;
        Ok(())
    }

    async fn create(&self, set: &ReplicaSet, api: &Api<Pod>, count: usize) -> Result<(), Failure> {
        let mut left = count;
        while left > 0 {
            let names = self.draw_names(set, left.min(AT_ONCE));
            let answers = join_all(names.iter().map(|name| self.create_one(set, api, name))).await;
            left -= names.len();
            answers.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        }
        Ok(())
    }

    /// Names for so many pods: first those whose creation nobody knows to have happened.
    fn draw_names(&self, set: &ReplicaSet, count: usize) -> Vec<String> {
        let mut memory = self.memory.lock();
        let names = &mut memory.entry(set.uid().unwrap_or_default()).or_default().names;
        while names.len() < count {
            names.push(format!("{}{}", name_base(&set.name_any()), self.names.suffix(DRAWN)));
        }
        names[..count].to_vec()
    }

    async fn create_one(&self, set: &ReplicaSet, api: &Api<Pod>, name: &str) -> Result<(), Failure> {
        let template = set.spec.as_ref().and_then(|s| s.template.clone()).unwrap_or_default();
        let mut pod = from_template(&template, set.metadata.namespace.as_deref().unwrap_or(""), name.to_owned());
        pod.metadata.generate_name = Some(name_base(&set.name_any()));
        pod.metadata.owner_references = Some(vec![controller_reference("apps/v1", KIND, &set.metadata)]);
        match self.writer.create(api, Some(&self.pods), &pod).await {
            Ok(_) => {}
            Err(Failure::AlreadyExists(_)) => {
                // Ours, from a try whose answer was lost, or a stranger's: in either case the name is used up.
                if let Some(found) = api.get_opt(name).await?
                    && controller_of(&found.metadata).is_some_and(|r| Some(&r.uid) == set.metadata.uid.as_ref())
                {
                    self.pods.written(None, found);
                }
            }
            Err(failure) => return Err(failure),
        }
        if let Some(memory) = self.memory.lock().get_mut(set.metadata.uid.as_deref().unwrap_or("")) {
            memory.names.retain(|n| n != name);
        }
        Ok(())
    }

    async fn delete(&self, set: &ReplicaSet, api: &Api<Pod>, pods: &[Arc<Pod>]) -> Result<(), Failure> {
        for batch in pods.chunks(AT_ONCE) {
            let answers = join_all(batch.iter().map(|pod| async {
                self.writer.delete(api, Some(&self.pods), pod, PropagationPolicy::Background).await?;
                let mut memory = self.memory.lock();
                memory.entry(set.uid().unwrap_or_default()).or_default().deleting.extend(pod.uid());
                Ok(())
            }));
            answers.await.into_iter().collect::<Result<Vec<()>, Failure>>()?;
        }
        Ok(())
    }

    /// A trouble stays until the same kind of request succeeds.
    fn remember(&self, set: &ReplicaSet, reason: &'static str, answer: Result<(), Failure>) -> Result<(), Failure> {
        let mut memory = self.memory.lock();
        let trouble = &mut memory.entry(set.uid().unwrap_or_default()).or_default().trouble;
        match &answer {
            Ok(()) => {
                if trouble.as_ref().is_some_and(|t| t.reason == reason) {
                    *trouble = None;
                }
            }
            Err(failure) if failure.is_final() => {
                *trouble = Some(Trouble { reason, message: failure.to_string() });
            }
            Err(_) => {}
        }
        answer
    }
}
