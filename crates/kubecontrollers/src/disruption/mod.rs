//! PodDisruptionBudgets: maintains the number of pods that may be evicted.

mod decide;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_patch::selector::LabelSelector;
use ironclad_runtime::{Api, Change, Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    core::v1::Pod,
    policy::v1::PodDisruptionBudget,
};
use kube::ResourceExt as _;

use self::decide::{Seen, decide};
use crate::{
    Cluster,
    caches::{DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, REPLICA_SETS, STATEFUL_SETS},
    owner::{controller_of, parse_selector, selects},
    pods::{is_finished, is_terminating, labels, ready_since},
    status_debounce::status_patch,
    workload::next,
};

const WORKERS: usize = 2;
/// Debounce: pods change in batches.
const DEBOUNCE: Duration = Duration::from_millis(100);

struct Controller {
    cluster: Cluster,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    sets: Informer<ReplicaSet>,
    deployments: Informer<Deployment>,
    stateful_sets: Informer<StatefulSet>,
    writer: Writer,
}

pub(crate) fn start(cluster: &Cluster) {
    let caches = &cluster.caches;
    let controller = Arc::new(Controller {
        cluster: cluster.clone(),
        budgets: caches.take(&DISRUPTION_BUDGETS),
        pods: caches.take(&PODS),
        sets: caches.take(&REPLICA_SETS),
        deployments: caches.take(&DEPLOYMENTS),
        stateful_sets: caches.take(&STATEFUL_SETS),
        writer: Writer::new("disruption-controller"),
    });
    let queue: Queue<Key> = cluster.queue("disruption");
    let to = queue.clone();
    controller.budgets.on_change(move |change| {
        if let Some(budget) = &change.new {
            to.add(Key::of(&**budget));
        }
    });
    // The informers live in the controller: a strong reference back would keep both for ever.
    let (to, of) = (queue.clone(), Arc::downgrade(&controller));
    controller.pods.on_change(move |change| {
        let Some(of) = of.upgrade() else { return };
        of.of_pod(change).into_iter().for_each(|key| to.add_after(key, DEBOUNCE));
    });
    let ready = [
        controller.budgets.when_synced(),
        controller.pods.when_synced(),
        controller.sets.when_synced(),
        controller.deployments.when_synced(),
        controller.stateful_sets.when_synced(),
    ];
    cluster.run("disruption", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    /// Returns the budgets that a pod's change affects.
    fn of_pod(&self, change: &Change<Pod>) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        let shows =
            |p: &Pod| (ready_since(p).is_some(), is_terminating(p), is_finished(p), labels(&p.metadata).clone());
        let same = matches!((&change.old, &change.new), (Some(old), Some(new)) if shows(old) == shows(new));
        if self.budgets.is_empty() || same {
            return keys;
        }
        for pod in change.old.iter().chain(&change.new) {
            let of = self.budgets.namespace(pod.metadata.namespace.as_deref().unwrap_or(""));
            keys.extend(
                of.iter().filter(|b| selector(b).is_some_and(|s| selects(&s, &pod.metadata))).map(|b| Key::of(&**b)),
            );
        }
        keys
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let now = self.cluster.seam.clock.wall_seconds();
        let Some(budget) = self.budgets.get_key(key) else { return Ok(Next::Forget) };
        let plan = decide(&self.observe(budget.clone()), now);
        if budget.status.as_ref() != Some(&plan.status) {
            let api: Api<PodDisruptionBudget> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
            let patch = status_patch(budget.status.as_ref(), &plan.status);
            let version = budget.resource_version().unwrap_or_default();
            self.writer.patch_status(&api, Some(&self.budgets), &key.name, &version, patch).await?;
        }
        Ok(next(None, plan.requeue_at, now))
    }

    fn observe(&self, budget: Arc<PodDisruptionBudget>) -> Seen {
        let mut pods = self.pods.namespace(budget.metadata.namespace.as_deref().unwrap_or(""));
        let selector = selector(&budget);
        pods.retain(|pod| selector.as_ref().is_some_and(|s| selects(s, &pod.metadata)));
        let scales: BTreeMap<String, i32> = pods.iter().filter_map(|pod| self.scale(pod)).collect();
        Seen { budget, pods, scales }
    }

    /// Returns the workload of a pod and its desired replicas.
    fn scale(&self, pod: &Pod) -> Option<(String, i32)> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
        let owner = controller_of(&pod.metadata)?;
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let set = self.sets.get(namespace, &owner.name)?;
                let deployment = controller_of(&set.metadata).filter(|r| r.kind == "Deployment");
                match deployment.and_then(|r| Some((r, self.deployments.get(namespace, &r.name)?))) {
                    Some((r, deployment)) => Some((r.uid.clone(), deployment.spec.as_ref()?.replicas.unwrap_or(1))),
                    None => Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1))),
                }
            }
            "StatefulSet" => {
                let set = self.stateful_sets.get(namespace, &owner.name)?;
                Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)))
            }
            _ => None,
        }
    }
}

/// A budget without a selector selects nothing, one with an empty selector everything in its namespace.
fn selector(budget: &PodDisruptionBudget) -> Option<LabelSelector> {
    parse_selector(budget.spec.as_ref()?.selector.as_ref()?)
}
