//! The controller of imported EndpointSlices: in the control plane, for ServiceImports (specification/mcs.md 4).

use std::sync::Arc;

use ironclad_api::{annotations::EXPORTED_SERVICE_NAME, labels, multicluster::ServiceImport, work::Work};
use ironclad_fleet::Gvk;
use ironclad_propagation::{
    services::{
        export_of, import,
        imported::{self, Effect, Seen},
    },
    wakes::services as wakes,
};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use super::{Plane, Read, queue_key, service_key, slice_kind};
use crate::{
    caches::SERVICE_IMPORTS,
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    index::BY_EXPORT,
    owned::OwnedWorks,
    setup::{Setup, on_change, on_template},
};

struct Imported {
    queue: Queue<Key>,
    imports: Informer<ServiceImport>,
    works: Informer<Work>,
    fleet: ClusterSnapshot,
    plane: Plane,
    owned: OwnedWorks,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Imported {
        queue: setup.queue(Imported::NAME),
        imports: setup.caches.take(&SERVICE_IMPORTS),
        works: setup.works(),
        fleet: setup.fleet().clone(),
        plane: Plane::new(setup, Imported::NAME),
        owned: OwnedWorks::new(setup, Imported::NAME),
    });
    on_change(&setup.works(), &this, Imported::on_work);
    on_change(&this.imports, &this, Imported::on_import);
    on_template(setup, &this, Imported::on_template);
    this
}

impl Reconciler for Imported {
    type Key = Key;
    const NAME: &'static str = "endpointSlice";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let works = self.works.by_index(BY_EXPORT, &key.to_string());
        let import = self.imports.get_key(key);
        if works.is_empty() && import.is_none() && self.plane.templates.watched(&slice_kind()).is_none() {
            return Ok(Next::Forget);
        }
        let is_ours = |read: &Read| {
            let by = read.object.labels().get(labels::ENDPOINT_SLICE_KUBERNETES_MANAGED_BY);
            by.is_some_and(|by| by == labels::ENDPOINT_SLICE_CONTROLLER)
        };
        let present: Vec<Read> = self.plane.slices(&key.namespace).await?.into_iter().filter(is_ours).collect();
        let slices: Vec<Arc<Value>> = present.iter().map(|read| read.json.clone()).collect();
        let service = import::service_name(import.as_deref(), &key.name);
        let (name, leaving) = (service_key(key), self.fleet.terminating());
        let plan = imported::decide(&Seen {
            key: &name,
            service: &service,
            works: &works,
            slices: &slices,
            leaving: &leaving,
        });
        let find = |name: &str| present.iter().find(|read| read.object.name_any() == name);
        for effect in plan.effects {
            match effect {
                Effect::Create(slice) => self.plane.create(&slice_kind(), &key.namespace, slice).await?,
                Effect::Patch { name, patch } => {
                    if let Some(seen) = find(&name) {
                        self.plane.patch(&slice_kind(), seen, patch).await?;
                    }
                }
                Effect::Delete { name } => {
                    if let Some(seen) = find(&name) {
                        self.plane.delete(&slice_kind(), seen).await?;
                    }
                }
                Effect::Work(write) => self.owned.send(&works, write).await?,
            }
        }
        Ok(Next::Forget)
    }
}

impl Imported {
    fn on_work(&self, change: &Change<Work>) {
        for key in [&change.old, &change.new].into_iter().flatten().filter_map(|work| export_of(work)) {
            self.queue.add(queue_key(&key));
        }
    }

    fn on_import(&self, change: &Change<ServiceImport>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if wakes::front_end(old, new)
            && let Some(import) = change.new.as_ref().or(change.old.as_ref())
        {
            self.queue.add(Key::of(&**import));
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()).filter(|_| *gvk == slice_kind()) else { return };
        if let Some(name) = object.annotations().get(EXPORTED_SERVICE_NAME) {
            self.queue.add(Key::new(&object.namespace().unwrap_or_default(), name));
        }
    }
}
