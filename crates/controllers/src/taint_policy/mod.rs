//! The ClusterTaintPolicy controller: keeps the taints of clusters as policies want them (specification/failover.md 2).

mod apply;
mod observe;
mod status;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};
use ironclad_failover::{taint_policy, wakes};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, run_workers};
use ironclad_seam::Seam;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{apply::Applier, observe::Observer, status::Reports};
use crate::{
    controller::Controller,
    setup::{Setup, on_change},
};

/// Clusters that are reconciled at once.
const WORKERS: usize = 3;

struct TaintPolicy {
    seam: Seam,
    queue: Queue<ClusterName>,
    clusters: Informer<Cluster>,
    /// The moment from which monotonic time is counted: the first decision.
    began: Mutex<Option<Instant>>,
    observer: Observer,
    applier: Applier,
    reports: Arc<Reports>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let observer = Observer::new(setup);
    let this = Arc::new(TaintPolicy {
        seam: setup.seam.clone(),
        queue: setup.queue("taintPolicy"),
        clusters: setup.clusters().clone(),
        began: Mutex::default(),
        reports: Reports::new(setup, observer.policies.clone()),
        observer,
        applier: Applier::new(setup),
    });
    on_change(setup.clusters(), &this, TaintPolicy::on_cluster);
    on_change(&this.observer.policies, &this, TaintPolicy::on_policy);
    this
}

impl Controller for TaintPolicy {
    fn start(self: Arc<Self>) {
        let this = self.clone();
        run_workers("taint policy", &self.seam.tasks, &self.queue, WORKERS, move |name| {
            let this = this.clone();
            async move { this.reconcile(name).await }
        });
        self.reports.start();
    }

    /// Windows that last for minutes are no work.
    fn is_quiet(&self) -> bool {
        self.queue.is_idle() && self.reports.is_quiet()
    }
}

impl TaintPolicy {
    async fn reconcile(&self, name: ClusterName) -> Result<Next, Failure> {
        let Some(seen) = self.observer.observe(&name) else {
            self.observer.memories.lock().remove(&name);
            self.reports.report(&name, BTreeMap::new());
            return Ok(Next::Forget);
        };
        let mono = self.seam.clock.mono();
        let mono = mono - *self.began.lock().get_or_insert(mono);
        let decision = taint_policy::decide(&seen.seen(), self.seam.clock.wall(), mono);
        let applied = self.applier.apply(&seen, &decision.plan).await;
        let memory = if applied.is_ok() { decision.memory } else { decision.memory.unreported() };
        self.observer.memories.lock().insert(name.clone(), memory);
        applied?;
        self.reports.report(&name, decision.status);
        Ok(decision.next.map_or(Next::Forget, Next::After))
    }

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
