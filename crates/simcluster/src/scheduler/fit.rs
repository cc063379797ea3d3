//! Choice of a node for a pod, or the reason why no node fits.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use ironclad_kubecontrollers::affinity::{accepts, matches_term, tolerates, unschedulable_taint, untolerated};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};

use ironclad_kubecontrollers::quantity::Amounts;

use super::host_ports::{HostPort, are_free};

/// A node with its occupied resources.
pub(crate) struct NodeLoad<'a> {
    pub(crate) node: &'a Node,
    pub(crate) allocatable: &'a Amounts,
    pub(crate) taken: &'a Amounts,
    pub(crate) host_ports: &'a BTreeMap<HostPort, usize>,
    /// Pods of the same controller on the node.
    pub(crate) siblings: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placement {
    On(String),
    Nowhere(Refusal),
}

/// Reason why no node fits, with the text of kube-scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    nodes: usize,
    /// Number of nodes by reason.
    reasons: BTreeMap<String, usize>,
    /// Number of nodes on which preemption would not help.
    hopeless: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let all = self.nodes;
        // As in kube-scheduler, each reason becomes a text with its count, and the texts are sorted.
        let mut reasons: Vec<String> = self.reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        reasons.sort();
        write!(f, "0/{all} nodes are available: {}. ", reasons.join(", "))?;
        let mut preemption = Vec::new();
        if self.hopeless < all {
            preemption.push(format!("{} No preemption victims found for incoming pod", all - self.hopeless));
        }
        if self.hopeless > 0 {
            preemption.push(format!("{} Preemption is not helpful for scheduling", self.hopeless));
        }
        preemption.sort();
        write!(f, "no new claims to deallocate, preemption: 0/{all} nodes are available: {}.", preemption.join(", "))
    }
}

struct Objection {
    reasons: Vec<String>,
    hopeless: bool,
}

impl Objection {
    fn hopeless(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], hopeless: true }
    }
}

/// Preference of a node. Lower is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preference<'a> {
    /// Number of untolerated `PreferNoSchedule` taints.
    unwelcome: usize,
    /// Score of the pod's preferred node affinity.
    preferred: Reverse<i64>,
    /// Spread: fewer pods of the same controller.
    siblings: usize,
    /// Share of the node that stays free, in thousandths.
    free: Reverse<i64>,
    name: &'a str,
}

/// Resources and ports that a pod occupies on its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    pub(crate) demand: &'a Amounts,
    pub(crate) host_ports: &'a [HostPort],
}

/// Finds the best of the nodes that the pod fits on.
pub(crate) fn place<'a>(pod: &Pod, needs: Needs<'_>, seats: impl Iterator<Item = NodeLoad<'a>>) -> Placement {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let mut refusal = Refusal::default();
    let mut best: Option<Preference<'a>> = None;
    for seat in seats {
        refusal.nodes += 1;
        match objection(spec, needs, &seat) {
            Some(against) => {
                refusal.hopeless += usize::from(against.hopeless);
                for reason in against.reasons {
                    *refusal.reasons.entry(reason).or_insert(0) += 1;
                }
            }
            None => {
                let preference = preference(spec, needs.demand, &seat);
                if best.as_ref().is_none_or(|b| preference < *b) {
                    best = Some(preference);
                }
            }
        }
    }
    match best {
        Some(best) => Placement::On(best.name.to_owned()),
        None => Placement::Nowhere(refusal),
    }
}

/// Returns the first reason against the node, in the order of kube-scheduler's plugins.
fn objection(spec: &PodSpec, needs: Needs<'_>, seat: &NodeLoad<'_>) -> Option<Objection> {
    let node = seat.node.spec.as_ref();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let unschedulable = unschedulable_taint();
    if node.and_then(|n| n.unschedulable) == Some(true) && !tolerations.iter().any(|t| tolerates(t, &unschedulable)) {
        return Some(Objection::hopeless("node(s) were unschedulable"));
    }
    if untolerated(seat.node, tolerations, &["NoSchedule", "NoExecute"]).is_some() {
        return Some(Objection::hopeless("node(s) had untolerated taint(s)"));
    }
    if !accepts(spec, seat.node) {
        return Some(Objection::hopeless("node(s) didn't match Pod's node affinity/selector"));
    }
    if !are_free(needs.host_ports, seat.host_ports) {
        let reason = "node(s) didn't have free ports for the requested pod ports".to_owned();
        return Some(Objection { reasons: vec![reason], hopeless: false });
    }
    let mut against = Objection { reasons: Vec::new(), hopeless: false };
    for (resource, amount) in needs.demand.iter().filter(|(_, amount)| **amount > 0) {
        let whole = seat.allocatable.get(resource).copied().unwrap_or(0);
        let taken = seat.taken.get(resource).copied().unwrap_or(0);
        if whole.saturating_sub(taken) < *amount {
            let reason =
                if resource == "pods" { "Too many pods".to_owned() } else { format!("Insufficient {resource}") };
            against.reasons.push(reason);
            against.hopeless |= whole < *amount;
        }
    }
    (!against.reasons.is_empty()).then_some(against)
}

fn preference<'a>(spec: &PodSpec, demand: &Amounts, seat: &NodeLoad<'a>) -> Preference<'a> {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let taints = seat.node.spec.as_ref().and_then(|n| n.taints.as_deref()).unwrap_or_default();
    let soft = taints.iter().filter(|t| t.effect == "PreferNoSchedule");
    let preferred = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default();
    Preference {
        unwelcome: soft.filter(|taint| !tolerations.iter().any(|t| tolerates(t, taint))).count(),
        preferred: Reverse(
            preferred.iter().filter(|p| matches_term(&p.preference, seat.node)).map(|p| i64::from(p.weight)).sum(),
        ),
        siblings: seat.siblings,
        free: Reverse(free(demand, seat)),
        name: seat.node.metadata.name.as_deref().unwrap_or(""),
    }
}

/// The mean share of cpu and memory that would stay free, in thousandths.
fn free(demand: &Amounts, seat: &NodeLoad<'_>) -> i64 {
    let share = |resource: &str| {
        let get = |of: &Amounts| i128::from(of.get(resource).copied().unwrap_or(0));
        let whole = get(seat.allocatable);
        let rest = whole - get(seat.taken) - get(demand);
        if whole > 0 { i64::try_from(rest.max(0) * 1_000 / whole).unwrap_or(0) } else { 0 }
    };
    (share("cpu") + share("memory")) / 2
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeSpec, Taint};
    use kube::api::ObjectMeta;

    use super::*;
    use crate::scheduler::host_ports::host_ports;

    fn node(name: &str, labels: &[(&str, &str)], taints: &[(&str, &str)]) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(name.into()),
                labels: Some(labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: Some(
                    taints
                        .iter()
                        .map(|(key, effect)| Taint { key: (*key).into(), effect: (*effect).into(), ..Taint::default() })
                        .collect(),
                ),
                ..NodeSpec::default()
            }),
            status: None,
        }
    }

    fn amounts(cpu: i64, memory: i64, pods: i64) -> Amounts {
        [("cpu".to_owned(), cpu), ("memory".to_owned(), memory), ("pods".to_owned(), pods)].into()
    }

    /// Nodes, and the host ports that are taken on each.
    struct World(Vec<(Node, Amounts, Amounts, usize)>, BTreeMap<HostPort, usize>);

    impl World {
        fn place(&self, pod: &Pod, demand: &Amounts) -> String {
            let seats = self.0.iter().map(|(node, allocatable, taken, siblings)| NodeLoad {
                node,
                allocatable,
                taken,
                host_ports: &self.1,
                siblings: *siblings,
            });
            match place(pod, Needs { demand, host_ports: &host_ports(pod) }, seats) {
                Placement::On(node) => node,
                Placement::Nowhere(refusal) => refusal.to_string(),
            }
        }
    }

    fn nodes(n: usize) -> World {
        World(
            (1..=n).map(|i| (node(&format!("n{i}"), &[], &[]), amounts(1_000, 1_000, 10), Amounts::new(), 0)).collect(),
            BTreeMap::new(),
        )
    }

    fn pod(change: impl FnOnce(&mut PodSpec)) -> Pod {
        let mut spec = PodSpec::default();
        change(&mut spec);
        Pod { spec: Some(spec), ..Pod::default() }
    }

    #[test]
    fn messages_equal_those_of_kube_scheduler() {
        let plain = || pod(|_| {});
        let mut full = nodes(3);
        for (_, _, taken, _) in &mut full.0 {
            *taken = amounts(900, 0, 1);
        }
        let mut crowded = nodes(1);
        crowded.0[0].2 = amounts(0, 0, 10);
        let mut tainted = nodes(1);
        tainted.0[0].0 = node("n1", &[], &[("dedicated", "NoSchedule")]);
        let mut closed = nodes(2);
        closed.0[0].0.spec.as_mut().unwrap().unschedulable = Some(true);
        let not_helpful = |n: usize| {
            format!(
                "no new claims to deallocate, preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."
            )
        };
        let no_victims = |n: usize| {
            format!(
                "no new claims to deallocate, preemption: 0/{n} nodes are available: {n} No preemption victims found for incoming pod."
            )
        };
        let web = serde_json::json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        let with_port = pod(|s| s.containers = serde_json::from_value(web).unwrap());
        let mut occupied = nodes(2);
        occupied.1 = host_ports(&with_port).into_iter().map(|port| (port, 1)).collect();
        let selecting = pod(|s| s.node_selector = Some([("disk".to_owned(), "ssd".to_owned())].into()));
        for (name, world, pod, demand, want) in [
            ("no nodes", nodes(0), plain(), amounts(1, 0, 1), "no nodes available to schedule pods".to_owned()),
            (
                "all nodes are full",
                full,
                plain(),
                amounts(200, 0, 1),
                format!("0/3 nodes are available: 3 Insufficient cpu. {}", no_victims(3)),
            ),
            (
                "no node is large enough",
                nodes(3),
                plain(),
                amounts(2_000, 0, 1),
                format!("0/3 nodes are available: 3 Insufficient cpu. {}", not_helpful(3)),
            ),
            (
                "two resources are missing",
                nodes(1),
                plain(),
                amounts(2_000, 2_000, 1),
                format!("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. {}", not_helpful(1)),
            ),
            (
                "too many pods",
                crowded,
                plain(),
                amounts(1, 0, 1),
                format!("0/1 nodes are available: 1 Too many pods. {}", no_victims(1)),
            ),
            (
                "no node has the label",
                nodes(2),
                selecting,
                amounts(1, 0, 1),
                format!(
                    "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. {}",
                    not_helpful(2)
                ),
            ),
            (
                "a host port is taken",
                occupied,
                with_port,
                amounts(1, 0, 1),
                format!(
                    "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports. {}",
                    no_victims(2)
                ),
            ),
            (
                "a taint",
                tainted,
                plain(),
                amounts(1, 0, 1),
                format!("0/1 nodes are available: 1 node(s) had untolerated taint(s). {}", not_helpful(1)),
            ),
            (
                "one cordoned, one too small",
                closed,
                plain(),
                amounts(2_000, 0, 1),
                format!(
                    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. {}",
                    not_helpful(2)
                ),
            ),
        ] {
            assert_eq!(world.place(&pod, &demand), want, "{name}");
        }
    }

    #[test]
    fn a_message_recorded_from_kube_scheduler() {
        // v1.36.3, three nodes: one full, one tainted, one cordoned.
        let mut world = nodes(3);
        world.0[0].2 = amounts(900, 0, 10);
        world.0[1].0 = node("n2", &[], &[("dedicated", "NoSchedule")]);
        world.0[2].0.spec.as_mut().unwrap().unschedulable = Some(true);
        let want = "0/3 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) had untolerated taint(s), \
                    1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 1 No \
                    preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.";
        assert_eq!(world.place(&pod(|_| {}), &amounts(500, 0, 1)), want);
    }

    #[test]
    fn preferences() {
        let demand = amounts(100, 100, 1);
        let plain = pod(|_| {});
        assert_eq!(nodes(3).place(&plain, &demand), "n1", "ties by name");
        let mut world = nodes(3);
        world.0[0].2 = amounts(500, 0, 1);
        assert_eq!(world.place(&plain, &demand), "n2", "the emptier node");
        world.0[1].3 = 1;
        world.0[2].3 = 1;
        assert_eq!(world.place(&plain, &demand), "n1", "spread before emptiness");
        world.0[0].0 = node("n1", &[], &[("slow", "PreferNoSchedule")]);
        assert_eq!(world.place(&plain, &demand), "n2", "a PreferNoSchedule taint");
    }
}
