//! Storage protection: a finalizer on claims and volumes that is removed when they are no longer in use.

mod decide;

use ironclad_runtime::{Api, Failure, Key, Next, Queue, Writer};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use self::decide::{OF_CLAIMS, OF_VOLUMES, claim_is_used, claims_of, volume_is_used, without};
use crate::{
    Cluster,
    caches::{CLAIMS, PODS, VOLUMES},
};

const WORKERS: usize = 2;

/// Starts the controller that removes the finalizer of claims without pods.
pub(crate) fn start_claims(cluster: &Cluster) {
    let (claims, pods) = (cluster.caches.take(&CLAIMS), cluster.caches.take(&PODS));
    let queue: Queue<Key> = cluster.queue("claim-protection");
    let to = queue.clone();
    claims.on_change(move |change| {
        if let Some(claim) = change.new.as_ref().filter(|c| c.metadata.deletion_timestamp.is_some()) {
            to.add(Key::of(&**claim));
        }
    });
    let to = queue.clone();
    pods.on_change(move |change| {
        for pod in change.old.iter().chain(&change.new) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
            claims_of(pod).iter().for_each(|name| to.add(Key::new(namespace, name)));
        }
    });
    let (client, writer) = (cluster.client.clone(), Writer::new("persistentvolumeclaim-protection-controller"));
    let ready = [claims.when_synced(), pods.when_synced()];
    cluster.run("claim-protection", queue, WORKERS, ready, move |key| {
        let (client, claims, pods, writer) = (client.clone(), claims.clone(), pods.clone(), writer.clone());
        async move {
            let Some(claim) = claims.get_key(&key) else { return Ok(Next::Forget) };
            let Some(rest) = without(&claim.metadata, OF_CLAIMS) else { return Ok(Next::Forget) };
            if claim_is_used(&claim, pods.namespace(&key.namespace).iter().map(|p| &**p)) {
                return Ok(Next::Forget);
            }
            let api: Api<PersistentVolumeClaim> = Api::namespaced(client, &key.namespace);
            release(&writer, &api, &claim, rest).await
        }
    });
}

/// Starts the controller that removes the finalizer of volumes without claims.
pub(crate) fn start_volumes(cluster: &Cluster) {
    let (claims, volumes) = (cluster.caches.take(&CLAIMS), cluster.caches.take(&VOLUMES));
    let queue: Queue<Key> = cluster.queue("volume-protection");
    let to = queue.clone();
    volumes.on_change(move |change| {
        if let Some(volume) = change.new.as_ref().filter(|v| v.metadata.deletion_timestamp.is_some()) {
            to.add(Key::of(&**volume));
        }
    });
    let (to, of) = (queue.clone(), volumes.clone());
    claims.on_change(move |change| {
        if let (Some(claim), None) = (&change.old, &change.new) {
            let volumes = of.by_index(crate::BY_CLAIM, &Key::of(&**claim).to_string());
            volumes.iter().for_each(|volume| to.add(Key::of(&**volume)));
        }
    });
    let (client, writer) = (cluster.client.clone(), Writer::new("persistentvolume-protection-controller"));
    let ready = [claims.when_synced(), volumes.when_synced()];
    cluster.run("volume-protection", queue, WORKERS, ready, move |key| {
        let (client, claims, volumes, writer) = (client.clone(), claims.clone(), volumes.clone(), writer.clone());
        async move {
            let Some(volume) = volumes.get_key(&key) else { return Ok(Next::Forget) };
            let Some(rest) = without(&volume.metadata, OF_VOLUMES) else { return Ok(Next::Forget) };
            let of = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
            let text = |t: &Option<String>| t.clone().unwrap_or_default();
            let claim = of.and_then(|r| claims.get(&text(&r.namespace), &text(&r.name)));
            if volume_is_used(&volume, claim.as_deref()) {
                return Ok(Next::Forget);
            }
            release(&writer, &Api::<PersistentVolume>::all(client), &volume, rest).await
        }
    });
}

async fn release<K>(writer: &Writer, api: &Api<K>, object: &K, finalizers: Vec<String>) -> Result<Next, Failure>
where
    K: ironclad_runtime::Encode,
{
    let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    let ObjectMeta { uid, .. } = object.meta();
    // The response may be the last version of the object; the watch reports its deletion.
    match writer.patch(api, None, object, json!({"metadata": {"uid": uid, "finalizers": finalizers}})).await {
        Ok(_) | Err(Failure::NotFound(_)) => {
            tracing::debug!(key = %Key::of(object), "protection finalizer removed: not in use");
            Ok(Next::Forget)
        }
        Err(failure) => Err(failure),
    }
}
