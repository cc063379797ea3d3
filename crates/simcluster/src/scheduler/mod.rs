//! Pod scheduler of a simulated member: binds each pod to the best node that fits, or reports why there is none.

mod assume;
mod demand;
mod fit;
mod host_ports;
mod ledger;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use futures::FutureExt as _;
use ironclad_kubecontrollers::{
    Cluster, NODES, PODS, owner,
    pods::{is_finished, node_of},
};
use ironclad_runtime::{Api, Change, EventAbout, EventType, Failure, Informer, Key, Next, Queue, Recorder, Writer};
use k8s_openapi::{
    api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

use self::{
    assume::AssumedPlacements,
    demand::demand,
    fit::{Needs, NodeLoad, Placement, place},
    host_ports::host_ports,
    ledger::{Booking, Ledger, Load},
};
use ironclad_kubecontrollers::quantity::{Amounts, amounts};

const WORKERS: usize = 8;
/// The scheduler of pods that name none.
const NAME: &str = "default-scheduler";

pub(crate) struct Scheduler {
    cluster: Cluster,
    pods: Informer<Pod>,
    writer: Writer,
    recorder: Recorder,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    /// Nodes with their allocatable resources, by name.
    offers: BTreeMap<String, (Arc<Node>, Amounts)>,
    /// Unschedulable pods: retried when resources become free.
    waiting: BTreeSet<Key>,
    assumed: AssumedPlacements,
    /// All nodes and pods have been seen once.
    knows_all: bool,
}

impl State {
    fn place(&mut self, pod: &Pod) -> Placement {
        let (demand, host_ports, controller) = (demand(pod), host_ports(pod), controller_of(pod));
        let idle = Load::default();
        let seats = self.offers.values().map(|(node, allocatable)| {
            let load = self.ledger.load(node.metadata.name.as_deref().unwrap_or("")).unwrap_or(&idle);
            NodeLoad {
                node,
                allocatable,
                taken: &load.taken,
                host_ports: &load.host_ports,
                siblings: load.siblings(&controller),
            }
        });
        let placement = place(pod, Needs { demand: &demand, host_ports: &host_ports }, seats);
        if let Placement::On(node) = &placement {
            let uid = pod.metadata.uid.as_deref().unwrap_or("");
            self.ledger.book(uid, Booking { node: node.clone(), demand, host_ports, controller, assumed: true });
        }
        placement
    }
}

pub(crate) fn start(cluster: &Cluster) -> Weak<Scheduler> {
    let (pods, nodes) = (cluster.caches.take(&PODS), cluster.caches.take(&NODES));
    let queue: Queue<Key> = cluster.queue("scheduler");
    let scheduler = Arc::new(Scheduler {
        cluster: cluster.clone(),
        pods: pods.clone(),
        writer: Writer::new("scheduler"),
        recorder: Recorder::new(cluster.client.clone(), &cluster.seam, NAME),
        state: Mutex::default(),
    });
    let weak = Arc::downgrade(&scheduler);
    // The scheduler holds the informers: a strong reference back would keep both for ever.
    let (to, of) = (queue.clone(), Arc::downgrade(&scheduler));
    pods.on_change(move |change| {
        if let Some(scheduler) = of.upgrade() {
            scheduler.pod_changed(change, &to);
        }
    });
    let (to, of) = (queue.clone(), Arc::downgrade(&scheduler));
    nodes.on_change(move |change| {
        if let Some(scheduler) = of.upgrade() {
            scheduler.node_changed(change, &to);
        }
    });
    let first = scheduler.clone();
    let ready = async move {
        nodes.synced().await;
        pods.synced().await;
        first.state.lock().knows_all = true;
    };
    cluster.run("scheduler", queue, WORKERS, [ready.boxed()], move |key| {
        let scheduler = scheduler.clone();
        async move { scheduler.reconcile(&key).await }
    });
    weak
}

/// Returns `true` if the pod waits for this scheduler.
fn is_ours(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let gated = spec.and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|g| !g.is_empty());
    node_of(pod).is_empty()
        && pod.metadata.deletion_timestamp.is_none()
        && !is_finished(pod)
        && !gated
        && spec.and_then(|s| s.scheduler_name.as_deref()).is_none_or(|name| name == NAME)
}

fn controller_of(pod: &Pod) -> String {
    owner::controller_of(&pod.metadata).map(|r| r.uid.clone()).unwrap_or_default()
}

impl Scheduler {
    fn pod_changed(&self, change: &Change<Pod>, queue: &Queue<Key>) {
        let Some(pod) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let (uid, key) = (pod.metadata.uid.as_deref().unwrap_or(""), Key::of(&**pod));
        let mut state = self.state.lock();
        let mut freed = false;
        if let Some(old) = &change.old
            && (change.new.is_none() || old.metadata.uid != pod.metadata.uid)
        {
            freed |= state.ledger.free(old.metadata.uid.as_deref().unwrap_or(""));
        }
        if change.new.is_none() {
            state.waiting.remove(&key);
        } else if is_finished(pod) {
            freed |= state.ledger.free(uid);
        } else if !node_of(pod).is_empty() {
            state.waiting.remove(&key);
            let booking = Booking {
                node: node_of(pod).to_owned(),
                demand: demand(pod),
                host_ports: host_ports(pod),
                controller: controller_of(pod),
                assumed: false,
            };
            state.ledger.book(uid, booking);
        } else if is_ours(pod) && !state.ledger.is_assumed(uid) {
            // Its own `Unschedulable` condition needs no reconcile.
            let same =
                change.old.as_ref().is_some_and(|old| old.spec == pod.spec && old.metadata.uid == pod.metadata.uid);
            if !(same && state.waiting.contains(&key)) {
                queue.add(key);
            }
        }
        if freed {
            state.waiting.iter().for_each(|key| queue.add_low_priority(key.clone()));
        }
    }

    fn node_changed(&self, change: &Change<Node>, queue: &Queue<Key>) {
        let mut state = self.state.lock();
        match (&change.old, &change.new) {
            (_, Some(node)) => {
                let offer = amounts(node.status.as_ref().and_then(|s| s.allocatable.as_ref()));
                state.offers.insert(node.name_any(), (node.clone(), offer));
            }
            (Some(node), None) => {
                state.offers.remove(&node.name_any());
            }
            (None, None) => {}
        }
        state.waiting.iter().for_each(|key| queue.add_low_priority(key.clone()));
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(pod) = self.pods.get_key(key).filter(|p| is_ours(p)) else {
            self.state.lock().waiting.remove(key);
            return Ok(Next::Forget);
        };
        match self.choose(key, &pod) {
            None => Ok(Next::Forget),
            Some(Placement::On(node)) => self.bind(&pod, &node).await,
            Some(Placement::Nowhere(refusal)) => match self.refuse(&pod, &refusal.to_string()).await? {
                Next::Forget => Ok(self.again()),
                next => Ok(next),
            },
        }
    }

    /// Time of the next reconcile without an event: assumed placements of rejected pods expire.
    fn again(&self) -> Next {
        let state = self.state.lock();
        let now = self.cluster.seam.clock.mono();
        let until = state.assumed.next_expiry(&state.ledger);
        until.map_or(Next::Forget, |until| Next::After(until.saturating_duration_since(now)))
    }

    /// Chooses a node and books its resources immediately, so that the next pod sees them.
    fn choose(&self, key: &Key, pod: &Pod) -> Option<Placement> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.assumed.forget(self.cluster.seam.clock.mono(), &mut state.ledger);
        let uid = pod.metadata.uid.as_deref().unwrap_or("");
        if state.ledger.is_assumed(uid) {
            return None;
        }
        let placement = state.place(pod);
        match &placement {
            Placement::On(_) => state.waiting.remove(key),
            Placement::Nowhere(_) => state.waiting.insert(key.clone()),
        };
        Some(placement)
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Result<Next, Failure> {
        let api: Api<Pod> =
            Api::namespaced(self.cluster.client.clone(), pod.metadata.namespace.as_deref().unwrap_or(""));
        let name = pod.name_any();
        let binding = Binding {
            metadata: ObjectMeta { name: Some(name.clone()), uid: pod.metadata.uid.clone(), ..ObjectMeta::default() },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let body = serde_json::to_vec(&binding).map_err(|e| Failure::Invalid(e.to_string()))?;
        let request = kube::core::Request::new(api.resource_url())
            .create_subresource("binding", &name, &PostParams::default(), body)
            .map_err(|e| Failure::Invalid(e.to_string()))?;
        let answer = self.cluster.client.request::<serde_json::Value>(request).await.map_err(Failure::from);
        match answer {
            Ok(_) => Ok(Next::Forget),
            Err(failure) => {
                self.state.lock().ledger.free(pod.metadata.uid.as_deref().unwrap_or(""));
                if failure.is_not_found() { Ok(Next::Forget) } else { Err(failure) }
            }
        }
    }

    /// Writes the condition that no node fits, and the event, unless it is there already.
    async fn refuse(&self, pod: &Pod, message: &str) -> Result<Next, Failure> {
        let mut conditions = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
        let old = conditions.iter().position(|c| c.type_ == "PodScheduled").map(|at| conditions.remove(at));
        let has_condition = |c: &PodCondition| {
            c.status == "False" && c.reason.as_deref() == Some("Unschedulable") && c.message.as_deref() == Some(message)
        };
        if old.as_ref().is_some_and(has_condition) {
            return Ok(Next::Forget);
        }
        let since = old.filter(|c| c.status == "False").and_then(|c| c.last_transition_time);
        conditions.push(PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: Some("Unschedulable".into()),
            message: Some(message.to_owned()),
            last_transition_time: since.or(Some(Time(self.cluster.seam.clock.wall_seconds()))),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        });
        let api: Api<Pod> =
            Api::namespaced(self.cluster.client.clone(), pod.metadata.namespace.as_deref().unwrap_or(""));
        let (name, version) = (pod.name_any(), pod.resource_version().unwrap_or_default());
        let status = json!({"phase": "Pending", "conditions": conditions});
        match self.writer.patch_status(&api, Some(&self.pods), &name, &version, status).await {
            Ok(_) => {
                let about = EventAbout::of::<Pod>(&pod.metadata);
                self.recorder.record(&about, EventType::Warning, "FailedScheduling", message);
                Ok(Next::Forget)
            }
            Err(Failure::NotFound(_)) => Ok(Next::Forget),
            Err(failure) => Err(failure),
        }
    }
}
