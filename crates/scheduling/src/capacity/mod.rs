//! Account of the fleet's capacity (specification/scheduling.md 10.1 to 10.4, 11). For each cluster
//!
//! **free = what nodes offer - pods observed that hold it - promised and not observed yet - held for nominations.**
//!
//! Where nodes and pods are watched, the account is kept by node, an event of a pod at a time: node selectors, taints,
//! pods that wait for a node, and quotas of the member count. Elsewhere it follows the summary and the resource models
//! of the cluster. [`Capacity::fits`] is the one question: what decides, checks, explains and foresees asks it.
//!
//! The state is updated incrementally; an estimate costs the requested resources, independent of the number of
//! bindings. [`Capacity::take_grown`] says where something became free since, whatever it was. Estimators over gRPC and
//! the clock stay outside.

mod account;
pub mod demand;
mod footprint;
mod free;
mod models;
mod nominated;
mod promised;
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

pub use account::Account;
pub(crate) use demand::Amounts;
pub use demand::Demand;
pub(crate) use footprint::{Footprint, Share};
pub use free::Modelling;
pub use nominated::Asker;
pub use promised::Reservation;
pub(crate) use room::{Asked, Freed, Room};

use crate::estimator::{Index, Node, Pod, Question, Quota, Workload};
use demand::Part;
use free::{Assumed, FreeCapacity};
use models::Nodes;
use nominated::Nominated;
use promised::Promise;
use remembered::Answers;

/// Time after which a promise ends that nobody observes (specification/scheduling.md 11).
pub const PROMISED_TTL: Duration = Duration::from_secs(300);
/// Largest number of promises; beyond it the one that expires first is dropped.
const PROMISED_MAX: usize = 50_000;
/// Upper limit of an estimate: replicas are 32-bit numbers in the API (specification/scheduling.md 10.1).
const LARGEST: i64 = i32::MAX as i64;
/// Promises that a description names at most.
const DESCRIBED_MAX: usize = 3;
/// Time after a start for which the pods of clusters that are to be watched are waited for.
const RECOUNTS_FOR: Duration = Duration::from_secs(30);

/// Capacity of the fleet.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    modelling: Modelling,
    /// Interval between two summaries of a cluster: a summary may lag behind the pods by this time.
    summaries_every: Duration,
    slots: BTreeMap<ClusterName, Slot>,
    promises: BTreeMap<BindingKey, BTreeMap<ClusterName, Promise>>,
    /// Clusters that are not ready: nothing is observed there, so promises do not expire.
    silent: BTreeSet<ClusterName>,
    /// Since when the others are ready.
    ready_since: BTreeMap<ClusterName, Timestamp>,
    /// Promises in the order in which they expire.
    ends: BTreeSet<(Duration, BindingKey, ClusterName)>,
    /// Bindings with a result that is being written.
    being_written: BTreeSet<BindingKey>,
    /// Clusters on which preemptors hold capacity.
    nominations: BTreeMap<BindingKey, Vec<ClusterName>>,
    /// Clusters that preempted bindings are leaving.
    leaving: BTreeMap<BindingKey, Vec<ClusterName>>,
    /// Number of nominations so far, by which they are ordered.
    nominated: u64,
    /// Clusters in which something became free since [`Capacity::take_grown`].
    grown: BTreeSet<ClusterName>,
    /// While pods of clusters are being listed after a start, the end of that time.
    recounts_until: Option<Duration>,
    /// Answers of [`Capacity::fits`]. Whatever changes an answer about a cluster makes them forget it.
    answers: Answers,
}

/// Account of one cluster.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// By its summary and models; `None` while the cluster does not exist.
    reported: Option<FreeCapacity>,
    /// By its nodes and pods, if they are watched; then the summary does not count.
    watched: Option<Index>,
    /// The same while they are listed.
    listed: Option<Index>,
    /// Promises by the workloads that they are made to.
    workloads: BTreeMap<Workload, BindingKey>,
    /// Promised replicas beside the summary.
    assumed: Assumed,
    /// The same, by their resource request.
    footprints: BTreeMap<Arc<[Part]>, i64>,
    /// Nodes of the models, with promised replicas placed on them.
    nodes: Option<Nodes>,
    /// Capacity held for preemptors.
    nominated: BTreeMap<BindingKey, Nominated>,
    /// Preempted bindings that have not left for good.
    leaving: BTreeMap<BindingKey, Workload>,
}

impl Capacity {
    /// Creates a capacity without clusters. `summaries_every` is the flag `--cluster-status-update-frequency`.
    #[must_use]
    pub fn new(modelling: Modelling, summaries_every: Duration) -> Self {
        Self { modelling, summaries_every, ..Self::default() }
    }

    /// Creates the capacity of these clusters without promises, for a single question.
    #[must_use]
    pub fn of(clusters: &ironclad_fleet::Clusters, modelling: Modelling) -> Self {
        let mut capacity = Self::new(modelling, Duration::ZERO);
        for (name, cluster) in clusters {
            capacity.cluster(name, None, Some(cluster));
        }
        capacity
    }

    /// Records a cluster that was added, changed or removed.
    pub fn cluster(&mut self, name: &ClusterName, old: Option<&Cluster>, new: Option<&Cluster>) {
        if new.is_some_and(|cluster| cluster.ready().is_some_and(|ready| ready != TRUE)) {
            self.silent.insert(name.clone());
        } else {
            self.silent.remove(name);
        }
        match new.and_then(ready_since) {
            Some(since) => drop(self.ready_since.insert(name.clone(), since)),
            None => drop(self.ready_since.remove(name)),
        }
        let known = self.slots.get(name).is_some_and(|slot| slot.reported.is_some());
        if known && old.zip(new).is_some_and(|(old, new)| read_of(old) == read_of(new)) {
            return;
        }
        let free = new.map(|cluster| FreeCapacity::of(cluster, self.modelling));
        let slot = self.slots.entry(name.clone()).or_default();
        let nothing = FreeCapacity::default();
        let before = slot.reported.as_ref().unwrap_or(&nothing);
        let grew = free.as_ref().is_some_and(|free| free.has_grown_since(before));
        let is_watched = slot.watched.is_some() && known;
        slot.reported = free;
        let is_forgotten = new.is_none() && slot.watched.is_some();
        if new.is_none() {
            (slot.watched, slot.listed) = (None, None);
        }
        slot.place_again();
        if is_forgotten {
            // What is promised counts beside the summary, should the cluster return.
            self.recount(name);
        }
        let slot = self.slots.entry(name.clone()).or_default();
        if slot.is_unused() {
            self.slots.remove(name);
        }
        self.changed(name, grew && !is_watched);
    }

    /// Begins to list the nodes and pods of a cluster, which are recorded from now on and count from
    /// [`Capacity::listed`] on.
    pub fn lists(&mut self, cluster: &ClusterName) {
        self.slots.entry(cluster.clone()).or_default().listed = Some(Index::default());
    }

    /// Notes that the nodes and pods of a cluster are listed: the account is kept by node from now on.
    pub fn listed(&mut self, cluster: &ClusterName) {
        let listed = self.slots.get_mut(cluster).and_then(|slot| slot.listed.take());
        if let Some(index) = listed {
            self.watch(cluster, index);
        }
    }

    /// Keeps the account of a cluster by these nodes and pods.
    pub fn watch(&mut self, cluster: &ClusterName, index: Index) {
        let slot = self.slots.entry(cluster.clone()).or_default();
        slot.watched = Some(index);
        (slot.assumed, slot.footprints, slot.nodes) = (Assumed::default(), BTreeMap::new(), None);
        self.recount(cluster);
        self.changed(cluster, true);
    }

    /// Nodes and pods of a cluster that are being listed, or are watched.
    fn index(&mut self, cluster: &ClusterName) -> Option<&mut Index> {
        let slot = self.slots.get_mut(cluster)?;
        slot.listed.as_mut().or(slot.watched.as_mut())
    }

    /// Records a node of a cluster that was added, changed or (`None`) removed.
    pub fn node(&mut self, cluster: &ClusterName, name: &str, node: Option<Node>) {
        let changes = self.index(cluster).is_some_and(|index| index.node(name, node));
        self.took(cluster, changes);
    }

    /// Records a pod of a cluster that was added, changed or (`None`) removed. `now` is a monotonic time.
    pub fn pod(&mut self, cluster: &ClusterName, old: Option<&Pod>, new: Option<&Pod>, now: Duration) {
        let changes = self.index(cluster).is_some_and(|index| index.pod(old, new));
        if changes {
            let of = |pod: Option<&Pod>| pod.map(|pod| pod.workload);
            let (old, new) = (of(old), of(new));
            old.into_iter()
                .chain(new.filter(|_| new != old))
                .for_each(|workload| self.arrivals(cluster, workload, now));
        }
        self.took(cluster, changes);
    }

    /// Counts pods of a workload in a cluster no more, as if they were gone, if the account is kept by node.
    pub fn forget_pods(&mut self, cluster: &ClusterName, workload: Workload, pods: i64) {
        if let Some(index) = self.index(cluster) {
            index.forget(workload, pods);
            self.took(cluster, true);
        }
    }

    /// Records a ResourceQuota of a cluster that was added, changed or (`None`) removed.
    pub fn quota(&mut self, cluster: &ClusterName, namespace: &str, name: &str, quota: Option<Quota>) {
        let changes = self.index(cluster).is_some_and(|index| index.quota(namespace, name, quota));
        self.took(cluster, changes);
    }

    fn took(&mut self, cluster: &ClusterName, changes: bool) {
        // What is being listed does not count yet.
        let counts = self.slots.get(cluster).is_some_and(|slot| slot.listed.is_none());
        if counts && changes {
            self.changed(cluster, false);
        }
    }

    /// Notes that an answer about a cluster may differ; `grew` if more may fit, whatever its nodes say.
    fn changed(&mut self, cluster: &ClusterName, grew: bool) {
        self.answers.forget(cluster);
        let index = self.slots.get_mut(cluster).and_then(|slot| slot.watched.as_mut());
        if index.is_some_and(Index::take_grown) || grew {
            self.grown.insert(cluster.clone());
        }
    }

    /// Notes that something may fit into a cluster that was not tried.
    pub fn grew(&mut self, cluster: &ClusterName) {
        self.grown.insert(cluster.clone());
    }

    /// Takes the clusters in which something became free since the last call.
    #[must_use]
    pub fn take_grown(&mut self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.grown)
    }

    /// Begins at a start, with which pods of clusters are listed.
    pub fn starts(&mut self, now: Duration) {
        self.recounts_until = Some(now + RECOUNTS_FOR);
    }

    /// Returns whether pods of a cluster are still being listed after a start, so that what is free is not known.
    #[must_use]
    pub fn is_recounting(&self) -> bool {
        let is_open = |(name, slot): (&ClusterName, &Slot)| {
            slot.reported.is_some() && slot.watched.is_none() && !self.is_silent(name)
        };
        self.recounts_until.is_some() && self.slots.iter().any(is_open)
    }

    /// Returns whether the cluster reports that it is not ready, so that its account may be old.
    #[must_use]
    pub fn is_silent(&self, cluster: &ClusterName) -> bool {
        self.silent.contains(cluster)
    }

    /// Returns whether the account of a cluster is kept by its nodes and pods.
    #[must_use]
    pub fn is_by_node(&self, cluster: &ClusterName) -> bool {
        self.slots.get(cluster).is_some_and(|slot| slot.watched.is_some())
    }

    /// Returns whether it is only foreseen on which of several nodes pods of a cluster hold what: they are promised, or
    /// wait for their node.
    #[must_use]
    pub fn is_settling(&self, cluster: &ClusterName) -> bool {
        let watched = self.slots.get(cluster).and_then(|slot| slot.watched.as_ref());
        watched.is_some_and(|index| index.nodes() > 1 && index.awaits_pods())
    }

    /// Clusters whose account is kept by their nodes and pods.
    pub fn by_node(&self) -> impl Iterator<Item = &ClusterName> {
        self.slots.iter().filter(|(_, slot)| slot.watched.is_some()).map(|(name, _)| name)
    }

    /// The account of a cluster that is kept by node, for people: what is free on the best node for a workload, what is
    /// promised to others, and for whom capacity is held.
    #[must_use]
    pub fn describe(&self, cluster: &ClusterName, question: &Question, asker: &Asker<'_>) -> Option<String> {
        let slot = self.slots.get(cluster)?;
        let index = slot.watched.as_ref()?;
        let mut parts = vec![index.best_node(question).unwrap_or_else(|| "no node admits its pods".to_owned())];
        let mut promised: Vec<(&BindingKey, i64)> = self.promised_in(cluster).map(|(key, _, due)| (key, due)).collect();
        promised.sort();
        let more = promised.len().saturating_sub(DESCRIBED_MAX);
        let of = |(key, due): &(&BindingKey, i64)| format!("{due} promised to {key}, not started");
        parts.extend(promised.iter().take(DESCRIBED_MAX).map(of));
        if more > 0 {
            parts.push(format!("and promises to {more} more"));
        }
        parts.extend(slot.held(asker).iter().map(|held| held.to_string()));
        Some(parts.join("; "))
    }

    /// Returns whether it is known what a cluster offers.
    #[must_use]
    pub fn is_known(&self, cluster: &ClusterName) -> bool {
        let slot = self.slots.get(cluster);
        slot.is_some_and(|slot| slot.watched.is_some() || slot.reported.as_ref().is_some_and(FreeCapacity::has_summary))
    }

    /// Further replicas or component sets that fit into the cluster beside what is promised to others, and what is held
    /// for preemptors that the asker yields to; `None` if the cluster is unknown.
    #[must_use]
    pub fn fits(&self, cluster: &ClusterName, question: &Question, asker: &Asker<'_>) -> Option<i64> {
        let slot = self.slots.get(cluster)?;
        let free = slot.reported.as_ref()?;
        let beside = |held: &[&Nominated]| match &slot.watched {
            Some(index) if held.is_empty() => index.fits(question),
            Some(index) => index.fits_beside(question, &slot.leaving(index), &nominated::before(held)),
            None if slot.nominated.is_empty() => free.fits(&question.demand, &slot.assumed, slot.nodes.as_ref()),
            None => {
                let (taken, nodes) = slot.with(held);
                let fits = free.fits(&question.demand, &taken, nodes.as_ref());
                // Its victims were chosen by sums. Models, which count the least of a grade, might never let it in.
                let own = slot.nominated.values().find(|held| asker.is(held)).map_or(0, |own| own.count);
                if fits < own { fits.max(free.fits(&question.demand, &taken, None).min(own)) } else { fits }
            }
        };
        let mut fits = beside(&slot.held(asker));
        // Who was nominated later waits only for what is held for the asker, not for more that it takes.
        if let Some((own, others)) = slot.held_later(asker) {
            fits = fits.min(own).max(beside(&others));
        }
        Some(fits.clamp(0, LARGEST))
    }
}

/// Returns whether the promises to the bindings in a cluster are restored when it changes: it was not known before and
/// is not ready, or not for long, or it is lost. Its bindings may have been listed before it.
#[must_use]
pub fn restores(old: Option<&Cluster>, new: Option<&Cluster>, wall: Timestamp) -> bool {
    let Some(new) = new else { return false };
    let Some(old) = old else { return !new.is_ready() || ready_since(new).is_some_and(|since| is_recent(since, wall)) };
    old.is_ready() && !new.is_ready()
}

fn is_recent(since: Timestamp, wall: Timestamp) -> bool {
    Duration::try_from(wall.duration_since(since)).is_ok_and(|passed| passed < PROMISED_TTL)
}

/// Time since which a cluster is ready; `None` if it is not.
fn ready_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions::get(conditions, READY).filter(|ready| ready.status == TRUE);
    ready.map(|ready| ready.last_transition_time.0)
}

impl Slot {
    /// True if nothing is known or promised about the cluster.
    fn is_unused(&self) -> bool {
        self.reported.is_none()
            && self.watched.is_none()
            && self.listed.is_none()
            && self.workloads.is_empty()
            && self.nominated.is_empty()
            && self.leaving.is_empty()
    }

    /// Places all promised replicas on the nodes of the models, where the summary counts.
    fn place_again(&mut self) {
        self.nodes = self.reported.as_ref().filter(|_| self.watched.is_none()).and_then(FreeCapacity::nodes).cloned();
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
