//! What is seen of one namespace: it, the members that can have it, and what stands for it there.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, names, policy::ClusterOverridePolicy, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::namespace::{self, Seen};
use ironclad_runtime::Failure;
use serde_json::Value;

use super::Key;
use crate::{Context, Settings};

/// The snapshot.
pub(super) struct Observed {
    /// The Works that stand under its names.
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

pub(super) fn observe(cx: &Context, (name, only): &Key) -> Result<Option<Observed>, Failure> {
    let Some(namespace) = cx.namespaces.get("", name) else { return Ok(None) };
    // A cluster without its execution space can't be given a Work yet: the space's own event brings the next pass.
    let has_space = |cluster: &ClusterName| cx.namespaces.get("", &names::execution_namespace(&cluster.0)).is_some();
    let clusters: BTreeMap<ClusterName, Arc<Cluster>> = cx
        .all_clusters()
        .iter()
        .filter(|(cluster, _)| only.as_ref().is_none_or(|only| only == *cluster) && has_space(cluster))
        .map(|(name, cluster)| (name.clone(), cluster.clone()))
        .collect();
    let work_names = namespace::work_names(name);
    let works = clusters
        .keys()
        .flat_map(|cluster| work_names.iter().map(move |work| (names::execution_namespace(&cluster.0), work)))
        .filter_map(|(space, work)| cx.works.get(&space, work))
        .collect();
    Ok(Some(Observed {
        works,
        namespace: serde_json::to_value(&*namespace).map_err(|e| Failure::Invalid(e.to_string()))?,
        clusters,
        cluster_overrides: cx.cluster_overrides.list(),
        settings: cx.settings.clone(),
    }))
}
