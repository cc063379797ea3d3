//! The scale target marker: has members keep the replicas of workloads that propagated HorizontalPodAutoscalers scale
//! there (specification/autoscaling.md 5).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::labels;
use ironclad_autoscaling::{
    scale_target_marker::{Mark, Seen, decide},
    wakes::hpa_scale_target_marker as wakes,
};
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_runtime::{Change, Failure, Informer, Next, Queue, Writer};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Client, ResourceExt as _, api::DynamicObject};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    caches::HORIZONTAL_POD_AUTOSCALERS,
    controller::{Controller, Reconciler},
    index::{BY_SCALED, object_key, template_name},
    objects::Objects,
    setup::{Setup, on_change, on_template},
};

struct Marker {
    plane: Client,
    queue: Queue<ObjectKey>,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    templates: Arc<Objects<DynamicObject>>,
    writer: Writer,
    /// Workloads of which an autoscaler let go since this process started.
    released: Mutex<BTreeSet<ObjectKey>>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Marker {
        plane: setup.plane.clone(),
        queue: setup.queue(Marker::NAME),
        autoscalers: setup.caches.take(&HORIZONTAL_POD_AUTOSCALERS),
        templates: setup.templates().clone(),
        writer: setup.writer(Marker::NAME),
        released: Mutex::default(),
    });
    on_change(&this.autoscalers, &this, Marker::on_autoscaler);
    on_template(setup, &this, Marker::on_template);
    this
}

impl Reconciler for Marker {
    type Key = ObjectKey;
    const NAME: &'static str = "hpaScaleTargetMarker";
    /// Workloads that are reconciled at once.
    const WORKERS: usize = 1;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failure> {
        let template = match self.templates.listed(&key.gvk).await? {
            Some(templates) => templates.get(&key.namespace, &key.name),
            None => None,
        };
        let Some(template) = template else {
            self.released.lock().remove(key);
            return Ok(Next::Forget);
        };
        let autoscalers = self.autoscalers.by_index(BY_SCALED, &template_name(key));
        let autoscalers: Vec<&HorizontalPodAutoscaler> = autoscalers.iter().map(|autoscaler| &**autoscaler).collect();
        let is_marked = template.labels().get(labels::RETAIN_REPLICAS).is_some_and(|value| value == labels::TRUE);
        let was_released = self.released.lock().contains(key);
        let label = match decide(&Seen { autoscalers: &autoscalers, is_marked, was_released }) {
            Mark::Set => json!(labels::TRUE),
            Mark::Remove => Value::Null,
            Mark::Keep => {
                self.released.lock().remove(key);
                return Ok(Next::Forget);
            }
        };
        if let Some((served, cache)) = self.templates.watched(&key.gvk) {
            let patch = json!({"metadata": {"labels": {labels::RETAIN_REPLICAS: label}}});
            let api = served.api(&self.plane, &key.namespace);
            self.writer.patch(&api, Some(&cache), &*template, patch).await?;
        }
        self.released.lock().remove(key);
        Ok(Next::Forget)
    }
}

impl Marker {
    /// Its own status writes change nothing.
    fn on_autoscaler(&self, change: &Change<HorizontalPodAutoscaler>) {
        let (old, new) = wakes::autoscaler(change.old.as_deref(), change.new.as_deref());
        if let Some(old) = old {
            self.released.lock().insert(old.clone());
            self.queue.add(old);
        }
        if let Some(new) = new {
            self.queue.add(new);
        }
    }

    /// An autoscaler may exist before its target does.
    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let old = change.old.as_ref().map(|old| &old.metadata);
        let Some(new) = change.new.as_ref().filter(|new| wakes::template(old, &new.metadata)) else { return };
        let key = object_key(gvk, &**new);
        if !self.autoscalers.by_index(BY_SCALED, &template_name(&key)).is_empty() {
            self.queue.add(key);
        }
    }
}
