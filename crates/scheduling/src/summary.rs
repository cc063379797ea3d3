//! Allocatable and requested resources of a member (specification/scheduling.md 10.4; specification/api.md 2.1
//! `status.resourceSummary`).
//!
//! A [`Ledger`] is updated incrementally: a pod costs its own requests, a summary one walk over the nodes. Unreadable
//! quantities of a pod count as zero.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    ResourceList,
    cluster::{AllocatableModeling, NodeSummary, ResourceModel, ResourceSummary},
    quantity::Amount,
};

/// Resource that counts pods.
const PODS: &str = "pods";

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Amount>;

/// Fields of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// `status.allocatable`.
    pub allocatable: Amounts,
    /// True if its Ready condition is True.
    pub is_ready: bool,
}

/// Fields of a pod that has not ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    /// Node that it is bound to; empty if unscheduled.
    pub node: Arc<str>,
    /// Resource request.
    pub requests: Amounts,
}

/// Nodes, and the requests of their pods.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    nodes: BTreeMap<Arc<str>, Node>,
    /// Requests by node, with a pod counted as one of `pods`; those of unscheduled pods under the empty name.
    asked: BTreeMap<Arc<str>, Amounts>,
}

/// Amounts of a list without unreadable quantities.
#[must_use]
pub fn amounts(list: &ResourceList) -> Amounts {
    list.iter().filter_map(|(name, quantity)| Some((name.clone(), Amount::try_from(quantity).ok()?))).collect()
}

/// Request of a pod with these containers: the sum over containers, or the greatest of the init containers if that is
/// more, and the overhead.
#[must_use]
pub fn requests(containers: &[Amounts], init_containers: &[Amounts], overhead: &Amounts) -> Amounts {
    let mut sum = Amounts::new();
    for container in containers {
        add(&mut sum, container);
    }
    for container in init_containers {
        for (name, amount) in container {
            let entry = sum.entry(name.clone()).or_default();
            *entry = (*entry).max(*amount);
        }
    }
    add(&mut sum, overhead);
    sum
}

fn add(into: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *into.entry(name.clone()).or_default() += *amount;
    }
}

impl Ledger {
    /// Records a node that was added, changed or (`None`) removed.
    pub fn node(&mut self, name: &str, node: Option<Node>) {
        match node {
            Some(node) => self.nodes.insert(name.into(), node),
            None => self.nodes.remove(name),
        };
    }

    /// Records a pod that was added, changed or removed; a terminated pod is `None`.
    pub fn pod(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        if let Some(old) = old {
            let asked = self.asked.entry(old.node.clone()).or_default();
            for (name, amount) in counted(old) {
                *asked.entry(name).or_default() -= amount;
            }
            asked.retain(|_, amount| !amount.is_zero());
            if asked.is_empty() {
                self.asked.remove(&old.node);
            }
        }
        if let Some(new) = new {
            add(self.asked.entry(new.node.clone()).or_default(), &counted(new));
        }
    }

    /// Summaries of nodes and resources; `models` are the cluster's grades, empty if it has none.
    #[must_use]
    pub fn summary(&self, models: &[ResourceModel]) -> (NodeSummary, ResourceSummary) {
        let (mut allocatable, mut allocated, mut grades) = (Amounts::new(), Amounts::new(), vec![0; models.len()]);
        let nothing = Amounts::new();
        for (name, node) in &self.nodes {
            add(&mut allocatable, &node.allocatable);
            if let Some(at) = grade(models, &node.allocatable, self.asked.get(name).unwrap_or(&nothing)) {
                grades[at] += 1;
            }
        }
        for asked in self.asked.iter().filter(|(node, _)| !node.is_empty()).map(|(_, asked)| asked) {
            add(&mut allocated, asked);
        }
        let waiting = self.asked.get("").cloned().unwrap_or_default();
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let nodes = NodeSummary {
            total_num: count(self.nodes.len()),
            ready_num: count(self.nodes.values().filter(|node| node.is_ready).count()),
        };
        let modelings =
            models.iter().zip(grades).map(|(model, count)| AllocatableModeling { grade: model.grade, count });
        let resources = ResourceSummary {
            allocatable: list(allocatable),
            allocating: list(waiting),
            allocated: list(allocated),
            allocatable_modelings: modelings.collect(),
        };
        (nodes, resources)
    }
}

fn counted(pod: &Pod) -> Amounts {
    let mut amounts = pod.requests.clone();
    amounts.retain(|_, amount| !amount.is_zero());
    if let Ok(one) = Amount::parse("1") {
        amounts.insert(PODS.to_owned(), one);
    }
    amounts
}

fn list(amounts: Amounts) -> ResourceList {
    amounts.into_iter().map(|(name, amount)| (name, amount.into())).collect()
}

/// Index of a node's grade in the models: the lowest over the resources of "the last grade whose min is at most what is
/// left". `None` if some resource is below the first grade.
fn grade(models: &[ResourceModel], allocatable: &Amounts, asked: &Amounts) -> Option<usize> {
    let resources: BTreeSet<&str> = models.first()?.ranges.iter().map(|range| range.name.as_str()).collect();
    let of = |resource: &str| {
        let zero = Amount::default();
        let has = allocatable.get(resource).copied().unwrap_or(zero);
        let left = has - asked.get(resource).copied().unwrap_or(zero);
        models.iter().rposition(|model| {
            let range = model.ranges.iter().find(|range| range.name == resource);
            range.and_then(|range| Amount::try_from(&range.min).ok()).is_some_and(|min| min <= left)
        })
    };
    resources.into_iter().map(of).try_fold(usize::MAX, |least, at| Some(least.min(at?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(list: &[(&str, &str)]) -> Amounts {
        list.iter().map(|(name, text)| ((*name).to_owned(), Amount::parse(text).unwrap())).collect()
    }

    fn node(cpu: &str, memory: &str) -> Option<Node> {
        Some(Node { allocatable: of(&[("cpu", cpu), ("memory", memory), ("pods", "110")]), is_ready: true })
    }

    fn pod(node: &str, cpu: &str) -> Pod {
        Pod { node: node.into(), requests: of(&[("cpu", cpu)]) }
    }

    fn models() -> Vec<ResourceModel> {
        serde_json::from_value(json!([
            {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}, {"name": "memory", "min": "0", "max": "4Gi"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}, {"name": "memory", "min": "4Gi", "max": "16Gi"}]},
            {"grade": 2, "ranges": [{"name": "cpu", "min": "2", "max": "9"}, {"name": "memory", "min": "16Gi", "max": "99Gi"}]},
        ]))
        .unwrap()
    }

    #[test]
    fn summary_adds_up_nodes_and_pods() {
        let mut ledger = Ledger::default();
        ledger.node("a", node("4", "8Gi"));
        ledger.node("b", Some(Node { is_ready: false, ..node("2", "4Gi").unwrap() }));
        ledger.pod(None, Some(&pod("a", "500m")));
        ledger.pod(None, Some(&pod("a", "250m")));
        ledger.pod(None, Some(&pod("", "3")));
        let (nodes, resources) = ledger.summary(&[]);
        assert_eq!((nodes.total_num, nodes.ready_num), (2, 1));
        assert_eq!(
            json!(resources),
            json!({
                "allocatable": {"cpu": "6", "memory": "12Gi", "pods": "220"},
                "allocating": {"cpu": "3", "pods": "1"}, "allocated": {"cpu": "750m", "pods": "2"},
            })
        );
        // A pod is bound, another terminates; a removed node takes its allocatable along.
        ledger.pod(Some(&pod("", "3")), Some(&pod("b", "3")));
        ledger.pod(Some(&pod("a", "500m")), None);
        ledger.node("b", None);
        let (nodes, resources) = ledger.summary(&[]);
        assert_eq!(nodes.total_num, 1);
        assert_eq!(json!(resources.allocating), json!({}));
        assert_eq!(json!(resources.allocated), json!({"cpu": "3250m", "pods": "2"}));
    }

    #[test]
    fn nodes_are_graded_by_remaining_resources() {
        for (name, cpu, memory, asked, want) in [
            ("an empty one of the second grade", "1", "4Gi", "0", [0, 1, 0]),
            ("just below it", "999m", "4Gi", "0", [1, 0, 0]),
            ("the weaker resource decides", "8", "4Gi", "0", [0, 1, 0]),
            ("requests of pods reduce the grade", "2", "16Gi", "1", [0, 1, 0]),
            ("the last grade has no end", "64", "999Gi", "0", [0, 0, 1]),
            ("overcommitted: not counted", "1", "4Gi", "2", [0, 0, 0]),
        ] {
            let mut ledger = Ledger::default();
            ledger.node("a", node(cpu, memory));
            ledger.pod(None, Some(&pod("a", asked)));
            let counts: Vec<i64> =
                ledger.summary(&models()).1.allocatable_modelings.iter().map(|modeling| modeling.count).collect();
            assert_eq!(counts, want, "{name}");
        }
    }

    #[test]
    fn request_of_a_pod() {
        let two = [of(&[("cpu", "100m"), ("memory", "1Gi")]), of(&[("cpu", "200m")])];
        for (name, init, overhead, want) in [
            ("the sum", vec![], of(&[]), of(&[("cpu", "300m"), ("memory", "1Gi")])),
            ("a greater init container", vec![of(&[("cpu", "1")])], of(&[]), of(&[("cpu", "1"), ("memory", "1Gi")])),
            ("a smaller one", vec![of(&[("cpu", "50m")])], of(&[]), of(&[("cpu", "300m"), ("memory", "1Gi")])),
            ("the overhead", vec![], of(&[("cpu", "10m")]), of(&[("cpu", "310m"), ("memory", "1Gi")])),
        ] {
            assert_eq!(requests(&two, &init, &overhead), want, "{name}");
        }
    }
}
