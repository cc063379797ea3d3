//! Nodes and pods of members as they are: what fits, by node. Only cpu is scarce in the simulation.

use std::collections::BTreeMap;

use ironclad_api::quantity::Amount;
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt as _;

/// Nodes and pods of one member.
#[derive(Debug, Clone, Default)]
pub struct Machines {
    /// Millicores, by node.
    nodes: BTreeMap<String, i64>,
    /// Pods that have not ended, by namespace and name.
    pods: BTreeMap<String, Held>,
}

/// Capacity that a pod holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The node; empty while it waits for one.
    node: String,
    millicores: i64,
    /// Workload of the control plane whose replica it is; empty for the member's own.
    app: String,
    is_leaving: bool,
}

fn millicores(list: Option<&BTreeMap<String, Quantity>>) -> i64 {
    let cpu = list.and_then(|list| list.get("cpu"));
    cpu.and_then(|cpu| Amount::try_from(cpu).ok()).map_or(0, Amount::milli_value)
}

impl Held {
    /// Returns the capacity that a pod holds; `None` if it has ended.
    pub fn of(pod: &Pod) -> Option<Self> {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let of = |of: &k8s_openapi::api::core::v1::Container| {
            millicores(of.resources.as_ref().and_then(|needs| needs.requests.as_ref()))
        };
        Some(Self {
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            millicores: containers.map(of).sum(),
            app: pod.labels().get("app").cloned().unwrap_or_default(),
            is_leaving: pod.metadata.deletion_timestamp.is_some(),
        })
    }
}

impl Machines {
    /// Records a node that was added, changed or (`None`) removed.
    pub fn node(&mut self, name: &str, node: Option<&Node>) {
        let allocatable = |node: &Node| millicores(node.status.as_ref().and_then(|s| s.allocatable.as_ref()));
        match node {
            Some(node) => drop(self.nodes.insert(name.to_owned(), allocatable(node))),
            None => drop(self.nodes.remove(name)),
        }
    }

    /// Records a pod that was added, changed or (`None`) removed or ended. Returns whether that is a change.
    pub fn pod(&mut self, name: &str, held: Option<Held>) -> bool {
        match held {
            Some(held) => self.pods.insert(name.to_owned(), held.clone()) != Some(held),
            None => self.pods.remove(name).is_some(),
        }
    }

    /// Returns true if every pod has a node and stays.
    #[must_use]
    pub fn are_settled(&self) -> bool {
        self.pods.values().all(|pod| self.nodes.contains_key(&pod.node) && !pod.is_leaving)
    }

    /// Returns true if pods of a workload wait for a node, and none has room for this many millicores.
    #[must_use]
    pub fn is_short_of(&self, app: &str, millicores: i64) -> bool {
        let waits = |pod: &Held| pod.app == app && pod.node.is_empty();
        self.pods.values().any(waits) && self.free(&|_| false).into_iter().all(|free| free < millicores)
    }

    /// Millicores of pods that wait for a node.
    #[must_use]
    pub fn waiting(&self) -> i64 {
        self.pods.values().filter(|pod| pod.node.is_empty()).map(|pod| pod.millicores).sum()
    }

    /// Pods of a workload that have a node.
    #[must_use]
    pub fn running(&self, app: &str) -> usize {
        self.pods.values().filter(|pod| pod.app == app && !pod.node.is_empty()).count()
    }

    /// Pods of a workload.
    #[must_use]
    pub fn pods_of(&self, app: &str) -> usize {
        self.pods.values().filter(|pod| pod.app == app).count()
    }

    /// Millicores of all nodes.
    #[must_use]
    pub fn millicores(&self) -> i64 {
        self.nodes.values().sum()
    }

    /// Millicores that are free on each node once the pods of these workloads have left.
    #[must_use]
    pub fn free(&self, left: &dyn Fn(&str) -> bool) -> Vec<i64> {
        let taken = |name: &str| -> i64 {
            let here = self.pods.values().filter(|pod| pod.node == name && !left(&pod.app));
            here.map(|pod| pod.millicores).sum()
        };
        self.nodes.iter().map(|(name, all)| all - taken(name)).collect()
    }

    /// The same once every pod has left that is leaving.
    #[must_use]
    pub fn free_in_the_end(&self, left: &dyn Fn(&str) -> bool) -> Vec<i64> {
        let staying =
            self.pods.iter().filter(|(_, pod)| !pod.is_leaving).map(|(name, pod)| (name.clone(), pod.clone()));
        Self { nodes: self.nodes.clone(), pods: staying.collect() }.free(left)
    }

    /// The same once pods that wait for a node and stay have taken what they can.
    #[must_use]
    pub fn free_beside_waiting(&self, left: &dyn Fn(&str) -> bool) -> Vec<i64> {
        let mut free = self.free(left);
        for pod in self.pods.values().filter(|pod| pod.node.is_empty() && !left(&pod.app)) {
            if let Some(node) = free.iter_mut().filter(|free| **free >= pod.millicores).max() {
                *node -= pod.millicores;
            }
        }
        free
    }

    /// Millicores that a workload holds on each node.
    #[must_use]
    pub fn held_by(&self, app: &str) -> Vec<i64> {
        let (with, without) = (self.free(&|_| false), self.free(&|other| other == app));
        without.into_iter().zip(with).map(|(without, with)| without - with).collect()
    }
}

/// Replicas of this size that fit into what nodes have free.
#[must_use]
pub fn fits(free: impl IntoIterator<Item = i64>, millicores: i64) -> i64 {
    free.into_iter().map(|free| free.max(0) / millicores).sum()
}
