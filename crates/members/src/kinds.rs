//! Kinds of a member, with the fields that sums, estimates, autoscalers and metrics need, and their caches. Everything
//! else is dropped when an object is read: there may be a hundred thousand pods.

use std::sync::Arc;

use ironclad_api::{
    NodeSelector, ObjectMeta, ResourceList, Shared, StringMap, Taint, Toleration, conditions, names, quantity::Amount,
    shared::Pool, work::NodeClaim,
};
use ironclad_hpa::pods as hpa;
use ironclad_runtime::{Api, CacheSpec, Scope, Transform, WatchScope};
use ironclad_scheduling::{
    capacity::demand::{Units, in_units, units},
    estimator, summary,
};
use jiff::Timestamp;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};

/// Condition of a node that accepts pods, and of a pod that serves.
const READY: &str = "Ready";
/// Condition of a pod that has a node.
const POD_SCHEDULED: &str = "PodScheduled";
/// Reason of [`POD_SCHEDULED`] if no node fits.
const UNSCHEDULABLE: &str = "Unschedulable";
/// Bytes of the scheduler's message about a pod that are kept.
const MESSAGE_MAX: usize = 300;
/// Annotation of a ReplicaSet: number of its revision of the Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// Label of a pod of a Deployment: the end of the name of its ReplicaSet.
const TEMPLATE_HASH: &str = "pod-template-hash";
/// Kind whose pods count as its replicas after they have ended.
const JOB: &str = "Job";

#[derive(Debug, Clone, Deserialize)]
#[serde(from = "DecodedPod")]
pub struct Pod {
    /// Name, versions, deletion and the owner that controls it.
    metadata: ObjectMeta,
    /// Pods of one workload share them in a cache, as they do what they request.
    labels: Shared<StringMap>,
    requests: Shared<Requests>,
    node_name: String,
    /// Demands on its node, only while it has none.
    claim: Option<Box<NodeClaim>>,
    status: PodStatus,
}

#[derive(Deserialize)]
struct DecodedPod {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: ResourceList,
    resources: Option<Resources>,
    node_selector: StringMap,
    affinity: Option<Affinity>,
    tolerations: Vec<Toleration>,
}

/// Resources that a pod requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Requests {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: ResourceList,
    /// Those of the pod as a whole.
    whole: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    restart_policy: Option<String>,
    resources: Resources,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Resources {
    requests: ResourceList,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    start_time: Option<Timestamp>,
    conditions: PodConditions,
}

/// Conditions that are read.
#[derive(Debug, Clone, Default)]
struct PodConditions {
    ready: Option<hpa::Readiness>,
    /// Present if the scheduler finds no node.
    unschedulable: Option<Box<Unschedulable>>,
}

/// Condition of a pod for which the scheduler finds no node.
#[derive(Debug, Clone)]
struct Unschedulable {
    since: Timestamp,
    message: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<Timestamp>,
}

/// A pod for which the member's scheduler finds no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutNode<'p> {
    /// Namespace of the pod and of its workload.
    pub namespace: &'p str,
    /// Name of the binding that a template of this workload has.
    pub binding: String,
    /// Name of the pod.
    pub pod: &'p str,
    /// Message of the scheduler, cut.
    pub message: &'p str,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Node {
    #[serde(default, deserialize_with = "identity_and_labels")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: ResourceList,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

/// A ReplicaSet.
#[derive(Debug, Clone, Deserialize)]
pub struct ReplicaSet {
    #[serde(default, deserialize_with = "identity_and_revision")]
    metadata: ObjectMeta,
}

/// A ResourceQuota.
#[derive(Debug, Clone, Deserialize)]
pub struct ResourceQuota {
    #[serde(default, deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: QuotaSpec,
    #[serde(default)]
    status: QuotaStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QuotaSpec {
    scopes: Vec<String>,
    scope_selector: Selector,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Expression {
    scope_name: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct QuotaStatus {
    hard: ResourceList,
    used: ResourceList,
}

/// Keeps the name and version of an object.
fn identity<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    ObjectMeta::deserialize(metadata).map(|whole| stripped(&whole))
}

impl From<DecodedPod> for Pod {
    fn from(DecodedPod { mut metadata, spec, status }: DecodedPod) -> Self {
        let mut owners = metadata.owner_references.take().unwrap_or_default();
        owners.retain(|owner| owner.controller == Some(true));
        let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity);
        let claim = spec.node_name.is_empty().then(|| NodeClaim {
            node_selector: spec.node_selector,
            hard_node_affinity: affinity.and_then(|of| of.required_during_scheduling_ignored_during_execution),
            tolerations: spec.tolerations,
        });
        let requests = Requests {
            containers: spec.containers,
            init_containers: spec.init_containers,
            overhead: spec.overhead,
            whole: spec.resources.unwrap_or_default().requests,
        };
        Self {
            labels: metadata.labels.take().unwrap_or_default().into(),
            metadata: ObjectMeta {
                owner_references: (!owners.is_empty()).then_some(owners),
                deletion_timestamp: metadata.deletion_timestamp.take(),
                ..stripped(&metadata)
            },
            requests: requests.into(),
            node_name: spec.node_name,
            claim: claim.map(Box::new),
            status,
        }
    }
}

fn identity_and_labels<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    let mut whole = ObjectMeta::deserialize(metadata)?;
    Ok(ObjectMeta { labels: whole.labels.take(), ..stripped(&whole) })
}

fn identity_and_revision<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    let mut whole = ObjectMeta::deserialize(metadata)?;
    let annotations = whole.annotations.take().map(|mut all| {
        all.retain(|key, _| key == REVISION);
        all
    });
    Ok(ObjectMeta { annotations, owner_references: whole.owner_references.take(), ..stripped(&whole) })
}

fn stripped(whole: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: whole.name.clone(),
        namespace: whole.namespace.clone(),
        uid: whole.uid.clone(),
        resource_version: whole.resource_version.clone(),
        ..ObjectMeta::default()
    }
}

impl<'de> Deserialize<'de> for PodConditions {
    fn deserialize<D: Deserializer<'de>>(conditions: D) -> Result<Self, D::Error> {
        let all = Option::<Vec<PodCondition>>::deserialize(conditions)?.unwrap_or_default();
        let ready = all.iter().find(|condition| condition.type_ == READY);
        let ready = ready.map(|condition| hpa::Readiness {
            is_ready: match condition.status.as_str() {
                conditions::TRUE => Some(true),
                conditions::FALSE => Some(false),
                _ => None,
            },
            since: condition.last_transition_time,
        });
        let pending = |c: &PodCondition| {
            c.type_ == POD_SCHEDULED && c.status == conditions::FALSE && c.reason.as_deref() == Some(UNSCHEDULABLE)
        };
        let unschedulable = all.into_iter().find(pending).map(|condition| {
            let mut message = condition.message.unwrap_or_default();
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            let since = condition.last_transition_time.unwrap_or(Timestamp::MIN);
            Box::new(Unschedulable { since, message: message.into_boxed_str() })
        });
        Ok(Self { ready, unschedulable })
    }
}

macro_rules! kind {
    ($kind:ident, $name:literal, $group:literal, $plural:literal, $scope:ty) => {
        ironclad_runtime::objects! { read: $kind }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $name.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
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
kind!(Pod, "Pod", "", "pods", kube::core::NamespaceResourceScope);
kind!(Node, "Node", "", "nodes", kube::core::ClusterResourceScope);
kind!(ReplicaSet, "ReplicaSet", "apps", "replicasets", kube::core::NamespaceResourceScope);
kind!(ResourceQuota, "ResourceQuota", "", "resourcequotas", kube::core::NamespaceResourceScope);

/// Pods for which the scheduler finds no node, by namespace and name of the binding of their workload.
pub const BY_BINDING_WITHOUT_NODE: &str = "bindingWithoutNode";

/// The pods of a member, for everything that a process computes from them.
pub static PODS: CacheSpec<Pod> = CacheSpec {
    name: "pods",
    api: within_scope,
    scope: |_| WatchScope::default(),
    indexes: &[(BY_BINDING_WITHOUT_NODE, |pod| {
        let found = pod.without_node();
        found.map(|found| format!("{}/{}", found.namespace, found.binding)).into_iter().collect()
    })],
    transform: Some(share_in_pods),
};

/// The nodes of a member.
pub static NODES: CacheSpec<Node> = CacheSpec {
    name: "nodes",
    api: |client, _| Api::all(client.clone()),
    scope: |_| WatchScope::default(),
    indexes: &[],
    transform: None,
};

/// The ReplicaSets of a member.
pub static REPLICA_SETS: CacheSpec<ReplicaSet> = CacheSpec {
    name: "replicasets",
    api: within_scope,
    scope: |_| WatchScope::default(),
    indexes: &[],
    transform: None,
};

/// The ResourceQuotas of a member.
pub static RESOURCE_QUOTAS: CacheSpec<ResourceQuota> = CacheSpec {
    name: "resourcequotas",
    api: within_scope,
    scope: |_| WatchScope::default(),
    indexes: &[],
    transform: None,
};

fn within_scope<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    scope.api(client)
}

fn share_in_pods() -> Transform<Pod> {
    let pools: Mutex<(Pool<StringMap>, Pool<Requests>)> = Mutex::default();
    Box::new(move |new, before| {
        let (labels, requests) = &mut *pools.lock();
        labels.share(&mut new.labels, before.map(|pod| &pod.labels));
        requests.share(&mut new.requests, before.map(|pod| &pod.requests));
    })
}

impl Pod {
    /// Its labels.
    #[must_use]
    pub fn labels(&self) -> &StringMap {
        &self.labels
    }

    /// The fields by which autoscalers count it.
    #[must_use]
    pub fn autoscaled(&self) -> hpa::Pod {
        let stays = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
        let sidecars = self.requests.init_containers.iter().filter(stays);
        let requests = self.requests.containers.iter().chain(sidecars).map(|container| hpa::Requests {
            container: container.name.as_str().into(),
            amounts: hpa::amounts(&container.resources.requests),
        });
        let whole = &self.requests.whole;
        hpa::Pod {
            labels: self.labels.clone().into_inner(),
            is_deleted: self.metadata.deletion_timestamp.is_some(),
            phase: hpa::Phase::of(&self.status.phase),
            ready: self.status.conditions.ready,
            started: self.status.start_time,
            requests: requests.collect(),
            whole: (!whole.is_empty()).then(|| hpa::amounts(whole)),
        }
    }

    /// Contribution to the sums of the cluster; `None` once it has ended.
    #[must_use]
    pub fn counted(&self) -> Option<summary::Pod> {
        if self.has_ended() {
            return None;
        }
        let of = |containers: &[Container]| -> Vec<summary::Amounts> {
            containers.iter().map(|container| summary::amounts(&container.resources.requests)).collect()
        };
        let (requests, overhead) = (&self.requests, summary::amounts(&self.requests.overhead));
        Some(summary::Pod {
            node: self.node_name.as_str().into(),
            requests: summary::requests(&of(&requests.containers), &of(&requests.init_containers), &overhead),
        })
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Its share of its node; `None` if it has no node or has ended.
    #[must_use]
    pub fn assigned(&self) -> Option<estimator::Pod> {
        Some(self.observed()).filter(|pod| !pod.has_ended && !pod.node.is_empty())
    }

    /// Its part in the account of the cluster.
    #[must_use]
    pub fn observed(&self) -> estimator::Pod {
        let (namespace, name) =
            (self.metadata.namespace.as_deref().unwrap_or_default(), self.metadata.name.as_deref().unwrap_or_default());
        let counted = self.counted();
        let has_ended = counted.is_none();
        let read = |(name, amount): (&String, &Amount)| (name.clone(), in_units(name, *amount));
        let mut request: Units = counted.iter().flat_map(|pod| &pod.requests).map(read).collect();
        request.retain(|_, amount| *amount != 0);
        let is_leaving = self.metadata.deletion_timestamp.is_some();
        let (kind, owner) = self.owner().unwrap_or(("Pod", name));
        let waits = self.node_name.is_empty() && !has_ended;
        estimator::Pod {
            node: self.node_name.as_str().into(),
            request,
            workload: estimator::Workload::new(kind, namespace, owner),
            has_ended,
            is_leaving,
            is_replica: !is_leaving && (!has_ended || kind == JOB),
            waiting: waits
                .then(|| Box::new((format!("{namespace}/{name}"), estimator::Claim::from(self.claim.as_deref())))),
            found_no_node: waits && self.status.conditions.unschedulable.is_some(),
        }
    }

    /// Kind and name of its workload: the Deployment rather than a ReplicaSet of it.
    fn owner(&self) -> Option<(&str, &str)> {
        let owner = self.metadata.owner_references.as_ref()?.first()?;
        let hash = self.labels.get(TEMPLATE_HASH);
        let deployment = hash.filter(|_| owner.kind == "ReplicaSet");
        let deployment = deployment.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
        Some(deployment.map_or((owner.kind.as_str(), owner.name.as_str()), |name| ("Deployment", name)))
    }

    /// Its workload and the message of the scheduler; `None` unless it waits and the scheduler finds no node for it.
    #[must_use]
    pub fn without_node(&self) -> Option<WithoutNode<'_>> {
        let unschedulable = self.status.conditions.unschedulable.as_ref()?;
        let is_leaving = self.metadata.deletion_timestamp.is_some();
        if is_leaving || !self.node_name.is_empty() || self.has_ended() {
            return None;
        }
        let pod = self.metadata.name.as_deref()?;
        let (kind, owner) = self.owner().unwrap_or(("Pod", pod));
        let namespace = self.metadata.namespace.as_deref()?;
        Some(WithoutNode { namespace, binding: names::binding_name(kind, owner), pod, message: &unschedulable.message })
    }

    /// Its state if the scheduler finds no node for it.
    #[must_use]
    pub fn pending(&self) -> Option<estimator::PendingPod> {
        let since = self.status.conditions.unschedulable.as_ref().filter(|_| self.node_name.is_empty())?.since;
        let owner = self.metadata.owner_references.as_ref()?.iter().find(|owner| owner.kind == "ReplicaSet")?;
        Some(estimator::PendingPod { replica_set: Arc::from(owner.name.as_str()), since })
    }
}

impl Node {
    /// Its labels.
    #[must_use]
    pub fn labels(&self) -> &StringMap {
        static NONE: StringMap = StringMap::new();
        self.metadata.labels.as_ref().unwrap_or(&NONE)
    }

    /// Contribution to the sums of the cluster.
    #[must_use]
    pub fn counted(&self) -> summary::Node {
        let ready = |c: &Condition| c.type_ == READY && c.status == conditions::TRUE;
        summary::Node {
            allocatable: summary::amounts(&self.status.allocatable),
            is_ready: self.status.conditions.iter().any(ready),
        }
    }

    /// The fields that decide which pods fit.
    #[must_use]
    pub fn capacity(&self) -> estimator::Node {
        estimator::Node {
            labels: self.labels().clone(),
            taints: self.spec.taints.clone(),
            unschedulable: self.spec.unschedulable,
            allocatable: units(&self.status.allocatable),
        }
    }
}

impl ReplicaSet {
    /// Its revision of a Deployment; `None` if it has no Deployment.
    #[must_use]
    pub fn revision(&self) -> Option<estimator::ReplicaSet> {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true) && owner.kind == "Deployment")?;
        let revision = self.metadata.annotations.as_ref().and_then(|all| all.get(REVISION)?.parse().ok());
        Some(estimator::ReplicaSet { deployment: Arc::from(owner.name.as_str()), revision: revision.unwrap_or(0) })
    }
}

impl ResourceQuota {
    /// The part of it that is not used.
    #[must_use]
    pub fn free(&self) -> estimator::Quota {
        let class = |operator: String, values: Vec<String>| estimator::Scope::PriorityClass { operator, values };
        let plain = self.spec.scopes.iter().map(|scope| match scope.as_str() {
            "PriorityClass" => class("Exists".to_owned(), Vec::new()),
            _ => estimator::Scope::Other,
        });
        let selected = self.spec.scope_selector.match_expressions.iter().map(|one| match one.scope_name.as_str() {
            "PriorityClass" => class(one.operator.clone(), one.values.clone()),
            _ => estimator::Scope::Other,
        });
        let scopes = plain.chain(selected).collect();
        // With the prefix, too, cpu is counted in thousandths.
        let amounts = |list: &ResourceList| -> Units {
            let unit = |name: &'_ str| name.strip_prefix("requests.").unwrap_or(name).to_owned();
            let read = |(name, amount): (String, Amount)| (name.clone(), in_units(&unit(&name), amount));
            summary::amounts(list).into_iter().map(read).collect()
        };
        estimator::Quota::new(&amounts(&self.status.hard), &amounts(&self.status.used), scopes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value, status: Value) -> Pod {
        let owners =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": true}]);
        let metadata = json!({"name": "a", "labels": {"x": "y"}, "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn pods_are_read_as_far_as_estimates_need_them() {
        let containers = json!([{"resources": {"requests": {"cpu": "500m", "memory": "1Ki"}}}, {}]);
        let running = pod(json!({"nodeName": "n1", "containers": containers}), json!({"phase": "Running"}));
        let request = [("cpu".to_owned(), 500), ("memory".to_owned(), 1024)].into();
        let workload = estimator::Workload::new("ReplicaSet", "", "web-1");
        let want =
            estimator::Pod { node: "n1".into(), request, workload, is_replica: true, ..estimator::Pod::default() };
        assert_eq!(running.assigned(), Some(want));
        assert_eq!((running.pending(), running.labels().len()), (None, 1));
        for phase in ["Succeeded", "Failed"] {
            assert_eq!(pod(json!({"nodeName": "n1"}), json!({"phase": phase})).assigned(), None, "{phase}");
        }
        let condition = |status: &str, reason: &str| {
            json!({"conditions": [{"type": "PodScheduled", "status": status, "reason": reason,
                                   "lastTransitionTime": "1970-01-01T00:01:40Z"}]})
        };
        let since = Timestamp::from_second(100).unwrap();
        for (name, spec, status, want) in [
            ("unschedulable", json!({}), condition("False", "Unschedulable"), true),
            ("gated", json!({}), condition("False", "SchedulingGated"), false),
            ("scheduled", json!({"nodeName": "n1"}), condition("True", ""), false),
            ("no status yet", json!({}), json!({}), false),
        ] {
            let pending = want.then(|| estimator::PendingPod { replica_set: "web-1".into(), since });
            assert_eq!(pod(spec, status).pending(), pending, "{name}");
        }
    }

    #[test]
    fn pods_without_node_say_why() {
        let of = |node: &str, deleted: bool, reason: &str, message: &str| {
            let deleted = deleted.then_some("2026-01-01T00:00:00Z");
            let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d7f", "uid": "u",
                               "controller": true});
            let condition = json!({"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message});
            let pod = json!({
                "metadata": {"name": "a", "namespace": "shop", "deletionTimestamp": deleted,
                             "labels": {TEMPLATE_HASH: "5d7f"}, "ownerReferences": [owner]},
                "spec": {"nodeName": node},
                "status": {"conditions": [condition]},
            });
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let long = "ä".repeat(200);
        for (name, pod, want) in [
            ("as it is", of("", false, UNSCHEDULABLE, "0/1 nodes"), Some("0/1 nodes")),
            (
                "cut between characters",
                of("", false, UNSCHEDULABLE, &format!("a{long}")),
                Some(&format!("a{long}")[..299]),
            ),
            ("has a node", of("n1", false, UNSCHEDULABLE, "0/1 nodes"), None),
            ("is being deleted", of("", true, UNSCHEDULABLE, "0/1 nodes"), None),
            ("gated", of("", false, "SchedulingGated", "gate"), None),
        ] {
            let want = want.map(|message| WithoutNode {
                namespace: "shop",
                binding: "web-deployment".to_owned(),
                pod: "a",
                message,
            });
            assert_eq!(pod.without_node(), want, "{name}");
        }
    }

    #[test]
    fn pods_are_replicas_of_their_workload() {
        let workload = |kind: &str, name: &str| estimator::Workload::new(kind, "shop", name);
        let of = |change: Value| {
            let mut pod =
                json!({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"nodeName": "n1"}, "status": {}});
            json_patch(&mut pod, &change);
            serde_json::from_value::<Pod>(pod).unwrap().observed()
        };
        let owned = |kind: &str, name: &str, hash: &str| {
            let owner = json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
            let labels = if hash.is_empty() { json!({}) } else { json!({TEMPLATE_HASH: hash}) };
            json!({"metadata": {"ownerReferences": owner, "labels": labels}})
        };
        for (name, change, want) in [
            ("of a Deployment", owned("ReplicaSet", "web-5d7f", "5d7f"), workload("Deployment", "web")),
            ("of a ReplicaSet", owned("ReplicaSet", "web-5d7f", ""), workload("ReplicaSet", "web-5d7f")),
            ("another hash", owned("ReplicaSet", "web-5d7f", "7f"), workload("ReplicaSet", "web-5d7f")),
            ("of a StatefulSet", owned("StatefulSet", "db", ""), workload("StatefulSet", "db")),
            ("of nobody", json!({}), workload("Pod", "a")),
        ] {
            assert_eq!(of(change).workload, want, "{name}");
        }
        let state = |pod: estimator::Pod| (pod.has_ended, pod.is_leaving, pod.is_replica, pod.waiting.is_some());
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let mut job = owned("Job", "once", "");
        json_patch(&mut job, &json!({"status": {"phase": "Succeeded"}}));
        for (name, change, want) in [
            ("running", json!({}), (false, false, true, false)),
            ("waits for a node", json!({"spec": {"nodeName": ""}}), (false, false, true, true)),
            ("is being deleted", deleted, (false, true, false, false)),
            ("has failed: another one follows", json!({"status": {"phase": "Failed"}}), (true, false, false, false)),
            ("has completed a Job", job, (true, false, true, false)),
        ] {
            assert_eq!(state(of(change)), want, "{name}");
        }
        let claim = json!({"spec": {"nodeName": "", "nodeSelector": {"disk": "ssd"}}});
        let (name, claim) = *of(claim).waiting.unwrap();
        let labels = [("disk".to_owned(), "ssd".to_owned())].into();
        let node = estimator::NodeFacts { name: "n1", labels: &labels, taints: &[], unschedulable: false };
        assert!(name == "shop/a" && claim.admits(node));
        assert!(!claim.admits(estimator::NodeFacts { labels: &StringMap::new(), ..node }));
    }

    /// Merges objects, as a merge patch does.
    fn json_patch(into: &mut Value, patch: &Value) {
        match (into, patch) {
            (Value::Object(into), Value::Object(patch)) => {
                patch.iter().for_each(|(key, value)| json_patch(into.entry(key).or_insert(Value::Null), value));
            }
            (into, patch) => *into = patch.clone(),
        }
    }

    #[test]
    fn replica_sets_and_quotas_are_read() {
        let set: ReplicaSet = serde_json::from_value(json!({"metadata": {
            "name": "web-1", "annotations": {REVISION: "3", "other": "x"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}]}}))
        .unwrap();
        assert_eq!(set.revision(), Some(estimator::ReplicaSet { deployment: "web".into(), revision: 3 }));
        let quota: ResourceQuota = serde_json::from_value(json!({
            "metadata": {"name": "q"}, "spec": {"scopes": ["BestEffort"]},
            "status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "500m"}}}))
        .unwrap();
        let want = estimator::Quota { free: [("cpu".to_owned(), 1_500)].into(), scopes: vec![estimator::Scope::Other] };
        assert_eq!(quota.free(), want);
    }
}
