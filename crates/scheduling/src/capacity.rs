//! Capacity: the general estimator (specification/scheduling.md 10.1 to 10.4), and assumed replicas (11).
//!
//! Kept up by single changes: a cluster's summary is read once per change of it, an assignment costs its own targets, and an
//! answer costs the resources that are asked for, however many bindings there are. It asks nobody and keeps no clock.

pub mod demand;
mod models;
mod promise;
mod room;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::cluster::{Cluster, ResourceModel, ResourceSummary};
use ironclad_fleet::{BindingKey, ClusterName};

pub use demand::Demand;
pub use promise::Assumed;
pub use room::Modelling;

use demand::Part;
use models::Nodes;
use promise::Held;
use room::{Promised, Room};

/// An assignment that nothing was heard of counts for so long (11).
pub const PROMISE_LASTS: Duration = Duration::from_secs(300);
/// Assignments that are remembered at most; beyond them those go first that end first.
const PROMISES_MAX: usize = 50_000;
/// No estimate is larger: replicas are 32-bit numbers on the wire (10.1).
const LARGEST: i64 = i32::MAX as i64;

/// True if an estimate leaves room for what was assigned and is in no summary yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Only what clusters report is taken.
    Reported,
    /// Assumed replicas are subtracted, too.
    Promised,
}

/// The room of the fleet.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    modelling: Modelling,
    /// From one summary of a cluster to the next: so long may a summary lack what runs.
    summaries_every: Duration,
    slots: BTreeMap<ClusterName, Slot>,
    held: BTreeMap<BindingKey, BTreeMap<ClusterName, Held>>,
    /// When what is held ends.
    ends: BTreeSet<(Duration, BindingKey, ClusterName)>,
    /// The bindings with a result that is being written.
    assumed: BTreeSet<BindingKey>,
}

/// One cluster.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// Nothing while the cluster does not exist.
    room: Option<Room>,
    promised: Promised,
    /// Assumed replicas, by their resource request.
    footprints: BTreeMap<Arc<[Part]>, i64>,
    /// The nodes of the models, with what is promised on them.
    nodes: Option<Nodes>,
}

impl Capacity {
    /// Of no cluster yet. `summaries_every`: `--cluster-status-update-frequency`.
    #[must_use]
    pub fn new(modelling: Modelling, summaries_every: Duration) -> Self {
        Self { modelling, summaries_every, ..Self::default() }
    }

    /// Of these clusters, with nothing assigned: for who only asks once.
    #[must_use]
    pub fn of(clusters: &ironclad_fleet::Clusters, modelling: Modelling) -> Self {
        let mut capacity = Self::new(modelling, Duration::ZERO);
        for (name, cluster) in clusters {
            capacity.cluster(name, None, Some(cluster));
        }
        capacity
    }

    /// A cluster came, changed or went. True if it may have room now for what had none.
    pub fn cluster(&mut self, name: &ClusterName, old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
        let known = self.slots.get(name).is_some_and(|slot| slot.room.is_some());
        if known && old.zip(new).is_some_and(|(old, new)| read_of(old) == read_of(new)) {
            return false;
        }
        let room = new.map(|cluster| Room::of(cluster, self.modelling));
        let slot = self.slots.entry(name.clone()).or_default();
        let nothing = Room::default();
        let before = slot.room.as_ref().unwrap_or(&nothing);
        let grew = room.as_ref().is_some_and(|room| room.has_grown_since(before));
        slot.room = room;
        slot.place_again();
        if slot.room.is_none() && slot.footprints.is_empty() {
            self.slots.remove(name);
        }
        grew
    }

    /// True if the cluster reports a summary at all.
    #[must_use]
    pub fn is_told(&self, cluster: &ClusterName) -> bool {
        self.slots.get(cluster).and_then(|slot| slot.room.as_ref()).is_some_and(Room::is_told)
    }

    /// How many more of this the cluster holds; nothing if nobody knows the cluster.
    #[must_use]
    pub fn fits(&self, cluster: &ClusterName, demand: &Demand, counting: Counting) -> Option<i64> {
        let slot = self.slots.get(cluster)?;
        let room = slot.room.as_ref()?;
        let fits = match counting {
            Counting::Reported => room.fits(demand, &Promised::default(), room.nodes()),
            Counting::Promised => room.fits(demand, &slot.promised, slot.nodes.as_ref()),
        };
        Some(fits.clamp(0, LARGEST))
    }
}

impl Slot {
    /// Puts everything that is promised onto the nodes as they are reported.
    fn place_again(&mut self) {
        self.nodes = self.room.as_ref().and_then(Room::nodes).cloned();
        let Some(nodes) = &mut self.nodes else { return };
        for (parts, count) in &self.footprints {
            place(nodes, parts, *count);
        }
    }
}

fn place(nodes: &mut Nodes, parts: &[Part], count: i64) {
    for part in parts {
        nodes.place(&part.request, part.replicas.saturating_mul(count));
    }
}

/// Fields of a cluster that an estimate reads.
fn read_of(cluster: &Cluster) -> (Option<&ResourceSummary>, &[ResourceModel]) {
    let summary = cluster.status.as_ref().and_then(|status| status.resource_summary.as_ref());
    (summary, &cluster.spec.resource_models)
}

#[cfg(test)]
mod tests;
