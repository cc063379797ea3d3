//! Kubelets: a pod starts after its delay, reports that in one write, and terminates when it is deleted.

mod address;
mod decide;
mod references;
mod restarts;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use ironclad_kubecontrollers::{
    CLAIMS, CONFIG_MAP_NAMES, Cluster, NODES, PODS, SECRET_NAMES,
    pods::{node_of, phase},
};
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, PodStatus, Secret};
use kube::{
    Resource, ResourceExt as _,
    api::{DeleteParams, Preconditions},
    core::PartialObjectMeta,
};
use parking_lot::Mutex;
use serde_json::json;

pub(crate) use self::address::host_ip;
pub use self::decide::duration;
use self::{
    address::Addresses,
    decide::{Step, decide, starts_at_once},
    references::{Kind, Missing, Reference, missing, references},
    restarts::{crashed, restarted},
    status::{PodLocation, ended, is_waiting, running, waiting},
};
use crate::{nodes::number, options::Times, placing::ASSUME_EXPIRY};

const WORKERS: usize = 16;

/// Current durations of pods' steps; they may change while pods run.
pub(crate) type SharedTimes = Arc<Mutex<Times>>;

pub(crate) struct Kubelet {
    cluster: Cluster,
    member: String,
    times: SharedTimes,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    referenced: Referenced,
    writer: Writer,
    addresses: Mutex<Addresses>,
    /// Pods that do not start before an object exists.
    waiting: Mutex<BTreeMap<(Kind, Key), BTreeSet<Key>>>,
}

/// Objects that pods refer to.
struct Referenced {
    config_maps: Informer<PartialObjectMeta<ConfigMap>>,
    secrets: Informer<PartialObjectMeta<Secret>>,
    claims: Informer<PersistentVolumeClaim>,
}

impl Referenced {
    fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        match kind {
            Kind::ConfigMap => self.config_maps.get(namespace, name).is_some(),
            Kind::Secret => self.secrets.get(namespace, name).is_some(),
            Kind::Claim => self.claims.get(namespace, name).is_some(),
        }
    }
}

/// Runs all nodes' kubelets as tasks of the cluster's seam, which end when the seam does.
pub(crate) fn start(cluster: &Cluster, member: &str, times: SharedTimes) -> Weak<Kubelet> {
    let (pods, nodes) = (cluster.caches.take(&PODS), cluster.caches.take(&NODES));
    let queue: Queue<Key> = cluster.queue("kubelet");
    let kubelet = Arc::new(Kubelet {
        cluster: cluster.clone(),
        member: member.to_owned(),
        times,
        pods: pods.clone(),
        nodes: nodes.clone(),
        referenced: Referenced {
            config_maps: cluster.caches.take(&CONFIG_MAP_NAMES),
            secrets: cluster.caches.take(&SECRET_NAMES),
            claims: cluster.caches.take(&CLAIMS),
        },
        writer: Writer::new("kubelet"),
        addresses: Mutex::default(),
        waiting: Mutex::default(),
    });
    // The kubelet holds the informers: a strong reference back would keep both for ever.
    let (to, of) = (queue.clone(), Arc::downgrade(&kubelet));
    pods.on_change(move |change| {
        if let Some(kubelet) = of.upgrade() {
            kubelet.pod_changed(change, &to);
        }
    });
    let (to, of) = (queue.clone(), Arc::downgrade(&kubelet));
    nodes.on_change(move |change| {
        // Delete the pods of a deleted node.
        if let (Some(node), None, Some(kubelet)) = (&change.old, &change.new, of.upgrade()) {
            let pods = kubelet.pods.by_index(ironclad_kubecontrollers::BY_NODE, &node.name_any());
            pods.iter().for_each(|pod| to.add(Key::of(&**pod)));
        }
    });
    let weak = Arc::downgrade(&kubelet);
    let referenced = &kubelet.referenced;
    wake(&referenced.config_maps, Kind::ConfigMap, &weak, &queue);
    wake(&referenced.secrets, Kind::Secret, &weak, &queue);
    wake(&referenced.claims, Kind::Claim, &weak, &queue);
    let ready = [
        nodes.when_synced(),
        pods.when_synced(),
        referenced.config_maps.when_synced(),
        referenced.secrets.when_synced(),
        referenced.claims.when_synced(),
    ];
    cluster.run("kubelet", queue, WORKERS, ready, move |key| {
        let kubelet = kubelet.clone();
        async move { kubelet.reconcile(&key).await }
    });
    weak
}

/// Enqueues the pods that wait for an object as soon as it exists, or changes.
fn wake<K>(informer: &Informer<K>, kind: Kind, kubelet: &Weak<Kubelet>, queue: &Queue<Key>)
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    let (of, to) = (kubelet.clone(), queue.clone());
    informer.on_change(move |change| {
        let (Some(object), Some(kubelet)) = (&change.new, of.upgrade()) else { return };
        let pods = kubelet.waiting.lock().remove(&(kind, Key::of(&**object)));
        pods.into_iter().flatten().for_each(|pod| to.add(pod));
    });
}

impl Kubelet {
    /// Returns the initial status of a new pod that has its node: running, if its startup takes no time.
    pub(crate) fn status_at_birth(&self, pod: &Pod) -> Option<PodStatus> {
        self.nodes.get("", node_of(pod))?;
        // Keys have to be asked for.
        if self.missing(pod).is_some() || references(pod).iter().any(|reference| reference.key.is_some()) {
            return None;
        }
        let ready = starts_at_once(pod, &self.times.lock())?;
        let clock = &self.cluster.seam.clock;
        let take =
            |addresses: &mut Addresses, uid: &str, node| addresses.assume(uid, node, clock.mono(), ASSUME_EXPIRY);
        let place = self.place(pod, take)?;
        Some(running(pod, place, ready, self.seconds(clock.wall())))
    }

    fn pod_changed(&self, change: &Change<Pod>, queue: &Queue<Key>) {
        if let Some(old) = &change.old
            && change.new.as_ref().is_none_or(|new| new.metadata.uid != old.metadata.uid)
        {
            self.addresses.lock().free(old.metadata.uid.as_deref().unwrap_or(""));
            let key = Key::of(&**old);
            self.waiting.lock().retain(|_, pods| {
                pods.remove(&key);
                !pods.is_empty()
            });
        }
        let Some(pod) = change.new.as_ref().filter(|p| !node_of(p).is_empty()) else { return };
        let ip = pod.status.as_ref().and_then(|s| s.pod_ip.as_deref());
        if let (Some(ip), Some(node)) = (ip, number(&self.member, node_of(pod))) {
            self.addresses.lock().seen(pod.metadata.uid.as_deref().unwrap_or(""), node, ip);
        }
        queue.add(Key::of(&**pod));
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(pod) = self.pods.get_key(key) else { return Ok(Next::Forget) };
        let now = self.cluster.seam.clock.wall();
        let node_exists = self.nodes.get("", node_of(&pod)).is_some();
        let times = *self.times.lock();
        match decide(&pod, node_exists, &times, now) {
            Step::Leave => Ok(Next::Forget),
            Step::Wait(until) => Ok(Next::After(until.duration_since(now).unsigned_abs())),
            Step::Run { ready } => {
                if phase(&pod) != "Running"
                    && let Some(missing) = self.await_missing(&pod, key).await?
                {
                    if is_waiting(&pod, &missing) {
                        return Ok(Next::Forget);
                    }
                    return self.write(&pod, &waiting(&pod, &missing, self.seconds(now))).await;
                }
                let Some(place) = self.place(&pod, Addresses::take) else {
                    tracing::warn!(pod = %key, node = node_of(&pod), "node has no free address for the pod");
                    return Ok(Next::Retry);
                };
                self.write(&pod, &running(&pod, place, ready, self.seconds(now))).await
            }
            Step::Restart { exit_code, ready } => {
                self.write(&pod, &restarted(&pod, exit_code, ready, self.seconds(now))).await
            }
            Step::CrashLoop { exit_code } => self.write(&pod, &crashed(&pod, exit_code, self.seconds(now))).await,
            Step::End { exit_code } => self.write(&pod, &ended(&pod, exit_code, self.seconds(now))).await,
            Step::Remove => self.remove(&pod).await,
        }
    }

    fn missing(&self, pod: &Pod) -> Option<Missing> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
        missing(pod, |kind, name| self.referenced.has(kind, namespace, name))
    }

    /// Returns the object that the pod waits for. The pod is enqueued when it exists, or changes.
    async fn await_missing(&self, pod: &Pod, key: &Key) -> Result<Option<Missing>, Failure> {
        let note = |kind: Kind, name: &str| {
            let object = Key::new(&key.namespace, name);
            self.waiting.lock().entry((kind, object)).or_default().insert(key.clone());
        };
        if let Some(missing) = self.missing(pod) {
            note(missing.kind, &missing.name);
            // It may have appeared before the pod was noted.
            return Ok(self.missing(pod));
        }
        for reference in references(pod) {
            let Some(needed) = reference.key else { continue };
            note(reference.kind, reference.name);
            if !self.has_key(&key.namespace, &reference, needed).await? {
                return Ok(Some(reference.without_key(&key.namespace)));
            }
        }
        Ok(None)
    }

    /// Asks the server: caches have no content of ConfigMaps and Secrets.
    async fn has_key(&self, namespace: &str, reference: &Reference<'_>, key: &str) -> Result<bool, Failure> {
        let client = self.cluster.client.clone();
        Ok(match reference.kind {
            Kind::ConfigMap => {
                let found = Api::<ConfigMap>::namespaced(client, namespace).get_opt(reference.name).await?;
                found.is_some_and(|map| {
                    map.data.is_some_and(|data| data.contains_key(key))
                        || map.binary_data.is_some_and(|data| data.contains_key(key))
                })
            }
            Kind::Secret => {
                let found = Api::<Secret>::namespaced(client, namespace).get_opt(reference.name).await?;
                found.is_some_and(|secret| secret.data.is_some_and(|data| data.contains_key(key)))
            }
            Kind::Claim => true,
        })
    }

    fn seconds(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    fn place(&self, pod: &Pod, take: impl FnOnce(&mut Addresses, &str, u32) -> Option<String>) -> Option<PodLocation> {
        // Nodes that a user created get addresses above those of the member's own nodes.
        let node = number(&self.member, node_of(pod)).unwrap_or(8_191);
        let host_ip = host_ip(node);
        let on_host = pod.spec.as_ref().and_then(|s| s.host_network) == Some(true);
        let pod_ip = if on_host {
            host_ip.clone()
        } else {
            take(&mut self.addresses.lock(), pod.metadata.uid.as_deref().unwrap_or(""), node)?
        };
        Some(PodLocation { host_ip, pod_ip })
    }

    async fn write(&self, pod: &Pod, status: &PodStatus) -> Result<Next, Failure> {
        let api = self.api(pod);
        let (name, version) = (pod.name_any(), pod.resource_version().unwrap_or_default());
        match self.writer.patch_status(&api, Some(&self.pods), &name, &version, json!(status)).await {
            Ok(_) | Err(Failure::NotFound(_)) => Ok(Next::Forget),
            Err(failure) => Err(failure),
        }
    }

    async fn remove(&self, pod: &Pod) -> Result<Next, Failure> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api(pod).delete(&pod.name_any(), &params).await.map_err(Failure::from) {
            // Finalizers may block the deletion: the watch reports it.
            Ok(_) | Err(Failure::NotFound(_) | Failure::Conflict(_)) => Ok(Next::Forget),
            Err(failure) => Err(failure),
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.cluster.client.clone(), pod.metadata.namespace.as_deref().unwrap_or(""))
    }
}
