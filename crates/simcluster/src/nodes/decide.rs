//! Decision about the nodes of a member, and their status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use crate::{kubelet::host_ip, options::Shape};

/// Kubelet version in the status of nodes.
const KUBELET_VERSION: &str = "v1.36.3";
/// Label of the nodes that this crate created: others are ignored.
pub(crate) const OURS: &str = "sim.ironclad.io/node";

pub(crate) fn name(member: &str, number: u32) -> String {
    format!("{member}-node-{number}")
}

pub(crate) fn number(member: &str, node: &str) -> Option<u32> {
    node.strip_prefix(member)?.strip_prefix("-node-")?.parse().ok()
}

pub(crate) fn wanted(member: &str, shape: &Shape, number: u32, now: Timestamp) -> Node {
    let name = name(member, number);
    let own = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        (OURS, "true"),
    ];
    let mut labels = shape.node_labels.clone();
    labels.extend(own.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())));
    Node {
        metadata: ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() },
        spec: None,
        status: Some(status(shape, number, now)),
    }
}

fn status(shape: &Shape, number: u32, now: Timestamp) -> NodeStatus {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    NodeStatus {
        capacity: Some(offered(shape)),
        allocatable: Some(offered(shape)),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ]),
        addresses: Some(vec![NodeAddress { type_: "InternalIP".into(), address: host_ip(number) }]),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".into(),
            operating_system: "linux".into(),
            os_image: "simulated".into(),
            kernel_version: "simulated".into(),
            container_runtime_version: "simulated://1".into(),
            kubelet_version: KUBELET_VERSION.into(),
            kube_proxy_version: KUBELET_VERSION.into(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// The capacity of each node. Like every kubelet it offers ephemeral storage, also if the shape does not name it.
fn offered(shape: &Shape) -> BTreeMap<String, Quantity> {
    let mut capacity = shape.capacity.clone();
    capacity.entry("ephemeral-storage".to_owned()).or_insert_with(|| Quantity("100Gi".to_owned()));
    capacity
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Leave,
    Create,
    Delete,
    /// Set these labels, and write the status if `status`.
    Change {
        labels: BTreeMap<String, String>,
        status: bool,
    },
}

pub(crate) fn decide(member: &str, shape: &Shape, node: &str, seen: Option<&Node>) -> Step {
    let number = number(member, node).filter(|n| (1..=shape.nodes).contains(n));
    let ours = |n: &Node| n.metadata.labels.as_ref().is_some_and(|l| l.contains_key(OURS));
    match (number, seen) {
        (Some(_), None) => Step::Create,
        (Some(number), Some(seen)) => change(member, shape, number, seen),
        (None, Some(seen)) if ours(seen) && seen.metadata.deletion_timestamp.is_none() => Step::Delete,
        (None, _) => Step::Leave,
    }
}

fn change(member: &str, shape: &Shape, number: u32, seen: &Node) -> Step {
    let wanted = wanted(member, shape, number, Timestamp::UNIX_EPOCH).metadata.labels.unwrap_or_default();
    let none = BTreeMap::new();
    let has = seen.metadata.labels.as_ref().unwrap_or(&none);
    let missing = wanted.iter().filter(|(k, v)| has.get(*k) != Some(v)).map(|(k, v)| (k.clone(), v.clone()));
    let labels: BTreeMap<_, _> = missing.collect();
    let status = seen.status.as_ref();
    let right = status.is_some_and(|s| {
        let ready = s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        ready && s.allocatable.as_ref() == Some(&offered(shape))
    });
    if labels.is_empty() && right { Step::Leave } else { Step::Change { labels, status: !right } }
}

/// Returns the merge patch to the desired status; removed resources become null.
pub(crate) fn status_patch(seen: &Node, wanted: &Node) -> Value {
    let mut patch = json!(wanted.status);
    let before = seen.status.as_ref();
    let lists = [
        ("capacity", before.and_then(|s| s.capacity.as_ref())),
        ("allocatable", before.and_then(|s| s.allocatable.as_ref())),
    ];
    for (field, list) in lists {
        for resource in list.into_iter().flatten().map(|(name, _)| name) {
            if patch[field].get(resource).is_none() {
                patch[field][resource] = Value::Null;
            }
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        let shape = Shape { nodes: 2, ..Shape::default() };
        let node = |n| wanted("m", &shape, n, Timestamp::UNIX_EPOCH);
        let mut small = node(1);
        small.status.as_mut().unwrap().allocatable = Some([("cpu".to_owned(), Quantity("1".into()))].into());
        let mut bare = node(1);
        bare.status = None;
        let mut foreign = node(1);
        foreign.metadata.labels = None;
        for (name, of, seen, want) in [
            ("a missing node is created", "m-node-1", None, Step::Create),
            ("an up-to-date node is left alone", "m-node-2", Some(node(2)), Step::Leave),
            ("a surplus node is deleted", "m-node-3", Some(node(3)), Step::Delete),
            ("a surplus node is not created", "m-node-3", None, Step::Leave),
            ("a foreign node is left alone", "other", Some(foreign), Step::Leave),
            (
                "changed capacity updates the status",
                "m-node-1",
                Some(small),
                Step::Change { labels: BTreeMap::new(), status: true },
            ),
            (
                "a missing status is written again",
                "m-node-1",
                Some(bare),
                Step::Change { labels: BTreeMap::new(), status: true },
            ),
        ] {
            assert_eq!(decide("m", &shape, of, seen.as_ref()), want, "{name}");
        }
        let zoned = Shape { node_labels: [("zone".to_owned(), "a".to_owned())].into(), ..shape.clone() };
        let want = Step::Change { labels: [("zone".to_owned(), "a".to_owned())].into(), status: false };
        assert_eq!(decide("m", &zoned, "m-node-1", Some(&node(1))), want, "changed labels are patched");
    }

    #[test]
    fn every_node_offers_ephemeral_storage() {
        let named = |storage: Option<&str>| Shape {
            capacity: storage.map(|s| ("ephemeral-storage".to_owned(), Quantity(s.to_owned()))).into_iter().collect(),
            ..Shape::default()
        };
        for (shape, want) in [(Shape::default(), "100Gi"), (named(None), "100Gi"), (named(Some("5Gi")), "5Gi")] {
            let node = wanted("m", &shape, 1, Timestamp::UNIX_EPOCH);
            assert_eq!(decide("m", &shape, "m-node-1", Some(&node)), Step::Leave);
            let status = node.status.unwrap();
            for list in [status.capacity, status.allocatable] {
                assert_eq!(list.unwrap()["ephemeral-storage"].0, want);
            }
        }
    }

    #[test]
    fn removed_resources_become_null() {
        let shape = Shape::default();
        let now = wanted("m", &shape, 1, Timestamp::UNIX_EPOCH);
        let mut more = now.clone();
        let allocatable = more.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.insert("x.io/gpu".into(), Quantity("1".into()));
        let patch = status_patch(&more, &now);
        assert!(patch["allocatable"]["x.io/gpu"].is_null() && patch["allocatable"].get("x.io/gpu").is_some());
        assert_eq!(patch["capacity"].get("x.io/gpu"), None);
    }
}
