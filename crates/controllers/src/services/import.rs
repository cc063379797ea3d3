//! The ServiceImport controller: the Service by which an import is reached (specification/mcs.md 4).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{multicluster::ServiceImport, work::Work};
use ironclad_fleet::{ClusterName, Gvk};
use ironclad_propagation::{
    services::{
        collect::{self, Flow},
        export_of,
        import::{self, Effect, Seen},
    },
    wakes::services as wakes,
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, StatusWriter, Writer};
use ironclad_seam::Seam;
use kube::{ResourceExt as _, api::DynamicObject};

use super::{Plane, is_service, queue_key, service_kind, service_object};
use crate::{
    caches::SERVICE_IMPORTS,
    controller::{Controller, Reconciler},
    events::Events,
    index::{BY_EXPORT, cluster_of},
    setup::{Setup, on_change, on_template},
    targets::{Templates, Typed, json},
};

struct Imports {
    seam: Seam,
    queue: Queue<Key>,
    imports: Informer<ServiceImport>,
    status: StatusWriter<Typed<ServiceImport>>,
    service_status: StatusWriter<Templates>,
    works: Informer<Work>,
    plane: Plane,
    events: Events,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let imports = setup.caches.take(&SERVICE_IMPORTS);
    let target = Typed {
        client: setup.plane.clone(),
        cache: imports.clone(),
        writer: Writer::new(Imports::NAME),
        events: setup.events.clone(),
        api: |client, namespace| Api::namespaced(client.clone(), namespace),
        status: |import: &ServiceImport| json(&import.status),
    };
    let this = Arc::new(Imports {
        seam: setup.seam.clone(),
        queue: setup.queue(Imports::NAME),
        status: StatusWriter::start("status/serviceimports", &setup.seam, target),
        service_status: setup.template_status().clone(),
        imports,
        works: setup.works(),
        plane: Plane::new(setup, Imports::NAME),
        events: setup.events.clone(),
    });
    on_change(&this.imports, &this, Imports::on_import);
    on_change(&setup.works(), &this, Imports::on_work);
    on_template(setup, &this, Imports::on_template);
    this
}

impl Reconciler for Imports {
    type Key = Key;
    const NAME: &'static str = "serviceImport";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(stored) = self.imports.get_key(key) else { return Ok(Next::Forget) };
        let mut import = (*stored).clone();
        let uid = import.uid().unwrap_or_default();
        if let Some(status) = self.status.read(key, &uid, || json(&import.status)) {
            import.status = serde_json::from_value(status).ok();
        }
        let works = self.works.by_index(BY_EXPORT, &key.to_string());
        let collected = works.iter().filter(|work| collect::is_collected_for(work, Flow::ServiceExport));
        let exporters: BTreeSet<ClusterName> = collected.filter_map(|work| cluster_of(work)).collect();
        let name = import::service_name(Some(&import), &key.name);
        let service = self.plane.service(&key.namespace, &name).await?;
        let json = service.as_ref().map(|service| &*service.json);
        let now = self.seam.clock.wall_seconds();
        let plan = import::decide(&Seen { import: &import, service: json, exporters: &exporters, now });
        for effect in plan.effects {
            match effect {
                Effect::CreateService(object) => self.plane.create(&service_kind(), &key.namespace, object).await?,
                Effect::PatchService(patch) => {
                    if let Some(service) = &service {
                        self.plane.patch(&service_kind(), service, patch).await?;
                    }
                }
                Effect::ServiceStatus(part) => {
                    let uid = service.as_ref().and_then(|service| service.object.uid()).unwrap_or_default();
                    let key = service_object(&Key::new(&key.namespace, &name));
                    self.service_status.request(&key, &uid, Self::NAME, part, false);
                }
                Effect::Status(part) => self.status.request(key, &uid, Self::NAME, part, false),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        Ok(Next::Forget)
    }

    fn is_quiet_beside(&self) -> bool {
        self.status.is_quiet()
    }
}

impl Imports {
    fn on_import(&self, change: &Change<ServiceImport>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.metadata), change.new.as_ref().map(|new| &new.metadata));
        if wakes::front_end(old, new)
            && let Some(import) = &change.new
        {
            self.queue.add(Key::of(&**import));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        if change.old.is_none() || change.new.is_none() {
            let keys = [&change.old, &change.new].into_iter().flatten().filter_map(|work| export_of(work));
            keys.for_each(|key| self.queue.add(queue_key(&key)));
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()).filter(|_| is_service(gvk)) else { return };
        let namespace = object.namespace().unwrap_or_default();
        let name = object.name_any();
        for import in self.imports.namespace(&namespace) {
            if import::service_name(Some(&import), &import.name_any()) == name {
                self.queue.add(Key::of(&*import));
            }
        }
    }
}
