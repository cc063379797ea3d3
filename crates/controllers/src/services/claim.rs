//! The MultiClusterService controller: the Service, its binding and the markers of providers (specification/mcs.md
//! 2.1).

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    networking::MultiClusterService,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{Binding, Gvk};
use ironclad_propagation::{
    new_ids::NewIds,
    services::claim::{self, Effect, Seen},
    wakes::{changes, services as wakes},
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, api::DynamicObject};

use super::{MultiClusterServices, Plane, is_service, queue_key, service_key, service_kind, service_object, spaces};
use crate::{
    bindings::{self, Bindings},
    caches::NAMESPACES,
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    events::Events,
    index::{BY_SERVICE, object_key},
    owned::OwnedWorks,
    setup::{Setup, on_change, on_template},
};

struct Claims {
    seam: Seam,
    queue: Queue<Key>,
    client: Client,
    services: MultiClusterServices,
    fleet: ClusterSnapshot,
    namespaces: Informer<Namespace>,
    works: Informer<Work>,
    bindings: Bindings,
    plane: Plane,
    owned: OwnedWorks,
    writer: Writer,
    events: Events,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Claims {
        seam: setup.seam.clone(),
        queue: setup.queue(Claims::NAME),
        client: setup.plane.clone(),
        services: setup.multi_cluster_services().clone(),
        fleet: setup.fleet().clone(),
        namespaces: setup.caches.take(&NAMESPACES),
        works: setup.works(),
        bindings: setup.bindings().clone(),
        plane: Plane::new(setup, Claims::NAME),
        owned: OwnedWorks::new(setup, Claims::NAME),
        writer: setup.writer(Claims::NAME),
        events: setup.events.clone(),
    });
    on_change(&this.services.cache, &this, Claims::on_mcs);
    on_change(setup.clusters(), &this, Claims::on_cluster);
    on_change(&this.namespaces, &this, Claims::on_namespace);
    on_change(&setup.works(), &this, Claims::on_work);
    on_change(&setup.bindings().namespaced, &this, Claims::on_binding);
    on_template(setup, &this, Claims::on_template);
    this
}

impl Reconciler for Claims {
    type Key = Key;
    const NAME: &'static str = "multiclusterservice";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let works = self.works.by_index(BY_SERVICE, &key.to_string());
        let mcs = self.services.as_requested(key);
        let service = match &mcs {
            Some(_) => self.plane.service(&key.namespace, &key.name).await?,
            None => None,
        };
        let binding = self.bindings.of_template(&service_object(key));
        let requested = binding.as_ref().and_then(|b| self.bindings.get_as_requested(&bindings::queue_key(b)));
        let requested: Option<Arc<ResourceBinding>> = match requested {
            Some(Binding::Namespaced(binding)) => Some(binding),
            _ => None,
        };
        let (clusters, spaces, name) = (self.fleet.all(), spaces(&self.namespaces), service_key(key));
        let seen = Seen {
            key: &name,
            mcs: mcs.as_ref(),
            clusters: &clusters,
            spaces: &spaces,
            service: service.as_ref().map(|service| &*service.json),
            binding: requested.as_deref(),
            works: &works,
            now: self.seam.clock.wall_seconds(),
        };
        let plan = claim::decide(&seen, NewIds::from(self.seam.rng.uuid()));
        for effect in plan.effects {
            match effect {
                Effect::PatchMcs(patch) => {
                    if let Some(stored) = self.services.cache.get_key(key) {
                        let api: Api<MultiClusterService> = Api::namespaced(self.client.clone(), &key.namespace);
                        self.writer.patch(&api, Some(&self.services.cache), &*stored, patch).await?;
                    }
                }
                Effect::PatchService(patch) => {
                    if let Some(service) = &service {
                        self.plane.patch(&service_kind(), service, patch).await?;
                    }
                }
                Effect::CreateBinding(binding) => {
                    let api = Api::namespaced(self.client.clone(), &key.namespace);
                    self.writer.create(&api, Some(&self.bindings.namespaced), &*binding).await?;
                }
                Effect::PatchBinding(patch) => {
                    if let Some(binding) = &binding {
                        self.bindings.patch(&self.writer, binding, patch).await?;
                    }
                }
                Effect::Work(write) => self.owned.send(&works, write).await?,
                Effect::Status(part) => self.services.request(key, Self::NAME, part),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        Ok(Next::Forget)
    }
}

impl Claims {
    fn on_mcs(&self, change: &Change<MultiClusterService>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if wakes::front_end(old, new)
            && let Some(mcs) = change.new.as_ref().or(change.old.as_ref())
        {
            self.queue.add(Key::of(&**mcs));
        }
    }

    fn add_all(&self) {
        self.services.keys().into_iter().for_each(|key| self.queue.add(key));
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        if wakes::cluster(change.old.as_deref(), change.new.as_deref()) {
            self.add_all();
        }
    }

    /// A new execution space can have markers.
    fn on_namespace(&self, change: &Change<Namespace>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if changes::new_space(old, new).is_some() {
            self.add_all();
        }
    }

    /// Markers that come or go; the status of Works is not theirs.
    fn on_work(&self, change: &Change<Work>) {
        if change.old.is_none() || change.new.is_none() {
            let keys = wakes::mcs_of_work(change.old.as_deref(), change.new.as_deref());
            keys.iter().for_each(|key| self.queue.add(queue_key(key)));
        }
    }

    fn on_binding(&self, change: &Change<ResourceBinding>) {
        for binding in [&change.old, &change.new].into_iter().flatten() {
            if let Some(key) = wakes::mcs_of_binding(&binding.metadata) {
                self.queue.add(queue_key(&key));
            }
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()).filter(|_| is_service(gvk)) else { return };
        let key = object_key(gvk, &**object);
        let key = Key::new(&key.namespace, &key.name);
        if self.services.cache.get_key(&key).is_some() {
            self.queue.add(key);
        }
    }
}
