//! Storage: binds claims immediately and deletes their volumes with them.

mod decide;

use std::sync::Arc;

use ironclad_kubecontrollers::{CLAIMS, Cluster, VOLUMES};
use ironclad_runtime::{Api, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::json;

use self::decide::{Step, decide, is_for, is_left_over, volume_name};

const WORKERS: usize = 4;

struct Volumes {
    cluster: Cluster,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    writer: Writer,
}

pub(crate) fn start(cluster: &Cluster) {
    let (claims, volumes) = (cluster.caches.take(&CLAIMS), cluster.caches.take(&VOLUMES));
    let queue: Queue<Key> = cluster.queue("volumes");
    let to = queue.clone();
    claims.on_change(move |change| {
        if let Some(claim) = change.new.as_ref().or(change.old.as_ref()) {
            to.add(Key::of(&**claim));
        }
    });
    let (to, all) = (queue.clone(), claims.clone());
    volumes.on_change(move |change| {
        let Some(volume) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let claim = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
        if change.old.is_none() || claim.is_none() {
            let name = volume.metadata.name.as_deref();
            let names = |claim: &&Arc<PersistentVolumeClaim>| chosen(claim) == name;
            all.list().iter().filter(names).for_each(|claim| to.add(Key::of(&**claim)));
        }
        if let Some(claim) = claim {
            to.add(Key::new(claim.namespace.as_deref().unwrap_or(""), claim.name.as_deref().unwrap_or("")));
        }
    });
    let writer = Writer::new("volumes");
    let this = Arc::new(Volumes { cluster: cluster.clone(), claims, volumes, writer });
    let ready = [this.claims.when_synced(), this.volumes.when_synced()];
    cluster.run("volumes", queue, WORKERS, ready, move |key| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    });
}

/// The volume that the claim names.
fn chosen(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

impl Volumes {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let claim = self.claims.get_key(key);
        self.sweep(key, claim.as_deref()).await?;
        let Some(claim) = claim else { return Ok(Next::Forget) };
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        let volume = self.volume(key, &claim);
        match decide(&claim, volume.as_deref()) {
            Step::Leave => {}
            Step::Claim(reference) => {
                if let Some(volume) = volume {
                    let patch = json!({"spec": {"claimRef": reference}});
                    self.writer.patch(&self.api(), Some(&self.volumes), &volume, patch).await?;
                }
            }
            Step::Provision(volume) => match self.writer.create(&self.api(), Some(&self.volumes), &volume).await {
                Ok(_) | Err(Failure::AlreadyExists(_)) => {}
                Err(failure) => return Err(failure),
            },
            Step::Name(volume) => {
                let patch = json!({"spec": {"volumeName": volume}});
                self.writer.patch(&api, Some(&self.claims), &claim, patch).await?;
            }
            Step::WriteStatus(status) => {
                let version = claim.resource_version().unwrap_or_default();
                self.writer.patch_status(&api, Some(&self.claims), &key.name, &version, json!(status)).await?;
            }
        }
        Ok(Next::Forget)
    }

    /// The volume that the claim names, that names the claim, or that was made for it.
    fn volume(&self, key: &Key, claim: &PersistentVolumeClaim) -> Option<Arc<PersistentVolume>> {
        if let Some(name) = chosen(claim) {
            return self.volumes.get("", name);
        }
        let reserved = |volume: &Arc<PersistentVolume>| {
            volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()).is_some_and(|of| is_for(of, claim))
        };
        let by_claim = self.volumes.by_index(ironclad_kubecontrollers::BY_CLAIM, &key.to_string());
        by_claim.into_iter().find(reserved).or_else(|| self.volumes.get("", &volume_name(claim)))
    }

    async fn sweep(&self, key: &Key, claim: Option<&PersistentVolumeClaim>) -> Result<(), Failure> {
        let uid = claim.and_then(|c| c.metadata.uid.as_deref());
        for volume in self.volumes.by_index(ironclad_kubecontrollers::BY_CLAIM, &key.to_string()) {
            if is_left_over(&volume, uid) {
                let background = PropagationPolicy::Background;
                self.writer.delete(&self.api(), Some(&self.volumes), &volume, background).await?;
            }
        }
        Ok(())
    }

    fn api(&self) -> Api<PersistentVolume> {
        Api::all(self.cluster.client.clone())
    }
}
