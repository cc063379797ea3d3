//! The namespace controller: copies namespaces of the control plane into every member
//! (specification/propagation.md 22).

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::{names, policy::ClusterOverridePolicy, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::{changes, namespace, new_ids::NewIds};
use ironclad_runtime::{Change, Failure, Next, Queue};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use self::{
    apply::Applier,
    observe::{NamespaceKey, Observer},
};
use crate::{
    controller::{Controller, Reconciler},
    index::cluster_of,
    setup::{Setup, on_change},
};

struct NamespaceSync {
    seam: Seam,
    queue: Queue<NamespaceKey>,
    observer: Observer,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(NamespaceSync {
        seam: setup.seam.clone(),
        queue: setup.queue(NamespaceSync::NAME),
        observer: Observer::new(setup),
        applier: Applier::new(setup),
    });
    on_change(&this.observer.namespaces, &this, NamespaceSync::on_namespace);
    on_change(&setup.works(), &this, NamespaceSync::on_work);
    on_change(&this.observer.cluster_overrides, &this, NamespaceSync::on_cluster_override);
    this
}

impl Reconciler for NamespaceSync {
    type Key = NamespaceKey;
    const NAME: &'static str = "namespace";
    /// `--concurrent-namespace-syncs`.
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<NamespaceKey> {
        &self.queue
    }

    async fn reconcile(&self, key: &NamespaceKey) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key)? else { return Ok(Next::Forget) };
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = observed.with_seen(|seen| namespace::decide(seen, ids));
        self.applier.apply(&observed, plan).await
    }
}

impl NamespaceSync {
    /// A new execution space is a member that lacks all namespaces.
    fn on_namespace(&self, change: &Change<Namespace>) {
        let Some(new) = change.new.as_deref() else { return };
        let name = new.name_any();
        if let Ok(cluster) = names::cluster_of_execution_namespace(&name) {
            if change.old.is_none() {
                self.enqueue_all(Some(&cluster.into()));
            }
        } else if namespace::counts(change.old.as_deref().map(|n| &n.metadata), &new.metadata) {
            self.enqueue(new, None);
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        if let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref())
            && let Some(name) = namespace::left_by_binding(old, new)
        {
            self.queue.add(NamespaceKey { name: name.as_str().into(), cluster: cluster_of(new) });
        }
        let Some(old) = change.old.as_deref().filter(|_| !change.ours) else { return };
        if change.new.as_deref().is_some_and(|new| !changes::work(Some(&old.metadata), &new.metadata)) {
            return;
        }
        let Some(name) = namespace::of_work(&old.metadata) else { return };
        let key = NamespaceKey { name: name.into(), cluster: cluster_of(old) };
        self.queue.add_after(key, namespace::requeue_delay(change.new.is_none()));
    }

    fn on_cluster_override(&self, change: &Change<ClusterOverridePolicy>) {
        let (old, new) = (change.old.as_deref().map(|p| &p.spec), change.new.as_deref().map(|p| &p.spec));
        if old != new && [old, new].into_iter().flatten().any(namespace::is_overridden_by) {
            self.enqueue_all(None);
        }
    }

    fn enqueue_all(&self, cluster: Option<&ClusterName>) {
        for namespace in self.observer.namespaces.list() {
            if names::cluster_of_execution_namespace(&namespace.name_any()).is_err() {
                self.enqueue(&namespace, cluster);
            }
        }
    }

    fn enqueue(&self, namespace: &Namespace, cluster: Option<&ClusterName>) {
        self.queue.add(NamespaceKey { name: namespace.name_any().into(), cluster: cluster.cloned() });
    }
}
