//! Applies a step of the collector.

use std::sync::Arc;

use ironclad_runtime::{Api, Failure, Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, PartialObjectMeta, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use super::{
    Collector,
    decide::{Cascade, Step, decide, referenced_uid},
    graph::{Node, Uid},
};
use crate::kinds::Kind;

const MANAGER: &str = "ironclad-garbage-collector";

type Metadata = PartialObjectMeta<DynamicObject>;

impl Collector {
    pub(super) async fn reconcile(self: Arc<Self>, uid: &str) -> Result<Next, Failure> {
        let (step, node) = {
            let graph = self.graph.lock();
            let Some(node) = graph.get(uid) else { return Ok(Next::Forget) };
            let step = decide(&graph, uid);
            if step == Step::Leave {
                return Ok(Next::Forget);
            }
            (step, node.clone())
        };
        match step {
            Step::Leave => Ok(Next::Forget),
            Step::FindAbsent(owners) => self.find_absent(&node, owners).await,
            Step::Delete(cascade) => self.delete(&node, cascade).await,
            Step::Unblock => {
                let owners =
                    node.owners.iter().cloned().map(|r| OwnerReference { block_owner_deletion: Some(false), ..r });
                self.set_owners(&node, owners.collect()).await
            }
            Step::Release(lost) => {
                let keeps = |r: &&OwnerReference| !lost.iter().any(|uid| **uid == *r.uid);
                self.set_owners(&node, node.owners.iter().filter(keeps).cloned().collect()).await
            }
            Step::Orphan(dependents) => self.orphan(uid, dependents).await,
            Step::Finish(finalizer) => self.remove_finalizer(&node, finalizer).await,
        }
    }

    /// Asks the server whether these owners exist, and remembers the absent ones.
    async fn find_absent(&self, node: &Node, owners: Vec<OwnerReference>) -> Result<Next, Failure> {
        let (mut answered, mut waits) = (false, false);
        for owner in owners {
            // The kind may be served again later: the refresh of kinds triggers another reconcile.
            let Some(kind) = self.kind_of(&owner) else { continue };
            let namespace = if kind.namespaced { &*node.namespace } else { "" };
            match self.api(&kind, namespace).get_metadata_opt(&owner.name).await? {
                Some(found) if found.metadata.uid.as_deref() == Some(&*owner.uid) => waits = true,
                _ => {
                    answered = true;
                    self.graph.lock().remember_absent(referenced_uid(&owner, &node.namespace));
                }
            }
        }
        if answered {
            self.queue.add(node.uid.clone());
        }
        // It exists, but the watch has not delivered it yet.
        Ok(if waits { Next::Retry } else { Next::Forget })
    }

    async fn delete(&self, node: &Node, cascade: Cascade) -> Result<Next, Failure> {
        let policy = match cascade {
            Cascade::Background => PropagationPolicy::Background,
            Cascade::Foreground => PropagationPolicy::Foreground,
        };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            // Require the version, too: the object may have a new owner.
            preconditions: Some(Preconditions {
                uid: Some(node.uid.to_string()),
                resource_version: Some(node.version.to_string()).filter(|v| !v.is_empty()),
            }),
            ..DeleteParams::default()
        };
        tracing::debug!(kind = %node.kind.group_resource(), namespace = %node.namespace, name = %node.name, ?cascade, "deleting object without owners");
        let answer = self.api(&node.kind, &node.namespace).delete(&node.name, &params).await;
        done(answer.map(|_| ()).map_err(Failure::from))
    }

    async fn set_owners(&self, node: &Node, owners: Vec<OwnerReference>) -> Result<Next, Failure> {
        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": node.version, "ownerReferences": owners}});
        self.patch(node, &patch).await
    }

    async fn orphan(&self, owner: &str, dependents: Vec<Uid>) -> Result<Next, Failure> {
        for uid in dependents {
            let Some(node) = self.graph.lock().get(&uid).cloned() else { continue };
            let owners = node.owners.iter().filter(|r| r.uid != owner).cloned().collect();
            self.set_owners(&node, owners).await?;
        }
        // The watch triggers the next reconcile when the last reference is removed.
        Ok(Next::Forget)
    }

    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<Next, Failure> {
        let Some(found) = self.api(&node.kind, &node.namespace).get_metadata_opt(&node.name).await? else {
            return Ok(Next::Forget);
        };
        let meta = found.metadata;
        if meta.uid.as_deref() != Some(&*node.uid) {
            return Ok(Next::Forget);
        }
        let mut finalizers = meta.finalizers.unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|f| f != finalizer);
        if finalizers.len() == before {
            return Ok(Next::Forget);
        }
        let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
        let patch = json!({
            "metadata": {"uid": node.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}
        });
        self.patch(node, &patch).await
    }

    async fn patch(&self, node: &Node, patch: &Value) -> Result<Next, Failure> {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.api(&node.kind, &node.namespace);
        let answer = api.patch(&node.name, &params, &Patch::Merge(patch)).await;
        done(answer.map(|_| ()).map_err(Failure::from))
    }

    fn api(&self, kind: &Kind, namespace: &str) -> Api<Metadata> {
        if kind.namespaced {
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        }
    }

    /// Returns the kind of a reference, in any version.
    fn kind_of(&self, owner: &OwnerReference) -> Option<Arc<Kind>> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let kinds = self.kinds.lock();
        let of_group = kinds.range((group.to_owned(), String::new())..).take_while(|((g, _), _)| g == group);
        of_group.map(|(_, kind)| kind).find(|kind| kind.resource.kind == owner.kind && kind.has("get")).cloned()
    }
}

fn done(answer: Result<(), Failure>) -> Result<Next, Failure> {
    match answer {
        Err(Failure::NotFound(_)) | Ok(()) => Ok(Next::Forget),
        Err(failure) => Err(failure),
    }
}
