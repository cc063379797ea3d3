//! ReplicaSets: pods by number.

mod apply;
mod decide;
mod observe;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, Writer, run_workers};
use ironclad_seam::Stream;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::core::SelectorExt as _;
use parking_lot::Mutex;

pub(crate) use self::decide::{Counts, count, wanted};
use self::decide::{Trouble, decide};
use crate::{
    Cluster,
    owner::{controller_of, selector},
    pace::{Pace, Turn},
    pods::labels,
};

/// ReplicaSets that are worked on at once.
const WORKERS: usize = 8;
const KIND: &str = "ReplicaSet";

struct Controller {
    cluster: Cluster,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    writer: Writer,
    names: Stream,
    memory: Mutex<BTreeMap<String, Memory>>,
    pace: Pace,
}

/// What is known of a set that no cache shows, by its uid.
#[derive(Debug, Default, Clone)]
struct Memory {
    /// Names drawn for pods that may or may not exist: they are used again until the server has answered for each. So a
    /// create whose answer was lost is never made twice.
    names: Vec<String>,
    /// Pods that the server was asked to delete and the watch still shows alive: no other goes in their place.
    deleting: BTreeSet<String>,
    trouble: Option<Trouble>,
}

/// Runs the controller as tasks of the cluster's seam.
pub(crate) fn start(cluster: &Cluster) {
    let (sets, pods) = (cluster.caches.replica_sets(), cluster.caches.pods());
    let queue: Queue<Key> = Queue::new(cluster.seam.clock.clone(), cluster.seam.rng.stream("queue/replicaset"));
    let controller = Arc::new(Controller {
        cluster: cluster.clone(),
        sets: sets.clone(),
        pods: pods.clone(),
        writer: Writer::new("replicaset-controller"),
        names: cluster.seam.rng.stream("names/replicaset"),
        memory: Mutex::default(),
        pace: Pace::default(),
    });
    let (to, of) = (queue.clone(), controller.clone());
    sets.on_change(move |change| {
        if let Some(set) = change.new.as_ref().or(change.old.as_ref()) {
            if change.new.is_none() {
                of.memory.lock().remove(set.metadata.uid.as_deref().unwrap_or(""));
            }
            to.add(Key::of(&**set));
        }
    });
    let (to, of) = (queue.clone(), controller.clone());
    pods.on_change(move |change| of.of_pod(change).into_iter().for_each(|key| to.add(key)));
    let tasks = cluster.seam.tasks.clone();
    tasks.clone().spawn("replicaset-start", async move {
        sets.synced().await;
        pods.synced().await;
        run_workers("replicaset", &tasks, &queue, WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.reconcile(&key).await }
        });
    });
}

impl Controller {
    /// The sets that a pod's change may concern.
    fn of_pod(&self, change: &Change<Pod>) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        for pod in change.old.iter().chain(&change.new) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
            match controller_of(&pod.metadata) {
                Some(owner) if owner.kind == KIND => {
                    keys.insert(Key::new(namespace, &owner.name));
                }
                Some(_) => {}
                None => {
                    let wants = |set: &Arc<ReplicaSet>| {
                        selector(set.spec.as_ref().map(|s| &s.selector))
                            .is_some_and(|s| s.matches(labels(&pod.metadata)))
                    };
                    keys.extend(self.sets.namespace(namespace).iter().filter(|s| wants(s)).map(|s| Key::of(&**s)));
                }
            }
        }
        keys
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let now = self.cluster.seam.clock.wall_seconds();
        let Some(seen) = self.observe(key) else {
            self.pace.done(key);
            return Ok(Next::Forget);
        };
        let plan = decide(&seen, now);
        let turn = self.pace.turn(
            key,
            seen.set.status.as_ref() != Some(&plan.status),
            plan.settled,
            self.cluster.seam.clock.mono(),
        );
        if turn == Turn::Write {
            self.write_status(&seen.set, &plan.status).await?;
            self.pace.done(key);
        }
        self.apply(&seen.set, &plan).await?;
        let wait = match turn {
            Turn::Wait(wait) => Some(wait),
            Turn::Keep | Turn::Write => None,
        };
        Ok(next(wait, plan.look_again, now))
    }
}

/// The next look: after a wait or at a time, whichever is earlier.
pub(crate) fn next(wait: Option<std::time::Duration>, at: Option<Timestamp>, now: Timestamp) -> Next {
    let until = at.map(|at| std::time::Duration::try_from(at.duration_since(now)).unwrap_or_default());
    match wait.into_iter().chain(until).min() {
        Some(wait) => Next::After(wait),
        None => Next::Forget,
    }
}
