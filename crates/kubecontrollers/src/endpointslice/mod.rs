//! EndpointSlices: maintains the addresses of the pods of a Service.

mod decide;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde_json::json;

use self::decide::{MANAGED_BY, MANAGER, SERVICE_NAME, Seen, decide, has_endpoints, shows};
use crate::{
    Cluster,
    caches::{ENDPOINT_SLICES, NODES, PODS, SERVICES},
    owner::BY_CONTROLLER,
    pods::labels,
};

const WORKERS: usize = 4;
/// Debounce: pods change in batches.
const DEBOUNCE: Duration = Duration::from_millis(100);
const ZONE: &str = "topology.kubernetes.io/zone";
const DRAWN: usize = 5;

struct Controller {
    cluster: Cluster,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    writer: Writer,
}

pub(crate) fn start(cluster: &Cluster) {
    let caches = &cluster.caches;
    let controller = Arc::new(Controller {
        cluster: cluster.clone(),
        services: caches.take(&SERVICES),
        slices: caches.take(&ENDPOINT_SLICES),
        pods: caches.take(&PODS),
        nodes: caches.take(&NODES),
        writer: Writer::new("endpointslice-controller"),
    });
    let queue: Queue<Key> = cluster.queue("endpointslice");
    let to = queue.clone();
    controller.services.on_change(move |change| {
        if let Some(service) = &change.new {
            to.add(Key::of(&**service));
        }
    });
    let to = queue.clone();
    controller.slices.on_change(move |change| {
        for slice in change.old.iter().chain(&change.new) {
            if let Some(name) = labels(&slice.metadata).get(SERVICE_NAME) {
                to.add_after(Key::new(slice.metadata.namespace.as_deref().unwrap_or(""), name), DEBOUNCE);
            }
        }
    });
    // The informers live in the controller: a strong reference back would keep both for ever.
    let (to, of) = (queue.clone(), Arc::downgrade(&controller));
    controller.pods.on_change(move |change| {
        let Some(of) = of.upgrade() else { return };
        of.of_pod(change).into_iter().for_each(|key| to.add_after(key, DEBOUNCE));
    });
    let ready = [
        controller.services.when_synced(),
        controller.slices.when_synced(),
        controller.pods.when_synced(),
        controller.nodes.when_synced(),
    ];
    cluster.run("endpointslice", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    /// Returns the Services that a pod's change affects.
    fn of_pod(&self, change: &Change<Pod>) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        let same = matches!((&change.old, &change.new), (Some(old), Some(new)) if shows(old) == shows(new));
        if same || self.services.is_empty() {
            return keys;
        }
        for pod in change.old.iter().chain(&change.new) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
            let of = self.services.namespace(namespace);
            keys.extend(of.iter().filter(|s| selects(s, pod)).map(|s| Key::of(&**s)));
        }
        keys
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(service) = self.services.get_key(key).filter(|s| s.metadata.deletion_timestamp.is_none()) else {
            // The garbage collector deletes its slices.
            return Ok(Next::Forget);
        };
        let api: Api<EndpointSlice> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        let plan = decide(&self.observe(service));
        for (slice, endpoints) in &plan.update {
            self.writer.patch(&api, Some(&self.slices), slice, json!({"endpoints": endpoints})).await?;
        }
        for mut slice in plan.create {
            let base = slice.metadata.generate_name.clone().unwrap_or_default();
            let names = self.cluster.seam.rng.stream("names/endpointslice-controller");
            slice.metadata.name = Some(format!("{base}{}", names.suffix(DRAWN)));
            match self.writer.create(&api, Some(&self.slices), &slice).await {
                Ok(_) => {}
                // The namespace is terminating.
                Err(Failure::NotFound(_) | Failure::Denied(_)) => return Ok(Next::Forget),
                Err(failure) => return Err(failure),
            }
        }
        // Write new slices before deleting old ones, so that no endpoint is missing in between.
        for slice in &plan.delete {
            self.writer.delete(&api, Some(&self.slices), slice, PropagationPolicy::Background).await?;
        }
        Ok(Next::Forget)
    }

    fn observe(&self, service: Arc<Service>) -> Seen {
        let namespace = service.metadata.namespace.as_deref().unwrap_or("");
        let uid = service.metadata.uid.as_deref().unwrap_or("");
        let mut slices = self.slices.by_index(BY_CONTROLLER, uid);
        slices.retain(|s| {
            s.metadata.deletion_timestamp.is_none() && labels(&s.metadata).get(MANAGED_BY).is_some_and(|m| m == MANAGER)
        });
        let mut pods = if has_endpoints(&service) { self.pods.namespace(namespace) } else { Vec::new() };
        pods.retain(|pod| selects(&service, pod));
        let nodes: BTreeSet<&str> = pods.iter().map(|p| crate::pods::node_of(p)).collect();
        let zone = |name: &&str| Some(((*name).to_owned(), self.nodes.get("", name)?.labels().get(ZONE)?.clone()));
        let zones = nodes.iter().filter_map(zone).collect();
        Seen { service, pods, slices, zones }
    }
}

fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|s| s.selector.as_ref());
    let of_pod = labels(&pod.metadata);
    selector.is_some_and(|s| !s.is_empty() && s.iter().all(|(k, v)| of_pod.get(k) == Some(v)))
}
