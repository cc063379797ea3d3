//! Termination of a namespace: delete everything in it, then remove its finalizer (specification/apiserver.md 19).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_runtime::{Api, Failure, Informer, Next, Queue, Writer};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PartialObjectMeta, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

use super::decide::{RemainingContents, conditions, is_ours, without_ours};
use crate::{
    Cluster,
    caches::NAMESPACES,
    kinds::{Kind, Kinds, discover},
};

const WORKERS: usize = 4;
const MANAGER: &str = "ironclad-namespace-controller";

type Metadata = PartialObjectMeta<DynamicObject>;

/// First wait for remaining objects, doubled after each pass ...
const WAIT_BASE: Duration = Duration::from_millis(20);
/// ... up to this: no event reports the removal of the last finalizer.
const WAIT_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default, Clone)]
struct Pass {
    /// The kinds that still had objects.
    kinds: BTreeSet<(String, String)>,
    count: u32,
}

/// Passes over each namespace that is being emptied.
type Remaining = Mutex<BTreeMap<Arc<str>, Pass>>;

pub(crate) fn start(cluster: &Cluster) {
    let namespaces = cluster.caches.take(&NAMESPACES);
    let queue: Queue<Arc<str>> = cluster.queue("namespace");
    let to = queue.clone();
    namespaces.on_change(move |change| {
        if let Some(namespace) = change.new.as_ref().or(change.old.as_ref()).filter(|n| is_ours(n)) {
            to.add(namespace.name_any().into());
        }
    });
    let worker = Worker {
        cluster: cluster.clone(),
        namespaces: namespaces.clone(),
        writer: Writer::new("namespace-controller"),
        remaining: Arc::default(),
    };
    let ready = [namespaces.when_synced()];
    cluster.run("namespace", queue, WORKERS, ready, move |name| {
        let worker = worker.clone();
        async move { worker.reconcile(&name).await }
    });
}

#[derive(Clone)]
struct Worker {
    cluster: Cluster,
    namespaces: Informer<Namespace>,
    writer: Writer,
    remaining: Arc<Remaining>,
}

impl Worker {
    async fn reconcile(&self, name: &Arc<str>) -> Result<Next, Failure> {
        let Some(namespace) = self.namespaces.get("", name).filter(|n| is_ours(n)) else {
            self.remaining.lock().remove(name);
            return Ok(Next::Forget);
        };
        let kinds = discover(&self.cluster.client).await?;
        let before = self.remaining.lock().get(name).cloned().unwrap_or_default();
        // Once the kinds that had objects are empty, one pass over all kinds proves that nothing new was created.
        let only = Some(&before.kinds).filter(|kinds| !kinds.is_empty());
        let (left, kinds) = self.empty(name, &kinds, only).await?;
        if left.is_empty() && only.is_none() {
            return self.finalize(&namespace).await;
        }
        let pass = Pass { kinds, count: before.count.saturating_add(1) };
        self.remaining.lock().insert(name.clone(), pass);
        if only.is_some() && !left.is_empty() {
            self.write_status(&namespace, &left).await?;
        }
        Ok(Next::After(WAIT_BASE.saturating_mul(1 << before.count.min(10)).min(WAIT_MAX)))
    }

    /// Deletes the contents. Returns what remains: after a pass over all kinds, what it found.
    async fn empty(
        &self,
        namespace: &str,
        kinds: &Kinds,
        only: Option<&BTreeSet<(String, String)>>,
    ) -> Result<(RemainingContents, BTreeSet<(String, String)>), Failure> {
        let (mut left, mut of) = (RemainingContents::default(), BTreeSet::new());
        let wanted = |key: &(String, String), kind: &Kind| {
            kind.namespaced && kind.has("delete") && kind.has("list") && only.is_none_or(|only| only.contains(key))
        };
        for (key, kind) in kinds.iter().filter(|(key, kind)| wanted(key, kind)) {
            let found = match self.delete_all(namespace, kind).await {
                Ok(found) => found,
                Err(Failure::NotFound(_)) => continue,
                Err(failure) if failure.is_final() => {
                    left.failure = Some(failure.to_string());
                    of.insert(key.clone());
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            if found.is_empty() {
                continue;
            }
            of.insert(key.clone());
            left.objects.insert(format!("{}.{}", kind.resource.plural, kind.resource.group), found.len());
            for finalizer in found.iter().flat_map(|o| o.metadata.finalizers.iter().flatten()) {
                *left.finalizers.entry(finalizer.clone()).or_insert(0) += 1;
            }
        }
        Ok((left, of))
    }

    async fn delete_all(&self, namespace: &str, kind: &Kind) -> Result<Vec<Metadata>, Failure> {
        let api: Api<Metadata> = Api::namespaced_with(self.cluster.client.clone(), namespace, &kind.resource);
        let params = DeleteParams::background();
        let found = api.list(&ListParams::default()).await?.items;
        if found.is_empty() {
            return Ok(found);
        }
        if kind.has("deletecollection") {
            api.delete_collection(&params, &ListParams::default()).await?;
            return Ok(found);
        }
        for object in &found {
            match api.delete(&object.name_any(), &params).await.map_err(Failure::from) {
                Ok(_) | Err(Failure::NotFound(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<Next, Failure> {
        let mut without = namespace.clone();
        without.spec.get_or_insert_default().finalizers = Some(without_ours(namespace));
        let api: Api<Namespace> = Api::all(self.cluster.client.clone());
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match api.replace_subresource("finalize", &namespace.name_any(), &params, &without).await.map_err(Failure::from)
        {
            Ok(_) | Err(Failure::NotFound(_)) => Ok(Next::Forget),
            Err(failure) => Err(failure),
        }
    }

    async fn write_status(&self, namespace: &Namespace, left: &RemainingContents) -> Result<(), Failure> {
        let Some(conditions) = conditions(namespace, left, self.cluster.seam.clock.wall_seconds()) else {
            return Ok(());
        };
        let api: Api<Namespace> = Api::all(self.cluster.client.clone());
        let (name, version) = (namespace.name_any(), namespace.resource_version().unwrap_or_default());
        let status = json!({"phase": "Terminating", "conditions": conditions});
        self.writer.patch_status(&api, Some(&self.namespaces), &name, &version, status).await?;
        Ok(())
    }
}
