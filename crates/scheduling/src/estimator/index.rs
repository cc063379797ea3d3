//! Incremental index of one member: its nodes, what pods request on them, assumed workloads, and quotas
//! (specification/scheduling.md 10.6).
//!
//! Every change gets a number, and each node has the number of its last one. The answer to a question that was asked
//! before is brought up to date from the nodes with later numbers only.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use ironclad_api::Taint;

use super::{
    Question, SetPart, Subtracting, Wanted,
    claim::NodeFacts,
    place::{self, Group},
    quota::{Quota, Quotas},
};
use crate::capacity::demand::Units;

/// Largest number of questions whose answers are kept up to date; beyond it, the one that was not asked for the longest
/// time is dropped.
const TRACKED_MAX: usize = 64;
/// Upper limit of an answer, and of what one node contributes: replicas are 32-bit numbers in the API.
const LARGEST: i64 = i32::MAX as i64;
/// Resource that counts pods.
const PODS: &str = "pods";

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

/// Fields of a pod that is assigned to a node and has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// The node.
    pub node: Arc<str>,
    /// Resource request.
    pub request: Units,
}

/// Effect of a change on what fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// The same.
    Unchanged,
    /// Less, or the same.
    Shrank,
    /// A workload that did not fit may fit now.
    Grew,
}

/// Nodes, pods, assumed workloads and quotas of one member.
#[derive(Debug, Clone, Default)]
pub struct Index {
    slots: Vec<Slot>,
    unused: Vec<usize>,
    by_name: BTreeMap<Arc<str>, usize>,
    /// Number of the last change.
    last: u64,
    /// Slots by the number of their last change.
    changes: BTreeMap<u64, usize>,
    assumed: BTreeMap<Arc<str>, Assumption>,
    quotas: Quotas,
    tracked: BTreeMap<(Question, Subtracting), Tracked>,
    asked: u64,
}

/// A node, or what pods request on a node that is not known yet.
#[derive(Debug, Clone, Default)]
struct Slot {
    name: Arc<str>,
    node: Option<Node>,
    requested: Taken,
    assumed: Taken,
    /// Number of the last change.
    changed: u64,
}

/// Requests of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Taken {
    amounts: Units,
    pods: i64,
}

/// Assumed workload, with the nodes that it was placed on.
#[derive(Debug, Clone)]
struct Assumption {
    namespace: String,
    parts: Vec<SetPart>,
    sets: i64,
    placed: Vec<(Arc<str>, Units, i64)>,
}

/// Answer that is kept up to date.
#[derive(Debug, Clone, Default)]
struct Tracked {
    /// Number of the last change that the answer includes.
    seen: u64,
    /// Number of the question that asked for it last.
    asked: u64,
    /// Contribution of each slot; empty for sets, whose answer is no sum over nodes.
    parts: Vec<i64>,
    sum: i64,
}

impl Taken {
    fn add(&mut self, request: &Units, pods: i64) {
        self.pods = self.pods.saturating_add(pods);
        for (resource, amount) in request {
            let sum = self.amounts.entry(resource).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(pods));
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
    /// Returns the free resources and pod slots; nothing without a node.
    fn left(&self, subtracting: Subtracting) -> Option<(Units, i64)> {
        let node = self.node.as_ref()?;
        let taken = |of: &Taken, resource: &str| of.amounts.get(resource).copied().unwrap_or(0);
        let (mut left, mut slots) = (node.allocatable.clone(), node.allocatable.get(PODS).copied().unwrap_or(0));
        let all: &[&Taken] = match subtracting {
            Subtracting::Assigned => &[&self.requested],
            Subtracting::Assumed => &[&self.requested, &self.assumed],
        };
        for of in all {
            for (resource, amount) in &mut left {
                *amount = amount.saturating_sub(taken(of, resource));
            }
            slots = slots.saturating_sub(of.pods);
        }
        Some((left, slots.max(0)))
    }

    fn admits(&self, part: &SetPart) -> bool {
        self.node.as_ref().is_some_and(|node| part.template.claim.admits(facts(&self.name, node)))
    }

    /// Further pods of the template.
    fn fits(&self, part: &SetPart, subtracting: Subtracting) -> i64 {
        if !self.admits(part) {
            return 0;
        }
        let left = self.left(subtracting);
        left.map_or(0, |(left, slots)| place::per_node(&left, slots, &part.template.request).min(LARGEST))
    }

    fn is_unused(&self) -> bool {
        self.node.is_none() && self.requested.is_empty() && self.assumed.is_empty()
    }
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
    /// Records a node that was added, changed or (`None`) removed.
    pub fn node(&mut self, name: &str, node: Option<Node>) -> Estimate {
        let known = self.by_name.get(name).and_then(|at| self.slots.get(*at)).and_then(|slot| slot.node.as_ref());
        if known == node.as_ref() {
            return Estimate::Unchanged;
        }
        let effect = match (known, &node) {
            (_, None) => Estimate::Shrank,
            (Some(old), Some(new)) if !grew(old, new) => Estimate::Shrank,
            _ => Estimate::Grew,
        };
        self.change(name, |slot| slot.node = node);
        effect
    }

    /// Records a pod that was added, changed or removed. One that is not assigned to a node or has ended is `None`.
    pub fn pod(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> Estimate {
        if old == new {
            return Estimate::Unchanged;
        }
        if let Some(old) = old {
            self.change(&old.node, |slot| slot.requested.remove(&old.request, 1));
        }
        if let Some(new) = new {
            self.change(&new.node, |slot| slot.requested.add(&new.request, 1));
        }
        if old.is_some() { Estimate::Grew } else { Estimate::Shrank }
    }

    /// Records a quota that was added, changed or (`None`) removed.
    pub fn quota(&mut self, namespace: &str, name: &str, quota: Option<Quota>) -> Estimate {
        if self.quotas.set(namespace, name, quota) { Estimate::Grew } else { Estimate::Unchanged }
    }

    /// Records an assumed workload under this key, instead of a previous one: `sets` sets of these parts, placed first
    /// fit. What does not fit is not subtracted. `None` ends it.
    pub fn assume(&mut self, key: &str, namespace: &str, assumed: Option<(Vec<SetPart>, i64)>) {
        if let Some(before) = self.assumed.remove(key) {
            for (node, request, pods) in &before.placed {
                self.change(node, |slot| slot.assumed.remove(request, *pods));
            }
        }
        let Some((parts, sets)) = assumed else { return };
        let mut placed = Vec::new();
        for part in &parts {
            let mut rest = part.replicas.saturating_mul(sets);
            for at in 0..self.slots.len() {
                let fits = self.slots[at].fits(part, Subtracting::Assumed).min(rest);
                if fits > 0 {
                    let name = self.slots[at].name.clone();
                    self.change(&name, |slot| slot.assumed.add(&part.template.request, fits));
                    placed.push((name, part.template.request.clone(), fits));
                    rest -= fits;
                }
                if rest <= 0 {
                    break;
                }
            }
        }
        self.assumed.insert(key.into(), Assumption { namespace: namespace.to_owned(), parts, sets, placed });
    }

    /// Further replicas or complete sets that fit into the member, from 0 to the largest 32-bit number.
    pub fn fits(&mut self, question: &Question, subtracting: Subtracting) -> i64 {
        self.fits_observed(question, subtracting, &mut |_| {})
    }

    /// The same; `ended` is called as each part of the estimate ends.
    pub fn fits_observed(
        &mut self,
        question: &Question,
        subtracting: Subtracting,
        ended: &mut dyn FnMut(EstimatePart),
    ) -> i64 {
        let by_nodes = self.by_nodes(question, subtracting);
        ended(EstimatePart::Nodes);
        let assumed: Vec<(SetPart, i64)> = match subtracting {
            Subtracting::Assigned => Vec::new(),
            Subtracting::Assumed => self.assumed_in(&question.namespace),
        };
        let by_quota = self.quotas.sets(&question.namespace, &question.parts(), &assumed);
        ended(EstimatePart::Quotas);
        by_quota.map_or(by_nodes, |sets| sets.min(by_nodes)).clamp(0, LARGEST)
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.slots.iter().filter(|slot| slot.node.is_some()).count()
    }

    fn assumed_in(&self, namespace: &str) -> Vec<(SetPart, i64)> {
        let all = self.assumed.values().filter(|assumed| assumed.namespace == namespace);
        all.flat_map(|assumed| assumed.parts.iter().map(|part| (part.clone(), assumed.sets))).collect()
    }

    fn by_nodes(&mut self, question: &Question, subtracting: Subtracting) -> i64 {
        self.asked += 1;
        let key = (question.clone(), subtracting);
        if !self.tracked.contains_key(&key)
            && self.tracked.len() >= TRACKED_MAX
            && let Some(oldest) =
                self.tracked.iter().min_by_key(|(_, tracked)| tracked.asked).map(|(key, _)| key.clone())
        {
            self.tracked.remove(&oldest);
        }
        let mut tracked = self.tracked.remove(&key).unwrap_or_default();
        tracked.asked = self.asked;
        if tracked.seen < self.last {
            match &question.wanted {
                Wanted::Replicas(template) => {
                    self.update(&mut tracked, &SetPart { replicas: 1, template: template.clone() }, subtracting);
                }
                Wanted::Sets(parts) => tracked.sum = self.sets(parts, subtracting),
            }
            tracked.seen = self.last;
        }
        let sum = tracked.sum;
        self.tracked.insert(key, tracked);
        sum
    }

    /// Takes in the nodes that changed since the answer was given.
    fn update(&self, tracked: &mut Tracked, part: &SetPart, subtracting: Subtracting) {
        tracked.parts.resize(self.slots.len(), 0);
        for at in self.changes.range((Excluded(tracked.seen), Unbounded)).map(|(_, at)| *at) {
            let fits = self.slots[at].fits(part, subtracting);
            tracked.sum += fits - tracked.parts[at];
            tracked.parts[at] = fits;
        }
    }

    fn sets(&self, parts: &[SetPart], subtracting: Subtracting) -> i64 {
        let mut equal: BTreeMap<(Vec<bool>, i64, Units), i64> = BTreeMap::new();
        for slot in &self.slots {
            let admits: Vec<bool> = parts.iter().map(|part| slot.admits(part)).collect();
            if let Some((left, slots)) = slot.left(subtracting).filter(|_| admits.contains(&true)) {
                *equal.entry((admits, slots, left)).or_default() += 1;
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

    /// Changes one node and gives the change a number.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Slot)) {
        let at = self.by_name.get(name).copied().unwrap_or_else(|| self.new_slot(name));
        let slot = &mut self.slots[at];
        change(slot);
        self.last += 1;
        self.changes.remove(&slot.changed);
        slot.changed = self.last;
        self.changes.insert(self.last, at);
        if slot.is_unused() {
            self.by_name.remove(name);
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

/// Returns whether a workload that the node did not admit may fit now.
fn grew(old: &Node, new: &Node) -> bool {
    let facts = (&old.labels, &old.taints, old.unschedulable) != (&new.labels, &new.taints, new.unschedulable);
    let more = |(resource, amount): (&str, &i64)| *amount > old.allocatable.get(resource).copied().unwrap_or(0);
    facts || new.allocatable.iter().any(more)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use ironclad_api::work::{Component, ReplicaRequirements};

    fn amounts(list: &[(&str, i64)]) -> Units {
        list.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
    }

    fn node(cpu: i64, memory: i64, slots: i64) -> Node {
        Node { allocatable: amounts(&[("cpu", cpu), ("memory", memory), (PODS, slots)]), ..Node::default() }
    }

    fn pod(node: &str, cpu: i64) -> Pod {
        Pod { node: node.into(), request: amounts(&[("cpu", cpu)]) }
    }

    fn replicas(needs: Value) -> Question {
        let needs: ReplicaRequirements = serde_json::from_value(needs).unwrap();
        Question::replicas("shop", Some(&needs))
    }

    fn sets(components: Value) -> Question {
        let components: Vec<Component> = serde_json::from_value(components).unwrap();
        Question::sets("shop", &components)
    }

    fn cores(cpu: &str) -> Question {
        replicas(json!({"resourceRequest": {"cpu": cpu}}))
    }

    #[test]
    fn answer_is_the_sum_over_nodes() {
        let nodes = [("a", node(4_000, 8, 10)), ("b", node(4_000, 8, 10)), ("c", node(1_000, 8, 2))];
        for (name, pods, question, want) in [
            ("empty nodes", vec![], cores("1"), 9),
            ("fragmented: the sum has room, no node has", vec![pod("a", 2_500), pod("b", 2_500)], cores("2"), 0),
            ("rounded down on each node", vec![], cores("1500m"), 4),
            ("pods take slots", vec![pod("c", 0)], cores("1m"), 21),
            ("no request: pod slots", vec![pod("a", 0)], replicas(json!({})), 21),
            ("the scarcest resource", vec![], replicas(json!({"resourceRequest": {"cpu": "1m", "memory": "4"}})), 6),
            ("a resource that no node has", vec![], replicas(json!({"resourceRequest": {"example.com/gpu": "1"}})), 0),
            ("a resource that Kubernetes ignores", vec![], replicas(json!({"resourceRequest": {"magic": "1"}})), 22),
            ("more requested than there is", vec![pod("a", 9_000)], cores("1"), 5),
            ("pods of an unknown node", vec![pod("z", 1_000)], cores("1"), 9),
        ] {
            let mut index = Index::default();
            for (name, node) in &nodes {
                index.node(name, Some(node.clone()));
            }
            for pod in &pods {
                index.pod(None, Some(pod));
            }
            assert_eq!(index.fits(&question, Subtracting::Assigned), want, "{name}");
        }
        assert_eq!(Index::default().fits(&cores("1"), Subtracting::Assigned), 0, "no nodes");
    }

    #[test]
    fn claims_and_quotas_limit_the_answer() {
        let mut index = Index::default();
        let with = |labels: Value, unschedulable| Node {
            labels: serde_json::from_value(labels).unwrap(),
            unschedulable,
            ..node(4_000, 8, 10)
        };
        index.node("a", Some(with(json!({"disk": "ssd"}), false)));
        index.node("b", Some(with(json!({}), false)));
        index.node("c", Some(with(json!({"disk": "ssd"}), true)));
        let ssd = replicas(json!({"resourceRequest": {"cpu": "1"}, "nodeClaim": {"nodeSelector": {"disk": "ssd"}}}));
        assert_eq!(index.fits(&cores("1"), Subtracting::Assigned), 8);
        assert_eq!(index.fits(&ssd, Subtracting::Assigned), 4);
        assert_eq!(index.node("c", Some(with(json!({"disk": "ssd"}), false))), Estimate::Grew, "uncordoned");
        assert_eq!(index.fits(&ssd, Subtracting::Assigned), 8, "the kept answer follows");
        let quota = |cpu| Some(Quota::new(&amounts(&[("requests.cpu", cpu)]), &Units::new(), vec![]));
        assert_eq!(index.quota("shop", "q", quota(3_000)), Estimate::Grew);
        assert_eq!((index.fits(&ssd, Subtracting::Assigned), index.fits(&cores("1"), Subtracting::Assigned)), (3, 3));
        index.quota("shop", "q", quota(-1));
        assert_eq!(index.fits(&ssd, Subtracting::Assigned), 0, "exceeded");
        index.quota("shop", "q", None);
        assert_eq!(index.fits(&ssd, Subtracting::Assigned), 8);
    }

    #[test]
    fn only_complete_sets_count() {
        let of = |nodes: &[(&str, i64)]| {
            let mut index = Index::default();
            for (name, cpu) in nodes {
                index.node(name, Some(node(*cpu, 64, 10)));
            }
            index
        };
        let job = |manager: &str, worker: &str, workers: i32| {
            sets(json!([
                {"name": "manager", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": manager}}},
                {"name": "worker", "replicas": workers, "replicaRequirements": {"resourceRequest": {"cpu": worker}}},
            ]))
        };
        for (name, nodes, question, want) in [
            ("two sets on two nodes", &[("a", 4_000), ("b", 4_000)][..], job("1", "1", 3), 2),
            ("workers are spread over nodes", &[("a", 3_000), ("b", 3_000)], job("1", "2", 1), 2),
            ("the sum would fit, the pieces do not", &[("a", 4_000), ("b", 4_000)], job("2", "3", 2), 0),
            ("pods bound the number", &[("a", 64_000)], job("1m", "1m", 4), 2),
            ("no nodes", &[], job("1m", "1m", 1), 0),
        ] {
            let mut index = of(nodes);
            assert_eq!(index.fits(&question, Subtracting::Assigned), want, "{name}");
            assert_eq!(index.fits(&question, Subtracting::Assigned), want, "{name}, asked again");
        }
        let mut index = of(&[("a", 4_000), ("b", 4_000)]);
        let question = job("1", "1", 3);
        assert_eq!(index.fits(&question, Subtracting::Assigned), 2);
        index.pod(None, Some(&pod("a", 1_000)));
        assert_eq!(index.fits(&question, Subtracting::Assigned), 1, "the kept answer follows");
        let claimed = sets(json!([
            {"name": "m", "replicas": 1, "replicaRequirements": {"nodeClaim": {"nodeSelector": {"role": "m"}}}},
            {"name": "w", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "4"}}},
        ]));
        assert_eq!(index.fits(&claimed, Subtracting::Assigned), 0, "no node for m");
        let labels = [("role".to_owned(), "m".to_owned())].into();
        index.node("a", Some(Node { labels, ..node(4_000, 64, 10) }));
        assert_eq!(index.fits(&claimed, Subtracting::Assigned), 1, "m in a, w in b");
    }

    #[test]
    fn assumed_workloads_are_placed_first() {
        let mut index = Index::default();
        for name in ["a", "b"] {
            index.node(name, Some(node(4_000, 64, 10)));
        }
        let both = |index: &mut Index, question: &Question| {
            (index.fits(question, Subtracting::Assigned), index.fits(question, Subtracting::Assumed))
        };
        let three = cores("3").parts();
        index.assume("shop/web", "shop", Some((three.clone(), 1)));
        assert_eq!(both(&mut index, &cores("1")), (8, 5));
        index.assume("shop/web", "shop", Some((three.clone(), 2)));
        assert_eq!(both(&mut index, &cores("2")), (4, 0), "one core is left on each node");
        index.assume("shop/more", "shop", Some((three, 5)));
        assert_eq!(both(&mut index, &cores("1")), (8, 2), "what does not fit is not subtracted");
        index.node("a", None);
        assert_eq!(both(&mut index, &cores("1")), (4, 1));
        index.assume("shop/web", "shop", None);
        index.assume("shop/more", "shop", None);
        assert_eq!(both(&mut index, &cores("1")), (4, 4));
        assert_eq!(index.by_name.len(), 1, "nothing is kept for the node that is gone");
        index.quota("shop", "q", Some(Quota::new(&amounts(&[("cpu", 3_000)]), &Units::new(), vec![])));
        index.assume("shop/web", "shop", Some((cores("1").parts(), 1)));
        assert_eq!(both(&mut index, &cores("1")), (3, 2), "quotas count them, too");
    }

    #[test]
    fn changes_tell_what_they_do() {
        let mut index = Index::default();
        assert_eq!(index.node("a", Some(node(1, 1, 1))), Estimate::Grew, "a new node");
        assert_eq!(index.node("a", Some(node(1, 1, 1))), Estimate::Unchanged, "the same");
        assert_eq!(index.node("a", Some(node(0, 1, 1))), Estimate::Shrank, "less of it");
        assert_eq!(index.node("a", Some(Node { unschedulable: true, ..node(0, 1, 1) })), Estimate::Grew, "other facts");
        assert_eq!(index.pod(None, Some(&pod("a", 1))), Estimate::Shrank);
        assert_eq!(index.pod(Some(&pod("a", 1)), Some(&pod("a", 1))), Estimate::Unchanged);
        assert_eq!(index.pod(Some(&pod("a", 1)), None), Estimate::Grew, "a pod ended");
        assert_eq!(index.node("a", None), Estimate::Shrank);
        assert_eq!(index.nodes(), 0);
    }

    #[test]
    fn number_of_kept_answers_is_bounded() {
        let mut index = Index::default();
        index.node("a", Some(node(1_000, 1, 110)));
        for n in 1..=3 * TRACKED_MAX {
            assert_eq!(index.fits(&cores(&format!("{n}m")), Subtracting::Assigned), (1_000 / n as i64).min(110));
            assert_eq!(index.fits(&cores("1"), Subtracting::Assigned), 1);
        }
        assert_eq!(index.tracked.len(), TRACKED_MAX);
    }

    /// One event: a node with its cpu, slots and label, or a pod on one of the nodes.
    #[derive(Debug, Clone)]
    enum Event {
        Node(usize, Option<(i64, i64, bool)>),
        Pod(usize, Option<(usize, i64)>),
        Ask(i64, bool),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0_usize..5, proptest::option::of((0_i64..5_000, 0_i64..6, any::<bool>())))
                .prop_map(|(at, node)| Event::Node(at, node)),
            (0_usize..12, proptest::option::of((0_usize..5, 0_i64..2_000))).prop_map(|(at, pod)| Event::Pod(at, pod)),
            (0_i64..3, any::<bool>()).prop_map(|(cpu, ssd)| Event::Ask(cpu * 700, ssd)),
        ]
    }

    proptest! {
        /// Reference: counts all nodes and pods anew for each question.
        #[test]
        fn index_agrees_with_a_recount(events in prop::collection::vec(event(), 1..80)) {
            let mut index = Index::default();
            let mut nodes: BTreeMap<usize, (i64, i64, bool)> = BTreeMap::new();
            let mut pods: BTreeMap<usize, (usize, i64)> = BTreeMap::new();
            let name = |at: usize| format!("n{at}");
            let as_pod = |(at, cpu): (usize, i64)| pod(&name(at), cpu);
            for event in events {
                match event {
                    Event::Node(at, new) => {
                        let labels = |ssd| if ssd { [("disk".to_owned(), "ssd".to_owned())].into() } else { BTreeMap::new() };
                        index.node(&name(at), new.map(|(cpu, slots, ssd)| Node { labels: labels(ssd), ..node(cpu, 1, slots) }));
                        match new {
                            Some(new) => drop(nodes.insert(at, new)),
                            None => drop(nodes.remove(&at)),
                        }
                    }
                    Event::Pod(at, new) => {
                        let old = pods.get(&at).copied().map(as_pod);
                        index.pod(old.as_ref(), new.map(as_pod).as_ref());
                        match new {
                            Some(new) => drop(pods.insert(at, new)),
                            None => drop(pods.remove(&at)),
                        }
                    }
                    Event::Ask(cpu, ssd) => {
                        let mut needs = json!({"resourceRequest": {"cpu": format!("{cpu}m")}});
                        if ssd {
                            needs["nodeClaim"] = json!({"nodeSelector": {"disk": "ssd"}});
                        }
                        let mut want = 0;
                        for (at, (allocatable, slots, has)) in &nodes {
                            let on: Vec<_> = pods.values().filter(|(node, _)| node == at).collect();
                            let mut left = allocatable - on.iter().map(|(_, cpu)| cpu).sum::<i64>();
                            let mut free = slots - on.len() as i64;
                            while (*has || !ssd) && free > 0 && (cpu == 0 || left >= cpu) {
                                left -= cpu;
                                free -= 1;
                                want += 1;
                            }
                        }
                        prop_assert_eq!(index.fits(&replicas(needs.clone()), Subtracting::Assigned), want);
                        let mut fresh = index.clone();
                        fresh.tracked.clear();
                        let components = json!([{"name": "c", "replicas": 2, "replicaRequirements": needs}]);
                        let set = sets(components);
                        let kept = index.fits(&set, Subtracting::Assigned);
                        prop_assert_eq!(kept, fresh.fits(&set, Subtracting::Assigned));
                        prop_assert_eq!(kept, want / 2, "one component: half as many sets");
                    }
                }
            }
        }
    }
}
