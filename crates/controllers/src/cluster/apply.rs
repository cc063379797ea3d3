//! Writes the life cycle of a cluster.

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_failover::cluster::lifecycle::Effect;
use ironclad_fleet::Plan;
use ironclad_runtime::{Api, Failure, Informer, Key, StatusWriter, Writer};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt as _, api::PropagationPolicy};

use crate::{events::Events, setup::Setup, taint_failure, targets::Typed};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    clusters: Informer<Cluster>,
    namespaces: Informer<Namespace>,
    works: Informer<Work>,
    status: StatusWriter<Typed<Cluster>>,
    events: Events,
}

impl Applier {
    pub(super) fn new(setup: &Setup, namespaces: Informer<Namespace>) -> Self {
        Self {
            writer: Writer::new("cluster"),
            plane: setup.plane.clone(),
            clusters: setup.clusters().clone(),
            namespaces,
            works: setup.works(),
            status: setup.cluster_status().clone(),
            events: setup.events.clone(),
        }
    }

    pub(super) async fn apply(&self, cluster: &Cluster, plan: &Plan<Effect>) -> Result<(), Failure> {
        for because in &plan.because {
            tracing::debug!(cluster = %cluster.name_any(), %because, "cluster life cycle");
        }
        for effect in &plan.effects {
            match effect {
                Effect::Patch { patch } => {
                    let api = Api::all(self.plane.clone());
                    let patched = self.writer.patch(&api, Some(&self.clusters), cluster, patch.clone()).await;
                    if let Err(failure) = patched {
                        let event = taint_failure::event(cluster, patch, &failure);
                        event.iter().for_each(|event| self.events.record(event));
                        return Err(failure);
                    }
                }
                Effect::CreateNamespace(object) => {
                    let namespace: Namespace =
                        serde_json::from_value(object.clone()).map_err(|e| Failure::Invalid(e.to_string()))?;
                    let api = Api::all(self.plane.clone());
                    match self.writer.create(&api, Some(&self.namespaces), &namespace).await {
                        Ok(_) | Err(Failure::AlreadyExists(_)) => {}
                        Err(other) => return Err(other),
                    }
                }
                Effect::DeleteNamespace { name, uid } => {
                    let found = self.namespaces.get("", name).filter(|n| n.uid().as_deref() == Some(uid));
                    if let Some(namespace) = found {
                        let (api, background) = (Api::all(self.plane.clone()), PropagationPolicy::Background);
                        self.writer.delete(&api, Some(&self.namespaces), &*namespace, background).await?;
                    }
                }
                Effect::ReleaseWork { key, patch } => {
                    let namespace = names::execution_namespace(&key.cluster.0);
                    if let Some(work) = self.works.get(&namespace, &key.name) {
                        let api = Api::namespaced(self.plane.clone(), &namespace);
                        self.writer.patch(&api, Some(&self.works), &*work, patch.clone()).await?;
                    }
                }
                Effect::Status(part) => {
                    let (key, uid) = (Key::of(cluster), cluster.uid().unwrap_or_default());
                    self.status.request(&key, &uid, "cluster", part.clone(), false);
                }
                Effect::Event(event) => self.events.record(event),
            }
        }
        Ok(())
    }
}
