//! Wake rules of the controllers of services over clusters (specification/mcs.md).

use ironclad_api::{ObjectMeta, cluster::Cluster, labels, work::Work};
use ironclad_fleet::ClusterName;

use crate::{
    changes,
    services::{MCS_KIND, ServiceKey, collect, dispatch, mcs_of},
};

/// Returns true if a MultiClusterService, ServiceExport or ServiceImport has to be reconciled: not for a status.
#[must_use]
pub fn front_end(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    let marks = |meta: &ObjectMeta| (meta.labels.clone(), meta.annotations.clone(), meta.finalizers.clone());
    changes::policy(old, new) || old.map(marks) != new.map(marks)
}

/// Returns true if another set of clusters gives or takes endpoints, or can.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let actions =
        |cluster: &Cluster| cluster.status.as_ref().map(|status| status.remedy_actions.clone()).unwrap_or_default();
    match new {
        None => old.is_some(),
        Some(new) => changes::cluster(old, new) || old.map(actions) != Some(actions(new)),
    }
}

/// The MultiClusterServices that a change of a Work concerns.
#[must_use]
pub fn mcs_of_work(old: Option<&Work>, new: Option<&Work>) -> Vec<ServiceKey> {
    let mut all: Vec<ServiceKey> = [old, new].into_iter().flatten().filter_map(mcs_of).collect();
    all.dedup();
    all
}

/// The namespace in which Services may have lost or gained a cluster with backends, and that cluster.
#[must_use]
pub fn moved_backend(old: Option<&Work>, new: Option<&Work>) -> Option<(std::sync::Arc<str>, ClusterName)> {
    let lives = |work: &Work| work.metadata.deletion_timestamp.is_none();
    if old.is_some_and(lives) == new.is_some_and(lives) {
        return None;
    }
    let work = new.or(old)?;
    Some((dispatch::may_be_backend(work)?, crate::work::key_of(work)?.cluster))
}

/// Returns true if a member may export other Services after this change of a Work in its execution space.
#[must_use]
pub fn exports(old: Option<&Work>, new: Option<&Work>) -> bool {
    old.and_then(collect::export) != new.and_then(collect::export)
}

/// The MultiClusterService that a binding is made for, by its marks.
#[must_use]
pub fn mcs_of_binding(metadata: &ObjectMeta) -> Option<ServiceKey> {
    let by = metadata.labels.as_ref()?.get(labels::BINDING_MANAGED_BY)?;
    let annotations = metadata.annotations.as_ref().filter(|_| by == MCS_KIND)?;
    let text = |key: &str| annotations.get(key).map(String::as_str);
    let namespace = text(ironclad_api::annotations::MULTI_CLUSTER_SERVICE_NAMESPACE)?;
    Some(ServiceKey::new(namespace, text(ironclad_api::annotations::MULTI_CLUSTER_SERVICE_NAME)?))
}
