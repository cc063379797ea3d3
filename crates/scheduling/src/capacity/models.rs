//! Nodes counted by a cluster's resource models, and the pods that fit on them (specification/scheduling.md 10.4).
//!
//! Each counted node has the minimum of its grade and capacity for 110 pods. Resources outside the models are limited
//! by the summary alone.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use ironclad_api::{
    cluster::{AllocatableModeling, ResourceModel},
    quantity::Amount,
};

use smallvec::SmallVec;

use super::demand::{Amounts, Part, Units, in_units};

/// Pods per node, independent of those that already run on it.
const PODS_PER_NODE: i64 = 110;
/// Largest number of complete sets that is computed; larger answers are cut to it.
const SETS_MAX: i64 = 256;

/// Bound of a grade that its nodes are counted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// `ranges.min`: each node has at least this much.
    Least,
    /// `ranges.max`: none has more.
    Most,
}

/// Nodes in groups of equal ones, the smallest grade first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Nodes(Vec<Group>);

/// `count` nodes with this much left.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    left: Units,
    pods: i64,
    count: i64,
}

impl Group {
    /// Number of pods with this request that fit on one of the nodes.
    fn per_node(&self, request: &Units) -> i64 {
        let mut fits = self.pods;
        for (resource, amount) in request.iter().filter(|(_, amount)| **amount > 0) {
            match self.left.get(resource) {
                // Full nodes are the most frequent ones, and a division takes long.
                Some(left) if left < amount => return 0,
                Some(left) => fits = fits.min(left / amount),
                None => {}
            }
        }
        fits.max(0)
    }

    /// Splits off this number of the nodes, each of which receives `pods` pods.
    fn split_off(&mut self, count: i64, request: &Units, pods: i64) -> Self {
        let mut taken = Self { count, ..self.clone() };
        taken.receive(request, pods);
        self.count -= count;
        taken
    }

    /// Places `pods` pods on each of the nodes.
    fn receive(&mut self, request: &Units, pods: i64) {
        for (resource, amount) in &mut self.left {
            let taken = request.get(resource).map_or(0, |asked| asked.saturating_mul(pods));
            *amount = amount.saturating_sub(taken);
        }
        self.pods -= pods;
    }
}

impl Nodes {
    /// Nodes that the cluster counted. `None` without models or with a negative count: the summary alone limits the
    /// estimate then.
    #[must_use]
    pub(super) fn new(models: &[ResourceModel], modelings: &[AllocatableModeling], bound: Bound) -> Option<Self> {
        if models.is_empty() || modelings.is_empty() || modelings.iter().any(|modeling| modeling.count < 0) {
            return None;
        }
        let counts: BTreeMap<u64, i64> = modelings.iter().map(|modeling| (modeling.grade, modeling.count)).collect();
        let mut models: Vec<&ResourceModel> = models.iter().collect();
        models.sort_by_key(|model| model.grade);
        let group = |model: &ResourceModel| {
            let count = counts.get(&model.grade).copied().filter(|count| *count > 0)?;
            let amount = |quantity| Amount::try_from(quantity).unwrap_or_default();
            let left = model.ranges.iter().map(|range| {
                let quantity = if bound == Bound::Least { &range.min } else { &range.max };
                (range.name.as_str(), in_units(&range.name, amount(quantity)))
            });
            let pods = if bound == Bound::Least { PODS_PER_NODE } else { i64::MAX };
            Some(Group { left: left.collect(), pods, count })
        };
        Some(Self(models.into_iter().filter_map(group).collect()))
    }

    /// Number of pods with this request that fit on all nodes together.
    #[must_use]
    pub(super) fn replicas(&self, request: &Units) -> i64 {
        let fits = self.0.iter().map(|group| group.per_node(request).saturating_mul(group.count));
        fits.fold(0, i64::saturating_add)
    }

    /// Number of complete sets that fit, at most `at_most`: each component is spread over the nodes, first fit. The
    /// cost grows with the nodes that are filled, not with the sets that fit on one of them.
    #[must_use]
    pub(super) fn sets(&self, parts: &[Part], at_most: i64) -> i64 {
        let at_most = at_most.min(SETS_MAX);
        let mut nodes = Reduced::new(self, parts);
        if let [(pods, request)] = &nodes.parts[..] {
            return nodes.pods(request).checked_div(*pods).unwrap_or(at_most).clamp(0, at_most.max(0));
        }
        let mut sets = 0;
        while sets < at_most {
            let at_once = nodes.place_on_first_nodes(at_most - sets);
            sets += at_once;
            if at_once == 0 {
                if !nodes.place_set() {
                    break;
                }
                sets += 1;
            }
        }
        sets
    }

    /// Places pods on the nodes, first fit. Returns how many fit. Groups without one of these nodes are not touched.
    pub(super) fn place(&mut self, request: &Units, pods: i64) -> i64 {
        let (mut rest, mut at) = (pods, 0);
        while rest > 0 && at < self.0.len() {
            let group = &mut self.0[at];
            let each = group.per_node(request);
            if each == 0 {
                at = self.joined(at) + 1;
                continue;
            }
            let full = (rest / each).min(group.count);
            rest -= full * each;
            if full == group.count {
                group.receive(request, each);
                at = self.joined(at) + 1;
                continue;
            }
            let full = (full > 0).then(|| group.split_off(full, request, each));
            let part = (rest > 0).then(|| {
                if group.count == 1 {
                    group.receive(request, rest);
                    return None;
                }
                Some(group.split_off(1, request, rest))
            });
            let split: SmallVec<[Group; 2]> = full.into_iter().chain(part.flatten()).collect();
            let end = at + split.len();
            drop(self.0.splice(at..at, split));
            // From behind, as a join moves those behind it.
            for at in (at..=end + 1).rev() {
                self.joined(at);
            }
            return pods;
        }
        self.joined(at);
        pods - rest
    }

    /// Joins a group with the one before it if their nodes are equal. Returns the place of the group afterwards.
    fn joined(&mut self, at: usize) -> usize {
        let pair = at.checked_sub(1).and_then(|before| self.0.get(before..=at));
        let is_equal = pair.is_some_and(|pair| pair[0].left == pair[1].left && pair[0].pods == pair[1].pods);
        if !is_equal {
            return at;
        }
        let group = self.0.remove(at);
        self.0[at - 1].count = self.0[at - 1].count.saturating_add(group.count);
        at - 1
    }
}

/// Amount of a resource that no model limits.
const UNLIMITED: i64 = i64::MAX;

/// Nodes reduced to the resources that a component set requests, in which many sets are placed one after the other.
struct Reduced {
    /// Pods of the components with equal requests, and the request of one; in the order of the first of each.
    parts: SmallVec<[(i64, Amounts); 4]>,
    groups: Vec<ReducedGroup>,
}

/// `count` nodes with these amounts left, in the order of the requested resources.
#[derive(Clone)]
struct ReducedGroup {
    left: Amounts,
    pods: i64,
    count: i64,
}

impl ReducedGroup {
    /// Requested and left amounts of the resources that are requested and limited.
    fn limits<'a>(&'a self, request: &'a Amounts) -> impl Iterator<Item = (i64, i64)> {
        let all = request.iter().copied().zip(self.left.iter().copied());
        all.filter(|(amount, left)| *amount > 0 && *left != UNLIMITED)
    }

    fn per_node(&self, request: &Amounts) -> i64 {
        self.limits(request).map(|(amount, left)| left / amount).fold(self.pods, i64::min).max(0)
    }

    /// Returns whether a pod fits on each of the nodes.
    fn holds_one(&self, request: &Amounts) -> bool {
        self.pods > 0 && self.limits(request).all(|(amount, left)| left >= amount)
    }

    /// Takes these amounts and pods so many times from each of the nodes.
    fn take(&mut self, amounts: &Amounts, pods: i64, times: i64) {
        for (left, amount) in self.left.iter_mut().zip(amounts).filter(|(left, _)| **left != UNLIMITED) {
            *left = left.saturating_sub(amount.saturating_mul(times));
        }
        self.pods = self.pods.saturating_sub(pods.saturating_mul(times));
    }
}

/// Requests of all pods of a set that go to one node.
struct Share {
    /// The first node of this group.
    group: usize,
    amounts: Amounts,
    pods: i64,
}

impl Reduced {
    fn new(nodes: &Nodes, parts: &[Part]) -> Self {
        let requested = parts.iter().flat_map(|part| &part.request).filter(|(_, amount)| **amount > 0);
        let resources: BTreeSet<&str> = requested.map(|(resource, _)| resource).collect();
        let mut reduced = Self { parts: SmallVec::new(), groups: Vec::with_capacity(nodes.0.len() + 2) };
        for part in parts.iter().filter(|part| part.replicas > 0) {
            let amount = |resource: &&str| part.request.get(resource).copied().unwrap_or(0).max(0);
            let request: Amounts = resources.iter().map(amount).collect();
            // Neighbours only: what is between two parts of the same request takes their place otherwise.
            match reduced.parts.last_mut().filter(|(_, last)| *last == request) {
                Some((pods, _)) => *pods = pods.saturating_add(part.replicas),
                None => reduced.parts.push((part.replicas, request)),
            }
        }
        reduced.groups.extend(nodes.0.iter().map(|group| {
            let left = |resource: &&str| group.left.get(resource).copied().unwrap_or(UNLIMITED);
            ReducedGroup { left: resources.iter().map(left).collect(), pods: group.pods, count: group.count }
        }));
        reduced
    }

    /// Number of pods with this request that fit on all nodes together.
    fn pods(&self, request: &Amounts) -> i64 {
        let fits = self.groups.iter().map(|group| group.per_node(request).saturating_mul(group.count));
        fits.fold(0, i64::saturating_add)
    }

    /// Places sets while each component fits as a whole on the first node that holds one of its pods, at most
    /// `at_most` sets. Returns how many. First fit gives the same: nodes in front hold none of these pods and get no
    /// room, and the first ones hold the components of every further set until one of them is full.
    fn place_on_first_nodes(&mut self, at_most: i64) -> i64 {
        let mut shares: SmallVec<[Share; 4]> = SmallVec::new();
        for (pods, request) in &self.parts {
            let Some(group) = self.groups.iter().position(|group| group.holds_one(request)) else { return 0 };
            let all = |amount: &i64| amount.saturating_mul(*pods);
            match shares.iter_mut().find(|share| share.group == group) {
                Some(share) => {
                    share.pods = share.pods.saturating_add(*pods);
                    for (sum, amount) in share.amounts.iter_mut().zip(request) {
                        *sum = sum.saturating_add(all(amount));
                    }
                }
                None => shares.push(Share { group, amounts: request.iter().map(all).collect(), pods: *pods }),
            }
        }
        let sets = |share: &Share| {
            let group = &self.groups[share.group];
            group.limits(&share.amounts).map(|(amount, left)| left / amount).fold(group.pods / share.pods, i64::min)
        };
        let sets = shares.iter().map(sets).fold(at_most, i64::min).max(0);
        if sets == 0 {
            return 0;
        }
        // From behind, as a node that leaves its group moves those behind it.
        shares.sort_unstable_by_key(|share| Reverse(share.group));
        for share in shares {
            let group = &mut self.groups[share.group];
            if group.count > 1 {
                let mut first = ReducedGroup { count: 1, ..group.clone() };
                group.count -= 1;
                first.take(&share.amounts, share.pods, sets);
                self.groups.insert(share.group, first);
            } else {
                group.take(&share.amounts, share.pods, sets);
            }
        }
        sets
    }

    /// Places one set. Returns false if it does not fit completely.
    fn place_set(&mut self) -> bool {
        let Self { parts, groups } = self;
        let is_whole = parts.iter().all(|(pods, request)| place_reduced(groups, request, *pods));
        groups.retain(|group| parts.iter().any(|(_, request)| group.holds_one(request)));
        groups.dedup_by(|next, last| {
            let is_equal = last.left == next.left && last.pods == next.pods;
            if is_equal {
                last.count = last.count.saturating_add(next.count);
            }
            is_equal
        });
        is_whole
    }
}

/// Places pods as [`Nodes::place`] does. Returns whether all fit.
fn place_reduced(groups: &mut Vec<ReducedGroup>, request: &Amounts, pods: i64) -> bool {
    let (mut rest, mut at) = (pods, 0);
    while rest > 0 && at < groups.len() {
        let group = &groups[at];
        if !group.holds_one(request) {
            at += 1;
            continue;
        }
        let each = group.per_node(request);
        let full = (rest / each).min(group.count);
        rest -= full * each;
        let part = if full < group.count { rest } else { 0 };
        rest -= part;
        let untouched = ReducedGroup { count: group.count - full - i64::from(part > 0), ..group.clone() };
        let piece = |count, pods| {
            let mut piece = ReducedGroup { count, ..untouched.clone() };
            piece.take(request, 1, pods);
            piece
        };
        let pieces = [(full, each), (i64::from(part > 0), part)];
        let mut pieces: SmallVec<[ReducedGroup; 3]> =
            pieces.into_iter().filter(|(count, _)| *count > 0).map(|(count, pods)| piece(count, pods)).collect();
        if untouched.count > 0 {
            pieces.push(untouched);
        }
        let next = at + pieces.len();
        groups.splice(at..=at, pieces);
        at = next;
    }
    rest <= 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Grades with this much cpu (in cores) and memory, and the number of nodes of each.
    fn nodes(grades: &[(&str, Option<&str>, i64)]) -> Nodes {
        let model = |(grade, (cpu, memory, _)): (usize, &(&str, Option<&str>, i64))| {
            let mut ranges = vec![json!({"name": "cpu", "min": cpu, "max": "999"})];
            ranges.extend(memory.map(|memory| json!({"name": "memory", "min": memory, "max": "999Ti"})));
            json!({"grade": grade, "ranges": ranges})
        };
        let models: Vec<ResourceModel> =
            grades.iter().enumerate().map(|row| serde_json::from_value(model(row)).unwrap()).collect();
        let counts = grades.iter().enumerate();
        let counts: Vec<_> =
            counts.map(|(grade, (_, _, count))| AllocatableModeling { grade: grade as u64, count: *count }).collect();
        Nodes::new(&models, &counts, Bound::Least).unwrap()
    }

    fn request(cpu: &str, memory: &str) -> Units {
        let list = [("cpu", cpu), ("memory", memory)].into_iter().filter(|(_, text)| !text.is_empty());
        list.map(|(name, text)| (name, in_units(name, Amount::parse(text).unwrap()))).collect()
    }

    #[test]
    fn worked_examples() {
        let by_cpu = [("0", None, 1), ("1", None, 1), ("2", None, 1)];
        let by_both = [("0", Some("0"), 1), ("1", Some("1Gi"), 1), ("2", Some("2Gi"), 1)];
        for (name, grades, asked, want) in [
            ("cpu 1.5", &by_cpu, request("1.5", ""), 1),
            ("cpu 3", &by_cpu, request("3", ""), 0),
            ("cpu 1, memory 1.5Gi", &by_both, request("1", "1.5Gi"), 1),
            ("cpu 1, memory 2.5Gi", &by_both, request("1", "2.5Gi"), 0),
            ("every node is divided by itself", &by_both, request("500m", "512Mi"), 2 + 4),
            ("a resource without a model is the summary's business", &by_cpu, request("2", "64Gi"), 1),
            ("nothing in particular: 110 pods a node", &by_cpu, Units::new(), 330),
        ] {
            assert_eq!(nodes(grades).replicas(&asked), want, "{name}");
        }
        assert_eq!(nodes(&[("4", None, 0)]).replicas(&request("1", "")), 0, "no node of that grade");
    }

    #[test]
    fn missing_or_invalid_models_give_no_nodes() {
        let model: ResourceModel =
            serde_json::from_value(json!({"grade": 0, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]})).unwrap();
        let count = |grade, count| AllocatableModeling { grade, count };
        let of = |models: &[ResourceModel], counts: &[AllocatableModeling]| {
            Nodes::new(models, counts, Bound::Least).map(|nodes| nodes.replicas(&request("1", "")))
        };
        assert_eq!(of(&[], &[count(0, 3)]), None, "no models in the spec");
        assert_eq!(of(std::slice::from_ref(&model), &[]), None, "nothing counted yet");
        assert_eq!(of(std::slice::from_ref(&model), &[count(0, -1)]), None, "a count below nothing");
        assert_eq!(
            of(&[model], &[count(0, 3), count(7, 9)]),
            Some(3),
            "grades that the spec does not know are skipped"
        );
    }

    #[test]
    fn the_upper_bound_of_a_grade_limits_each_node() {
        let models: Vec<ResourceModel> = serde_json::from_value(json!([
            {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "4"}]},
        ]))
        .unwrap();
        let of = |counts: [i64; 2], cpu: &str| {
            let counts = [(0, counts[0]), (1, counts[1])];
            let counts = counts.map(|(grade, count)| AllocatableModeling { grade, count });
            Nodes::new(&models, &counts, Bound::Most).unwrap().replicas(&request(cpu, ""))
        };
        assert_eq!(of([3, 0], "3"), 0, "the sum is 6, and no node has more than 2");
        assert_eq!(of([3, 2], "3"), 2);
        assert_eq!(of([1, 1], "1m"), 6_000, "the number of pods of a node is not known");
    }

    #[test]
    fn only_complete_sets_count() {
        let set = |rows: &[(i64, &str)]| -> Vec<Part> {
            rows.iter().map(|(replicas, cpu)| Part { replicas: *replicas, request: request(cpu, "") }).collect()
        };
        let two_of_four = [("4", None, 2)];
        for (name, grades, parts, at_most, want) in [
            ("a manager and three workers", &two_of_four, set(&[(1, "1"), (3, "1")]), 9, 2),
            ("a component is spread over nodes", &two_of_four, set(&[(4, "2")]), 9, 1),
            ("the sum would fit, the pieces do not", &two_of_four, set(&[(2, "3"), (1, "2")]), 9, 0),
            ("no more than asked", &two_of_four, set(&[(1, "1m")]), 3, 3),
            ("nobody is asked for thousands", &[("4", None, 2_000)], set(&[(1, "1m")]), i64::MAX, SETS_MAX),
        ] {
            assert_eq!(nodes(grades).sets(&parts, at_most), want, "{name}");
        }
    }

    proptest! {
        /// Reference: places each component of each set with [`Nodes::place`].
        #[test]
        fn sets_are_those_of_pods_placed_one_after_the_other(
            grades in prop::collection::vec((0_i64..9, 0_i64..9, 0_i64..4), 1..5), times in prop::sample::select(vec![1, 7, 40]),
            parts in prop::collection::vec((0_i64..5, 0_i64..4, 0_i64..4), 1..4),
            used in prop::collection::vec((0_i64..4, 0_i64..9), 0..3), at_most in 0_i64..300,
        ) {
            let rows = grades.iter().map(|(cpu, memory, count)| ((times * cpu).to_string(), (times * memory).to_string(), *count));
            let rows: Vec<_> = rows.collect();
            let rows: Vec<_> = rows.iter().map(|(cpu, memory, count)| (cpu.as_str(), Some(memory.as_str()), *count)).collect();
            let mut slow = nodes(&rows);
            for (cpu, pods) in used {
                slow.place(&request(&cpu.to_string(), ""), pods);
            }
            let part = |(replicas, cpu, memory): &(i64, i64, i64)| {
                let mut request = request(&cpu.to_string(), &memory.to_string());
                request.insert("gpu", *cpu);
                Part { replicas: *replicas, request }
            };
            let parts: Vec<Part> = parts.iter().map(part).collect();
            let fast = slow.sets(&parts, at_most);
            let mut fits = |_: &i64| parts.iter().all(|part| slow.place(&part.request, part.replicas) == part.replicas);
            prop_assert_eq!(fast, (0..at_most.min(SETS_MAX)).take_while(&mut fits).count() as i64);
        }

        /// Reference: places replica by replica on node by node, as upstream counts.
        #[test]
        fn division_agrees_with_the_slow_simulation(
            grades in prop::collection::vec((0_i64..5, 0_i64..5), 1..5), steps in prop::collection::vec((0_i64..4, 0_i64..60), 1..5),
        ) {
            let rows: Vec<_> = grades.iter().map(|(cpu, count)| (cpu.to_string(), None, *count)).collect();
            let rows: Vec<_> = rows.iter().map(|(cpu, memory, count)| (cpu.as_str(), *memory, *count)).collect();
            let mut slow: Vec<(i64, i64)> =
                grades.iter().flat_map(|(cpu, count)| (0..*count).map(|_| (*cpu, PODS_PER_NODE))).collect();
            let mut fast = nodes(&rows);
            for (cpu, pods) in steps {
                let asked = request(&cpu.to_string(), "");
                let mut placed = 0;
                while placed < pods {
                    let Some(node) = slow.iter_mut().find(|(left, pods)| *pods > 0 && *left >= cpu) else { break };
                    *node = (node.0 - cpu, node.1 - 1);
                    placed += 1;
                }
                let all = fast.replicas(&asked);
                prop_assert_eq!(fast.place(&asked, pods), placed);
                prop_assert_eq!(placed, all.min(pods));
                prop_assert_eq!(fast.replicas(&asked), all - placed, "placing uses exactly the placed amount");
                let cpu_of = |group: &Group| group.left.get("cpu").copied().unwrap_or_default() / 1000;
                let each = |group: &Group| std::iter::repeat_n((cpu_of(group), group.pods), group.count as usize);
                prop_assert_eq!(&fast.0.iter().flat_map(each).collect::<Vec<_>>(), &slow, "node by node");
                let is_joined = |pair: &[Group]| pair[0].left != pair[1].left || pair[0].pods != pair[1].pods;
                prop_assert!(grades.windows(2).any(|pair| pair[0].0 >= pair[1].0) || fast.0.windows(2).all(is_joined));
            }
        }
    }
}
