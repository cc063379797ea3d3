//! Capacity: the general estimator (specification/scheduling.md 10.1 to 10.4), and assumed replicas
//! (specification/scheduling.md 11).
//!
//! The state is updated incrementally: a cluster's summary is read once per change, an assignment costs its own
//! targets, and an estimate costs the requested resources, independent of the number of bindings. Other estimators and
//! the clock stay outside.

mod assumed;
pub mod demand;
mod footprint;
mod free;
mod models;
mod nominated;
mod remembered;
mod room;
mod units;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    cluster::{Cluster, ResourceModel, ResourceSummary},
    conditions::{self, TRUE, cluster::READY},
};
use ironclad_fleet::{BindingKey, ClusterName};
use jiff::Timestamp;

pub use assumed::{Assumption, Reservation};
pub(crate) use demand::Amounts;
pub use demand::Demand;
pub(crate) use footprint::{Footprint, Share};
pub use free::Modelling;
pub use nominated::Asker;
pub use room::{Request, Room};

use assumed::AssumedReplicas;
use demand::Part;
use free::{Assumed, FreeCapacity};
use models::Nodes;
use nominated::Nominated;
use remembered::Answers;

/// Time after which an assumption ends that no cluster reported (specification/scheduling.md 11).
pub const ASSUMED_TTL: Duration = Duration::from_secs(300);
/// Largest number of assumptions; beyond it the one that expires first is dropped.
const ASSUMED_MAX: usize = 50_000;
/// Upper limit of an estimate: replicas are 32-bit numbers in the API (specification/scheduling.md 10.1).
const LARGEST: i64 = i32::MAX as i64;

/// Replicas that an estimate subtracts from capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counting {
    /// Those that clusters report.
    Reported,
    /// Those that clusters report, and assumed ones.
    Assumed,
}

/// Capacity of the fleet.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    modelling: Modelling,
    /// Interval between two summaries of a cluster: a summary may lag behind the pods by this time.
    summaries_every: Duration,
    slots: BTreeMap<ClusterName, Slot>,
    assumed: BTreeMap<BindingKey, BTreeMap<ClusterName, AssumedReplicas>>,
    /// Clusters that are not ready. They send no summary, so assumptions do not expire there.
    silent: BTreeSet<ClusterName>,
    /// Since when the others are ready.
    ready_since: BTreeMap<ClusterName, Timestamp>,
    /// Assumptions in the order in which they expire.
    ends: BTreeSet<(Duration, BindingKey, ClusterName)>,
    /// Assumptions of a start that a summary may count already.
    recounted: BTreeSet<(ClusterName, BindingKey)>,
    /// Bindings with a result that is being written.
    being_written: BTreeSet<BindingKey>,
    /// Assumptions that changed since they were taken; `None` if nobody takes them.
    changed: Option<BTreeSet<(BindingKey, ClusterName)>>,
    /// Clusters on which preemptors hold capacity.
    nominations: BTreeMap<BindingKey, Vec<ClusterName>>,
    /// Answers of [`Capacity::fits`]. Whatever changes an answer about a cluster makes them forget it.
    answers: Answers,
}

/// Capacity of one cluster.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// `None` while the cluster does not exist.
    free: Option<FreeCapacity>,
    assumed: Assumed,
    /// Assumed replicas, by their resource request.
    footprints: BTreeMap<Arc<[Part]>, i64>,
    /// Nodes of the models, with assumed replicas placed on them.
    nodes: Option<Nodes>,
    /// Capacity held for preemptors.
    nominated: BTreeMap<BindingKey, Nominated>,
}

impl Capacity {
    /// Creates a capacity without clusters. `summaries_every` is the flag `--cluster-status-update-frequency`.
    #[must_use]
    pub fn new(modelling: Modelling, summaries_every: Duration) -> Self {
        Self { modelling, summaries_every, ..Self::default() }
    }

    /// Creates the capacity of these clusters without assumed replicas, for a single question.
    #[must_use]
    pub fn of(clusters: &ironclad_fleet::Clusters, modelling: Modelling) -> Self {
        let mut capacity = Self::new(modelling, Duration::ZERO);
        for (name, cluster) in clusters {
            capacity.cluster(name, None, Some(cluster));
        }
        capacity
    }

    /// Records a cluster that was added, changed or removed. Returns true if workloads that did not fit may fit now.
    pub fn cluster(&mut self, name: &ClusterName, old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
        if new.is_some_and(|cluster| cluster.ready().is_some_and(|ready| ready != TRUE)) {
            self.silent.insert(name.clone());
        } else {
            self.silent.remove(name);
        }
        match new.and_then(ready_since) {
            Some(since) => drop(self.ready_since.insert(name.clone(), since)),
            None => drop(self.ready_since.remove(name)),
        }
        let known = self.slots.get(name).is_some_and(|slot| slot.free.is_some());
        if known && old.zip(new).is_some_and(|(old, new)| read_of(old) == read_of(new)) {
            return false;
        }
        if known {
            self.recount(name);
        }
        self.answers.forget(name);
        let free = new.map(|cluster| FreeCapacity::of(cluster, self.modelling));
        let slot = self.slots.entry(name.clone()).or_default();
        let nothing = FreeCapacity::default();
        let before = slot.free.as_ref().unwrap_or(&nothing);
        let grew = free.as_ref().is_some_and(|free| free.has_grown_since(before));
        slot.free = free;
        slot.place_again();
        if slot.is_unused() {
            self.slots.remove(name);
        }
        grew
    }

    /// Returns whether the cluster reports that it is not ready, so that its summary may be old.
    #[must_use]
    pub fn is_silent(&self, cluster: &ClusterName) -> bool {
        self.silent.contains(cluster)
    }

    /// Returns whether the cluster reports a summary.
    #[must_use]
    pub fn has_summary(&self, cluster: &ClusterName) -> bool {
        self.slots.get(cluster).and_then(|slot| slot.free.as_ref()).is_some_and(FreeCapacity::has_summary)
    }

    /// Further replicas or component sets that fit into the cluster beside what is held for preemptors of the asker's
    /// priority or a higher one; `None` if the cluster is unknown.
    #[must_use]
    pub fn fits(&self, cluster: &ClusterName, demand: &Demand, counting: Counting, asker: &Asker<'_>) -> Option<i64> {
        let slot = self.slots.get(cluster)?;
        let free = slot.free.as_ref()?;
        let nothing = Assumed::default();
        let (taken, nodes) = match counting {
            Counting::Reported => (&nothing, free.nodes()),
            Counting::Assumed => (&slot.assumed, slot.nodes.as_ref()),
        };
        let fits = match slot.held(asker, taken, nodes) {
            None => free.fits(demand, taken, nodes),
            Some((taken, nodes)) => free.fits(demand, &taken, nodes.as_ref()),
        };
        Some(fits.clamp(0, LARGEST))
    }
}

/// Returns whether the assumptions of the bindings in a cluster are restored when it changes: it was not known before
/// and is not ready, or not for long, or it is lost. Its bindings may have been listed before it.
#[must_use]
pub fn restores(old: Option<&Cluster>, new: Option<&Cluster>, wall: Timestamp) -> bool {
    let Some(new) = new else { return false };
    let Some(old) = old else { return !new.is_ready() || ready_since(new).is_some_and(|since| is_recent(since, wall)) };
    old.is_ready() && !new.is_ready()
}

fn is_recent(since: Timestamp, wall: Timestamp) -> bool {
    Duration::try_from(wall.duration_since(since)).is_ok_and(|passed| passed < ASSUMED_TTL)
}

/// Time since which a cluster is ready; `None` if it is not.
fn ready_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions::get(conditions, READY).filter(|ready| ready.status == TRUE);
    ready.map(|ready| ready.last_transition_time.0)
}

impl Slot {
    /// True if nothing is known or assumed about the cluster.
    fn is_unused(&self) -> bool {
        self.free.is_none() && self.footprints.is_empty() && self.nominated.is_empty()
    }

    /// Places all assumed replicas on the nodes as reported.
    fn place_again(&mut self) {
        self.nodes = self.free.as_ref().and_then(FreeCapacity::nodes).cloned();
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
