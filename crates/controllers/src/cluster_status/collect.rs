//! Sums of the nodes and pods of a member, in the cluster's status (specification/scheduling.md 10.4).
//!
//! The watches of the member's nodes and pods are shared with the estimators. Nothing is listed again, and nothing is
//! written while the sums are the same.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ironclad_api::{
    cluster::{Cluster, NodeSummary, ResourceModel, ResourceSummary},
    conditions,
};
use ironclad_failover::cluster::nodes;
use ironclad_fleet::{StatusPart, gates::Gate};
use ironclad_members::{Member, NODES, Node, PODS, Pod};
use ironclad_runtime::{Change, Informer, Key, StatusWriter};
use ironclad_scheduling::summary::Ledger;
use ironclad_seam::Seam;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use crate::{settings::Settings, setup::Setup, targets::Typed};

/// Time between two writes of changing sums.
const EVERY: Duration = Duration::from_secs(10);

/// The sums of one member, and the notification of their changes.
#[derive(Default)]
pub(super) struct Sums {
    ledger: Mutex<Ledger>,
    changed: Notify,
    /// True once all nodes and pods are counted.
    is_complete: AtomicBool,
    completed: Notify,
}

impl Sums {
    fn change(&self, change: impl FnOnce(&mut Ledger)) {
        change(&mut self.ledger.lock());
        self.changed.notify_one();
    }

    fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
        self.completed.notify_waiters();
    }

    /// The sums once all nodes and pods are counted.
    pub(super) async fn first(&self, models: &[ResourceModel]) -> (NodeSummary, ResourceSummary) {
        let mut completed = std::pin::pin!(self.completed.notified());
        // Noted before the check: it may be completed between both.
        completed.as_mut().enable();
        if !self.is_complete.load(Ordering::Relaxed) {
            completed.await;
        }
        self.ledger.lock().summary(models)
    }
}

/// The collection of all members.
pub(super) struct Collector {
    seam: Seam,
    settings: Arc<Settings>,
    clusters: Informer<Cluster>,
    status: StatusWriter<Typed<Cluster>>,
}

impl Collector {
    pub(super) fn new(setup: &Setup) -> Arc<Self> {
        Arc::new(Self {
            seam: setup.seam.clone(),
            settings: setup.settings.clone(),
            clusters: setup.clusters().clone(),
            status: setup.cluster_status().clone(),
        })
    }

    /// Resource models that count in the sums of a cluster.
    pub(super) fn models<'a>(&self, cluster: &'a Cluster) -> &'a [ResourceModel] {
        let customized = self.settings.gates.enabled(Gate::CustomizedClusterResourceModeling);
        if customized { &cluster.spec.resource_models } else { &[] }
    }

    /// Sums the nodes and pods of a member in a task of its connection; `None` if resource modelling is off.
    pub(super) fn start(self: &Arc<Self>, member: &Arc<Member>) -> Option<Arc<Sums>> {
        if !self.settings.propagation.resource_modeling.is_on() {
            return None;
        }
        let sums = Arc::new(Sums::default());
        let (nodes, pods) = (member.caches.take(&NODES), member.caches.take(&PODS));
        let shared = sums.clone();
        nodes.on_change(move |change: &Change<Node>| {
            if let Some(node) = change.new.as_ref().or(change.old.as_ref()) {
                shared.change(|ledger| {
                    ledger.node(&node.name_any(), change.new.as_ref().map(|node| node.counted()));
                });
            }
        });
        let shared = sums.clone();
        pods.on_change(move |change: &Change<Pod>| {
            let of = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.counted());
            let (old, new) = (of(&change.old), of(&change.new));
            if old != new {
                shared.change(|ledger| ledger.pod(old.as_ref(), new.as_ref()));
            }
        });
        let (weak, name, clock) = (Arc::downgrade(self), member.name.clone(), self.seam.clock.clone());
        let started = sums.clone();
        member.seam.tasks.supervise(&self.seam.clock, "summary", move || {
            let (nodes, pods, sums) = (nodes.clone(), pods.clone(), sums.clone());
            let (weak, name, clock) = (weak.clone(), name.clone(), clock.clone());
            async move {
                nodes.synced().await;
                pods.synced().await;
                sums.complete();
                loop {
                    let Some(this) = weak.upgrade() else { return };
                    let published = this.publish(&name.0, &sums);
                    drop(this);
                    // A cluster that is not ready is tried again.
                    if published {
                        sums.changed.notified().await;
                    }
                    clock.sleep(EVERY).await;
                }
            }
        });
        Some(started)
    }

    /// Requests the sums in the status; false if the cluster is not ready.
    fn publish(&self, name: &str, sums: &Sums) -> bool {
        let ready = |c: &Arc<Cluster>| c.ready() == Some(conditions::TRUE);
        let Some(cluster) = self.clusters.get("", name).filter(ready) else { return false };
        let (summary, resources) = sums.ledger.lock().summary(self.models(&cluster));
        let fields = [("nodeSummary", json!(summary)), ("resourceSummary", json!(resources))];
        let ratio = self.settings.failover.health.nodes_ready_ratio;
        let now = self.seam.clock.wall_seconds();
        let part = StatusPart {
            fields: fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect(),
            conditions: nodes::condition(&cluster, &summary, ratio, now).into_iter().collect(),
        };
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        self.status.request(&Key::new("", name), uid, "clusterResources", part, false);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ironclad_scheduling::summary;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn first_sums_count_every_node() {
        let sums = Sums::default();
        let node = |name: &str| {
            sums.change(|ledger| ledger.node(name, Some(summary::Node { is_ready: true, ..summary::Node::default() })))
        };
        node("n1");
        let early = timeout(Duration::from_secs(1), sums.first(&[])).await;
        assert!(early.is_err(), "half of the nodes are no capacity: {early:?}");
        node("n2");
        sums.complete();
        let (nodes, _) = timeout(Duration::from_secs(1), sums.first(&[])).await.unwrap();
        assert_eq!((nodes.total_num, nodes.ready_num), (2, 2));
    }
}
