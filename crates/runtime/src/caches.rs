//! The informers that the controllers of one process share: one watch for each kind that some controller takes.

use std::{any::Any, collections::BTreeSet, sync::Arc};

use futures::future::BoxFuture;
use ironclad_kinds::Object;
use ironclad_seam::Seam;
use kube::Client;
use parking_lot::Mutex;

use crate::{Api, Indexer, Informer, Transform, WatchScope};

/// Description of one kind's cache. A `static` of the crate whose controllers take it.
pub struct CacheSpec<K: 'static> {
    /// Plural of the kind: the name of the watch in logs, and the key under which the cache is shared.
    pub name: &'static str,
    /// API that the watch uses: all namespaces, or one.
    pub api: fn(&Client) -> Api<K>,
    /// Selectors of the watch.
    pub scope: fn() -> WatchScope,
    /// Indexes besides the key.
    pub indexes: &'static [Indexer<K>],
    /// Makes the function that changes each object before it is cached; `None`: objects are cached as they come.
    pub transform: Option<fn() -> Transform<K>>,
}

/// Shared informers of one server. Cheap to clone.
///
/// A controller takes the informers of the kinds that it reads and adds handlers; only then [`Caches::start`] is
/// called, so that no event is missed. A kind that no controller takes is not watched.
#[derive(Clone, Default)]
pub struct Caches(Arc<Mutex<Vec<Box<dyn Taken>>>>);

/// A taken informer, whatever its kind.
trait Taken: Send + Sync {
    fn name(&self) -> &'static str;
    fn start(&mut self, client: &Client, seam: &Seam);
    fn is_synced(&self) -> bool;
    fn synced(&self) -> BoxFuture<'static, ()>;
    fn informer(&self) -> &dyn Any;
}

struct Entry<K: 'static> {
    spec: &'static CacheSpec<K>,
    informer: Informer<K>,
    started: bool,
}

impl<K: Object> Taken for Entry<K> {
    fn name(&self) -> &'static str {
        self.spec.name
    }

    fn start(&mut self, client: &Client, seam: &Seam) {
        if !std::mem::replace(&mut self.started, true) {
            self.informer.start(self.spec.name, seam, &seam.tasks, (self.spec.api)(client), &(self.spec.scope)());
        }
    }

    fn is_synced(&self) -> bool {
        self.informer.is_synced()
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        self.informer.when_synced()
    }

    fn informer(&self) -> &dyn Any {
        &self.informer
    }
}

impl Caches {
    /// The informer of this kind; every caller gets the same one.
    ///
    /// # Panics
    /// If two specs of different kinds have one name: a mistake in the program.
    #[must_use]
    pub fn take<K: Object>(&self, spec: &'static CacheSpec<K>) -> Informer<K> {
        let mut taken = self.0.lock();
        if let Some(known) = taken.iter().find(|known| known.name() == spec.name) {
            let informer: Option<&Informer<K>> = known.informer().downcast_ref();
            return informer.expect("each kind has its own name").clone();
        }
        let informer = Informer::make(spec.indexes, spec.transform.map(|make| make()));
        taken.push(Box::new(Entry { spec, informer: informer.clone(), started: false }));
        informer
    }

    /// Starts the watches of all kinds that were taken and do not run yet, in the order in which they were taken, as
    /// tasks of this seam.
    pub fn start(&self, client: &Client, seam: &Seam) {
        self.0.lock().iter_mut().for_each(|taken| taken.start(client, seam));
    }

    /// Resolves when the first lists of all taken kinds are complete.
    pub async fn synced(&self) {
        let all: Vec<_> = self.0.lock().iter().map(|taken| taken.synced()).collect();
        for synced in all {
            synced.await;
        }
    }

    /// True once the first lists of all taken kinds are complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.lock().iter().all(|taken| taken.is_synced())
    }

    /// Names of the kinds that were taken.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&'static str> {
        self.0.lock().iter().map(|taken| taken.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    static CONFIG_MAPS: CacheSpec<ConfigMap> = CacheSpec {
        name: "configmaps",
        api: |client| Api::all(client.clone()),
        scope: WatchScope::default,
        indexes: &[("name", |map| map.metadata.name.clone().into_iter().collect())],
        transform: None,
    };
    static SECRETS: CacheSpec<Secret> = CacheSpec {
        name: "secrets",
        api: |client| Api::all(client.clone()),
        scope: WatchScope::default,
        indexes: &[],
        transform: None,
    };

    #[test]
    fn a_kind_has_one_informer_and_only_taken_kinds_are_watched() {
        let caches = Caches::default();
        assert!(caches.is_synced(), "nothing was taken");
        let _ = (caches.take(&CONFIG_MAPS), caches.take(&CONFIG_MAPS));
        assert_eq!(caches.0.lock().len(), 1, "a kind has one informer, however often it is taken");
        assert_eq!(caches.names(), BTreeSet::from(["configmaps"]));
        let _ = caches.take(&SECRETS);
        assert_eq!(caches.names(), BTreeSet::from(["configmaps", "secrets"]));
        assert!(!caches.is_synced(), "no watch was started");
    }
}
