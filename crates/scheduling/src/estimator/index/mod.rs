//! Incremental index of one member: its nodes, the pods on them, pods and promised workloads that wait for a node, and
//! quotas (specification/scheduling.md 10.6).
//!
//! For each node, what is free = what it offers - the pods on it - what of the waiting fits there. What waits is placed
//! as Kubernetes' scheduler would by default: a pod without a node competes for free capacity, and one that no node
//! takes holds none.
//!
//! Every change gets a number, and each node has the number of its last one. The answer to a question that was asked
//! before is brought up to date from the nodes with later numbers only.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, btree_map::Entry},
    ops::Bound::{Excluded, Unbounded},
    sync::{Arc, Mutex, PoisonError},
};

use ironclad_api::Taint;

use super::{
    Claim, PodTemplate, Question, SetPart, Wanted,
    claim::NodeFacts,
    place::{self, Group},
    pods::{Pods, Workload},
    quota::{Quota, Quotas},
};
use crate::capacity::demand::Units;

/// Largest number of questions whose answers are kept up to date; beyond it, the one that was not asked for the longest
/// time is dropped.
const TRACKED_MAX: usize = 64;
/// Upper limit of an answer, and of what one node contributes: replicas are 32-bit numbers in the API.
const LARGEST: i64 = i32::MAX as i64;
/// Upper limit of the amount of one resource that a node offers or a pod requests, so that the sum over the pods of a
/// node is exact up to 2^17 pods: what was cut off could not be given back.
const AMOUNT_MAX: i64 = 1 << 46;
/// Resource that counts pods.
const PODS: &str = "pods";
/// Upper limit of the replicas that fit beside what is held, which are placed one by one.
const PLACES_MAX: usize = 10_000;

/// Fields of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable`: millicores of `cpu`, whole units of everything else.
    pub allocatable: Units,
}

/// Fields of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    /// The node; empty while it waits for one.
    pub node: Arc<str>,
    /// Resource request.
    pub request: Units,
    /// Workload whose replica it is.
    pub workload: Workload,
    /// True if it has ended, so that it holds nothing.
    pub has_ended: bool,
    /// True if it is being deleted: it holds its node until it is gone.
    pub is_leaving: bool,
    /// True if it counts as a replica of its workload.
    pub is_replica: bool,
    /// Namespace and name, and its requirements on a node, while it waits for one.
    pub waiting: Option<Box<(String, Claim)>>,
    /// True if the member's own scheduler found no node for it: it holds none until a node changes.
    pub found_no_node: bool,
}

/// Nodes, pods, what waits for nodes, and quotas of one member.
#[derive(Debug, Clone, Default)]
pub struct Index {
    slots: Vec<Slot>,
    unused: Vec<usize>,
    by_name: BTreeMap<Arc<str>, usize>,
    /// Number of the last change.
    last: u64,
    /// Slots by the number of their last change.
    changes: BTreeMap<u64, usize>,
    pods: Pods,
    waiting: BTreeMap<Arc<str>, Waiting>,
    /// Those of `waiting` that no node takes as a whole.
    unplaced: BTreeSet<Arc<str>>,
    quotas: Quotas,
    /// Capacity that nodes had left before their change since [`Index::take_grown`]; `None` for those that were not
    /// there.
    before: BTreeMap<usize, Option<(Units, i64)>>,
    /// Number of the node that a pod got last.
    bound: usize,
    /// True if something else became free since then.
    freed: bool,
    kept: Kept,
}

/// A node, or what pods request on a node that is not known yet.
#[derive(Debug, Clone, Default)]
struct Slot {
    name: Arc<str>,
    node: Option<Node>,
    /// Requests of the pods on it.
    requested: Taken,
    /// Requests of what waits for a node and fits here.
    expected: Taken,
    /// Number of the last change.
    changed: u64,
}

/// Requests of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Taken {
    amounts: Units,
    pods: i64,
}

/// Pods that have no node: of a pod that waits for one, or of a workload whose pods do not exist yet.
#[derive(Debug, Clone)]
struct Waiting {
    workload: Workload,
    /// Namespace whose quotas do not count it yet; empty for a pod that exists.
    namespace: String,
    parts: Vec<SetPart>,
    sets: i64,
    /// Nodes that it is placed on: number of the node, number of the part, and pods.
    placed: Vec<(usize, usize, i64)>,
}

impl Waiting {
    /// Pods of a part that have no place.
    fn rest(&self, part: usize) -> i64 {
        let placed = self.placed.iter().filter(|(_, of, _)| *of == part).map(|(_, _, pods)| pods);
        self.parts[part].replicas.saturating_mul(self.sets).saturating_sub(placed.sum())
    }
}

/// Requests that leave a member with one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaving {
    workload: Workload,
    /// Its namespace, whose quotas count its pods; empty if that is not known.
    namespace: Arc<str>,
    /// True if pods of it wait without a place, so that they would take what others free.
    pub(crate) competes: bool,
    /// Requests that it holds, by the number of the node.
    freed: Vec<(usize, Taken)>,
}

impl Leaving {
    /// Amounts that become free, with pods as one of them.
    pub(crate) fn amounts(&self) -> (Units, i64) {
        let mut sum = Taken::default();
        for (_, taken) in &self.freed {
            sum.add(&taken.amounts, 1);
        }
        (sum.amounts, self.freed.iter().map(|(_, taken)| taken.pods).sum())
    }
}

/// Pods that are placed before a question is answered: `sets` sets of these parts.
#[derive(Debug, Clone)]
pub(crate) struct Before {
    /// Namespace whose quotas count them.
    pub(crate) namespace: String,
    /// Pods of one set.
    pub(crate) parts: Vec<SetPart>,
    /// Number of sets.
    pub(crate) sets: i64,
}

/// Capacity that nodes would have left, by the number of the node: free resources and pod slots.
type Changed = BTreeMap<usize, (Units, i64)>;

/// Answers that are kept up to date. They follow from the rest, so a copy begins without any.
#[derive(Debug, Default)]
struct Kept(Mutex<(u64, BTreeMap<Question, Tracked>)>);

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Answer that is kept up to date.
#[derive(Debug, Clone, Default)]
struct Tracked {
    /// Number of the last change that the answer includes.
    seen: u64,
    /// Number of the question that asked for it last.
    asked: u64,
    /// Contribution of each slot; empty for sets, whose answer is no sum over nodes. 32 bits, since a node costs as
    /// many of them as there are answers.
    parts: Vec<i32>,
    sum: i64,
}

impl Taken {
    fn add(&mut self, request: &Units, pods: i64) {
        self.pods = self.pods.saturating_add(pods);
        for (resource, amount) in request {
            let sum = self.amounts.entry(resource).or_default();
            *sum = sum.saturating_add((*amount).clamp(0, AMOUNT_MAX).saturating_mul(pods));
        }
    }

    fn remove(&mut self, request: &Units, pods: i64) {
        self.add(request, -pods);
        self.amounts.retain(|_, amount| *amount != 0);
    }

    fn is_empty(&self) -> bool {
        self.pods == 0 && self.amounts.is_empty()
    }
}

impl Slot {
    /// Returns the free resources and pod slots, negative where more is requested; nothing without a node.
    fn left(&self) -> Option<(Units, i64)> {
        let node = self.node.as_ref()?;
        let taken = |of: &Taken, resource: &str| of.amounts.get(resource).copied().unwrap_or(0);
        let (mut left, mut slots) = (node.allocatable.clone(), node.allocatable.get(PODS).copied().unwrap_or(0));
        for of in [&self.requested, &self.expected] {
            for (resource, amount) in &mut left {
                *amount = amount.saturating_sub(taken(of, resource));
            }
            slots = slots.saturating_sub(of.pods);
        }
        Some((left, slots))
    }

    fn admits(&self, part: &SetPart) -> bool {
        self.node.as_ref().is_some_and(|node| part.template.claim.admits(facts(&self.name, node)))
    }

    /// Further pods of the template.
    fn fits(&self, part: &SetPart) -> i64 {
        if !self.admits(part) {
            return 0;
        }
        self.left().map_or(0, |(left, slots)| fits(&left, slots, part))
    }

    /// True if what waits is placed here beside pods that leave no room for it.
    fn is_overfull(&self) -> bool {
        if self.expected.is_empty() {
            return false;
        }
        let counted = |resource: &str| self.expected.amounts.get(resource).is_some_and(|amount| *amount > 0);
        self.left().is_none_or(|(left, slots)| {
            slots < 0 || left.iter().any(|(resource, amount)| *amount < 0 && counted(resource))
        })
    }

    fn is_unused(&self) -> bool {
        self.node.is_none() && self.requested.is_empty() && self.expected.is_empty()
    }
}

/// Pods of a template that fit into what is left of a node.
fn fits(left: &Units, slots: i64, part: &SetPart) -> i64 {
    place::per_node(left, slots, &part.template.request).min(LARGEST)
}

fn facts<'a>(name: &'a str, node: &'a Node) -> NodeFacts<'a> {
    NodeFacts { name, labels: &node.labels, taints: &node.taints, unschedulable: node.unschedulable }
}

/// Part of an estimate; the least answer of all parts counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EstimatePart {
    /// Free capacity of nodes.
    Nodes,
    /// Free capacity under ResourceQuotas.
    Quotas,
}

impl Index {
    /// Records a node that was added, changed or (`None`) removed. Returns whether that is a change.
    pub fn node(&mut self, name: &str, mut node: Option<Node>) -> bool {
        let amounts = node.iter_mut().flat_map(|node| node.allocatable.values_mut());
        amounts.for_each(|amount| *amount = (*amount).min(AMOUNT_MAX));
        let known = self.by_name.get(name).and_then(|at| self.slots.get(*at)).and_then(|slot| slot.node.as_ref());
        if known == node.as_ref() {
            return false;
        }
        let admits_the_same = known.zip(node.as_ref()).is_some_and(|(old, new)| facts(name, old) == facts(name, new));
        // It may admit what it did not.
        self.freed |= node.is_some() && !admits_the_same;
        let at = self.change(name, |slot| slot.node = node);
        if !admits_the_same {
            self.vacate(at);
        }
        self.settle(at);
        true
    }

    /// Records a pod that was added, changed or removed. Returns whether that is a change.
    pub fn pod(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> bool {
        if old == new {
            return false;
        }
        self.freed |= old.is_some_and(|old| asks_for_more(old, new));
        let (mut changed, mut without_node) = (Vec::new(), None);
        if let Some(old) = old {
            if old.is_replica {
                self.pods.depart(old.workload);
            }
            if let Some(node) = holds(old) {
                let (index, workload) = (self.slot(node), attributed(old));
                self.pods.remove(workload, index, &old.request);
                changed.push(self.change(node, |slot| slot.requested.remove(&old.request, 1)));
            }
            if let Some((name, _)) = waits(old) {
                changed.extend(self.withdraw(&waiting_name(name)));
            }
        }
        if let Some(new) = new {
            if new.is_replica {
                self.pods.arrive(new.workload);
            }
            if let Some(node) = holds(new) {
                let index = self.slot(node);
                self.bound = index;
                self.pods.place(attributed(new), index, &new.request);
                changed.push(self.change(node, |slot| slot.requested.add(&new.request, 1)));
            }
            if let Some((name, claim)) = waits(new) {
                let template =
                    PodTemplate { request: new.request.clone(), claim: claim.clone(), ..PodTemplate::default() };
                let parts = vec![SetPart { replicas: 1, template }];
                if new.found_no_node {
                    let namespace = String::new();
                    let waiting = Waiting { workload: new.workload, namespace, parts, sets: 1, placed: Vec::new() };
                    without_node = Some((waiting_name(name), waiting));
                } else {
                    self.expect(&waiting_name(name), new.workload, "", Some((parts, 1)));
                }
            }
        }
        changed.into_iter().for_each(|at| self.settle(at));
        if let Some((key, waiting)) = without_node {
            self.unplaced.insert(key.as_str().into());
            self.waiting.insert(key.into(), waiting);
        }
        true
    }

    /// Records a quota that was added, changed or (`None`) removed. Returns whether that is a change.
    pub fn quota(&mut self, namespace: &str, name: &str, quota: Option<Quota>) -> bool {
        let changed = self.quotas.set(namespace, name, quota);
        self.freed |= changed;
        changed
    }

    /// Returns whether a workload that did not fit at the last call may fit now: more is left of a node, it admits
    /// other pods, less is requested or waits, or quotas changed. What only moved within a node is no growth.
    pub fn take_grown(&mut self) -> bool {
        let is_more = |(at, before): (usize, Option<(Units, i64)>)| {
            let Some((left, slots)) = self.slots.get(at).and_then(Slot::left) else { return false };
            let (had, before) = before.unwrap_or_default();
            let more = |(name, amount): (&str, &i64)| *amount > had.get(name).copied().unwrap_or(0).max(0);
            slots > before.max(0) || left.iter().any(more)
        };
        let grew = std::mem::take(&mut self.before).into_iter().any(is_more);
        std::mem::take(&mut self.freed) || grew
    }

    /// Counts up to this many pods of a workload no more, as if they were gone: those that wait for a node first.
    pub fn forget(&mut self, workload: Workload, pods: i64) {
        let mut rest = usize::try_from(pods).unwrap_or(0);
        let is_pod = |waiting: &Waiting| waiting.workload == workload && waiting.namespace.is_empty();
        let waiting = self.waiting.iter().filter(|(_, waiting)| is_pod(waiting)).map(|(key, _)| key.clone());
        let waiting: Vec<Arc<str>> = waiting.take(rest).collect();
        rest -= waiting.len();
        let placed = self.pods.of(workload).flat_map(|(at, request, pods)| {
            std::iter::repeat_n((at, request.clone()), usize::try_from(pods).unwrap_or(0))
        });
        let placed: Vec<(usize, Units)> = placed.take(rest).collect();
        let mut changed: Vec<usize> = waiting.iter().flat_map(|key| self.withdraw(key)).collect();
        for (at, request) in &placed {
            self.pods.remove(workload, *at, request);
            self.change_at(*at, |slot| slot.requested.remove(request, 1));
            changed.push(*at);
        }
        (0..waiting.len() + placed.len()).for_each(|_| self.pods.depart(workload));
        changed.into_iter().for_each(|at| self.settle(at));
    }

    /// Pods of a workload that exist and are not being deleted.
    #[must_use]
    pub fn arrived(&self, workload: Workload) -> i64 {
        self.pods.arrived(workload)
    }

    /// Records pods that are expected under this key, instead of previous ones: `sets` sets of these parts. What does
    /// not fit is placed as soon as it does. `None` ends it.
    pub fn expect(&mut self, key: &str, workload: Workload, namespace: &str, expected: Option<(Vec<SetPart>, i64)>) {
        if let Some((parts, sets)) = &expected
            && self.came(key, workload, parts, *sets)
        {
            return;
        }
        let freed = self.withdraw(key);
        if let Some((parts, sets)) = expected.filter(|(_, sets)| *sets > 0) {
            let key: Arc<str> = key.into();
            let waiting = Waiting { workload, namespace: namespace.to_owned(), parts, sets, placed: Vec::new() };
            self.waiting.insert(key.clone(), waiting);
            self.place_on(&key, 0..self.slots.len());
        }
        freed.into_iter().for_each(|at| self.settle(at));
    }

    /// Expects fewer pods of one kind than before: the others keep their places. Returns false if that is not so.
    fn came(&mut self, key: &str, workload: Workload, parts: &[SetPart], sets: i64) -> bool {
        let Some(waiting) = self.waiting.get_mut(key) else { return false };
        let [part] = parts else { return false };
        if waiting.parts != parts || waiting.workload != workload || !(1..waiting.sets).contains(&sets) {
            return false;
        }
        self.freed |= !waiting.namespace.is_empty() && !self.quotas.is_empty();
        waiting.sets = sets;
        let mut more = -waiting.rest(0);
        let mut freed = Vec::new();
        // The place of the one that came, if it was foreseen.
        let bound = self.bound;
        waiting.placed.sort_by_key(|(at, ..)| *at == bound);
        while more > 0
            && let Some((at, _, pods)) = waiting.placed.pop()
        {
            let gone = pods.min(more);
            more -= gone;
            freed.push((at, gone));
            if pods > gone {
                waiting.placed.push((at, 0, pods - gone));
            }
        }
        if waiting.rest(0) <= 0 {
            self.unplaced.remove(key);
        }
        for (at, pods) in &freed {
            self.take_back(*at, part, *pods);
        }
        freed.into_iter().for_each(|(at, _)| self.settle(at));
        true
    }

    /// Expects pods no more. Returns the nodes on which they were placed.
    fn withdraw(&mut self, key: &str) -> Vec<usize> {
        let Some(before) = self.waiting.remove(key) else { return Vec::new() };
        // Quotas count it wherever it is placed.
        self.freed |= !before.namespace.is_empty() && !self.quotas.is_empty();
        self.unplaced.remove(key);
        for (at, part, pods) in &before.placed {
            self.take_back(*at, &before.parts[*part], *pods);
        }
        before.placed.into_iter().map(|(at, ..)| at).collect()
    }

    /// Places what has no place yet on these nodes.
    fn place_on(&mut self, key: &Arc<str>, nodes: std::ops::Range<usize>) {
        let Some(mut waiting) = self.waiting.remove(key) else { return };
        let mut is_whole = true;
        for part in 0..waiting.parts.len() {
            let mut rest = waiting.rest(part);
            for (at, pods) in self.spread(&waiting.parts[part], rest, nodes.clone()) {
                let request = &waiting.parts[part].template.request;
                self.change_at(at, |slot| slot.expected.add(request, pods));
                waiting.placed.push((at, part, pods));
                rest -= pods;
            }
            is_whole &= rest <= 0;
        }
        self.waiting.insert(key.clone(), waiting);
        if is_whole {
            self.unplaced.remove(key);
        } else {
            self.unplaced.insert(key.clone());
        }
    }

    /// Nodes that pods would get, with their numbers.
    fn spread(&self, part: &SetPart, pods: i64, nodes: std::ops::Range<usize>) -> BTreeMap<usize, i64> {
        let mut got = BTreeMap::new();
        if let Some(pods) = usize::try_from(pods).ok().filter(|pods| *pods > 0) {
            self.places(part, nodes).take(pods).for_each(|at| *got.entry(at).or_default() += 1);
        }
        got
    }

    /// Nodes that one pod after the other would get: each the one that has the largest share of its capacity free
    /// afterwards, as Kubernetes' scheduler does by default.
    fn places(&self, part: &SetPart, nodes: std::ops::Range<usize>) -> impl Iterator<Item = usize> {
        let request = &part.template.request;
        let share = |node: &Node, left: &Units, slots: i64| place::free_share(request, left, slots, &node.allocatable);
        let open = nodes.filter_map(|at| {
            let slot = self.slots.get(at).filter(|slot| slot.admits(part))?;
            let (left, slots) = slot.left().filter(|(left, slots)| fits(left, *slots, part) > 0)?;
            Some((share(slot.node.as_ref()?, &left, slots), Reverse(at), left, slots))
        });
        let mut open: BinaryHeap<_> = open.collect();
        std::iter::from_fn(move || {
            let (_, Reverse(at), mut left, mut slots) = open.pop()?;
            place::take(&mut left, request, 1);
            slots -= 1;
            if let Some(node) = self.slots[at].node.as_ref().filter(|_| fits(&left, slots, part) > 0) {
                open.push((share(node, &left, slots), Reverse(at), left, slots));
            }
            Some(at)
        })
    }

    fn take_back(&mut self, at: usize, part: &SetPart, pods: i64) {
        self.change_at(at, |slot| slot.expected.remove(&part.template.request, pods));
    }

    /// Moves what waits away from a node that has no room for it any more, and places there what had no room.
    fn settle(&mut self, at: usize) {
        if self.slots[at].is_overfull() {
            self.vacate(at);
        }
        if self.slots[at].node.is_some() {
            let unplaced: Vec<Arc<str>> = self.unplaced.iter().cloned().collect();
            unplaced.iter().for_each(|key| self.place_on(key, at..at + 1));
        }
    }

    /// Places anew what waits and is placed on a node.
    fn vacate(&mut self, at: usize) {
        if self.slots[at].expected.is_empty() {
            return;
        }
        let is_here = |(_, waiting): &(&Arc<str>, &Waiting)| waiting.placed.iter().any(|(node, ..)| *node == at);
        let here: Vec<Arc<str>> = self.waiting.iter().filter(is_here).map(|(key, _)| key.clone()).collect();
        for key in &here {
            let Some(waiting) = self.waiting.get_mut(key) else { continue };
            let (gone, kept): (Vec<_>, _) =
                std::mem::take(&mut waiting.placed).into_iter().partition(|(node, ..)| *node == at);
            waiting.placed = kept;
            let parts = waiting.parts.clone();
            for (_, part, pods) in gone {
                self.take_back(at, &parts[part], pods);
            }
        }
        here.iter().for_each(|key| self.place_on(key, 0..self.slots.len()));
    }

    /// Further replicas or complete sets that fit into the member, from 0 to the largest 32-bit number.
    #[must_use]
    pub fn fits(&self, question: &Question) -> i64 {
        self.fits_observed(question, &mut |_| {})
    }

    /// The same; `ended` is called as each part of the estimate ends.
    pub fn fits_observed(&self, question: &Question, ended: &mut dyn FnMut(EstimatePart)) -> i64 {
        let by_nodes = self.by_nodes(question);
        ended(EstimatePart::Nodes);
        let by_quota = self.by_quotas(question, &[], &[]);
        ended(EstimatePart::Quotas);
        by_quota.min(by_nodes).clamp(0, LARGEST)
    }

    /// The same once these workloads have left, beside further pods that are placed before.
    #[must_use]
    pub(crate) fn fits_if<'a>(
        &self,
        question: &Question,
        without: impl IntoIterator<Item = &'a Leaving>,
        beside: &[Before],
    ) -> i64 {
        let without: Vec<&Leaving> = without.into_iter().collect();
        let changed = self.changed(&without, beside);
        let by_nodes = match &question.wanted {
            Wanted::Sets(parts) => self.sets(parts, &changed),
            Wanted::Replicas(template) => {
                let part = SetPart { replicas: 1, template: template.clone() };
                let differs = |(at, (left, slots)): (&usize, &(Units, i64))| {
                    let slot = &self.slots[*at];
                    if slot.admits(&part) { fits(left, *slots, &part) - slot.fits(&part) } else { 0 }
                };
                self.by_nodes(question) + changed.iter().map(differs).sum::<i64>()
            }
        };
        self.by_quotas(question, &without, beside).min(by_nodes).clamp(0, LARGEST)
    }

    /// Further replicas or complete sets that fit now beside pods for which nodes are held until these workloads
    /// have left. The member chooses nodes, so the count ends with the first replica that would take what is held.
    #[must_use]
    pub(crate) fn fits_beside(&self, question: &Question, leaving: &[Leaving], held: &[Before]) -> i64 {
        // Who can be served now is not to wait for those that leave.
        let mut changed = self.changed(&[], held);
        for (at, (after, slots_after)) in self.changed(&leaving.iter().collect::<Vec<_>>(), held) {
            let Some((left, slots)) = self.left_of(at, &mut changed) else { continue };
            for (resource, amount) in left {
                *amount = (*amount).min(after.get(resource).copied().unwrap_or(0));
            }
            *slots = slots_after.min(*slots);
        }
        let by_nodes = match &question.wanted {
            Wanted::Sets(parts) => self.sets(parts, &changed),
            Wanted::Replicas(template) => {
                let part = SetPart { replicas: 1, template: template.clone() };
                let is_free = |at: &usize| {
                    let Some((left, slots)) = changed.get_mut(at) else { return true };
                    let is_free = fits(left, *slots, &part) > 0;
                    place::take(left, &part.template.request, 1);
                    *slots -= 1;
                    is_free
                };
                let places = self.places(&part, 0..self.slots.len()).take(PLACES_MAX).take_while(is_free);
                i64::try_from(places.count()).unwrap_or(LARGEST)
            }
        };
        self.by_quotas(question, &[], held).min(by_nodes).clamp(0, LARGEST)
    }

    /// Capacity that nodes would have left once these workloads have left and others have taken their places.
    fn changed(&self, without: &[&Leaving], beside: &[Before]) -> Changed {
        let (mut changed, mut gone) = (Changed::new(), BTreeSet::new());
        for leaving in without {
            // Members of one group may be named twice.
            if !gone.insert(leaving.workload) {
                continue;
            }
            for (at, taken) in &leaving.freed {
                let Some((left, slots)) = self.left_of(*at, &mut changed) else { continue };
                for (resource, amount) in left {
                    *amount = amount.saturating_add(taken.amounts.get(resource).copied().unwrap_or(0));
                }
                *slots = slots.saturating_add(taken.pods);
            }
        }
        if !changed.is_empty() {
            for waiting in self.unplaced.iter().filter_map(|key| self.waiting.get(key)) {
                if gone.contains(&waiting.workload) {
                    continue;
                }
                let nodes: Vec<usize> = changed.keys().copied().collect();
                for (part, of) in waiting.parts.iter().enumerate() {
                    self.place_if(of, waiting.rest(part), nodes.iter().copied(), &mut changed);
                }
            }
        }
        for before in beside {
            for part in &before.parts {
                self.place_if(part, part.replicas.saturating_mul(before.sets), 0..self.slots.len(), &mut changed);
            }
        }
        changed
    }

    fn left_of<'c>(&self, at: usize, changed: &'c mut Changed) -> Option<&'c mut (Units, i64)> {
        match changed.entry(at) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => Some(place.insert(self.slots.get(at)?.left()?)),
        }
    }

    /// Places pods in what nodes would have left.
    fn place_if(&self, part: &SetPart, pods: i64, nodes: impl Iterator<Item = usize>, changed: &mut Changed) {
        let mut rest = pods;
        for at in nodes {
            if rest <= 0 {
                return;
            }
            let slot = &self.slots[at];
            if !slot.admits(part) {
                continue;
            }
            let fitting = match changed.get(&at) {
                Some((left, slots)) => fits(left, *slots, part),
                None => slot.fits(part),
            };
            let pods = fitting.min(rest);
            if pods > 0
                && let Some((left, slots)) = self.left_of(at, changed)
            {
                place::take(left, &part.template.request, pods);
                *slots -= pods;
                rest -= pods;
            }
        }
    }

    /// Requests that leave with a workload of this namespace: of its pods, and of those that are expected; `None` if it
    /// holds nothing and waits for nothing.
    pub(crate) fn leaving(&self, workload: Workload, namespace: &Arc<str>) -> Option<Leaving> {
        let (mut freed, mut competes): (BTreeMap<usize, Taken>, _) = (BTreeMap::new(), false);
        for (at, request, pods) in self.pods.of(workload) {
            freed.entry(at).or_default().add(request, pods);
        }
        for waiting in self.waiting.values().filter(|waiting| waiting.workload == workload) {
            for (at, part, pods) in &waiting.placed {
                freed.entry(*at).or_default().add(&waiting.parts[*part].template.request, *pods);
            }
            competes |= (0..waiting.parts.len()).any(|part| waiting.rest(part) > 0);
        }
        let namespace = namespace.clone();
        let of = |freed: BTreeMap<_, _>| Leaving { workload, namespace, competes, freed: freed.into_iter().collect() };
        (competes || !freed.is_empty()).then(|| of(freed))
    }

    /// Requests that leave with the pods that are being deleted.
    pub(crate) fn being_deleted(&self) -> Option<Leaving> {
        self.leaving(Workload::LEAVING, &Arc::default())
    }

    /// Sum over the nodes of what is free, where more is not requested, and of what they offer.
    pub(crate) fn totals(&self) -> (Units, Units) {
        let (mut free, mut offered) = (Units::new(), Units::new());
        for slot in &self.slots {
            let (Some(node), Some((left, slots))) = (&slot.node, slot.left()) else { continue };
            for (resource, amount) in &node.allocatable {
                let sum = offered.entry(resource).or_default();
                *sum = sum.saturating_add(*amount);
                let left = if resource == PODS { slots } else { left.get(resource).copied().unwrap_or(0) };
                let sum = free.entry(resource).or_default();
                *sum = sum.saturating_add(left.max(0));
            }
        }
        (free, offered)
    }

    /// The node on which most of the first part of a question fits, or else the one with most of its first resource
    /// free, as `3 of 10 cpu free on node-1`; `None` if no node admits it.
    pub(crate) fn best_node(&self, question: &Question) -> Option<String> {
        let parts = question.parts();
        let part = parts.first()?;
        let resource = part.template.request.keys().next().unwrap_or(PODS).to_owned();
        let amounts = |slot: &Slot| {
            let (left, slots) = slot.left()?;
            let offered = slot.node.as_ref()?.allocatable.get(&resource).copied().unwrap_or(0);
            let left = if resource == PODS { slots } else { left.get(&resource).copied().unwrap_or(0) };
            Some((left.max(0), offered))
        };
        let admitting = self.slots.iter().filter(|slot| slot.admits(part));
        let best = admitting.filter_map(|slot| Some((slot.fits(part), amounts(slot)?, slot)));
        let (_, (left, offered), slot) = best.max_by_key(|(fits, amounts, _)| (*fits, *amounts))?;
        let shown = |amount: i64| if resource == "cpu" { cores(amount) } else { amount.to_string() };
        Some(format!("{} of {} {resource} free on {}", shown(left), shown(offered), slot.name))
    }

    /// Returns whether pods are expected on nodes that do not have them yet.
    pub(crate) fn awaits_pods(&self) -> bool {
        self.waiting.values().any(|waiting| !waiting.placed.is_empty())
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.slots.iter().filter(|slot| slot.node.is_some()).count()
    }

    /// Requests of the pods on a node.
    #[cfg(test)]
    pub(crate) fn observed(&self, node: &str) -> (Units, i64) {
        let requested = self.by_name.get(node).map(|at| self.slots[*at].requested.clone()).unwrap_or_default();
        (requested.amounts, requested.pods)
    }

    /// Sets that quotas leave once these workloads have left.
    fn by_quotas(&self, question: &Question, without: &[&Leaving], beside: &[Before]) -> i64 {
        if self.quotas.is_empty() {
            return i64::MAX;
        }
        let is_gone = |workload: Workload| without.iter().any(|leaving| leaving.workload == workload);
        let expected = self.waiting.values().filter(|waiting| !is_gone(waiting.workload));
        let expected = expected.map(|waiting| (&waiting.namespace, &waiting.parts, waiting.sets));
        let expected = expected.chain(beside.iter().map(|before| (&before.namespace, &before.parts, before.sets)));
        let here = expected.filter(|(namespace, ..)| **namespace == question.namespace);
        let mut here: Vec<(SetPart, i64)> =
            here.flat_map(|(_, parts, sets)| parts.iter().map(move |part| (part.clone(), sets))).collect();
        // Quotas count the pods that exist.
        for leaving in without.iter().filter(|leaving| *leaving.namespace == *question.namespace) {
            let template = |request: &Units| PodTemplate { request: request.clone(), ..PodTemplate::default() };
            let of = |request| SetPart { replicas: 1, template: template(request) };
            here.extend(self.pods.of(leaving.workload).map(|(_, request, pods)| (of(request), -pods)));
            let waiting = self.waiting.values().filter(|waiting| waiting.workload == leaving.workload);
            let waiting = waiting.filter(|waiting| waiting.namespace.is_empty()).flat_map(|waiting| &waiting.parts);
            here.extend(waiting.map(|part| (part.clone(), -1)));
        }
        self.quotas.sets(&question.namespace, &question.parts(), &here).unwrap_or(i64::MAX)
    }

    fn by_nodes(&self, question: &Question) -> i64 {
        let mut kept = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, all) = &mut *kept;
        *asked += 1;
        if !all.contains_key(question)
            && all.len() >= TRACKED_MAX
            && let Some(oldest) = all.iter().min_by_key(|(_, tracked)| tracked.asked).map(|(key, _)| key.clone())
        {
            all.remove(&oldest);
        }
        let tracked = all.entry(question.clone()).or_default();
        tracked.asked = *asked;
        if tracked.seen < self.last {
            match &question.wanted {
                Wanted::Replicas(template) => {
                    self.update(tracked, &SetPart { replicas: 1, template: template.clone() });
                }
                Wanted::Sets(parts) => tracked.sum = self.sets(parts, &Changed::new()),
            }
            tracked.seen = self.last;
        }
        tracked.sum
    }

    /// Takes in the nodes that changed since the answer was given.
    fn update(&self, tracked: &mut Tracked, part: &SetPart) {
        tracked.parts.resize(self.slots.len(), 0);
        for at in self.changes.range((Excluded(tracked.seen), Unbounded)).map(|(_, at)| *at) {
            let fits = self.slots[at].fits(part);
            tracked.sum += fits - i64::from(tracked.parts[at]);
            tracked.parts[at] = i32::try_from(fits).unwrap_or(i32::MAX);
        }
    }

    fn sets(&self, parts: &[SetPart], changed: &Changed) -> i64 {
        let mut equal: BTreeMap<(Vec<bool>, i64, Units), i64> = BTreeMap::new();
        for (at, slot) in self.slots.iter().enumerate() {
            let admits: Vec<bool> = parts.iter().map(|part| slot.admits(part)).collect();
            let left = changed.get(&at).cloned().or_else(|| slot.left());
            if let Some((left, slots)) = left.filter(|_| admits.contains(&true)) {
                *equal.entry((admits, slots.max(0), left)).or_default() += 1;
            }
        }
        let in_set = parts.iter().fold(0_i64, |sum, part| sum.saturating_add(part.replicas));
        let slots =
            equal.iter().fold(0_i64, |sum, ((_, slots, _), count)| sum.saturating_add(slots.saturating_mul(*count)));
        if in_set == 0 {
            return slots;
        }
        let groups = equal.into_iter().map(|((admits, pods, left), count)| Group { admits, left, pods, count });
        place::sets(groups.collect(), parts, slots / in_set)
    }

    /// Number of the slot of a node, which exists afterwards.
    fn slot(&mut self, name: &str) -> usize {
        self.by_name.get(name).copied().unwrap_or_else(|| self.new_slot(name))
    }

    /// Changes one node and gives the change a number. Returns the number of its slot.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Slot)) -> usize {
        let at = self.slot(name);
        self.change_at(at, change);
        at
    }

    fn change_at(&mut self, at: usize, change: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[at];
        self.before.entry(at).or_insert_with(|| slot.left());
        change(slot);
        self.last += 1;
        self.changes.remove(&slot.changed);
        slot.changed = self.last;
        self.changes.insert(self.last, at);
        if slot.is_unused() && self.by_name.remove(&slot.name).is_some() {
            self.unused.push(at);
        }
    }

    fn new_slot(&mut self, name: &str) -> usize {
        let name: Arc<str> = name.into();
        let at = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[at].name = name.clone();
        self.by_name.insert(name, at);
        at
    }
}

/// Millicores as cores, with as many decimals as they need.
fn cores(millicores: i64) -> String {
    let text = format!("{}.{:03}", millicores / 1_000, millicores % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Node that a pod holds a part of.
fn holds(pod: &Pod) -> Option<&str> {
    (!pod.has_ended && !pod.node.is_empty()).then_some(&*pod.node)
}

/// Name and claim of a pod that waits for a node.
fn waits(pod: &Pod) -> Option<(&str, &Claim)> {
    let waits = !pod.has_ended && !pod.is_leaving && pod.node.is_empty();
    pod.waiting.as_ref().filter(|_| waits).map(|waiting| (waiting.0.as_str(), &waiting.1))
}

/// Key of a pod that waits, which no workload has.
fn waiting_name(pod: &str) -> String {
    format!("pod {pod}")
}

/// Workload that what a pod holds leaves with.
fn attributed(pod: &Pod) -> Workload {
    if pod.is_leaving { Workload::LEAVING } else { pod.workload }
}

/// Returns whether a pod holds or awaits more than it does afterwards, on whichever node.
fn asks_for_more(old: &Pod, new: Option<&Pod>) -> bool {
    let asks = |pod: &Pod| holds(pod).is_some() || waits(pod).is_some();
    let Some(new) = new.filter(|new| asks(new)) else { return asks(old) };
    let more = |(resource, amount): (&str, &i64)| *amount > new.request.get(resource).copied().unwrap_or(0).max(0);
    asks(old) && old.request.iter().any(more)
}

#[cfg(test)]
mod tests;
