//! The controller of dispatched EndpointSlices: copies of collected ones in consumers (specification/mcs.md 2.2).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{StringMap, cluster::Cluster, networking::MultiClusterService, work::Work};
use ironclad_fleet::{ClusterName, Clusters};
use ironclad_propagation::{
    new_ids::NewIds,
    services::{
        Options,
        dispatch::{self, Effect, Seen},
    },
    wakes::services as wakes,
};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::Seam;

use super::{MultiClusterServices, Plane, queue_key, service_key};
use crate::{
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    events::Events,
    index::BY_SERVICE,
    owned::OwnedWorks,
    setup::{Setup, on_change},
    works::WorkStatus,
};

struct Dispatch {
    seam: Seam,
    queue: Queue<Key>,
    services: MultiClusterServices,
    fleet: ClusterSnapshot,
    works: Informer<Work>,
    work_status: WorkStatus,
    plane: Plane,
    owned: OwnedWorks,
    events: Events,
    options: Options,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Dispatch {
        seam: setup.seam.clone(),
        queue: setup.queue(Dispatch::NAME),
        services: setup.multi_cluster_services().clone(),
        fleet: setup.fleet().clone(),
        works: setup.works(),
        work_status: setup.work_status().clone(),
        plane: Plane::new(setup, Dispatch::NAME),
        owned: OwnedWorks::new(setup, Dispatch::NAME),
        events: setup.events.clone(),
        options: setup.settings.propagation.services,
    });
    on_change(&this.services.cache, &this, Dispatch::on_mcs);
    on_change(setup.clusters(), &this, Dispatch::on_cluster);
    on_change(&setup.works(), &this, Dispatch::on_work);
    this
}

impl Reconciler for Dispatch {
    type Key = Key;
    const NAME: &'static str = "endpointsliceDispatch";
    const WORKERS: usize = 1;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let works = self.works.by_index(BY_SERVICE, &key.to_string());
        let mcs = self.services.as_requested(key);
        if mcs.is_none() && works.is_empty() {
            return Ok(Next::Forget);
        }
        let clusters = self.fleet.all();
        let evicted = self.evicted(key, &works, &clusters).await?;
        let requested: Vec<Arc<Work>> = works.iter().map(|work| self.work_status.as_requested(work)).collect();
        let name = service_key(key);
        let seen = Seen {
            key: &name,
            mcs: mcs.as_ref(),
            clusters: &clusters,
            works: &requested,
            evicted: &evicted,
            options: self.options,
            now: self.seam.clock.wall_seconds(),
        };
        let plan = dispatch::decide(&seen, NewIds::from(self.seam.rng.uuid()));
        let mut next = Next::Forget;
        for effect in plan.effects {
            match effect {
                Effect::Work(write) => self.owned.send(&works, write).await?,
                Effect::Status(part) => self.services.request(key, Self::NAME, part),
                Effect::Event(event) => self.events.record(&event),
                Effect::RequeueAfter(wait) => next = Next::After(wait),
            }
        }
        Ok(next)
    }

    fn is_quiet_beside(&self) -> bool {
        self.services.is_quiet()
    }
}

impl Dispatch {
    /// Unready clusters that reported slices and lost their backends. Only with such clusters the Works are read.
    async fn evicted(
        &self,
        key: &Key,
        works: &[Arc<Work>],
        clusters: &Clusters,
    ) -> Result<BTreeSet<ClusterName>, Failure> {
        let unready = dispatch::unready_reporters(works, clusters);
        if unready.is_empty() {
            return Ok(unready);
        }
        let service = self.plane.service(&key.namespace, &key.name).await?;
        let selector = service.and_then(|service| service.json.pointer("/spec/selector").cloned());
        let selector: StringMap = selector.and_then(|map| serde_json::from_value(map).ok()).unwrap_or_default();
        let all = self.works.list();
        Ok(dispatch::evicted(unready, &key.namespace, &selector, all.iter().map(|work| &**work)))
    }

    fn on_mcs(&self, change: &Change<MultiClusterService>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if wakes::front_end(old, new)
            && let Some(mcs) = change.new.as_ref().or(change.old.as_ref())
        {
            self.queue.add(Key::of(&**mcs));
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        if wakes::cluster(change.old.as_deref(), change.new.as_deref()) {
            self.services.keys().into_iter().for_each(|key| self.queue.add(key));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        for key in wakes::mcs_of_work(old, new) {
            self.queue.add(queue_key(&key));
        }
        if self.services.cache.is_empty() {
            return;
        }
        if let Some((namespace, cluster)) = wakes::moved_backend(old, new)
            && self.fleet.all().get(&cluster).is_some_and(|cluster| !cluster.is_ready())
        {
            self.services.cache.namespace(&namespace).iter().for_each(|mcs| self.queue.add(Key::of(&**mcs)));
        }
    }
}
