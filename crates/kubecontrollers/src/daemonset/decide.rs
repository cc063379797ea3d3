//! Decision about a DaemonSet: nodes that get a pod, and pods to replace.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus},
        core::v1::{Node, Pod, PodSpec, Toleration},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::{
    affinity::{accepts, unschedulable_taint, untolerated},
    history::REVISION_LABEL,
    pods::{self, Availability, is_finished, is_terminating, labels, node_of},
    rounding::{Round, resolve},
};

pub(crate) struct Seen {
    pub(crate) set: Arc<DaemonSet>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) hash: String,
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Plan {
    pub(crate) create: Vec<String>,
    pub(crate) delete: Vec<Arc<Pod>>,
    pub(crate) status: DaemonSetStatus,
    pub(crate) idle: bool,
    pub(crate) requeue_at: Option<Timestamp>,
}

/// The tolerations that every pod of a DaemonSet gets, so that it stays on an unhealthy node.
pub(crate) fn tolerations(host_network: bool) -> Vec<Toleration> {
    let toleration = |key: &str, effect: &str| Toleration {
        key: Some(format!("node.kubernetes.io/{key}")),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    let mut all = vec![
        toleration("not-ready", "NoExecute"),
        toleration("unreachable", "NoExecute"),
        toleration("disk-pressure", "NoSchedule"),
        toleration("memory-pressure", "NoSchedule"),
        toleration("pid-pressure", "NoSchedule"),
        toleration("unschedulable", "NoSchedule"),
    ];
    if host_network {
        all.push(toleration("network-unavailable", "NoSchedule"));
    }
    all
}

/// Returns the node of a pod of the set: the one that it is bound to, or the one that its affinity names.
pub(crate) fn node_for(pod: &Pod) -> &str {
    let bound = node_of(pod);
    if !bound.is_empty() {
        return bound;
    }
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()?.node_affinity.as_ref());
    let terms = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let fields = terms.iter().flat_map(|t| &t.node_selector_terms).flat_map(|t| t.match_fields.iter().flatten());
    let names = fields.filter(|f| f.key == "metadata.name").flat_map(|f| f.values.iter().flatten());
    names.map(String::as_str).next().unwrap_or("")
}

/// Fit of a node: it gets a pod, only keeps an existing one, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Runs,
    Keeps,
    No,
}

fn fit(spec: &PodSpec, tolerations: &[Toleration], node: &Node) -> Fit {
    if !accepts(spec, node) || untolerated(node, tolerations, &["NoExecute"]).is_some() {
        return Fit::No;
    }
    let cordoned = node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
    let closed = cordoned && !tolerations.iter().any(|t| crate::affinity::tolerates(t, &unschedulable_taint()));
    if closed || untolerated(node, tolerations, &["NoSchedule"]).is_some() { Fit::Keeps } else { Fit::Runs }
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let set = &*seen.set;
    let spec = set.spec.clone().unwrap_or_default();
    let pod_spec = spec.template.spec.clone().unwrap_or_default();
    let mut tolerated = pod_spec.tolerations.clone().unwrap_or_default();
    tolerated.extend(tolerations(pod_spec.host_network == Some(true)));
    let mut on: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in &seen.pods {
        on.entry(node_for(pod)).or_default().push(pod);
    }
    let mut plan = Plan {
        create: Vec::new(),
        delete: Vec::new(),
        status: DaemonSetStatus::default(),
        idle: false,
        requeue_at: None,
    };
    let going = set.metadata.deletion_timestamp.is_some();
    let mut pods = Vec::new();
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: set.status.as_ref().and_then(|s| s.collision_count),
        conditions: set.status.as_ref().and_then(|s| s.conditions.clone()),
        ..DaemonSetStatus::default()
    };
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let fits: Vec<Fit> = seen.nodes.iter().map(|node| fit(&pod_spec, &tolerated, node)).collect();
    let wanted = number(fits.iter().filter(|fit| **fit == Fit::Runs).count());
    let budget = Budget::of(&spec, wanted);
    let surges = budget.as_ref().is_some_and(|budget| budget.surge > 0);
    let mut surge = Surge { open: budget.as_ref().map_or(0, |budget| budget.surge), candidates: Vec::new() };
    let is_new = |pod: &Pod| labels(&pod.metadata).get(REVISION_LABEL) == Some(&seen.hash);
    let (mut updated, mut available) = (0, 0);
    for (node, fit) in seen.nodes.iter().zip(fits) {
        let name = node.metadata.name.as_deref().unwrap_or("");
        let here = on.remove(name).unwrap_or_default();
        let mut alive: Vec<&Arc<Pod>> =
            here.iter().copied().filter(|p| !is_finished(p) && !is_terminating(p)).collect();
        alive.sort_by_key(|p| (node_of(p).is_empty(), p.metadata.creation_timestamp.clone(), p.metadata.name.clone()));
        plan.delete.extend(here.iter().filter(|p| is_finished(p) && !is_terminating(p)).map(|p| (*p).clone()));
        let stays = alive.first().filter(|_| fit != Fit::No).copied();
        // During a surge, a node has one pod of each template.
        let second = stays.filter(|_| surges && fit == Fit::Runs);
        let second = second.and_then(|first| alive.iter().copied().find(|p| is_new(p) != is_new(first)));
        let kept = |pod: &Arc<Pod>| [stays, second].into_iter().flatten().any(|other| Arc::ptr_eq(other, pod));
        plan.delete.extend(alive.iter().filter(|pod| !kept(pod)).map(|pod| (*pod).clone()));
        match (fit, stays) {
            (Fit::Runs, _) => status.desired_number_scheduled += 1,
            (_, Some(_)) => status.number_misscheduled += 1,
            _ if !alive.is_empty() => status.number_misscheduled += 1,
            _ => {}
        }
        // A terminating pod still occupies the node; create its successor after it is deleted.
        if fit == Fit::Runs && here.iter().all(|p| is_finished(p) && !is_terminating(p)) {
            plan.create.push(name.to_owned());
        }
        let Some(pod) = stays.filter(|_| fit == Fit::Runs) else { continue };
        status.current_number_scheduled += 1;
        updated += i32::from(is_new(pod));
        let availability = pods::availability(pod, min_ready, now);
        status.number_ready += i32::from(availability != Availability::No);
        let successor = second.map(|other| pods::availability(other, min_ready, now));
        for availability in [Some(availability), successor].into_iter().flatten() {
            if let Availability::From(at) = availability {
                plan.requeue_at = Some(plan.requeue_at.map_or(at, |next| next.min(at)));
            }
        }
        available += i32::from(availability == Availability::Yes);
        pods.push((pod, is_new(pod), availability == Availability::Yes));
        if !surges {
            continue;
        }
        let (old, new) = match second {
            Some(other) if is_new(pod) => (Some(other), Some(pod)),
            Some(other) => (Some(pod), Some(other)),
            None if is_new(pod) => (None, Some(pod)),
            None => (Some(pod), None),
        };
        let node = NodePods { node: name, old, new };
        plan.delete.extend(surge.step(&node, |pod| pods::availability(pod, min_ready, now)).cloned());
    }
    plan.create.extend(surge.nodes());
    // Pods on deleted nodes.
    plan.delete.extend(on.into_values().flatten().filter(|p| !is_terminating(p)).cloned());
    let some = |n: i32| (n > 0).then_some(n);
    status.updated_number_scheduled = some(updated);
    status.number_available = some(available);
    status.number_unavailable = some(status.desired_number_scheduled - available);
    if let Some(budget) = budget.filter(|_| !surges) {
        replace(&mut plan, &pods, budget.unavailable - (status.desired_number_scheduled - available));
    }
    if going {
        plan.create.clear();
        plan.delete.clear();
    }
    plan.idle = plan.create.is_empty()
        && plan.delete.is_empty()
        && number(pods.len()) == available
        && status.desired_number_scheduled == available;
    plan.status = status;
    plan
}

/// Pods that a rolling update may add, or take away, at a time.
struct Budget {
    surge: i32,
    unavailable: i32,
}

impl Budget {
    /// The budget of a set that is wanted on this number of nodes; `None` for updates `OnDelete`, which replace
    /// nothing.
    fn of(spec: &DaemonSetSpec, wanted: i32) -> Option<Self> {
        let strategy = spec.update_strategy.as_ref();
        if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
            return None;
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let resolved = |value: Option<&IntOrString>, otherwise: i32| {
            value.map_or(otherwise, |value| resolve(value, wanted, Round::Up))
        };
        let surge = resolved(rolling.and_then(|r| r.max_surge.as_ref()), 0);
        let unavailable = resolved(rolling.and_then(|r| r.max_unavailable.as_ref()), 1);
        // Without a surge the update could not proceed otherwise; with one, old pods go after their successors.
        Some(Self { surge, unavailable: unavailable.max(1) })
    }
}

/// Pods of a node by template.
struct NodePods<'a> {
    node: &'a str,
    old: Option<&'a Arc<Pod>>,
    new: Option<&'a Arc<Pod>>,
}

/// Update that creates the new pod of a node before it deletes the old one.
struct Surge {
    /// New pods that may still be added.
    open: i32,
    /// Nodes with an old pod only, and whether it is available.
    candidates: Vec<(String, bool)>,
}

impl Surge {
    /// Returns the pod of the node to delete.
    fn step<'a>(&mut self, pods: &NodePods<'a>, availability: impl Fn(&Pod) -> Availability) -> Option<&'a Arc<Pod>> {
        match (pods.old, pods.new) {
            (None, _) => None,
            (Some(old), None) => {
                self.candidates.push((pods.node.to_owned(), availability(old) == Availability::Yes));
                None
            }
            (Some(old), Some(new)) => {
                let is_over = availability(new) == Availability::Yes;
                if !is_over {
                    self.open -= 1;
                }
                (is_over || availability(old) == Availability::No).then_some(old)
            }
        }
    }

    /// Returns the nodes that get a new pod beside the old one: those whose old pod is unavailable, and others within
    /// the limit.
    fn nodes(self) -> Vec<String> {
        let mut open = self.open;
        let admitted = self.candidates.into_iter().filter(|(_, is_available)| {
            open -= i32::from(*is_available);
            !*is_available || open >= 0
        });
        admitted.map(|(node, _)| node).collect()
    }
}

/// Deletes old pods: unavailable ones immediately, available ones within `maxUnavailable`.
fn replace(plan: &mut Plan, pods: &[(&Arc<Pod>, bool, bool)], mut may_go: i32) {
    for (pod, _, available) in pods.iter().filter(|(_, is_new, _)| !is_new) {
        if !*available {
            plan.delete.push((*pod).clone());
        } else if may_go > 0 {
            may_go -= 1;
            plan.delete.push((*pod).clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::{
            apps::v1::{DaemonSetUpdateStrategy, RollingUpdateDaemonSet},
            core::v1::{NodeSpec, Taint},
        },
        apimachinery::pkg::apis::meta::v1::Time,
    };
    use kube::ResourceExt as _;

    use super::*;
    use crate::testkit::{PodMaker, at, meta, pod, template};

    fn node(name: &str, taint: &str) -> Arc<Node> {
        let mut node = Node { metadata: meta(name), ..Node::default() };
        if let Some((key, effect)) = taint.split_once(':') {
            let taint = Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
            node.spec = Some(NodeSpec { taints: Some(vec![taint]), ..NodeSpec::default() });
        }
        Arc::new(node)
    }

    fn seen(nodes: Vec<Arc<Node>>, pods: Vec<PodMaker>) -> Seen {
        let spec = DaemonSetSpec { template: template("a", "i"), ..DaemonSetSpec::default() };
        let set = DaemonSet { metadata: meta("ds"), spec: Some(spec), status: None };
        Seen { set: Arc::new(set), nodes, pods: pods.into_iter().map(PodMaker::arc).collect(), hash: "new".into() }
    }

    fn on(node: &str, hash: &str) -> PodMaker {
        pod(&format!("on-{node}")).node(node).label(REVISION_LABEL, hash)
    }

    #[test]
    fn pods_are_created_and_deleted_per_node() {
        let two = || vec![node("a", ""), node("b", "")];
        for (name, nodes, pods, create, delete) in [
            ("one pod on each node", two(), vec![], vec!["a", "b"], vec![]),
            ("a node with a pod gets no second one", two(), vec![on("a", "new").ready(0)], vec!["b"], vec![]),
            ("a terminating pod still occupies the node", two(), vec![on("a", "new").terminating()], vec!["b"], vec![]),
            (
                "a failed one is replaced",
                vec![node("a", "")],
                vec![on("a", "new").phase("Failed")],
                vec!["a"],
                vec!["on-a"],
            ),
            ("a node with a NoSchedule taint gets no pod", vec![node("a", "x:NoSchedule")], vec![], vec![], vec![]),
            (
                "a tainted node keeps its pod",
                vec![node("a", "x:NoSchedule")],
                vec![on("a", "new").ready(0)],
                vec![],
                vec![],
            ),
            (
                "a NoExecute taint removes the pod",
                vec![node("a", "x:NoExecute")],
                vec![on("a", "new").ready(0)],
                vec![],
                vec!["on-a"],
            ),
            (
                "taints of node conditions are tolerated",
                vec![node("a", "node.kubernetes.io/not-ready:NoExecute")],
                vec![],
                vec!["a"],
                vec![],
            ),
            (
                "a pod on a deleted node is deleted",
                vec![node("a", "")],
                vec![on("a", "new"), on("z", "new")],
                vec![],
                vec!["on-z"],
            ),
            (
                "available old pods are replaced one at a time",
                two(),
                vec![on("a", "old").ready(0), on("b", "old").ready(0)],
                vec![],
                vec!["on-a"],
            ),
            (
                "the next old pod waits for the new one",
                two(),
                vec![on("a", "new"), on("b", "old").ready(0)],
                vec![],
                vec![],
            ),
            (
                "unavailable old pods are deleted immediately",
                two(),
                vec![on("a", "old"), on("b", "old")],
                vec![],
                vec!["on-a", "on-b"],
            ),
        ] {
            let plan = decide(&seen(nodes, pods), at(100));
            assert_eq!(plan.create, create, "{name}");
            assert_eq!(plan.delete.iter().map(|p| p.name_any()).collect::<Vec<_>>(), delete, "{name}");
        }
    }

    #[test]
    fn status_counts_pods_by_node_and_template() {
        let nodes = vec![node("a", ""), node("b", ""), node("c", "x:NoSchedule")];
        let pods = vec![on("a", "new").ready(0), on("b", "old"), on("c", "old").ready(0)];
        let status = decide(&seen(nodes, pods), at(100)).status;
        assert_eq!(status.desired_number_scheduled, 2);
        assert_eq!((status.current_number_scheduled, status.number_misscheduled), (2, 1));
        assert_eq!((status.number_ready, status.number_available, status.number_unavailable), (1, Some(1), Some(1)));
        assert_eq!(status.updated_number_scheduled, Some(1));
    }

    #[test]
    fn a_surge_adds_the_new_pod_before_it_deletes_the_old_one() {
        let three = || vec![node("a", ""), node("b", ""), node("c", "")];
        let old = |node: &str| on(node, "old").ready(0);
        let new = |node: &str| pod(&format!("new-{node}")).node(node).label(REVISION_LABEL, "new");
        for (name, surge, pods, create, delete) in [
            ("one node at a time", 1, vec![old("a"), old("b"), old("c")], vec!["a"], vec![]),
            ("as many as the surge", 2, vec![old("a"), old("b"), old("c")], vec!["a", "b"], vec![]),
            ("it waits for the new pod", 1, vec![old("a"), old("b"), old("c"), new("a")], vec![], vec![]),
            (
                "an available new pod replaces the old one, and the next node follows",
                1,
                vec![old("a"), old("b"), old("c"), new("a").ready(0)],
                vec!["b"],
                vec!["on-a"],
            ),
            ("unavailable old pods do not count", 1, vec![on("a", "old"), old("b"), old("c")], vec!["a", "b"], vec![]),
            (
                "an unavailable old pod goes as soon as there is a new one",
                1,
                vec![on("a", "old"), new("a"), new("b").ready(0), new("c").ready(0)],
                vec![],
                vec!["on-a"],
            ),
        ] {
            let mut seen = seen(three(), pods);
            let rolling = RollingUpdateDaemonSet {
                max_surge: Some(IntOrString::Int(surge)),
                max_unavailable: Some(IntOrString::Int(0)),
            };
            Arc::make_mut(&mut seen.set).spec.as_mut().unwrap().update_strategy =
                Some(DaemonSetUpdateStrategy { rolling_update: Some(rolling), type_: Some("RollingUpdate".into()) });
            let plan = decide(&seen, at(100));
            assert_eq!(plan.create, create, "{name}");
            assert_eq!(plan.delete.iter().map(|p| p.name_any()).collect::<Vec<_>>(), delete, "{name}");
        }
    }

    #[test]
    fn an_update_on_delete_replaces_nothing() {
        let mut seen = seen(vec![node("a", "")], vec![on("a", "old")]);
        Arc::make_mut(&mut seen.set).spec.as_mut().unwrap().update_strategy =
            Some(DaemonSetUpdateStrategy { rolling_update: None, type_: Some("OnDelete".into()) });
        assert!(decide(&seen, at(100)).delete.is_empty());
    }

    #[test]
    fn a_deleted_set_does_nothing() {
        let mut seen = seen(vec![node("a", "")], vec![]);
        Arc::make_mut(&mut seen.set).metadata.deletion_timestamp = Some(Time(at(1)));
        assert!(decide(&seen, at(2)).create.is_empty());
    }
}
