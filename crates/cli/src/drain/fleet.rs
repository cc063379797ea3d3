//! The Clusters that the moves of a drain are decided on, kept current by one watch: a list for each move would cost
//! the size of the fleet as often as there are workloads.

use std::{sync::Arc, time::Duration};

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{ClusterName, Clusters};
use ironclad_runtime::{Api, Informer, WatchScope};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use kube::{Client, ResourceExt as _};

use super::DrainError;

/// Time until the first list must be complete.
const SYNC_MAX: Duration = Duration::from_secs(30);

/// A watch of all Clusters, which ends with this value.
pub(super) struct Fleet {
    clusters: Informer<Cluster>,
    tasks: Tasks,
}

impl Fleet {
    /// Begins the watch, and waits for the first list.
    ///
    /// # Errors
    /// If the control plane does not let Clusters be watched.
    pub(super) async fn watch(plane: &Client, clock: &Clock, drained: &ClusterName) -> Result<Self, DrainError> {
        // The rng spreads retries alone.
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(0), tasks: Tasks::new("drain") };
        let fleet = Self { clusters: Informer::new(&[]), tasks: seam.tasks.clone() };
        fleet.clusters.start("clusters", &seam, &seam.tasks, Api::all(plane.clone()), &WatchScope::default());
        tokio::select! {
            biased;
            () = fleet.clusters.synced() => Ok(fleet),
            () = clock.sleep(SYNC_MAX) => Err(DrainError::Unwatched {
                name: drained.to_string(),
                because: fleet.clusters.last_error().unwrap_or_else(|| "their list is not complete".to_owned()),
            }),
        }
    }

    /// All Clusters, among them this copy of one.
    pub(super) fn clusters(&self, fresh: Cluster) -> Clusters {
        let name = |cluster: &Cluster| ClusterName::from(cluster.name_any().as_str());
        let mut all: Clusters = self.clusters.list().into_iter().map(|cluster| (name(&cluster), cluster)).collect();
        all.insert(name(&fresh), Arc::new(fresh));
        all
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}
