//! The replicas syncer: copies the replicas that members decide to the templates of Deployments
//! (specification/autoscaling.md 5).

use std::{sync::Arc, time::Duration};

use ironclad_autoscaling::{
    replicas_sync::{Action, decide},
    scale_target_marker::is_distributed,
    wakes::deployment_replicas_syncer::template,
};
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_runtime::{Change, Failure, Informer, Next, Queue, Writer};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Client, api::DynamicObject};
use serde_json::json;

use crate::{
    bindings::Bindings,
    caches::HORIZONTAL_POD_AUTOSCALERS,
    controller::{Controller, Reconciler},
    index::{BY_SCALED, BY_TEMPLATE, object_key, template_name},
    objects::Objects,
    setup::{Setup, on_template},
};

/// Wait for reports that are missing.
const SOON: Duration = Duration::from_secs(1);

struct Syncer {
    plane: Client,
    queue: Queue<ObjectKey>,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    templates: Arc<Objects<DynamicObject>>,
    bindings: Bindings,
    writer: Writer,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Syncer {
        plane: setup.plane.clone(),
        queue: setup.queue(Syncer::NAME),
        autoscalers: setup.caches.take(&HORIZONTAL_POD_AUTOSCALERS),
        templates: setup.templates().clone(),
        bindings: setup.bindings().clone(),
        writer: setup.writer(Syncer::NAME),
    });
    on_template(setup, &this, Syncer::on_template);
    this
}

impl Reconciler for Syncer {
    type Key = ObjectKey;
    const NAME: &'static str = "deploymentReplicasSyncer";
    /// Deployments that are reconciled at once.
    const WORKERS: usize = 1;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failure> {
        let Some((served, cache)) = self.templates.watched(&key.gvk) else { return Ok(Next::Forget) };
        let Some(template) = cache.get(&key.namespace, &key.name) else { return Ok(Next::Forget) };
        let object = serde_json::to_value(&*template).map_err(|error| Failure::Invalid(error.to_string()))?;
        let name = template_name(key);
        let binding = self.bindings.namespaced.by_index(BY_TEMPLATE, &name).into_iter().next();
        let distributed =
            self.autoscalers.by_index(BY_SCALED, &name).iter().any(|autoscaler| is_distributed(autoscaler));
        match decide(&object, binding.as_deref(), distributed) {
            Action::Nothing => Ok(Next::Forget),
            Action::Wait => Ok(Next::After(SOON)),
            Action::Set(replicas) => {
                let api = served.api(&self.plane, &key.namespace);
                let patch = json!({"spec": {"replicas": replicas}});
                self.writer.patch(&api, Some(&cache), &*template, patch).await?;
                Ok(Next::Forget)
            }
        }
    }
}

impl Syncer {
    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let Some(new) = &change.new else { return };
        let old = change.old.as_ref().map(|old| (&old.metadata, &old.data));
        if template(gvk, old, (&new.metadata, &new.data)) {
            self.queue.add(object_key(gvk, &**new));
        }
    }
}
