//! Account of one cluster in the resources that one workload requests, to compute what fits once other workloads have
//! left (specification/scheduling.md 15.4).

use std::sync::Arc;

use ironclad_api::{
    eviction::BINDING_PREEMPTED,
    work::{GracefulEvictionTask, ObjectReference},
};
use ironclad_fleet::{BindingKey, ClusterName};
use smallvec::SmallVec;

use super::{
    Asker, Capacity, LARGEST, Slot,
    demand::{self, Amounts, Demand},
    footprint::{Footprint, Place, Share},
    free::PODS,
    nominated,
};
use crate::estimator::{Before, Index, Leaving, Question, Workload, is_counted};

/// Amounts that one replica or one set of a workload requests, `pods` among them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request(Arc<[Requested]>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requested {
    resource: Arc<str>,
    place: Place,
    /// Greater than 0.
    each: i64,
}

impl Request {
    fn of(demand: &Demand) -> Self {
        let parts = demand.clone().into_parts();
        let mut each = demand::total(&parts);
        each.insert(PODS.to_owned(), demand::pods(&parts).max(1));
        each.retain(|_, amount| *amount > 0);
        Self(
            each.into_iter()
                .map(|(resource, each)| Requested { place: Place::of(&resource), resource, each })
                .collect(),
        )
    }

    /// The part of it that limits where pods fit on nodes.
    fn on_nodes(&self) -> Self {
        let counts = |requested: &&Requested| &*requested.resource == PODS || is_counted(&requested.resource);
        Self(self.0.iter().filter(counts).cloned().collect())
    }
}

/// A question, read once for all clusters.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    request: Request,
}

impl From<Question> for Asked {
    fn from(question: Question) -> Self {
        Self { request: Request::of(&question.demand), question }
    }
}

/// Amounts that a workload frees in a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Freed {
    /// By the resources that the asker requests.
    pub(crate) amounts: Amounts,
    /// Part of the cluster, in billionths.
    pub(crate) share: u128,
    /// On which nodes; `None` where the account is not kept by node.
    pub(crate) leaving: Option<Leaving>,
}

/// Free amounts of one cluster in the resources that a workload requests.
#[derive(Debug, Clone)]
pub(crate) struct Room<'a> {
    request: Request,
    /// Free amounts in the order of the request. By the summary, negative where requests exceed what is allocatable; by
    /// node, at least what can be used.
    free: Amounts,
    base: i64,
    /// `None` if only the summary is known.
    nodes: Option<ByNode<'a>>,
}

#[derive(Debug, Clone)]
struct ByNode<'a> {
    index: &'a Index,
    question: &'a Question,
    /// Workloads that leave in any case.
    leaving: Vec<Leaving>,
    /// Pods for which nominations hold capacity.
    before: Vec<Before>,
}

impl Capacity {
    /// Records the clusters that a binding is leaving since it was preempted.
    pub(super) fn leaves(&mut self, key: &BindingKey, template: &ObjectReference, tasks: &[GracefulEvictionTask]) {
        let tasks = tasks.iter().filter(|task| task.reason == BINDING_PREEMPTED);
        let now: Vec<ClusterName> = tasks.map(|task| task.from_cluster.as_str().into()).collect();
        for cluster in self.leaving.remove(key).unwrap_or_default() {
            if let Some(slot) = self.slots.get_mut(&cluster) {
                slot.leaving.remove(key);
            }
            // Nodes on which it left something are not held for its preemptor any more.
            self.changed(&cluster, !now.contains(&cluster));
        }
        if now.is_empty() {
            return;
        }
        for cluster in &now {
            self.slots.entry(cluster.clone()).or_default().leaving.insert(key.clone(), Workload::from(template));
            self.changed(cluster, false);
        }
        self.leaving.insert(key.clone(), now);
    }

    /// Returns whether a preempted binding still holds something in one of these clusters, or waits for it, as far as
    /// that is known.
    pub(crate) fn is_anyone_leaving<'a>(&self, clusters: impl IntoIterator<Item = &'a str>) -> bool {
        clusters.into_iter().filter_map(|cluster| self.slots.get(&ClusterName::from(cluster))).any(|slot| {
            match &slot.watched {
                Some(index) => slot.leaving.iter().any(|(key, one)| index.leaving(*one, &key.namespace).is_some()),
                None => !slot.leaving.is_empty(),
            }
        })
    }

    /// Room of a cluster for this question once those have left that are leaving, where that is known, beside what is
    /// held for preemptors that a plan of the asker leaves alone, and the measure of how much of the cluster a
    /// footprint takes. `None` if the cluster is unknown, or nobody knows what it offers.
    pub(crate) fn room<'a>(
        &'a self,
        cluster: &ClusterName,
        asked: &'a Asked,
        asker: &Asker<'_>,
    ) -> Option<(Room<'a>, Share<'a>)> {
        let slot = self.slots.get(cluster)?;
        let reported = slot.reported.as_ref()?;
        let held = slot.held_in_plans(asker);
        if let Some(index) = &slot.watched {
            let request = asked.request.on_nodes();
            let (leaving, before) = (slot.leaving(index), nominated::before(&held));
            let nodes = ByNode { index, question: &asked.question, leaving, before };
            let (mut free, offered) = index.totals();
            for (amounts, pods) in nodes.leaving.iter().map(Leaving::amounts) {
                for (resource, amount) in amounts.iter().chain([(PODS, &pods)]) {
                    let sum = free.entry(resource).or_default();
                    *sum = sum.saturating_add(*amount);
                }
            }
            let amount = |requested: &Requested| free.get(&requested.resource).copied().unwrap_or(0);
            let free = request.0.iter().map(amount).collect();
            let base = nodes.fits([]);
            let share = Share::new(move |resource| offered.get(resource).copied().unwrap_or(0));
            return Some((Room { request, free, base, nodes: Some(nodes) }, share));
        }
        if !reported.has_summary() {
            return None;
        }
        let taken = (!held.is_empty()).then(|| slot.with(&held).0);
        let taken = taken.as_ref().unwrap_or(&slot.assumed);
        let request = asked.request.clone();
        // By the summary it is not known who has left already.
        let left = |requested: &Requested| reported.left(&requested.resource, taken);
        let free: Amounts = request.0.iter().map(left).collect();
        let mut room = Room { request, free, base: 0, nodes: None };
        room.base = room.by_sums(std::iter::repeat(0));
        Some((room, Share::new(move |resource| reported.allocatable(resource))))
    }
}

impl Slot {
    /// Requests that leave nodes with preempted bindings, and with pods that are being deleted.
    pub(super) fn leaving(&self, index: &Index) -> Vec<Leaving> {
        let leaving = self.leaving.iter().filter_map(|(key, one)| index.leaving(*one, &key.namespace));
        leaving.chain(index.being_deleted()).collect()
    }
}

impl ByNode<'_> {
    fn fits<'l>(&'l self, more: impl IntoIterator<Item = &'l Leaving>) -> i64 {
        self.index.fits_if(self.question, self.leaving.iter().chain(more), &self.before)
    }
}

impl Room<'_> {
    /// Requested and free amounts.
    fn amounts_of(&self) -> impl Iterator<Item = (i64, i64)> {
        self.request.0.iter().map(|requested| requested.each).zip(self.free.iter().copied())
    }

    fn by_sums(&self, freed: impl Iterator<Item = i64>) -> i64 {
        let often = |((each, free), freed): ((i64, i64), i64)| free.saturating_add(freed).max(0) / each;
        self.amounts_of().zip(freed).map(often).min().unwrap_or(0).clamp(0, LARGEST)
    }

    /// Replicas or sets that fit if nobody else leaves, `s_c({})`.
    pub(crate) fn base(&self) -> i64 {
        self.base
    }

    /// Amounts that a workload of this namespace frees, of which its result names the footprint; `None` if the account
    /// is kept by node and it has nothing there.
    pub(crate) fn freed(
        &self,
        namespace: &Arc<str>,
        workload: Workload,
        footprint: &Footprint,
        share: &Share<'_>,
    ) -> Option<Freed> {
        let freed = |footprint: &Footprint, leaving| Freed {
            amounts: self.amounts(footprint),
            share: share.of(footprint),
            leaving,
        };
        let Some(nodes) = &self.nodes else { return Some(freed(footprint, None)) };
        let leaving = nodes.index.leaving(workload, namespace)?;
        let (amounts, pods) = leaving.amounts();
        Some(freed(&Footprint::new(amounts, pods), Some(leaving)))
    }

    /// Further replicas or sets that fit once these workloads have left, where the account is kept by node.
    pub(crate) fn gain_by_node<'l>(&'l self, leaving: impl Iterator<Item = &'l Leaving>) -> i64 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.fits(leaving)).saturating_sub(self.base).max(0)
    }

    /// Further replicas or sets that would fit by the sums alone once these amounts are free.
    pub(crate) fn gain_by_sums(&self, freed: &[i64]) -> i64 {
        self.by_sums(freed.iter().copied()).saturating_sub(self.base).max(0)
    }

    /// Returns whether sums of amounts do not tell for certain what fits.
    pub(crate) fn is_by_node(&self) -> bool {
        self.nodes.is_some()
    }

    /// Amounts that have to become free at least for `more` further replicas or sets, in the order of the request; 0
    /// where enough is free. At most what 64 bits hold.
    pub(crate) fn missing(&self, more: i64) -> Amounts {
        let count = self.base.saturating_add(more);
        self.amounts_of().map(|(each, free)| each.saturating_mul(count).saturating_sub(free).max(0)).collect()
    }

    /// The part of a footprint that the workload can use: one amount by requested resource.
    pub(crate) fn amounts(&self, footprint: &Footprint) -> Amounts {
        let amounts = self.request.0.iter().map(|requested| footprint.get(requested.place, &requested.resource));
        amounts.collect::<SmallVec<_>>()
    }

    /// Number of requested resources.
    pub(crate) fn width(&self) -> usize {
        self.free.len()
    }
}
