//! The informers of one server that a process shares: one watch for each kind that somebody takes.

use std::{any::Any, collections::BTreeSet, sync::Arc};

use futures::future::BoxFuture;
use ironclad_kinds::Object;
use ironclad_seam::{Seam, Tasks};
use k8s_openapi::NamespaceResourceScope;
use kube::{Client, Resource};
use parking_lot::Mutex;

use crate::{Api, Indexer, Informer, Transform, WatchScope};

/// Namespaces whose objects are watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// One.
    Namespace(Arc<str>),
}

impl Scope {
    /// The API of a namespaced kind within this scope.
    #[must_use]
    pub fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::All => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}

/// Description of one kind's cache. A `static` of the crate whose controllers take it.
pub struct CacheSpec<K: 'static> {
    /// Plural of the kind: the name of the watch in logs, and the key under which the cache is shared.
    pub name: &'static str,
    /// API that the watch uses; the scope of the caches limits namespaced kinds.
    pub api: fn(&Client, &Scope) -> Api<K>,
    /// Selectors of the watch within the scope of the caches.
    pub scope: fn(&Scope) -> WatchScope,
    /// Indexes besides the key.
    pub indexes: &'static [Indexer<K>],
    /// Makes the function that changes each object before it is cached; `None`: objects are cached as they come.
    pub transform: Option<fn() -> Transform<K>>,
}

/// Shared informers of one server, as one owner takes them. Cheap to clone.
///
/// An owner takes the informers of the kinds that it reads, adds handlers, and calls [`Caches::start`]. A kind that
/// nobody takes is not watched; the watch of a kind ends with the last owner that took it, and the handlers of an owner
/// end with it.
#[derive(Clone)]
pub struct Caches {
    scope: Scope,
    taken: Arc<Mutex<Vec<Box<dyn Taken>>>>,
    owner: Seam,
}

/// A taken informer, whatever its kind.
trait Taken: Send + Sync {
    fn name(&self) -> &'static str;
    fn tasks(&self) -> &Tasks;
    fn start(&mut self, client: &Client, scope: &Scope, seam: &Seam);
    fn is_synced(&self) -> bool;
    fn synced(&self) -> BoxFuture<'static, ()>;
    fn retry_now(&self);
    fn informer(&self) -> &dyn Any;
}

struct Entry<K: 'static> {
    spec: &'static CacheSpec<K>,
    informer: Informer<K>,
    /// Dead once no owner is left.
    tasks: Tasks,
    started: bool,
}

impl<K: Object> Taken for Entry<K> {
    fn name(&self) -> &'static str {
        self.spec.name
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn start(&mut self, client: &Client, scope: &Scope, seam: &Seam) {
        if !std::mem::replace(&mut self.started, true) {
            let api = (self.spec.api)(client, scope);
            self.informer.start(self.spec.name, seam, &self.tasks, api, &(self.spec.scope)(scope));
        }
    }

    fn is_synced(&self) -> bool {
        self.informer.is_synced()
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        self.informer.when_synced()
    }

    fn retry_now(&self) {
        self.informer.retry_now();
    }

    fn informer(&self) -> &dyn Any {
        &self.informer
    }
}

impl Caches {
    /// Caches of which nothing is taken yet, for their first owner.
    #[must_use]
    pub fn new(scope: Scope, owner: &Seam) -> Self {
        Self { scope, taken: Arc::default(), owner: owner.clone() }
    }

    /// The same caches for another owner.
    #[must_use]
    pub fn owned_by(&self, owner: &Seam) -> Self {
        Self { owner: owner.clone(), ..self.clone() }
    }

    /// The informer of this kind; every caller gets the same one.
    ///
    /// # Panics
    /// If two specs of different kinds have one name: a mistake in the program.
    #[must_use]
    pub fn take<K: Object>(&self, spec: &'static CacheSpec<K>) -> Informer<K> {
        let (mut taken, owner) = (self.taken.lock(), &self.owner.tasks);
        taken.retain(|known| !known.tasks().is_dead());
        if let Some(known) = taken.iter().find(|known| known.name() == spec.name) {
            owner.adopt(known.tasks());
            let informer: Option<&Informer<K>> = known.informer().downcast_ref();
            return informer.expect("each kind has its own name").owned_by(owner);
        }
        let informer = Informer::make(spec.indexes, spec.transform.map(|make| make()), false);
        let entry = Entry { spec, informer: informer.clone(), tasks: owner.child(spec.name), started: false };
        taken.push(Box::new(entry));
        informer.owned_by(owner)
    }

    /// Starts the watches of all kinds that were taken and do not run yet, in the order in which they were taken.
    pub fn start(&self, client: &Client) {
        self.taken.lock().iter_mut().for_each(|taken| taken.start(client, &self.scope, &self.owner));
    }

    /// Resolves when the first lists of all taken kinds are complete.
    pub async fn synced(&self) {
        let all: Vec<_> = self.taken.lock().iter().map(|taken| taken.synced()).collect();
        for synced in all {
            synced.await;
        }
    }

    /// True once the first lists of all taken kinds are complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.taken.lock().iter().all(|taken| taken.is_synced())
    }

    /// Retries broken watches now: the server is known to be back.
    pub fn retry_now(&self) {
        self.taken.lock().iter().for_each(|taken| taken.retry_now());
    }

    /// Names of the kinds that were taken.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&'static str> {
        self.taken.lock().iter().filter(|taken| !taken.tasks().is_dead()).map(|taken| taken.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    static CONFIG_MAPS: CacheSpec<ConfigMap> = CacheSpec {
        name: "configmaps",
        api: |client, scope| scope.api(client),
        scope: |_| WatchScope::default(),
        indexes: &[("name", |map| map.metadata.name.clone().into_iter().collect())],
        transform: None,
    };
    static SECRETS: CacheSpec<Secret> = CacheSpec {
        name: "secrets",
        api: |client, scope| scope.api(client),
        scope: |_| WatchScope::default(),
        indexes: &[],
        transform: None,
    };

    fn process() -> Seam {
        Seam::system("process")
    }

    #[test]
    fn a_kind_has_one_informer_and_only_taken_kinds_are_watched() {
        let caches = Caches::new(Scope::All, &process());
        assert!(caches.is_synced(), "nothing was taken");
        let _ = (caches.take(&CONFIG_MAPS), caches.take(&CONFIG_MAPS));
        assert_eq!(caches.taken.lock().len(), 1, "a kind has one informer, however often it is taken");
        assert_eq!(caches.names(), BTreeSet::from(["configmaps"]));
        let _ = caches.take(&SECRETS);
        assert_eq!(caches.names(), BTreeSet::from(["configmaps", "secrets"]));
        assert!(!caches.is_synced(), "no watch was started");
    }

    #[test]
    fn a_watch_ends_with_the_last_owner_that_took_it_and_handlers_with_their_own() {
        let (first, second) = (process(), process());
        let caches = Caches::new(Scope::All, &first);
        let of_second = caches.owned_by(&second);
        let seen: Arc<Mutex<Vec<(&str, bool)>>> = Arc::default();
        let handler = |name: &'static str| {
            let seen = seen.clone();
            move |change: &crate::Change<ConfigMap>| seen.lock().push((name, change.old.is_none()))
        };
        let write = |base: Option<&str>, version: &str| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some("a".to_owned());
            map.metadata.uid = Some("u".to_owned());
            map.metadata.resource_version = Some(version.to_owned());
            of_second.take(&CONFIG_MAPS).written(base, map);
        };
        caches.take(&CONFIG_MAPS).on_change(handler("first"));
        write(None, "1");
        of_second.take(&CONFIG_MAPS).on_change(handler("second"));
        let both = [("first", true), ("second", true)];
        assert_eq!(std::mem::take(&mut *seen.lock()), both, "a late handler gets what is cached");
        write(Some("1"), "2");
        assert_eq!(std::mem::take(&mut *seen.lock()), [("first", false), ("second", false)]);
        first.tasks.kill();
        write(Some("2"), "3");
        assert_eq!(std::mem::take(&mut *seen.lock()), [("second", false)]);
        assert_eq!(of_second.names(), BTreeSet::from(["configmaps"]), "the second owner has it");
        second.tasks.kill();
        assert!(caches.names().is_empty());
        assert!(caches.owned_by(&process()).take(&CONFIG_MAPS).is_empty(), "a later owner begins anew");
    }

    #[tokio::test]
    async fn a_scope_limits_namespaced_kinds() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let client = Client::new(service, "default");
        for (scope, want) in [
            (Scope::All, "/api/v1/configmaps"),
            (Scope::Namespace("karmada-es-m1".into()), "/api/v1/namespaces/karmada-es-m1/configmaps"),
        ] {
            assert_eq!((CONFIG_MAPS.api)(&client, &scope).resource_url(), want);
        }
    }
}
