//! Informer: one watch of one kind that keeps a [`Cache`] and notifies handlers of changes.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use ironclad_kinds::{Erased, Object, typed, typed_mut, typed_ref};
use ironclad_seam::{Clock, Seam, Stream, Tasks};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::Notify, time::Instant};

use crate::{Api, Change, Event, Key, Yields, cache::Cache, watch::Raw};

/// First wait after a broken watch.
const BACKOFF_BASE: Duration = Duration::from_millis(200);
/// Longest wait after a watch that breaks again and again.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Duration of one watch, seconds. Load balancers drop idle connections after 240 s.
const WATCH_SECONDS: u32 = 200;

/// Selectors of the objects that an informer watches.
#[derive(Debug, Clone, Default)]
pub struct WatchScope {
    /// Label selector.
    pub labels: Option<String>,
    /// Field selector.
    pub fields: Option<String>,
}

/// Name of an index, and the function that gives an object's values in it.
pub type Indexer<K> = (&'static str, fn(&K) -> Vec<String>);

type Handle = Box<dyn Fn(&Change<dyn Erased>) + Send + Sync>;
/// Change of an object before it is cached: gets the complete object of the watch or of an answer, and the cached one.
pub type Transform<K> = Box<dyn Fn(&mut K, Option<&K>) + Send + Sync>;
type ErasedTransform = Box<dyn Fn(&mut dyn Erased, Option<&dyn Erased>) + Send + Sync>;

/// A cache of one kind that follows a watch. Cheap to clone; lives as long as its task.
pub struct Informer<K> {
    shared: Arc<Shared>,
    /// The group that took it from [`Caches`](crate::Caches): handlers that are added by this informer end with it.
    owner: Option<Tasks>,
    kind: PhantomData<fn() -> K>,
}

/// A handler of changes, and the group with which it ends.
struct Handler {
    owner: Option<Tasks>,
    handle: Handle,
}

impl Handler {
    fn is_over(&self) -> bool {
        self.owner.as_ref().is_some_and(Tasks::is_dead)
    }
}

/// The informer of a kind, without its type: it is compiled once.
struct Shared {
    cache: RwLock<Cache>,
    /// Changes objects before they are cached.
    transform: Option<ErasedTransform>,
    keeps_managed_fields: bool,
    handlers: RwLock<Vec<Handler>>,
    /// Held during an update, so that handlers get changes one at a time in the order of the cache.
    order: Mutex<()>,
    progress: Mutex<Progress>,
    changed: Notify,
    /// Ends the wait after a broken watch early.
    retry_now: Notify,
}

#[derive(Default)]
struct Progress {
    synced: bool,
    /// Error of the last attempt, while the watch is broken.
    last_error: Option<String>,
    /// Time since which events arrive as they happen; that a server ends a watch in due time is no break.
    open_since: Option<Instant>,
}

/// A create that is being sent. Dropping it means that it was not answered.
pub(crate) struct Creating<'a> {
    shared: &'a Shared,
    sent: Option<u64>,
}

impl Creating<'_> {
    /// Takes in the answer.
    pub(crate) fn answered(mut self, object: Arc<dyn Erased>) {
        let Some(sent) = self.sent.take() else { return };
        let object = self.shared.prepare(object);
        self.shared.update(|cache| cache.created(sent, object).into_iter().collect());
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        if let Some(sent) = self.sent {
            self.shared.cache.write().not_created(sent);
        }
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), owner: self.owner.clone(), kind: PhantomData }
    }
}

impl<K: Object> Informer<K> {
    /// An informer with these indexes, which does not run yet.
    #[must_use]
    pub fn new(indexes: &[Indexer<K>]) -> Self {
        Self::make(indexes, None, false)
    }

    /// An informer that applies this function to each object before it is cached: see [`Transform`].
    #[must_use]
    pub fn with_transform(
        indexes: &[Indexer<K>],
        transform: impl Fn(&mut K, Option<&K>) + Send + Sync + 'static,
    ) -> Self {
        Self::make(indexes, Some(Box::new(transform)), false)
    }

    /// The same with `managedFields` of the objects, which the function reduces. Of single objects and events they come
    /// only for Services: see [`Traffic::without_managed_fields`](crate::Traffic::without_managed_fields).
    #[must_use]
    pub fn with_managed_fields(
        indexes: &[Indexer<K>],
        reduce: impl Fn(&mut K, Option<&K>) + Send + Sync + 'static,
    ) -> Self {
        Self::make(indexes, Some(Box::new(reduce)), true)
    }

    pub(crate) fn make(indexes: &[Indexer<K>], transform: Option<Transform<K>>, keeps_managed_fields: bool) -> Self {
        let mut cache = Cache::default();
        for (name, values) in indexes {
            let values = *values;
            cache.add_index(name, Box::new(move |object| typed_ref(object).map(values).unwrap_or_default()));
        }
        let transform = transform.map(|transform| -> ErasedTransform {
            Box::new(move |object, before| {
                if let Some(object) = typed_mut(object) {
                    transform(object, before.and_then(typed_ref));
                }
            })
        });
        let shared = Shared {
            cache: RwLock::new(cache),
            transform,
            keeps_managed_fields,
            handlers: RwLock::default(),
            order: Mutex::default(),
            progress: Mutex::default(),
            changed: Notify::new(),
            retry_now: Notify::new(),
        };
        Self { shared: Arc::new(shared), owner: None, kind: PhantomData }
    }

    /// Adds a handler of all changes, own writes included, in order. Objects that are cached already come first, as new
    /// ones. It must not wait, must not write to this informer, and must not add handlers to it.
    pub fn on_change(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let handle = Box::new(move |change: &Change<dyn Erased>| handler(&change.typed()));
        self.shared.add(Handler { owner: self.owner.clone(), handle });
    }

    /// [`Informer::synced`] as a future that holds the informer itself.
    #[must_use]
    pub fn when_synced(&self) -> BoxFuture<'static, ()> {
        let shared = self.shared.clone();
        Box::pin(async move { shared.synced().await })
    }

    /// The object of this key.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get_key(&Key::new(namespace, name))
    }

    /// The object of this key.
    #[must_use]
    pub fn get_key(&self, key: &Key) -> Option<Arc<K>> {
        let object = self.shared.cache.read().get(key);
        object.and_then(typed)
    }

    /// All objects in order of their keys.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.cache.read().iter().cloned().filter_map(typed).collect()
    }

    /// The objects of one namespace in order of their names.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let objects = self.shared.cache.read().namespace(namespace);
        objects.into_iter().filter_map(typed).collect()
    }

    /// The objects under this value of an index.
    #[must_use]
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<K>> {
        let objects = self.shared.cache.read().by_index(index, value);
        objects.into_iter().filter_map(typed).collect()
    }

    /// Takes in the answer to a write of ours that was conditional on this version (`None`: a create).
    pub fn written(&self, base: Option<&str>, object: K) {
        self.shared.written(base, object.erase());
    }

    /// Takes in the answer to a read of ours: it replaces the cached object of this very version. Handlers are not
    /// called, as nothing changed.
    pub fn reread(&self, object: K) {
        let object = self.shared.prepare(object.erase());
        self.shared.cache.write().reread(object);
    }

    /// Runs the watch as a task of this group.
    pub fn start(&self, name: &'static str, seam: &Seam, tasks: &Tasks, api: Api<K>, scope: &WatchScope) {
        let watch = move |clock: &Clock, scope: &WatchScope| Raw::new(&api, scope, WATCH_SECONDS, clock);
        self.shared.clone().start(name, seam, tasks, Box::new(watch), scope.clone());
    }
}

/// The part that does not depend on the kind.
impl<K> Informer<K> {
    /// The same informer for another owner, with which the handlers that it adds end.
    pub(crate) fn owned_by(&self, owner: &Tasks) -> Self {
        Self { shared: self.shared.clone(), owner: Some(owner.clone()), kind: PhantomData }
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.cache.read().len()
    }

    /// True without objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True once the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Error of the watch, while it is broken.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.shared.progress.lock().last_error.clone()
    }

    /// Time since which changes are seen as they happen; `None` before the first list, and while the watch is broken.
    #[must_use]
    pub fn open_since(&self) -> Option<Instant> {
        self.shared.progress.lock().open_since
    }

    /// Resolves when the first list is complete.
    pub async fn synced(&self) {
        self.shared.synced().await;
    }

    /// Retries a broken watch now: the server is known to be back.
    pub fn retry_now(&self) {
        self.shared.retry_now.notify_one();
    }

    /// Removes all objects and ends all waits for the first list: the kind is no longer served.
    pub fn close(&self) {
        self.shared.cache.write().relist_started();
        self.shared.observe(Event::InitDone);
    }

    /// Notes that a create of ours is sent.
    pub(crate) fn creating(&self) -> Creating<'_> {
        Creating { shared: &self.shared, sent: Some(self.shared.cache.write().creating()) }
    }

    /// Removes an object that a delete of ours removed at once.
    pub fn removed(&self, key: &Key, uid: &str) {
        self.shared.update(|cache| cache.removed(key, uid).into_iter().collect());
    }
}

type MakeWatch = Box<dyn Fn(&Clock, &WatchScope) -> Raw + Send + Sync>;

impl Shared {
    fn is_synced(&self) -> bool {
        self.progress.lock().synced
    }

    async fn synced(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_synced() {
                return;
            }
            changed.await;
        }
    }

    fn written(&self, base: Option<&str>, object: Arc<dyn Erased>) {
        let object = self.prepare(object);
        self.update(|cache| cache.written(base, object).into_iter().collect());
    }

    fn start(self: Arc<Self>, name: &'static str, seam: &Seam, tasks: &Tasks, watch: MakeWatch, scope: WatchScope) {
        let (clock, jitter) = (seam.clock.clone(), seam.rng.stream("informer"));
        tasks.supervise(&seam.clock, format!("informer/{name}"), move || {
            self.clone().follow(name, watch(&clock, &scope), clock.clone(), jitter.clone())
        });
    }

    async fn follow(self: Arc<Self>, name: &'static str, mut watch: Raw, clock: Clock, jitter: Stream) {
        let (mut failures, mut yields) = (0u32, Yields::default());
        self.progress.lock().open_since = None;
        loop {
            match watch.step().await {
                Ok(event) => {
                    if watch.is_open() {
                        let mut progress = self.progress.lock();
                        progress.last_error = None;
                        progress.open_since.get_or_insert_with(|| clock.mono());
                    }
                    let Some(event) = event else { continue };
                    failures = 0;
                    let listed = matches!(event, Event::InitApply(_));
                    self.observe(event);
                    if listed {
                        yields.done().await;
                    }
                }
                Err(error) => {
                    let wait = BACKOFF_BASE.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
                    let wait = wait + jitter.duration_up_to(wait / 2);
                    failures = failures.saturating_add(1);
                    tracing::debug!(informer = name, %error, ?wait, "watch broke");
                    {
                        let mut progress = self.progress.lock();
                        progress.last_error = Some(error.to_string());
                        if !watch.is_open() {
                            progress.open_since = None;
                        }
                    }
                    tokio::select! {
                        biased;
                        () = self.retry_now.notified() => failures = 0,
                        () = clock.sleep(wait) => {}
                    }
                }
            }
        }
    }

    fn observe(&self, event: Event<Arc<dyn Erased>>) {
        match event {
            Event::Init => self.cache.write().relist_started(),
            Event::InitApply(object) => {
                let object = self.prepare(object);
                self.cache.write().relisted(object);
            }
            Event::InitDone => {
                self.update(Cache::relist_done);
                {
                    let mut progress = self.progress.lock();
                    progress.synced = true;
                    progress.last_error = None;
                }
                self.changed.notify_waiters();
            }
            Event::Apply(object) => {
                let object = self.prepare(object);
                self.update(|cache| cache.applied(object).into_iter().collect());
            }
            Event::Delete(object) => self.update(|cache| cache.deleted(&*object).into_iter().collect()),
        }
    }

    fn prepare(&self, mut object: Arc<dyn Erased>) -> Arc<dyn Erased> {
        // An object that was just decoded is nobody else's.
        let Some(own) = Arc::get_mut(&mut object) else { return object };
        // managedFields are half of a small object, and controllers read those of few kinds.
        if !self.keeps_managed_fields {
            own.meta_mut().managed_fields = None;
        }
        if let Some(transform) = &self.transform {
            let before = self.cache.read().get(&Key::of_meta(own.meta()));
            transform(own, before.as_deref());
        }
        object
    }

    fn add(&self, handler: Handler) {
        let _order = self.order.lock();
        let cached: Vec<_> = self.cache.read().iter().cloned().collect();
        for object in cached {
            (handler.handle)(&Change { old: None, new: Some(object), ours: false });
        }
        let mut handlers = self.handlers.write();
        handlers.retain(|handler| !handler.is_over());
        handlers.push(handler);
    }

    fn update(&self, update: impl FnOnce(&mut Cache) -> Vec<Change<dyn Erased>>) {
        let _order = self.order.lock();
        let changes = update(&mut self.cache.write());
        if changes.is_empty() {
            return;
        }
        let handlers = self.handlers.read();
        for change in &changes {
            for handler in handlers.iter().filter(|handler| !handler.is_over()) {
                (handler.handle)(change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt as _, TryStreamExt as _};
    use http::{Request, Response, StatusCode};
    use http_body::Frame;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use ironclad_seam::Rng;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, client::Body};
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::watch::INITIAL_EVENTS_WAIT;

    /// Answer of a server without WatchList to a request for initial events.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Without {
        /// Kubernetes 1.27 to 1.33 with the gate off.
        Refuses,
        /// Kubernetes before 1.27, which forbids the parameter that comes with it.
        RefusesMatch,
        /// It sends what is there, and never that this was all.
        SendsAll,
        /// It begins the watch at the newest state.
        SendsNothing,
    }

    /// A server with one ConfigMap and without WatchList. After a list its watch adds a second one.
    fn server_without_watch_list(without: Without) -> Client {
        let service = service_fn(move |request: Request<Body>| async move {
            let object = |name: &str, version: u8| {
                format!(
                    r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}"}}}}"#
                )
            };
            let whole = |code: StatusCode, text: String| {
                let body = Full::new(Bytes::from(text)).map_err(BoxError::from).boxed_unsync();
                Response::builder().status(code).body(body)
            };
            let refusal = |why: &str| {
                let text = format!(
                    r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,
                    "message":"ListOptions.meta.k8s.io \"\" is invalid: {why}"}}"#
                );
                whole(StatusCode::UNPROCESSABLE_ENTITY, text)
            };
            let events = |first: String| {
                let first = futures::stream::iter([Ok::<_, BoxError>(Bytes::from(first))]);
                let body = StreamBody::new(first.chain(futures::stream::pending()).map_ok(Frame::data));
                Response::builder().body(body.boxed_unsync())
            };
            let added = |name: &str, version| format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object(name, version));
            let query = request.uri().query().unwrap_or_default();
            let answer = match without {
                _ if !query.contains("watch=true") => whole(
                    StatusCode::OK,
                    format!(
                        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{}]}}"#,
                        object("a", 3)
                    ),
                ),
                _ if query.contains("resourceVersion=7") => events(added("b", 8)),
                Without::Refuses => refusal("sendInitialEvents: Forbidden: it needs a feature gate"),
                Without::RefusesMatch => {
                    refusal("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch")
                }
                Without::SendsAll => events(added("a", 3)),
                Without::SendsNothing => events(String::new()),
            };
            Ok::<_, BoxError>(answer?)
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_streaming_lists_is_listed_in_pages() {
        for without in [Without::Refuses, Without::RefusesMatch, Without::SendsAll, Without::SendsNothing] {
            let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("t") };
            let informer: Informer<ConfigMap> = Informer::new(&[]);
            let scope = WatchScope::default();
            let client = server_without_watch_list(without);
            informer.start("configmaps", &seam, &seam.tasks, Api::all(client), &scope);
            let synced = tokio::time::timeout(INITIAL_EVENTS_WAIT * 2, informer.synced()).await;
            assert!(synced.is_ok(), "{without:?}: the list is complete");
            assert!(informer.get("n", "a").is_some(), "{without:?}");
            assert_eq!(informer.last_error(), None, "{without:?}");
            seam.clock.sleep(Duration::from_secs(1)).await;
            assert!(informer.get("n", "b").is_some(), "{without:?}: and followed");
            seam.tasks.kill();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_known_since_when_changes_are_seen() {
        // The first watch breaks after its initial events, and the server does not answer the next two requests.
        let asked = Arc::new(Mutex::new(0));
        let service = service_fn(move |_: Request<Body>| {
            let request = {
                let mut asked = asked.lock();
                *asked += 1;
                *asked
            };
            async move {
                let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
                let first = futures::stream::iter([Ok(Bytes::from(format!("{end}\n")))]);
                let body = match request {
                    1 => StreamBody::new(
                        first
                            .chain(futures::stream::once(async {
                                tokio::time::sleep(Duration::from_secs(10)).await;
                                Err::<Bytes, BoxError>("cut".into())
                            }))
                            .map_ok(Frame::data),
                    )
                    .boxed_unsync(),
                    2 | 3 => return Err(BoxError::from("refused")),
                    _ => StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, BoxError>>()).boxed_unsync(),
                };
                Ok(Response::new(body))
            }
        });
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("t") };
        let informer: Informer<ConfigMap> = Informer::new(&[]);
        let began = seam.clock.mono();
        informer.start(
            "configmaps",
            &seam,
            &seam.tasks,
            Api::all(Client::new(service, "default")),
            &WatchScope::default(),
        );
        informer.synced().await;
        seam.clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(informer.open_since(), Some(began));
        seam.clock.sleep(Duration::from_millis(5_100)).await;
        assert_eq!(informer.open_since(), None, "{:?}", informer.last_error());
        assert!(informer.last_error().is_some());
        seam.clock.sleep(Duration::from_secs(10)).await;
        let again = informer.open_since().map(|since| since - began);
        assert!(again.is_some_and(|again| again > Duration::from_secs(10)), "{again:?}");
        assert_eq!(informer.last_error(), None, "a watch that goes on is not broken, even if nothing happens");
        seam.tasks.kill();
    }
}
