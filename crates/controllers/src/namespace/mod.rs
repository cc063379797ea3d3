//! The namespace controller: copies namespaces of the control plane into every member
//! (specification/propagation.md 22).

mod apply;

use std::{collections::BTreeMap, fmt, sync::Arc};

use ironclad_api::{cluster::Cluster, names, policy::ClusterOverridePolicy, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::{
    namespace::{self, Seen},
    new_ids::NewIds,
    wakes,
};
use ironclad_runtime::{Change, Failure, Informer, Next, Queue};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use self::apply::Applier;
use crate::{
    caches::{CLUSTER_OVERRIDES, NAMESPACES},
    clusters::ClusterSnapshot,
    controller::{Controller, Reconciler},
    index::cluster_of,
    settings::Settings,
    setup::{Setup, on_change},
};

/// A namespace, for one member or for all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamespaceKey {
    name: Arc<str>,
    cluster: Option<ClusterName>,
}

impl fmt::Display for NamespaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{} in {cluster}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

struct NamespaceSync {
    seam: Seam,
    queue: Queue<NamespaceKey>,
    namespaces: Informer<Namespace>,
    cluster_overrides: Informer<ClusterOverridePolicy>,
    works: Informer<Work>,
    fleet: ClusterSnapshot,
    settings: Arc<Settings>,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(NamespaceSync {
        seam: setup.seam.clone(),
        queue: setup.queue(NamespaceSync::NAME),
        namespaces: setup.caches.take(&NAMESPACES),
        cluster_overrides: setup.caches.take(&CLUSTER_OVERRIDES),
        works: setup.works(),
        fleet: setup.fleet().clone(),
        settings: setup.settings.clone(),
        applier: Applier::new(setup),
    });
    on_change(&this.namespaces, &this, NamespaceSync::on_namespace);
    on_change(&this.works, &this, NamespaceSync::on_work);
    on_change(&this.cluster_overrides, &this, NamespaceSync::on_cluster_override);
    on_change(setup.clusters(), &this, NamespaceSync::on_cluster);
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
        let NamespaceKey { name, cluster: only } = key;
        let Some(namespace) = self.namespaces.get("", name) else { return Ok(Next::Forget) };
        // A cluster without execution space can't have a Work yet; its space enqueues the namespace again.
        let has_space =
            |cluster: &ClusterName| self.namespaces.get("", &names::execution_namespace(&cluster.0)).is_some();
        let clusters: BTreeMap<ClusterName, Arc<Cluster>> = self
            .fleet
            .all()
            .iter()
            .filter(|(cluster, _)| only.as_ref().is_none_or(|only| only == *cluster) && has_space(cluster))
            .map(|(name, cluster)| (name.clone(), cluster.clone()))
            .collect();
        let work_names = namespace::work_names(name);
        let works: Vec<Arc<Work>> = clusters
            .keys()
            .flat_map(|cluster| work_names.iter().map(move |work| (names::execution_namespace(&cluster.0), work)))
            .filter_map(|(space, work)| self.works.get(&space, work))
            .collect();
        let seen = Seen {
            namespace: &serde_json::to_value(&*namespace).map_err(|e| Failure::Invalid(e.to_string()))?,
            works: &works,
            clusters: &clusters,
            cluster_overrides: &self.cluster_overrides.list(),
            skipped: &self.settings.propagation.skipped,
        };
        let plan = namespace::decide(&seen, NewIds::from(self.seam.rng.uuid()));
        self.applier.apply(&works, plan).await
    }
}

impl NamespaceSync {
    /// A new execution space is a member that lacks all namespaces.
    fn on_namespace(&self, change: &Change<Namespace>) {
        let Some(new) = change.new.as_deref() else { return };
        let old = change.old.as_deref().map(|old| &old.metadata);
        if let Some(cluster) = wakes::changes::new_space(old, Some(&new.metadata)) {
            self.enqueue_all(Some(&cluster.into()));
        } else if wakes::namespace::namespace(old, &new.metadata) {
            self.enqueue(new, None);
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        let Some(old) = change.old.as_deref() else { return };
        let new = change.new.as_deref();
        if let Some(name) = new.and_then(|new| wakes::namespace::left_by_binding(old, new)) {
            self.queue.add(NamespaceKey { name: name.as_str().into(), cluster: cluster_of(old) });
        }
        if let Some((name, delay)) = wakes::namespace::work(old, new).filter(|_| !change.ours) {
            self.queue.add_after(NamespaceKey { name: name.into(), cluster: cluster_of(old) }, delay);
        }
    }

    fn on_cluster_override(&self, change: &Change<ClusterOverridePolicy>) {
        let (old, new) = (change.old.as_deref().map(|p| &p.spec), change.new.as_deref().map(|p| &p.spec));
        if wakes::namespace::cluster_override(old, new) {
            self.enqueue_all(None);
        }
    }

    /// Other overrides may apply to a cluster that changed.
    fn on_cluster(&self, change: &Change<Cluster>) {
        let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else { return };
        let differs = |policy: Arc<ClusterOverridePolicy>| wakes::namespace::cluster(&policy.spec, old, new);
        if wakes::binding::cluster(old, new) && self.cluster_overrides.list().into_iter().any(differs) {
            self.enqueue_all(Some(&new.name_any().as_str().into()));
        }
    }

    fn enqueue_all(&self, cluster: Option<&ClusterName>) {
        for namespace in self.namespaces.list() {
            if names::cluster_of_execution_namespace(&namespace.name_any()).is_err() {
                self.enqueue(&namespace, cluster);
            }
        }
    }

    fn enqueue(&self, namespace: &Namespace, cluster: Option<&ClusterName>) {
        self.queue.add(NamespaceKey { name: namespace.name_any().into(), cluster: cluster.cloned() });
    }
}
