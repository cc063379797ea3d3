//! Common parts of the workload controllers: queue, claims on pods, and debounced status.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue};
use jiff::Timestamp;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;

use crate::{
    Cluster,
    owner::{Claims, ORPHANS, adopting, check_adopter, claim, controller_of, controller_reference, releasing, selects},
    pod_control::PodControl,
    status_debounce::{StatusDebounce, WriteStatus, status_patch},
};

const WORKERS: usize = 8;

pub(crate) trait Kind:
    ironclad_runtime::Encode + Resource<DynamicType = (), Scope = NamespaceResourceScope>
{
    const CONTROLLER: &'static str;
    type Status: Serialize + PartialEq;

    fn selector(&self) -> Option<LabelSelector>;

    fn status(&self) -> Option<&Self::Status>;
}

pub(crate) struct Workload<W> {
    pub(crate) cluster: Cluster,
    pub(crate) objects: Informer<W>,
    pub(crate) control: PodControl,
    queue: Queue<Key>,
    debounce: StatusDebounce,
}

impl<W: Kind> Workload<W> {
    /// Creates the controller; changes of its objects and their pods enqueue keys.
    pub(crate) fn new(cluster: &Cluster, objects: Informer<W>) -> Arc<Self> {
        let this = Arc::new(Self {
            cluster: cluster.clone(),
            objects,
            control: PodControl::new::<W>(cluster),
            queue: cluster.queue(W::CONTROLLER),
            debounce: StatusDebounce::default(),
        });
        let of = Arc::downgrade(&this);
        this.objects.on_change(move |change| {
            let Some(this) = of.upgrade() else { return };
            if let Some(object) = change.new.as_ref().or(change.old.as_ref()) {
                if change.new.is_none() {
                    this.control.forget(object.meta().uid.as_deref().unwrap_or(""));
                }
                this.queue.add(Key::of(&**object));
            }
        });
        let of = Arc::downgrade(&this);
        this.control.pods().on_change(move |change| {
            let Some(this) = of.upgrade() else { return };
            this.of_pod(change).into_iter().for_each(|key| this.queue.add(key));
        });
        this
    }

    /// Runs the loop as tasks of the cluster's seam, once its own caches and these others are filled.
    pub(crate) fn run<F, Fut>(self: Arc<Self>, others: impl IntoIterator<Item = BoxFuture<'static, ()>>, reconcile: F)
    where
        F: Fn(Arc<Self>, Key) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
    {
        let (cluster, queue) = (self.cluster.clone(), self.queue.clone());
        let ready = [self.objects.when_synced(), self.control.pods().when_synced()].into_iter().chain(others);
        cluster.run(W::CONTROLLER, queue, WORKERS, ready, move |key| reconcile(self.clone(), key));
    }

    /// Enqueues an object because of a change other than its own or its pods'.
    pub(crate) fn enqueue_key(&self, key: Key) {
        self.queue.add(key);
    }

    /// Returns the objects that a change of this pod affects: its controller, or those that could adopt it.
    fn of_pod(&self, change: &Change<Pod>) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        for pod in change.old.iter().chain(&change.new) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
            match controller_of(&pod.metadata) {
                Some(owner) if owner.kind == W::kind(&()) => {
                    keys.insert(Key::new(namespace, &owner.name));
                }
                Some(_) => {}
                None => {
                    let selected = |o: &&Arc<W>| o.selector().is_some_and(|s| selects(&s, &pod.metadata));
                    keys.extend(self.objects.namespace(namespace).iter().filter(selected).map(|o| Key::of(&**o)));
                }
            }
        }
        keys
    }

    /// Returns the object of this key with its pods; a deleted one is forgotten.
    pub(crate) fn find(&self, key: &Key) -> Option<(Arc<W>, Claims<Pod>)> {
        let found = self.objects.get_key(key).and_then(|object| {
            let selector = object.selector()?;
            let owned = self.control.owned(object.meta().uid.as_deref().unwrap_or(""));
            let orphans = self.control.pods().by_index(ORPHANS, &key.namespace);
            let claims = claim(object.meta(), &selector, owned, orphans);
            Some((object, claims))
        });
        if found.is_none() {
            self.debounce.done(key);
        }
        found
    }

    pub(crate) fn reference(object: &W) -> OwnerReference {
        controller_reference(&W::api_version(&()), &W::kind(&()), object.meta())
    }

    pub(crate) async fn apply_claims(&self, object: &W, claims: &Claims<Pod>) -> Result<(), Failure> {
        let (api, pods, writer) = (self.control.api(object.meta()), self.control.pods(), self.control.writer());
        if !claims.adopt.is_empty() {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            check_adopter(&Api::<W>::namespaced(self.cluster.client.clone(), namespace), object.meta()).await?;
        }
        for pod in &claims.adopt {
            writer.patch(&api, Some(pods), pod, adopting(&pod.metadata, &Self::reference(object))).await?;
        }
        for pod in &claims.release {
            let patch = releasing(&pod.metadata, &[object.meta().uid.as_deref().unwrap_or("")]);
            writer.patch(&api, Some(pods), pod, patch).await?;
        }
        Ok(())
    }

    /// Writes the status if it changed and the debounce time is over; otherwise returns the time to wait.
    pub(crate) async fn write_status(
        &self,
        key: &Key,
        object: &W,
        status: &W::Status,
        idle: bool,
    ) -> Result<Option<Duration>, Failure> {
        let changes = object.status() != Some(status);
        match self.debounce.check(key, changes, idle, self.cluster.seam.clock.mono()) {
            WriteStatus::Keep => Ok(None),
            WriteStatus::Wait(wait) => Ok(Some(wait)),
            WriteStatus::Write => {
                let api: Api<W> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
                let patch = status_patch(object.status(), status);
                let version = object.resource_version().unwrap_or_default();
                let writer = self.control.writer();
                writer.patch_status(&api, Some(&self.objects), &object.name_any(), &version, patch).await?;
                self.debounce.done(key);
                Ok(None)
            }
        }
    }
}

/// Next reconcile: after a delay or at a time, whichever is earlier.
pub(crate) fn next(wait: Option<Duration>, at: Option<Timestamp>, now: Timestamp) -> Next {
    let until = at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    match wait.into_iter().chain(until).min() {
        Some(wait) => Next::After(wait),
        None => Next::Forget,
    }
}
