//! The remedy controller: the actions that Remedies ask of clusters (specification/remedy.md).

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, remedy::Remedy};
use ironclad_failover::{
    remedy::{self, Effect, Seen},
    wakes,
};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, StatusWriter};
use kube::ResourceExt as _;

use crate::{
    caches::REMEDIES,
    controller::{Controller, Reconciler},
    events::Events,
    setup::{Setup, on_change},
    targets::{Typed, json},
};

struct Remedies {
    queue: Queue<ClusterName>,
    clusters: Informer<Cluster>,
    remedies: Informer<Remedy>,
    status: StatusWriter<Typed<Cluster>>,
    events: Events,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Remedies {
        queue: setup.queue(Remedies::NAME),
        clusters: setup.clusters().clone(),
        remedies: setup.caches.take(&REMEDIES),
        status: setup.cluster_status().clone(),
        events: setup.events.clone(),
    });
    on_change(setup.clusters(), &this, Remedies::on_cluster);
    on_change(&this.remedies, &this, Remedies::on_remedy);
    this
}

impl Reconciler for Remedies {
    type Key = ClusterName;
    const NAME: &'static str = "remedy";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<ClusterName> {
        &self.queue
    }

    async fn reconcile(&self, name: &ClusterName) -> Result<Next, Failure> {
        let Some(stored) = self.clusters.get("", &name.0) else { return Ok(Next::Forget) };
        let (key, uid) = (Key::of(&*stored), stored.uid().unwrap_or_default());
        let mut cluster = (*stored).clone();
        if let Some(status) = self.status.read(&key, &uid, || json(&stored.status)) {
            cluster.status = serde_json::from_value(status).ok();
        }
        let remedies = self.remedies.list();
        for effect in remedy::decide(&Seen { cluster: &cluster, remedies: &remedies }).effects {
            match effect {
                Effect::Status(part) => self.status.request(&key, &uid, Self::NAME, part, true),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        Ok(Next::Forget)
    }
}

impl Remedies {
    fn on_cluster(&self, change: &Change<Cluster>) {
        if let Some(cluster) = change.new.as_ref().filter(|new| wakes::remedy::cluster(change.old.as_deref(), new)) {
            self.queue.add(cluster.name_any().as_str().into());
        }
    }

    /// All clusters: a Remedy may have named others before.
    fn on_remedy(&self, _: &Change<Remedy>) {
        for cluster in self.clusters.list() {
            self.queue.add(cluster.name_any().as_str().into());
        }
    }
}
