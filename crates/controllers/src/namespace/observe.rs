//! The snapshot of one namespace: the namespace, the members that can have it, and the Works for it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use ironclad_api::{cluster::Cluster, names, policy::ClusterOverridePolicy, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::namespace::{self, Seen};
use ironclad_runtime::{Failure, Informer};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;

use crate::{
    caches::{CLUSTER_OVERRIDES, NAMESPACES},
    clusters::ClusterSnapshot,
    settings::Settings,
    setup::Setup,
};

/// A namespace, for one member or for all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamespaceKey {
    pub(super) name: Arc<str>,
    pub(super) cluster: Option<ClusterName>,
}

impl fmt::Display for NamespaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{} in {cluster}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The caches that the controller reads.
pub(super) struct Observer {
    pub(super) namespaces: Informer<Namespace>,
    pub(super) cluster_overrides: Informer<ClusterOverridePolicy>,
    works: Informer<Work>,
    fleet: ClusterSnapshot,
    settings: Arc<Settings>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The Works under its names.
    pub(super) works: Vec<Arc<Work>>,
    namespace: Value,
    clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    cluster_overrides: Vec<Arc<ClusterOverridePolicy>>,
    settings: Arc<Settings>,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        decide(&Seen {
            namespace: &self.namespace,
            works: &self.works,
            clusters: &self.clusters,
            cluster_overrides: &self.cluster_overrides,
            skipped: &self.settings.propagation.skipped,
        })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            namespaces: setup.caches.take(&NAMESPACES),
            cluster_overrides: setup.caches.take(&CLUSTER_OVERRIDES),
            works: setup.works(),
            fleet: setup.fleet().clone(),
            settings: setup.settings.clone(),
        }
    }

    pub(super) fn observe(
        &self,
        NamespaceKey { name, cluster: only }: &NamespaceKey,
    ) -> Result<Option<Observed>, Failure> {
        let Some(namespace) = self.namespaces.get("", name) else { return Ok(None) };
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
        let works = clusters
            .keys()
            .flat_map(|cluster| work_names.iter().map(move |work| (names::execution_namespace(&cluster.0), work)))
            .filter_map(|(space, work)| self.works.get(&space, work))
            .collect();
        Ok(Some(Observed {
            works,
            namespace: serde_json::to_value(&*namespace).map_err(|e| Failure::Invalid(e.to_string()))?,
            clusters,
            cluster_overrides: self.cluster_overrides.list(),
            settings: self.settings.clone(),
        }))
    }
}
