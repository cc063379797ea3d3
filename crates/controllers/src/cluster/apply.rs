//! Writes what membership wants.

use ironclad_api::names;
use ironclad_failover::membership::Effect;
use ironclad_fleet::Plan;
use ironclad_runtime::{Failure, Key, Writer};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::PropagationPolicy};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, seen: &Observed, plan: &Plan<Effect>) -> Result<(), Failure> {
    let writer = Writer::new("cluster");
    for because in &plan.because {
        tracing::debug!(cluster = %seen.cluster.name_any(), %because, "cluster membership");
    }
    for effect in &plan.effects {
        match effect {
            Effect::Patch { patch } => {
                let api = Api::all(cx.plane.clone());
                let patched = writer.patch(&api, Some(&cx.clusters), &*seen.cluster, patch.clone()).await;
                if let Err(failure) = patched {
                    cx.tell_untainted(&seen.cluster, patch, &failure);
                    return Err(failure);
                }
            }
            Effect::CreateNamespace(object) => {
                let namespace: Namespace =
                    serde_json::from_value(object.clone()).map_err(|e| Failure::Invalid(e.to_string()))?;
                match writer.create(&Api::all(cx.plane.clone()), Some(&cx.namespaces), &namespace).await {
                    Ok(_) | Err(Failure::AlreadyExists(_)) => {}
                    Err(other) => return Err(other),
                }
            }
            Effect::DeleteNamespace { name, uid } => {
                if let Some(namespace) = cx.namespaces.get("", name).filter(|n| n.uid().as_deref() == Some(uid)) {
                    let api = Api::all(cx.plane.clone());
                    writer.delete(&api, Some(&cx.namespaces), &*namespace, PropagationPolicy::Background).await?;
                }
            }
            Effect::ReleaseWork { key, patch } => {
                let namespace = names::execution_namespace(&key.cluster.0);
                if let Some(work) = cx.works.get(&namespace, &key.name) {
                    let api = Api::namespaced(cx.plane.clone(), &namespace);
                    writer.patch(&api, Some(&cx.works), &*work, patch.clone()).await?;
                }
            }
            Effect::Status(part) => {
                let (key, uid) = (Key::of(&*seen.cluster), seen.cluster.uid().unwrap_or_default());
                cx.cluster_status.want(&key, &uid, "cluster", part.clone(), false);
            }
            Effect::Event(event) => cx.events.record(event),
        }
    }
    Ok(())
}
