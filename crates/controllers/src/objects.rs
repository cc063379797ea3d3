//! Caches of kinds that are known only at run time: templates in the control plane, applied objects in a member.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_propagation::{execution::successor, node_ports};
use ironclad_runtime::{Change, Failure, Indexer, Informer, WatchScope};
use ironclad_seam::{Seam, Tasks};
use kube::{
    Client, Resource,
    api::{ApiResource, DynamicObject},
    core::DynamicResourceScope,
};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::{
    index::{BY_POLICY, object_key, policy_ids},
    mapper::{Mapper, Served},
};

/// Time limit for the first list of a kind.
const LIST_DEADLINE: Duration = Duration::from_secs(5);

type OnChange<K> = Box<dyn Fn(&Gvk, &Change<K>) + Send + Sync>;
/// Makes the cache of a kind.
pub(crate) type Make<K> = Box<dyn Fn(&Gvk) -> Informer<K> + Send + Sync>;

/// One informer for each kind that was taken.
pub(crate) struct Objects<K = DynamicObject> {
    client: Client,
    mapper: Arc<Mapper>,
    seam: Seam,
    tasks: Tasks,
    scope: WatchScope,
    handlers: Arc<RwLock<Vec<OnChange<K>>>>,
    make: Make<K>,
    kinds: RwLock<BTreeMap<Gvk, Kind<K>>>,
    older: bool,
}

struct Kind<K> {
    served: Arc<Served>,
    informer: Informer<K>,
    tasks: Tasks,
    /// Start of its watch.
    since: Instant,
}

impl<K> Objects<K>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    /// No kinds yet. Their watches will run as tasks of this group.
    #[must_use]
    pub(crate) fn new(
        client: Client,
        mapper: Arc<Mapper>,
        seam: &Seam,
        tasks: Tasks,
        scope: WatchScope,
        make: Make<K>,
    ) -> Self {
        let seam = seam.clone();
        let (handlers, kinds) = (Arc::default(), RwLock::default());
        Self { client, mapper, seam, tasks, scope, handlers, make, kinds, older: false }
    }

    /// Calls this for every change of every kind, in order. It must not wait and must not write to these caches.
    pub(crate) fn on_change(&self, handler: impl Fn(&Gvk, &Change<K>) + Send + Sync + 'static) {
        self.handlers.write().push(Box::new(handler));
    }

    /// The same objects, of a member: it may be older than the control plane, and serve kinds in versions that the
    /// control plane does not have any more.
    #[must_use]
    pub(crate) fn of_older_servers(self) -> Self {
        Self { older: true, ..self }
    }

    async fn served(&self, gvk: &Gvk) -> Result<Option<Arc<Served>>, Failure> {
        if let Some(served) = self.mapper.served(gvk).await? {
            return Ok(Some(served));
        }
        let Some(successor) = successor(gvk).filter(|_| self.older) else { return Ok(None) };
        let served = self.mapper.served(&successor).await?;
        Ok(served.map(|served| Arc::new(served.in_version(&gvk.version))))
    }

    /// The informer of a kind, started at the first call; `None` if the control plane does not serve the kind.
    ///
    /// # Errors
    /// If the control plane does not answer.
    pub(crate) async fn informer(&self, gvk: &Gvk) -> Result<Option<Informer<K>>, Failure> {
        if let Some(kind) = self.kinds.read().get(gvk) {
            return Ok(Some(kind.informer.clone()));
        }
        let Some(served) = self.served(gvk).await? else { return Ok(None) };
        let mut kinds = self.kinds.write();
        if let Some(kind) = kinds.get(gvk) {
            return Ok(Some(kind.informer.clone()));
        }
        let informer = (self.make)(gvk);
        let (handlers, of_kind) = (self.handlers.clone(), gvk.clone());
        informer.on_change(move |change| handlers.read().iter().for_each(|handler| handler(&of_kind, change)));
        let tasks = self.tasks.child(&gvk.to_string());
        informer.start("objects", &self.seam, &tasks, served.api(&self.client, ""), &self.scope);
        let since = self.seam.clock.mono();
        kinds.insert(gvk.clone(), Kind { served, informer: informer.clone(), tasks, since });
        Ok(Some(informer))
    }

    /// The informer of a kind once its first list is complete; `None` if the control plane does not serve the kind.
    ///
    /// # Errors
    /// `Unavailable` if the list is not complete within 5 s after the start of the watch, so that a kind that can't be
    /// listed delays no other for long.
    pub(crate) async fn listed(&self, gvk: &Gvk) -> Result<Option<Informer<K>>, Failure> {
        let Some(informer) = self.informer(gvk).await? else { return Ok(None) };
        if self.wait_for_list(gvk, LIST_DEADLINE).await {
            return Ok(Some(informer));
        }
        let why = informer.last_error().unwrap_or_else(|| "no answer yet".to_owned());
        Err(Failure::Unavailable(format!("{gvk} can't be listed: {why}")))
    }

    /// Waits for the first list of a watched kind, at most until this time after the start of its watch: a kind that
    /// can't be listed holds up its first objects, not each of them. Returns true if the list is complete.
    pub(crate) async fn wait_for_list(&self, gvk: &Gvk, deadline: Duration) -> bool {
        let watched = self.kinds.read().get(gvk).map(|kind| (kind.informer.clone(), kind.since));
        let Some((informer, since)) = watched else { return false };
        let left = (since + deadline).saturating_duration_since(self.seam.clock.mono());
        timeout(left, informer.synced()).await.is_ok()
    }

    /// Returns true if the kind is watched, or known to be served by the control plane.
    pub(crate) fn serves(&self, gvk: &Gvk) -> bool {
        self.kinds.read().contains_key(gvk) || self.mapper.is_known(gvk)
    }

    /// Ends the watch of a kind that is no longer served, and removes its objects.
    pub(crate) fn stop(&self, gvk: &Gvk) {
        if let Some(kind) = self.kinds.write().remove(gvk) {
            kind.tasks.kill();
            kind.informer.close();
        }
    }

    /// Drops the cache of a kind, because it keeps too little of the objects. The next call makes it again.
    pub(crate) fn renew(&self, gvk: &Gvk) {
        if let Some(kind) = self.kinds.write().remove(gvk) {
            kind.tasks.kill();
        }
    }

    /// The API and the cache of a kind that is watched already.
    #[must_use]
    pub(crate) fn watched(&self, gvk: &Gvk) -> Option<(Arc<Served>, Informer<K>)> {
        self.kinds.read().get(gvk).map(|kind| (kind.served.clone(), kind.informer.clone()))
    }

    /// The kinds that are watched.
    #[must_use]
    pub(crate) fn kinds(&self) -> Vec<Gvk> {
        self.kinds.read().keys().cloned().collect()
    }

    /// The keys of all cached objects of these kinds.
    pub(crate) fn keys(&self, kinds: &dyn Fn(&Gvk) -> bool) -> Vec<ObjectKey> {
        let watched = self.kinds.read();
        let of_kind = |(gvk, kind): (&Gvk, &Kind<K>)| {
            kind.informer.list().iter().map(|object| object_key(gvk, &**object)).collect::<Vec<_>>()
        };
        watched.iter().filter(|(gvk, _)| kinds(gvk)).flat_map(of_kind).collect()
    }

    /// The cached object, if its kind is watched.
    #[must_use]
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let (_, informer) = self.watched(&key.gvk)?;
        informer.get(&key.namespace, &key.name)
    }

    /// The client that the watches go through.
    #[must_use]
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Retries broken watches now: the server is known to be back.
    pub(crate) fn retry_now(&self) {
        for kind in self.kinds.read().values() {
            kind.informer.retry_now();
        }
    }
}

impl Objects {
    /// The object, once its kind is watched and listed; `None` if there is no such object or kind.
    ///
    /// # Errors
    /// If the control plane does not answer.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Option<Value>, Failure> {
        let Some(informer) = self.listed(&key.gvk).await? else { return Ok(None) };
        let object = informer.get(&key.namespace, &key.name);
        object.map(|o| serde_json::to_value(&*o)).transpose().map_err(|e| Failure::Invalid(e.to_string()))
    }
}

/// The cache of templates of a kind.
pub(crate) fn templates(gvk: &Gvk) -> Informer<DynamicObject> {
    let by_policy: Indexer<DynamicObject> = (BY_POLICY, policy_ids);
    if node_ports::has(&gvk.api_version(), &gvk.kind) {
        return Informer::with_managed_fields(&[by_policy], |object: &mut DynamicObject, _| {
            node_ports::reduce(&mut object.metadata);
        });
    }
    Informer::new(&[by_policy])
}
