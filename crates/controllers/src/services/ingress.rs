//! The controller of the status of MultiClusterIngresses (specification/mcs.md 5).

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, networking::MultiClusterIngress, work::ResourceBinding};
use ironclad_fleet::targets::targets;
use ironclad_propagation::{
    services::ingress::{self, Seen},
    wakes::services as wakes,
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, StatusWriter, Writer};
use kube::ResourceExt as _;

use super::service_object;
use crate::{
    bindings::Bindings,
    caches::MULTI_CLUSTER_INGRESSES,
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    setup::{Setup, on_change},
    targets::{Typed, json},
};

struct Ingresses {
    queue: Queue<Key>,
    ingresses: Informer<MultiClusterIngress>,
    status: StatusWriter<Typed<MultiClusterIngress>>,
    bindings: Bindings,
    fleet: ClusterSnapshot,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let ingresses = setup.caches.take(&MULTI_CLUSTER_INGRESSES);
    let target = Typed {
        client: setup.plane.clone(),
        cache: ingresses.clone(),
        writer: Writer::new(Ingresses::NAME),
        events: setup.events.clone(),
        api: |client, namespace| Api::namespaced(client.clone(), namespace),
        status: |ingress: &MultiClusterIngress| json(&ingress.status),
    };
    let this = Arc::new(Ingresses {
        queue: setup.queue(Ingresses::NAME),
        status: StatusWriter::start("status/multiclusteringresses", &setup.seam, target),
        ingresses,
        bindings: setup.bindings().clone(),
        fleet: setup.fleet().clone(),
    });
    on_change(&this.ingresses, &this, |this, change: &Change<MultiClusterIngress>| {
        if let Some(ingress) = &change.new {
            this.queue.add(Key::of(&**ingress));
        }
    });
    on_change(&setup.bindings().namespaced, &this, Ingresses::on_binding);
    on_change(setup.clusters(), &this, Ingresses::on_cluster);
    this
}

impl Reconciler for Ingresses {
    type Key = Key;
    const NAME: &'static str = "mciStatus";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(stored) = self.ingresses.get_key(key) else { return Ok(Next::Forget) };
        let mut ingress = (*stored).clone();
        let uid = ingress.uid().unwrap_or_default();
        if let Some(status) = self.status.read(key, &uid, || json(&ingress.status)) {
            ingress.status = serde_json::from_value(status).ok();
        }
        let mut locations = BTreeMap::new();
        for name in ingress::backends(&ingress) {
            let binding = self.bindings.of_template(&service_object(&Key::new(&key.namespace, &name)));
            let clusters = binding.map(|binding| targets(binding.view().spec())).unwrap_or_default();
            locations.insert(name, clusters.into_iter().map(|target| target.cluster).collect());
        }
        let clusters = self.fleet.all();
        let plan = ingress::decide(&Seen { ingress: &ingress, locations: &locations, clusters: &clusters });
        for part in plan.effects {
            self.status.request(key, &uid, Self::NAME, part, false);
        }
        Ok(Next::Forget)
    }

    fn is_quiet_beside(&self) -> bool {
        self.status.is_quiet()
    }
}

impl Ingresses {
    fn on_binding(&self, change: &Change<ResourceBinding>) {
        let (old, new) = (change.old.as_ref().map(|old| &old.spec), change.new.as_ref().map(|new| &new.spec));
        let Some(service) = wakes::located(old, new) else { return };
        for ingress in self.ingresses.namespace(&service.namespace) {
            if ingress::backends(&ingress).contains(&*service.name) {
                self.queue.add(Key::of(&*ingress));
            }
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        if wakes::drained(change.old.as_deref(), change.new.as_deref()) {
            self.ingresses.list().iter().for_each(|ingress| self.queue.add(Key::of(&**ingress)));
        }
    }
}
