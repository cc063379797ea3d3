//! The collector of EndpointSlices of exported Services of members (specification/mcs.md 3): in the control plane of
//! members that it connects to, in an agent of its own. A member that exports nothing is not asked for slices.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use ironclad_api::{names, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_members::{Member, PerMember};
use ironclad_propagation::{
    new_ids::NewIds,
    services::{
        SLICE_API_VERSION, SLICE_KIND,
        collect::{self, Exported, Flow, Seen},
        slice,
    },
    wakes::services as wakes,
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, WatchScope, WorkMetrics, run_workers};
use ironclad_seam::{Seam, Tasks};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    controller::Controller,
    index::cluster_of,
    owned::OwnedWorks,
    setup::{Setup, on_change, on_serve},
};

const NAME: &str = "endpointsliceCollect";

/// The collector, for the flows whose controllers run.
pub(crate) struct Collector {
    seam: Seam,
    works: Informer<Work>,
    owned: OwnedWorks,
    work_metrics: WorkMetrics,
    flows: Mutex<BTreeSet<Flow>>,
    sources: PerMember<Source>,
    interval: Duration,
}

/// One connected member.
struct Source {
    name: ClusterName,
    member: Weak<Member>,
    /// Slices by namespace and name. The key without a name asks which Services are exported.
    queue: Queue<Key>,
    watch: Mutex<Watch>,
    /// Time of the last report of each slice.
    reported: Mutex<BTreeMap<Key, Instant>>,
}

/// The slices that are watched in a member.
#[derive(Default)]
struct Watch {
    exported: Arc<Exported>,
    slices: Option<(Informer<DynamicObject>, Tasks)>,
}

/// Collects for MultiClusterServices.
pub(crate) fn for_services(setup: &Setup) -> Arc<dyn Controller> {
    setup.collector().including(Flow::MultiClusterService)
}

impl Collector {
    pub(crate) fn new(setup: &Setup) -> Arc<Self> {
        let this = Arc::new(Self {
            seam: setup.seam.clone(),
            works: setup.works(),
            owned: OwnedWorks::new(setup, NAME),
            work_metrics: setup.work_metrics.clone(),
            flows: Mutex::default(),
            sources: PerMember::default(),
            interval: setup.settings.propagation.services.interval,
        });
        on_change(&setup.works(), &this, Self::on_work);
        on_serve(setup, &this, Self::start_member);
        this
    }

    /// The same, which also collects for this flow. Members are connected later.
    pub(crate) fn including(self: &Arc<Self>, flow: Flow) -> Arc<Self> {
        self.flows.lock().insert(flow);
        self.clone()
    }

    fn start_member(self: &Arc<Self>, member: &Arc<Member>) {
        let queue = Queue::new(member.seam.clock.clone(), member.seam.rng.stream("jitter/endpointslices"));
        let queue = queue.measured(NAME, &self.work_metrics);
        let source = Source {
            name: member.name.clone(),
            member: Arc::downgrade(member),
            queue: queue.clone(),
            watch: Mutex::default(),
            reported: Mutex::default(),
        };
        let source = self.sources.set(member, source);
        let (weak, weak_source) = (Arc::downgrade(self), Arc::downgrade(&source));
        run_workers(NAME, &member.seam.tasks, &queue, 1, move |key| {
            let (this, source) = (weak.upgrade(), weak_source.upgrade());
            async move {
                let (Some(this), Some(source)) = (this, source) else { return Ok(Next::Forget) };
                this.reconcile(&source, &key).await
            }
        });
        queue.add(exports_key());
    }

    fn on_work(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(source) = new.or(old).and_then(cluster_of).and_then(|name| self.sources.get(&name)) else { return };
        if wakes::exports(old, new) {
            source.queue.add(exports_key());
        }
        if let Some(work) = new.or(old).filter(|work| collect::is_collected(work)) {
            work_slice(work).into_iter().for_each(|key| source.queue.add(key));
        }
    }

    /// Watches the slices of the Services that the member exports now, and no others.
    fn look_at_exports(self: &Arc<Self>, source: &Arc<Source>) {
        let works = self.works.namespace(&names::execution_namespace(&source.name.0));
        let exported = Arc::new(collect::exported(works.iter().map(|work| &**work), &self.flows.lock()));
        let Some(member) = source.member.upgrade() else { return };
        let mut watch = source.watch.lock();
        let before = std::mem::replace(&mut watch.exported, exported.clone());
        let same_watch = exported.is_empty() == watch.slices.is_none()
            && (exported.is_empty() || collect::selector(&exported) == collect::selector(&before));
        if !same_watch {
            if let Some((_, tasks)) = watch.slices.take() {
                tasks.kill();
            }
            if !exported.is_empty() {
                watch.slices = Some(self.watch(source, &member, collect::selector(&exported)));
            }
        }
        if same_watch && before == exported {
            return;
        }
        let slices = watch.slices.as_ref().map(|(informer, _)| informer.list()).unwrap_or_default();
        drop(watch);
        slices.iter().for_each(|slice| source.queue.add(Key::of(&**slice)));
        self.enqueue_collected(source);
    }

    /// Works of slices that are gone are found by their names.
    fn enqueue_collected(&self, source: &Source) {
        for work in self.works.namespace(&names::execution_namespace(&source.name.0)) {
            if collect::is_collected(&work) {
                work_slice(&work).into_iter().for_each(|key| source.queue.add(key));
            }
        }
    }

    fn watch(
        self: &Arc<Self>,
        source: &Arc<Source>,
        member: &Member,
        selector: String,
    ) -> (Informer<DynamicObject>, Tasks) {
        let (group, version) = SLICE_API_VERSION.split_once('/').unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, SLICE_KIND));
        let informer: Informer<DynamicObject> = Informer::new(&[]);
        let (weak, interval, clock) = (Arc::downgrade(source), self.interval, self.seam.clock.clone());
        informer.on_change(move |change| {
            let Some(source) = weak.upgrade() else { return };
            let Some(object) = change.new.as_ref().or(change.old.as_ref()) else { return };
            let key = Key::of(&**object);
            let json = |object: &Option<Arc<DynamicObject>>| {
                object
                    .as_ref()
                    .and_then(|object| serde_json::to_value(&**object).ok())
                    .map(|whole| slice::portable(&whole))
            };
            let since = source.reported.lock().get(&key).map(|at| clock.mono() - *at);
            let wait = collect::wait(json(&change.old).as_ref(), json(&change.new).as_ref(), since, interval);
            source.queue.add_after(key, wait);
        });
        let tasks = member.seam.tasks.child("endpointslices");
        let api = Api::all_with(member.client.clone(), &resource);
        let scope = WatchScope { labels: Some(selector), fields: None };
        informer.start("endpointslices", &member.seam, &tasks, api, &scope);
        let (weak, weak_source, synced) = (Arc::downgrade(self), Arc::downgrade(source), informer.when_synced());
        tasks.spawn("endpointslices listed", async move {
            synced.await;
            if let (Some(this), Some(source)) = (weak.upgrade(), weak_source.upgrade()) {
                this.enqueue_collected(&source);
            }
        });
        (informer, tasks)
    }

    async fn reconcile(self: &Arc<Self>, source: &Arc<Source>, key: &Key) -> Result<Next, Failure> {
        if key.name.is_empty() {
            self.look_at_exports(source);
            return Ok(Next::Forget);
        }
        let (exported, slices) = {
            let watch = source.watch.lock();
            (watch.exported.clone(), watch.slices.as_ref().map(|(informer, _)| informer.clone()))
        };
        // Once the list is complete, all keys are added.
        if slices.as_ref().is_some_and(|slices| !slices.is_synced()) {
            return Ok(Next::Forget);
        }
        let slice = slices.and_then(|slices| slices.get_key(key));
        let slice: Option<Value> = match &slice {
            Some(slice) => Some(serde_json::to_value(&**slice).map_err(|error| Failure::Invalid(error.to_string()))?),
            None => None,
        };
        let name = collect::key(&source.name, &key.namespace, &key.name).name;
        let work = self.works.get(&names::execution_namespace(&source.name.0), &name);
        let seen = Seen { cluster: &source.name, slice: slice.as_ref(), work: work.as_ref(), exported: &exported };
        let plan = collect::decide(&seen, NewIds::from(self.seam.rng.uuid()));
        if slice.is_none() {
            source.reported.lock().remove(key);
        } else if !plan.is_quiet() {
            source.reported.lock().insert(key.clone(), self.seam.clock.mono());
        }
        let stored: Vec<Arc<Work>> = work.into_iter().collect();
        for write in plan.effects {
            self.owned.send(&stored, write).await?;
        }
        Ok(Next::Forget)
    }
}

impl Controller for Collector {
    fn is_quiet(&self) -> bool {
        self.sources.all().iter().all(|source| source.queue.is_idle())
    }
}

fn exports_key() -> Key {
    Key::new("", "")
}

/// The slice in a Work.
fn work_slice(work: &Work) -> Option<Key> {
    let named = work.spec.workload.manifests.first()?.named();
    Some(Key::new(&named.metadata.namespace, &named.metadata.name))
}
