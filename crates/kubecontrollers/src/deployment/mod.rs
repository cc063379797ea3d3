//! Deployments: creates, rolls, scales and deletes their ReplicaSets.

mod apply;
mod decide;
mod observe;
mod revision;
mod rolling;
mod status;
mod strategy;
#[cfg(test)]
mod testkit;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_runtime::{Failure, Informer, Key, Next, Queue, Writer};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};

use self::decide::decide;
use crate::{
    Cluster,
    caches::{DEPLOYMENTS, PODS, REPLICA_SETS},
    owner::{controller_of, selector, selects},
    status_debounce::{StatusDebounce, WriteStatus},
    workload::next,
};

const WORKERS: usize = 8;
const KIND: &str = "Deployment";

struct Controller {
    cluster: Cluster,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
    writer: Writer,
    debounce: StatusDebounce,
}

pub(crate) fn start(cluster: &Cluster) {
    let caches = &cluster.caches;
    let controller = Arc::new(Controller {
        cluster: cluster.clone(),
        deployments: caches.take(&DEPLOYMENTS),
        sets: caches.take(&REPLICA_SETS),
        pods: caches.take(&PODS),
        writer: Writer::new("deployment-controller"),
        debounce: StatusDebounce::default(),
    });
    let queue: Queue<Key> = cluster.queue("deployment");
    let to = queue.clone();
    controller.deployments.on_change(move |change| {
        if let Some(deployment) = change.new.as_ref().or(change.old.as_ref()) {
            to.add(Key::of(&**deployment));
        }
    });
    // The informers live in the controller: a strong reference back would keep both for ever.
    let (to, of) = (queue.clone(), Arc::downgrade(&controller));
    controller.sets.on_change(move |change| {
        let Some(of) = of.upgrade() else { return };
        let keys: BTreeSet<Key> = change.old.iter().chain(&change.new).flat_map(|set| of.of_set(set)).collect();
        keys.into_iter().for_each(|key| to.add(key));
    });
    let (to, of) = (queue.clone(), Arc::downgrade(&controller));
    controller.pods.on_change(move |change| {
        let Some(of) = of.upgrade() else { return };
        let keys: BTreeSet<Key> = change.old.iter().chain(&change.new).filter_map(|pod| of.of_pod(pod)).collect();
        keys.into_iter().for_each(|key| to.add(key));
    });
    let ready = [controller.deployments.when_synced(), controller.sets.when_synced(), controller.pods.when_synced()];
    cluster.run("deployment", queue, WORKERS, ready, move |key| {
        let controller = controller.clone();
        async move { controller.reconcile(&key).await }
    });
}

impl Controller {
    /// Returns the Deployments that a change of this ReplicaSet concerns: its owner, or those that could adopt it.
    fn of_set(&self, set: &ReplicaSet) -> Vec<Key> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or("");
        match controller_of(&set.metadata) {
            Some(owner) if owner.kind == KIND => vec![Key::new(namespace, &owner.name)],
            Some(_) => Vec::new(),
            None => {
                let selected = |d: &&Arc<Deployment>| {
                    selector(d.spec.as_ref().map(|s| &s.selector)).is_some_and(|s| selects(&s, &set.metadata))
                };
                self.deployments.namespace(namespace).iter().filter(selected).map(|d| Key::of(&**d)).collect()
            }
        }
    }

    fn of_pod(&self, pod: &Pod) -> Option<Key> {
        let owner = controller_of(&pod.metadata).filter(|r| r.kind == "ReplicaSet")?;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
        let set = self.sets.get(namespace, &owner.name)?;
        let owner = controller_of(&set.metadata).filter(|r| r.kind == KIND)?;
        Some(Key::new(namespace, &owner.name))
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let now = self.cluster.seam.clock.wall_seconds();
        let Some(seen) = self.observe(key, now) else {
            self.debounce.done(key);
            return Ok(Next::Forget);
        };
        let plan = decide(&seen, now);
        let changes = seen.deployment.status.as_ref() != Some(&plan.status) || plan.revision.is_some();
        let write = self.debounce.check(key, changes, plan.idle, self.cluster.seam.clock.mono());
        if write == WriteStatus::Write {
            self.write_status(&seen.deployment, &plan).await?;
            self.debounce.done(key);
        }
        self.apply(&seen.deployment, &plan).await?;
        let wait = match write {
            WriteStatus::Wait(wait) => Some(wait),
            WriteStatus::Keep | WriteStatus::Write => None,
        };
        Ok(next(wait, plan.requeue_at, now))
    }
}
