//! The cluster controller: connects clusters, creates their execution spaces, and completes their deletion
//! (specification/failover.md 9.5).

mod apply;
mod leases;
mod monitor;

use std::{sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_failover::{
    cluster::lifecycle::{self, ExecutionSpace, Seen},
    wakes,
};
use ironclad_fleet::{Binding, ClusterName};
use ironclad_members::{Credentials, Members};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::ResourceExt as _;

use self::{apply::Applier, monitor::Monitor};
use crate::{
    bindings::{BindingChange, Bindings},
    caches::{NAMESPACES, SECRETS},
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    index::BY_TARGET,
    settings::Settings,
    setup::{Setup, on_change},
};

/// Schedule results of many bindings within this time are one reconcile.
const GATHER: Duration = Duration::from_secs(1);

struct ClusterController {
    seam: Seam,
    queue: Queue<ClusterName>,
    clusters: Informer<Cluster>,
    fleet: ClusterSnapshot,
    credentials: Credentials,
    members: Arc<Members>,
    namespaces: Informer<Namespace>,
    bindings: Bindings,
    works: Informer<Work>,
    settings: Arc<Settings>,
    applier: Applier,
    monitor: Arc<Monitor>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let namespaces = setup.caches.take(&NAMESPACES);
    let monitor = Monitor::new(setup);
    let this = Arc::new(ClusterController {
        seam: setup.seam.clone(),
        queue: setup.queue(ClusterController::NAME),
        clusters: setup.clusters().clone(),
        fleet: setup.fleet().clone(),
        credentials: Credentials::new(&setup.plane, &setup.seam, setup.caches.take(&SECRETS)),
        members: setup.members.clone(),
        applier: Applier::new(setup, namespaces.clone()),
        namespaces,
        bindings: setup.bindings().clone(),
        works: setup.works(),
        settings: setup.settings.clone(),
        monitor,
    });
    on_change(setup.clusters(), &this, ClusterController::on_cluster);
    let weak = Arc::downgrade(&this);
    this.credentials.on_change(move |change| {
        if let Some(this) = weak.upgrade() {
            this.on_secret(change);
        }
    });
    let weak = Arc::downgrade(&this);
    this.members.connections().on_tunnel(move |name| {
        if let Some(this) = weak.upgrade() {
            this.queue.add(name.clone());
        }
    });
    on_change(&this.namespaces, &this, ClusterController::on_namespace);
    setup.bindings().on_change(&this, ClusterController::on_binding);
    on_change(&setup.works(), &this, ClusterController::on_work);
    this
}

impl Reconciler for ClusterController {
    type Key = ClusterName;
    const NAME: &'static str = "cluster";
    /// Clusters that are reconciled at once.
    const WORKERS: usize = 5;

    fn queue(&self) -> &Queue<ClusterName> {
        &self.queue
    }

    async fn reconcile(&self, name: &ClusterName) -> Result<Next, Failure> {
        let Some(cluster) = self.clusters.get("", &name.0) else {
            self.members.remove(name);
            return Ok(Next::Forget);
        };
        // Of those in pull mode only what their agents let through is read.
        if self.members.connections().reaches(&cluster) {
            self.members.connect(&cluster, self.credentials.of(&cluster).as_deref());
        } else {
            self.members.remove(name);
        }
        let space = names::execution_namespace(&name.0);
        // Only the deletion of a cluster depends on what refers to it.
        let (works, targeted_by) = if cluster.metadata.deletion_timestamp.is_some() {
            (self.works.namespace(&space), self.bindings.by_index(BY_TARGET, &name.0))
        } else {
            (Vec::new(), Vec::new())
        };
        let space = self.namespaces.get("", &space);
        let seen = Seen {
            cluster: &cluster,
            space: ExecutionSpace::of(space.as_deref().map(|space| &space.metadata)),
            works: works.iter().map(|work| &**work).collect(),
            targeted_by: &targeted_by,
            scheduler: &self.settings.scheduler,
            taints: self.settings.failover.health.by_condition,
        };
        let plan = lifecycle::decide(&seen, self.seam.clock.wall_seconds());
        self.applier.apply(&cluster, &plan).await?;
        self.members.check_now(name);
        Ok(Next::Forget)
    }

    fn start_beside(self: &Arc<Self>, _: &Tasks) {
        self.monitor.start();
    }
}

impl ClusterController {
    fn on_cluster(&self, change: &Change<Cluster>) {
        if let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) {
            self.queue.add(cluster.name_any().as_str().into());
        }
    }

    /// Enqueues the clusters whose credentials changed: they are connected anew.
    fn on_secret(&self, change: &Change<Secret>) {
        let Some(secret) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let key = Key::of(&**secret);
        for cluster in self.clusters.list() {
            let named = cluster.spec.secret_ref.as_ref();
            if named.is_some_and(|r| *r.name == *key.name && *r.namespace == *key.namespace) {
                self.queue.add(cluster.name_any().as_str().into());
            }
        }
    }

    fn on_namespace(&self, change: &Change<Namespace>) {
        let Some(namespace) = change.new.as_ref().or(change.old.as_ref()) else { return };
        if let Ok(cluster) = names::cluster_of_execution_namespace(&namespace.name_any()) {
            self.queue.add(cluster.into());
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        if wakes::cluster::work(change.old.as_deref(), change.new.as_deref()) {
            self.enqueue_terminating();
        }
    }

    fn on_binding(&self, change: &BindingChange) {
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        if wakes::cluster::binding(old.map(Binding::metadata), new.map(Binding::metadata)) {
            self.enqueue_terminating();
        }
        let terminating = self.fleet.terminating();
        let new = new.map(|binding| (binding.spec(), binding.status()));
        for name in wakes::cluster::schedule_result(old.and_then(Binding::status), new, &terminating) {
            self.queue.add_after(name, GATHER);
        }
    }

    /// Enqueues the clusters that are being deleted: an object that kept them may have been deleted.
    fn enqueue_terminating(&self) {
        for name in self.fleet.terminating() {
            self.queue.add(name);
        }
    }
}
