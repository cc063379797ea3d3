//! One snapshot of all clusters for decisions, renewed when a cluster changes.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{ClusterName, Clusters};
use ironclad_runtime::{Change, Informer};
use ironclad_scheduling::Index;
use kube::ResourceExt as _;
use parking_lot::{RwLock, RwLockReadGuard};

/// The snapshot. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ClusterSnapshot(Arc<Snapshot>);

#[derive(Default)]
struct Snapshot {
    by_name: RwLock<Arc<Clusters>>,
    /// Of the same clusters. Locked before them.
    index: RwLock<Index>,
    terminating: RwLock<BTreeSet<ClusterName>>,
}

impl ClusterSnapshot {
    /// A snapshot that follows the informer. Handlers that read it must be added to the informer after this call.
    pub(crate) fn follow(informer: &Informer<Cluster>) -> Self {
        let this = Self::default();
        let weak = Arc::downgrade(&this.0);
        informer.on_change(move |change| {
            if let Some(snapshot) = weak.upgrade() {
                snapshot.apply(change);
            }
        });
        this
    }

    /// All clusters by name.
    pub(crate) fn all(&self) -> Arc<Clusters> {
        self.0.by_name.read().clone()
    }

    /// The index of all clusters, and the clusters. It is of the same clusters until it is dropped; do not hold it
    /// across an `.await`.
    pub(crate) fn indexed(&self) -> (RwLockReadGuard<'_, Index>, Arc<Clusters>) {
        let index = self.0.index.read();
        (index, self.all())
    }

    /// The clusters that are being deleted.
    pub(crate) fn terminating(&self) -> BTreeSet<ClusterName> {
        self.0.terminating.read().clone()
    }
}

impl Snapshot {
    /// Takes in one changed cluster; the map is copied only while a decision still reads the previous one.
    fn apply(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let name = ClusterName::from(cluster.name_any().as_str());
        let is_terminating = change.new.as_ref().is_some_and(|c| c.metadata.deletion_timestamp.is_some());
        let mut terminating = self.terminating.write();
        if is_terminating {
            terminating.insert(name.clone())
        } else {
            terminating.remove(&name)
        };
        let mut index = self.index.write();
        index.update(&name, change.new.as_ref());
        let mut all = self.by_name.write();
        let all = Arc::make_mut(&mut all);
        match &change.new {
            Some(new) => all.insert(name, new.clone()),
            None => all.remove(&name),
        };
    }
}
