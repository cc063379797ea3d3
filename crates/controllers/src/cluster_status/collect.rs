//! Sums of the nodes and pods of a member, in the cluster's status (specification/scheduling.md 10.4).
//!
//! Two watches keep only the fields that the sums need. Nothing is listed again, and nothing is written while the sums
//! are the same.

use std::{sync::Arc, time::Duration};

use ironclad_api::{ObjectMeta, ResourceList, cluster::Cluster, conditions};
use ironclad_failover::cluster::nodes;
use ironclad_fleet::{StatusPart, gates::Gate};
use ironclad_runtime::{Change, Informer, Key, StatusWriter, WatchScope};
use ironclad_scheduling::summary::{self, Ledger};
use ironclad_seam::Seam;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tokio::sync::Notify;

use crate::{members::Member, settings::Settings, setup::Setup, targets::Typed};

/// Time between two writes of changing sums.
const EVERY: Duration = Duration::from_secs(10);

/// The condition of a node that accepts pods.
const NODE_READY: &str = "Ready";

/// The fields of a Pod that the sums need.
#[derive(Debug, Clone, Deserialize)]
struct Pod {
    #[serde(default, deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: ResourceList,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: ResourceList,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

/// The fields of a Node that the sums need.
#[derive(Debug, Clone, Deserialize)]
struct Node {
    #[serde(default, deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: ResourceList,
    conditions: Vec<NodeCondition>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

/// Keeps the name and version of an object. Labels, annotations and owners are most of a small one.
fn identity<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    let whole = ObjectMeta::deserialize(metadata)?;
    Ok(ObjectMeta {
        name: whole.name,
        namespace: whole.namespace,
        uid: whole.uid,
        resource_version: whole.resource_version,
        ..ObjectMeta::default()
    })
}

macro_rules! core_kind {
    ($kind:ident, $name:literal, $plural:literal, $scope:ty) => {
        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $name.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                "".into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
core_kind!(Pod, "Pod", "pods", kube::core::NamespaceResourceScope);
core_kind!(Node, "Node", "nodes", kube::core::ClusterResourceScope);

impl Pod {
    /// Its contribution to the sums; `None` once it has ended.
    fn counted(&self) -> Option<summary::Pod> {
        if matches!(self.status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let of = |containers: &[Container]| -> Vec<summary::Amounts> {
            containers.iter().map(|container| summary::amounts(&container.resources.requests)).collect()
        };
        let overhead = summary::amounts(&self.spec.overhead);
        Some(summary::Pod {
            node: self.spec.node_name.as_str().into(),
            requests: summary::requests(&of(&self.spec.containers), &of(&self.spec.init_containers), &overhead),
        })
    }
}

impl Node {
    fn counted(&self) -> summary::Node {
        let ready = |c: &NodeCondition| c.type_ == NODE_READY && c.status == conditions::TRUE;
        summary::Node {
            allocatable: summary::amounts(&self.status.allocatable),
            is_ready: self.status.conditions.iter().any(ready),
        }
    }
}

/// The sums of one member, and the notification of their changes.
#[derive(Default)]
struct Sums {
    ledger: Mutex<Ledger>,
    changed: Notify,
}

/// The collection of all members.
pub(super) struct Collector {
    seam: Seam,
    settings: Arc<Settings>,
    clusters: Informer<Cluster>,
    status: StatusWriter<Typed<Cluster>>,
}

impl Collector {
    pub(super) fn new(setup: &Setup) -> Arc<Self> {
        Arc::new(Self {
            seam: setup.seam.clone(),
            settings: setup.settings.clone(),
            clusters: setup.clusters.clone(),
            status: setup.cluster_status.clone(),
        })
    }

    /// Watches nodes and pods of a member as tasks of its connection.
    pub(super) fn start(self: &Arc<Self>, member: &Arc<Member>) {
        if !self.settings.propagation.resource_modeling.is_on() {
            return;
        }
        let sums = Arc::new(Sums::default());
        let (nodes, pods): (Informer<Node>, Informer<Pod>) = (Informer::new(&[]), Informer::new(&[]));
        let shared = sums.clone();
        nodes.on_change(move |change: &Change<Node>| {
            if let Some(node) = change.new.as_ref().or(change.old.as_ref()) {
                shared.ledger.lock().node(&node.name_any(), change.new.as_ref().map(|node| node.counted()));
                shared.changed.notify_one();
            }
        });
        let shared = sums.clone();
        pods.on_change(move |change: &Change<Pod>| {
            let of = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.counted());
            let (old, new) = (of(&change.old), of(&change.new));
            if old != new {
                shared.ledger.lock().pod(old.as_ref(), new.as_ref());
                shared.changed.notify_one();
            }
        });
        let all = WatchScope::default();
        nodes.start("nodes", &self.seam, &member.tasks, Api::all(member.client.clone()), &all);
        pods.start("pods", &self.seam, &member.tasks, Api::all(member.client.clone()), &all);
        let (weak, name, clock) = (Arc::downgrade(self), member.name.clone(), self.seam.clock.clone());
        member.tasks.supervise(&self.seam.clock, "summary", move || {
            let (nodes, pods, sums) = (nodes.clone(), pods.clone(), sums.clone());
            let (weak, name, clock) = (weak.clone(), name.clone(), clock.clone());
            async move {
                nodes.synced().await;
                pods.synced().await;
                loop {
                    let Some(this) = weak.upgrade() else { return };
                    let published = this.publish(&name.0, &sums);
                    drop(this);
                    // A cluster that is not ready is tried again.
                    if published {
                        sums.changed.notified().await;
                    }
                    clock.sleep(EVERY).await;
                }
            }
        });
    }

    /// Requests the sums in the status; false if the cluster is not ready.
    fn publish(&self, name: &str, sums: &Sums) -> bool {
        let ready = |c: &Arc<Cluster>| c.ready() == Some(conditions::TRUE);
        let Some(cluster) = self.clusters.get("", name).filter(ready) else { return false };
        let customized = self.settings.gates.enabled(Gate::CustomizedClusterResourceModeling);
        let models = if customized { cluster.spec.resource_models.as_slice() } else { &[] };
        let (summary, resources) = sums.ledger.lock().summary(models);
        let fields = [("nodeSummary", json!(summary)), ("resourceSummary", json!(resources))];
        let ratio = self.settings.failover.health.nodes_ready_ratio;
        let now = self.seam.clock.wall_seconds();
        let part = StatusPart {
            fields: fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect(),
            conditions: nodes::condition(&cluster, &summary, ratio, now).into_iter().collect(),
        };
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        self.status.request(&Key::new("", name), uid, "clusterResources", part, false);
        true
    }
}
