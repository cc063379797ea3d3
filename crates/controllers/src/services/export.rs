//! The ServiceExport controller: collects slices of exported Services, and in the control plane marks the clusters of
//! exports that no policy propagates (specification/mcs.md 4).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    multicluster::ServiceExport,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{ClusterName, Gvk, ObjectKey};
use ironclad_propagation::{
    new_ids::NewIds,
    services::{
        EXPORT_API_VERSION,
        collect::{EXPORT_KIND, Flow},
        export::{self, Effect, Seen},
    },
    wakes::services as wakes,
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, StatusWriter, Writer};
use ironclad_seam::{Seam, Tasks};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt as _, api::DynamicObject};

use super::{Plane, collect::Collector, is_service, queue_key, service_key, service_object, spaces};
use crate::{
    bindings::Bindings,
    caches::{NAMESPACES, SERVICE_EXPORTS},
    controller::{Controller, Reconciler},
    index::BY_EXPORT,
    owned::OwnedWorks,
    setup::{Setup, on_change, on_template},
    targets::{Typed, json},
};

/// The collector, and in a control plane the marker.
struct Export {
    collector: Arc<Collector>,
    marker: Option<Arc<Marker>>,
}

struct Marker {
    seam: Seam,
    queue: Queue<Key>,
    exports: Informer<ServiceExport>,
    status: StatusWriter<Typed<ServiceExport>>,
    namespaces: Informer<Namespace>,
    works: Informer<Work>,
    bindings: Bindings,
    plane: Plane,
    owned: OwnedWorks,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let collector = setup.collector().including(Flow::ServiceExport);
    let marker = setup.settings.agent_of.is_none().then(|| Marker::new(setup));
    Arc::new(Export { collector, marker })
}

impl Controller for Export {
    fn start(self: Arc<Self>, tasks: &Tasks) {
        if let Some(marker) = &self.marker {
            marker.clone().start(tasks);
        }
    }

    fn is_quiet(&self) -> bool {
        self.collector.is_quiet() && self.marker.as_ref().is_none_or(|marker| Controller::is_quiet(&**marker))
    }
}

impl Marker {
    fn new(setup: &Setup) -> Arc<Self> {
        let exports = setup.caches.take(&SERVICE_EXPORTS);
        let target = Typed {
            client: setup.plane.clone(),
            cache: exports.clone(),
            writer: Writer::new(Self::NAME),
            events: setup.events.clone(),
            api: |client, namespace| Api::namespaced(client.clone(), namespace),
            status: |export: &ServiceExport| json(&export.status),
        };
        let this = Arc::new(Self {
            seam: setup.seam.clone(),
            queue: setup.queue(Self::NAME),
            status: StatusWriter::start("status/serviceexports", &setup.seam, target),
            exports,
            namespaces: setup.caches.take(&NAMESPACES),
            works: setup.works(),
            bindings: setup.bindings().clone(),
            plane: Plane::new(setup, Self::NAME),
            owned: OwnedWorks::new(setup, Self::NAME),
        });
        on_change(&this.exports, &this, Self::on_export);
        on_change(&setup.works(), &this, Self::on_work);
        on_change(&setup.bindings().namespaced, &this, Self::on_binding);
        on_template(setup, &this, Self::on_template);
        this
    }

    fn on_export(&self, change: &Change<ServiceExport>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if wakes::front_end(old, new)
            && let Some(export) = change.new.as_ref().or(change.old.as_ref())
        {
            self.queue.add(Key::of(&**export));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        let keys = wakes::export_of_work(change.old.as_deref(), change.new.as_deref());
        keys.iter().for_each(|key| self.queue.add(queue_key(key)));
    }

    /// Bindings of the Service and of the export itself.
    fn on_binding(&self, change: &Change<ResourceBinding>) {
        for binding in [&change.old, &change.new].into_iter().flatten() {
            if let Some(key) = wakes::export_of_template(&binding.spec.resource) {
                self.add(queue_key(&key));
            }
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        if let Some(object) = change.new.as_ref().or(change.old.as_ref()).filter(|_| is_service(gvk)) {
            self.add(Key::new(&object.namespace().unwrap_or_default(), &object.name_any()));
        }
    }

    fn add(&self, key: Key) {
        if self.exports.get_key(&key).is_some() {
            self.queue.add(key);
        }
    }
}

impl Reconciler for Marker {
    type Key = Key;
    const NAME: &'static str = "serviceExport";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let works = self.works.by_index(BY_EXPORT, &key.to_string());
        let stored = self.exports.get_key(key);
        let Some(stored) = stored else {
            if works.is_empty() {
                return Ok(Next::Forget);
            }
            return self.apply(key, None, &works).await;
        };
        let mut export = (*stored).clone();
        if let Some(status) = self.status.read(key, &export.uid().unwrap_or_default(), || json(&export.status)) {
            export.status = serde_json::from_value(status).ok();
        }
        self.apply(key, Some(&export), &works).await
    }

    fn is_quiet_beside(&self) -> bool {
        self.status.is_quiet()
    }
}

impl Marker {
    async fn apply(&self, key: &Key, export: Option<&ServiceExport>, works: &[Arc<Work>]) -> Result<Next, Failure> {
        let service = match export {
            Some(_) => self.plane.service(&key.namespace, &key.name).await?,
            None => None,
        };
        let of_service = self.bindings.of_template(&service_object(key));
        let clusters: BTreeSet<ClusterName> = of_service
            .iter()
            .flat_map(|binding| binding.view().spec().clusters.iter().map(|target| target.name.as_str().into()))
            .collect();
        let of_export = ObjectKey { gvk: Gvk::from_manifest(EXPORT_API_VERSION, EXPORT_KIND), ..service_object(key) };
        let (name, spaces) = (service_key(key), spaces(&self.namespaces));
        let seen = Seen {
            key: &name,
            export,
            service: service.as_ref().map(|service| &*service.json),
            clusters: &clusters,
            is_propagated: self.bindings.of_template(&of_export).is_some(),
            spaces: &spaces,
            works,
            now: self.seam.clock.wall_seconds(),
        };
        let plan = export::decide(&seen, NewIds::from(self.seam.rng.uuid()));
        for effect in plan.effects {
            match effect {
                Effect::Work(write) => self.owned.send(works, write).await?,
                Effect::Status(part) => {
                    let uid = export.and_then(|export| export.uid()).unwrap_or_default();
                    self.status.request(key, &uid, Self::NAME, part, false);
                }
            }
        }
        Ok(Next::Forget)
    }
}
