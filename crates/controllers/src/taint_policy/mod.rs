//! The ClusterTaintPolicy controller: keeps the taints of clusters as policies want them (specification/failover.md 2).

mod apply;
mod status;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};
use ironclad_failover::{
    taint_policy::{self, Memory, Seen},
    wakes,
};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{apply::Applier, status::Reports};
use crate::{
    caches::TAINT_POLICIES,
    controller::{Controller, Reconciler},
    setup::{Setup, on_change},
};

struct TaintPolicy {
    seam: Seam,
    queue: Queue<ClusterName>,
    clusters: Informer<Cluster>,
    /// The moment from which monotonic time is counted: the first decision.
    began: Mutex<Option<Instant>>,
    policies: Informer<ClusterTaintPolicy>,
    /// Memory of the previous decision on each cluster.
    memories: Mutex<BTreeMap<ClusterName, Memory>>,
    applier: Applier,
    reports: Arc<Reports>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let policies = setup.caches.take(&TAINT_POLICIES);
    let this = Arc::new(TaintPolicy {
        seam: setup.seam.clone(),
        queue: setup.queue(TaintPolicy::NAME),
        clusters: setup.clusters().clone(),
        began: Mutex::default(),
        reports: Reports::new(setup, policies.clone()),
        policies,
        memories: Mutex::default(),
        applier: Applier::new(setup),
    });
    on_change(setup.clusters(), &this, TaintPolicy::on_cluster);
    on_change(&this.policies, &this, TaintPolicy::on_policy);
    this
}

impl Reconciler for TaintPolicy {
    type Key = ClusterName;
    const NAME: &'static str = "taintPolicy";
    /// Clusters that are reconciled at once.
    const WORKERS: usize = 3;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<ClusterName> {
        &self.queue
    }

    async fn reconcile(&self, name: &ClusterName) -> Result<Next, Failure> {
        let Some(cluster) = self.clusters.get("", &name.0) else {
            self.memories.lock().remove(name);
            self.reports.report(name, BTreeMap::new());
            return Ok(Next::Forget);
        };
        let mono = self.seam.clock.mono();
        let mono = mono - *self.began.lock().get_or_insert(mono);
        let (policies, memory) = (self.policies.list(), self.memories.lock().get(name).cloned());
        let seen = Seen { cluster: &cluster, policies: &policies, memory: memory.as_ref() };
        let decision = taint_policy::decide(&seen, self.seam.clock.wall(), mono);
        let applied = self.applier.apply(&cluster, &decision.plan).await;
        let memory = if applied.is_ok() { decision.memory } else { decision.memory.unreported() };
        self.memories.lock().insert(name.clone(), memory);
        applied?;
        self.reports.report(name, decision.status);
        Ok(decision.next.map_or(Next::Forget, Next::After))
    }

    fn start_beside(self: &Arc<Self>, tasks: &Tasks) {
        self.reports.clone().start(tasks);
    }

    fn is_quiet_beside(&self) -> bool {
        self.reports.is_quiet()
    }
}

impl TaintPolicy {
    fn on_cluster(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        if wakes::taint_policy::cluster(change.old.as_deref(), change.new.as_deref()) {
            self.queue.add(cluster.name_any().as_str().into());
        }
    }

    fn on_policy(&self, change: &Change<ClusterTaintPolicy>) {
        let Some(policy) = change.new.as_ref().or(change.old.as_ref()) else { return };
        if !wakes::taint_policy::policy(change.old.as_deref(), change.new.as_deref()) {
            return;
        }
        for cluster in self.clusters.list() {
            self.queue.add(cluster.name_any().as_str().into());
        }
        self.reports.on_policy(Key::of(&**policy), change.new.is_some());
    }
}
