//! ResourceQuotas: takes limits over into the status, and counts what is used again when something was freed.
//!
//! The API server charges what is used in addition, in the transaction of each write. So a count can only be too high,
//! for a moment: the quota is read first, the objects afterwards, and the status is written only if the quota was not
//! charged since.

mod decide;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_quota::{Amounts, Counted};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, ListParams, PartialObjectMeta},
    core::ApiResource,
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use self::decide::decide;
use crate::{
    Cluster,
    caches::{CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES},
    kinds::{self, Kind, Kinds},
};

const WORKERS: usize = 2;
/// Debounce: objects are freed in batches.
const DEBOUNCE: Duration = Duration::from_millis(100);

struct Controller {
    cluster: Cluster,
    quotas: Informer<ResourceQuota>,
    queue: Queue<Key>,
    writer: Writer,
    /// The kinds of the server, as they were last discovered.
    kinds: Mutex<Arc<Kinds>>,
    /// Kinds with a watch of their own.
    watched: Mutex<BTreeSet<Counted>>,
}

pub(crate) fn start(cluster: &Cluster) {
    let caches = &cluster.caches;
    let queue: Queue<Key> = cluster.queue("resourcequota");
    let controller = Arc::new(Controller {
        cluster: cluster.clone(),
        quotas: caches.take(&RESOURCE_QUOTAS),
        queue: queue.clone(),
        writer: Writer::new("resourcequota-controller"),
        kinds: Mutex::default(),
        watched: Mutex::default(),
    });
    let to = queue.clone();
    controller.quotas.on_change(move |change| {
        if let Some(quota) = change.new.as_ref().filter(|quota| is_to_count(change.old.as_deref(), quota)) {
            to.add(Key::of(&**quota));
        }
    });
    let (pods, services, claims) = (caches.take(&PODS), caches.take(&SERVICES), caches.take(&CLAIMS));
    follow(&controller, &pods, Counted::Pods);
    follow(&controller, &services, Counted::Services);
    follow(&controller, &claims, Counted::Claims);
    let ready = [controller.quotas.when_synced(), pods.when_synced(), services.when_synced(), claims.when_synced()];
    cluster.run("resourcequota", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

/// Returns `true` for a quota that has changed in what it counts, or whose limits are not in force. Charges of the API
/// server change neither.
fn is_to_count(old: Option<&ResourceQuota>, new: &ResourceQuota) -> bool {
    let in_force = new.status.as_ref().and_then(|status| status.hard.as_ref());
    old.is_none_or(|old| old.spec != new.spec) || in_force != new.spec.as_ref().and_then(|spec| spec.hard.as_ref())
}

/// Counts again when objects of a kind with a shared cache free something.
fn follow<K>(controller: &Arc<Controller>, objects: &Informer<K>, kind: Counted)
where
    K: ironclad_runtime::Object + Serialize,
{
    // The informers live in the controller: a strong reference back would keep both for ever.
    let of = Arc::downgrade(controller);
    objects.on_change(move |change: &Change<K>| {
        let (Some(of), Some(old)) = (of.upgrade(), change.old.as_deref()) else { return };
        let quotas = of.quotas_counting(&kind, old.meta().namespace.as_deref());
        if quotas.is_empty() {
            return;
        }
        let (old, new) = (json(old), change.new.as_deref().map(json));
        if kind.frees(&old, new.as_ref(), of.cluster.seam.clock.wall()) {
            quotas.into_iter().for_each(|key| of.queue.add_after(key, DEBOUNCE));
        }
    });
}

fn json<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

impl Controller {
    /// Returns the quotas that count a kind, of one namespace or of all.
    fn quotas_counting(&self, kind: &Counted, namespace: Option<&str>) -> Vec<Key> {
        if self.quotas.is_empty() {
            return vec![];
        }
        let quotas = namespace.map_or_else(|| self.quotas.list(), |namespace| self.quotas.namespace(namespace));
        let counts = |quota: &Arc<ResourceQuota>| Counted::of_quota(&json(&**quota)).contains(kind);
        quotas.iter().filter(|quota| counts(quota)).map(|quota| Key::of(&**quota)).collect()
    }

    async fn reconcile(self: &Arc<Self>, key: &Key) -> Result<Next, Failure> {
        let api: Api<ResourceQuota> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        // From the server, and before the objects: what is charged later makes the write fail.
        let Some(quota) = api.get_opt(&key.name).await? else { return Ok(Next::Forget) };
        let version = quota.resource_version().unwrap_or_default();
        let quota = json(&quota);
        let mut counts = BTreeMap::new();
        for kind in Counted::of_quota(&quota) {
            if let Some(amounts) = self.count(&key.namespace, &kind, &quota).await? {
                counts.insert(kind, amounts);
            }
        }
        let plan = decide(&quota, &counts);
        if let Some(status) = plan.status {
            self.writer.patch_status(&api, None, &key.name, &version, status).await?;
        }
        Ok(Next::After(plan.again_after))
    }

    /// Returns what the objects of a kind use of the quota; `None` for a kind that the server does not have.
    async fn count(
        self: &Arc<Self>,
        namespace: &str,
        kind: &Counted,
        quota: &Value,
    ) -> Result<Option<Amounts>, Failure> {
        let client = self.cluster.client.clone();
        let whole = match kind {
            Counted::Pods => ApiResource::erase::<Pod>(&()),
            Counted::Services => ApiResource::erase::<Service>(&()),
            Counted::Claims => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Counted::Objects { .. } => {
                let Some(found) = self.discover(kind).await? else { return Ok(None) };
                // The watch begins before the objects are listed: no deletion is missed between them.
                watch::ensure(self, kind, &found);
                let api: Api<PartialObjectMeta<DynamicObject>> =
                    Api::namespaced_with(client, namespace, &found.resource);
                return match api.list(&ListParams::default()).await.map_err(Failure::from) {
                    Ok(list) => Ok(Some(kind.total_of_number(quota, list.items.len()))),
                    Err(Failure::NotFound(_)) => Ok(None),
                    Err(failure) => Err(failure),
                };
            }
        };
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &whole);
        let objects: Vec<Value> = api.list(&ListParams::default()).await?.items.iter().map(json).collect();
        Ok(Some(kind.total(quota, &objects, self.cluster.seam.clock.wall())))
    }

    /// Returns the namespaced kind of the server that can be counted.
    async fn discover(&self, kind: &Counted) -> Result<Option<Arc<Kind>>, Failure> {
        let (group, resource) = kind.group_resource();
        let key = (group.to_owned(), resource.to_owned());
        let known = self.kinds.lock().clone();
        let found = match known.get(&key) {
            Some(found) => Some(found.clone()),
            None => {
                let kinds = Arc::new(kinds::discover(&self.cluster.client).await?);
                *self.kinds.lock() = kinds.clone();
                kinds.get(&key).cloned()
            }
        };
        Ok(found.filter(|kind| kind.namespaced && kind.has("list") && kind.has("watch")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(spec: Value, status: Value) -> ResourceQuota {
        serde_json::from_value(json!({"metadata": {"name": "q", "namespace": "d"}, "spec": spec, "status": status}))
            .unwrap()
    }

    #[test]
    fn charges_of_the_server_are_no_reason_to_count() {
        let hard = json!({"hard": {"pods": "2"}});
        let status = |hard: &str, used: &str| json!({"hard": {"pods": hard}, "used": {"pods": used}});
        let old = quota(hard.clone(), status("2", "0"));
        for (name, old, new, want) in [
            ("a quota whose limits are in force, after a start", None, quota(hard.clone(), status("2", "0")), true),
            ("a charge", Some(&old), quota(hard.clone(), status("2", "1")), false),
            ("other limits", Some(&old), quota(json!({"hard": {"pods": "3"}}), status("2", "0")), true),
            ("limits that are not in force", Some(&old), quota(hard.clone(), status("1", "0")), true),
            ("a status that somebody removed", Some(&old), quota(hard, json!({})), true),
        ] {
            assert_eq!(is_to_count(old, &new), want, "{name}");
        }
    }
}
