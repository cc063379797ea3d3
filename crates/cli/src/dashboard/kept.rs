//! Objects that many views read: watched while pages are looked at, so that a look asks for one of them and a change
//! is seen as it happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use ironclad_api::{
    cluster::Cluster,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_runtime::{Api, Informer, Object, WatchScope};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Event;
use kube::{Client, Resource, api::ListParams};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::plan::read::every;

/// Time without a look after which a kind is not watched any more.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Time for the first list of a watch. Then the kind is listed a page at a time, which says what is wrong.
const FIRST_MAX: Duration = Duration::from_secs(20);
/// Pause between two looks at a watch that has not begun yet.
const FIRST_EVERY: Duration = Duration::from_millis(10);
/// Age at which a broken watch is begun anew, with a client of now: its credentials may have ended.
const BROKEN_MAX: Duration = Duration::from_secs(60);

/// The kinds that are watched for the views of one user.
pub(super) struct Kept {
    pub(super) clusters: Kind<Cluster>,
    pub(super) bindings: Kind<ResourceBinding>,
    pub(super) cluster_bindings: Kind<ClusterResourceBinding>,
    pub(super) events: Kind<Event>,
}

impl Kept {
    /// Nothing is watched yet. Watches end with the tasks of `seam`. Each has one of the `slots`; a kind for which none
    /// is left is listed.
    pub(super) fn new(seam: &Seam, slots: &Arc<Semaphore>) -> Self {
        Self {
            clusters: Kind::new("clusters", seam, slots),
            bindings: Kind::new("resourcebindings", seam, slots),
            cluster_bindings: Kind::new("clusterresourcebindings", seam, slots),
            events: Kind::new("events", seam, slots),
        }
    }

    /// Number that changes with the clusters and bindings; `None` while their changes are not seen.
    pub(super) fn placements(&self) -> Option<u64> {
        Some(self.clusters.version()? + self.bindings.version()? + self.cluster_bindings.version()?)
    }
}

/// Objects of one kind.
pub(super) struct Kind<K> {
    name: &'static str,
    seam: Seam,
    slots: Arc<Semaphore>,
    watch: Arc<Mutex<Option<Watch<K>>>>,
    /// Number of changes that were seen.
    changes: Arc<AtomicU64>,
}

/// A watch, with the credentials of one client.
struct Watch<K> {
    informer: Informer<K>,
    seam: Seam,
    begun: Instant,
    used: Instant,
    _slot: OwnedSemaphorePermit,
}

impl<K> Drop for Watch<K> {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}

impl<K: Object + Resource<DynamicType = ()>> Kind<K> {
    fn new(name: &'static str, seam: &Seam, slots: &Arc<Semaphore>) -> Self {
        Self { name, seam: seam.clone(), slots: slots.clone(), watch: Arc::default(), changes: Arc::default() }
    }

    /// All objects. They are listed while their watch is broken, or not allowed. Otherwise one of them is listed: a
    /// watch goes on when its user has lost the right to it, or when the token has been revoked.
    ///
    /// # Errors
    /// If they can't be listed.
    pub(super) async fn all(&self, client: &Client) -> anyhow::Result<Vec<Arc<K>>> {
        if let Some(watch) = self.watch(client)
            && self.is_open(&watch).await
        {
            self.allowed(client).await?;
            return Ok(watch.list());
        }
        Ok(every(Api::all(client.clone())).await?.into_iter().map(Arc::new).collect())
    }

    /// Finds out whether the user may list them now.
    ///
    /// # Errors
    /// If not, or if the server does not answer.
    pub(super) async fn allowed(&self, client: &Client) -> anyhow::Result<()> {
        let one = Api::<K>::all(client.clone()).list(&ListParams::default().limit(1)).await;
        one.map(drop).with_context(|| format!("listing {}", K::plural(&())))
    }

    /// The watch, which is begun if it has to be; `None` without a slot for it.
    fn watch(&self, client: &Client) -> Option<Informer<K>> {
        let (mut watch, now) = (self.watch.lock(), self.seam.clock.mono());
        watch.take_if(|known| known.informer.open_since().is_none() && now - known.begun >= BROKEN_MAX);
        if watch.is_none() {
            *watch = Some(self.begin(client, self.slots.clone().try_acquire_owned().ok()?));
        }
        let watch = watch.as_mut()?;
        watch.used = now;
        Some(watch.informer.clone())
    }

    fn begin(&self, client: &Client, slot: OwnedSemaphorePermit) -> Watch<K> {
        // What changed meanwhile was not seen.
        self.changes.fetch_add(1, Ordering::Relaxed);
        let (seam, informer) = (self.seam.child(self.name), Informer::new(&[]));
        let changes = self.changes.clone();
        informer.on_change(move |_| {
            changes.fetch_add(1, Ordering::Relaxed);
        });
        informer.start(self.name, &seam, &seam.tasks, Api::all(client.clone()), &WatchScope::default());
        let (clock, begun, watch) = (seam.clock.clone(), seam.clock.mono(), Arc::downgrade(&self.watch));
        seam.tasks.spawn("idle", async move {
            let mut end = begun + IDLE_MAX;
            loop {
                clock.sleep_until(end).await;
                let Some(watch) = watch.upgrade() else { break };
                let mut watch = watch.lock();
                end = watch.as_ref().map_or(begun, |known| known.used) + IDLE_MAX;
                if clock.mono() >= end {
                    *watch = None;
                    break;
                }
            }
        });
        Watch { informer, seam, begun, used: begun, _slot: slot }
    }

    /// Waits until the watch has listed what there is; false if it is broken.
    async fn is_open(&self, watch: &Informer<K>) -> bool {
        let clock = &self.seam.clock;
        let end = clock.mono() + FIRST_MAX;
        while watch.open_since().is_none() {
            if watch.last_error().is_some() || clock.mono() >= end {
                return false;
            }
            clock.sleep(FIRST_EVERY).await;
        }
        true
    }

    /// Number of changes; `None` while they are not seen. The watch goes on.
    fn version(&self) -> Option<u64> {
        let mut watch = self.watch.lock();
        let watch = watch.as_mut()?;
        watch.informer.open_since()?;
        watch.used = self.seam.clock.mono();
        Some(self.changes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use ironclad_apiserver::{Identity, Options, Server};
    use ironclad_runtime::{Traffic, in_process_client};
    use ironclad_seam::{Clock, Rng, Tasks};
    use ironclad_store::{Commit, Engine, MemoryBackend};
    use jiff::Timestamp;
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
    use kube::{
        ResourceExt as _,
        api::{DeleteParams, PostParams},
    };
    use serde_json::json;

    use super::*;

    /// A server with one event, and a client for this user.
    async fn served(identity: Identity) -> (Seam, Client, Client, Arc<Traffic>) {
        let clock = Clock::simulated(Timestamp::from_second(1_767_225_600).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock).unwrap();
        let options = Options { name: "plane".into(), ..Options::default() };
        let server = Server::open(options, engine.store("plane"), seam.child("plane")).await.unwrap();
        let admin = in_process_client(server.in_process(Identity::admin("tester")), Arc::default());
        create(&admin, "first").await;
        let traffic = Arc::new(Traffic::default());
        (seam, admin, in_process_client(server.in_process(identity), traffic.clone()), traffic)
    }

    async fn create(client: &Client, name: &str) {
        let event = json!({ "metadata": { "name": name, "namespace": "default" }, "reason": "Test",
            "involvedObject": { "kind": "Cluster", "name": "m1" } });
        let events = Api::<Event>::namespaced(client.clone(), "default");
        events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    }

    async fn names(kind: &Kind<Event>, client: &Client) -> Vec<String> {
        kind.all(client).await.unwrap().iter().map(|event| event.name_any()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_shows_changes_without_requests_and_ends_when_nobody_looks() {
        let (seam, admin, client, traffic) = served(Identity::admin("viewer")).await;
        let events = Kind::<Event>::new("events", &seam, &Arc::new(Semaphore::new(1)));
        assert_eq!(events.version(), None, "nothing is watched before the first look");
        assert_eq!(names(&events, &client).await, ["first"]);
        let before = events.version().unwrap();
        create(&admin, "second").await;
        seam.clock.sleep(Duration::from_secs(1)).await;
        assert_ne!(events.version().unwrap(), before);
        assert_eq!(names(&events, &client).await, ["first", "second"]);
        let other = Kind::<Event>::new("events", &seam, &events.slots);
        assert_eq!(names(&other, &client).await, ["first", "second"]);
        assert_eq!(other.version(), None, "it has no slot");
        traffic.reads.store(0, Ordering::Relaxed);
        for _ in 0..4 {
            seam.clock.sleep(IDLE_MAX / 2).await;
            assert!(events.version().is_some(), "it goes on while somebody asks for changes");
        }
        assert_eq!(traffic.reads.load(Ordering::Relaxed), 0, "to ask for changes is no request");
        let last = events.version();
        seam.clock.sleep(IDLE_MAX * 2).await;
        assert_eq!((events.version(), events.slots.available_permits()), (None, 1));
        create(&admin, "third").await;
        assert_eq!(names(&events, &client).await, ["first", "second", "third"]);
        assert!(events.version() > last, "what changed meanwhile is a change");
        seam.tasks.kill();
    }

    /// Gives user `viewer` these rights to Events.
    async fn allow(admin: &Client, verbs: &[&str]) {
        let role = json!({ "metadata": { "name": "viewer" },
            "rules": [{ "apiGroups": [""], "resources": ["events"], "verbs": verbs }] });
        let roles = Api::<ClusterRole>::all(admin.clone());
        roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
        let binding = json!({ "metadata": { "name": "viewer" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer" }] });
        let bindings = Api::<ClusterRoleBinding>::all(admin.clone());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }

    async fn is_refused(kind: &Kind<Event>, client: &Client) -> bool {
        crate::report::permitted(kind.all(client).await).unwrap().is_none()
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_lost_the_right_is_refused_although_the_watch_goes_on() {
        let (seam, admin, client, _) = served(Identity::user("viewer", &[])).await;
        let events = Kind::<Event>::new("events", &seam, &Arc::new(Semaphore::new(1)));
        allow(&admin, &["list", "watch"]).await;
        seam.clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(names(&events, &client).await, ["first"]);
        Api::<ClusterRole>::all(admin).delete("viewer", &DeleteParams::default()).await.unwrap();
        seam.clock.sleep(Duration::from_secs(5)).await;
        assert!(events.version().is_some(), "the watch goes on");
        assert!(is_refused(&events, &client).await);
        seam.tasks.kill();
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_list_but_not_watch_sees_the_same() {
        let (seam, admin, client, _) = served(Identity::user("viewer", &[])).await;
        let events = Kind::<Event>::new("events", &seam, &Arc::new(Semaphore::new(1)));
        assert!(is_refused(&events, &client).await, "the missing right is named");
        allow(&admin, &["list"]).await;
        seam.clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(names(&events, &client).await, ["first"]);
        create(&admin, "second").await;
        assert_eq!(names(&events, &client).await, ["first", "second"]);
        assert_eq!(events.version(), None, "so each look is computed");
        seam.tasks.kill();
    }
}
