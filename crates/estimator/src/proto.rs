//! Messages of Karmada's estimator protocol (specification/scheduling.md 10.5), and the three Kubernetes messages that
//! travel in them as bytes. Field numbers are those of the published definitions.

use std::collections::BTreeMap;

use prost::Message;

/// Name of the gRPC service.
pub(crate) const SERVICE: &str = "github.com.karmada_io.karmada.pkg.estimator.service.Estimator";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MaxAvailableReplicasRequest {
    #[prost(string, tag = "1")]
    pub(crate) cluster: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) replica_requirements: Option<ReplicaRequirements>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MaxAvailableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub(crate) max_replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MaxAvailableComponentSetsRequest {
    #[prost(string, tag = "1")]
    pub(crate) cluster: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) components: Vec<Component>,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) assumed_workloads: Vec<AssumedWorkload>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MaxAvailableComponentSetsResponse {
    #[prost(int32, tag = "1")]
    pub(crate) max_sets: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UnschedulableReplicasRequest {
    #[prost(string, tag = "1")]
    pub(crate) cluster: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) resource: Option<ObjectReference>,
    /// Nanoseconds.
    #[prost(int64, tag = "3")]
    pub(crate) unschedulable_threshold: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UnschedulableReplicasResponse {
    #[prost(int32, tag = "1")]
    pub(crate) unschedulable_replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub(crate) node_claim: Option<NodeClaim>,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "4")]
    pub(crate) priority_class_name: String,
    /// [`Quantity`] by resource.
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub(crate) resource_request_bytes: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Component {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) replica_requirements: Option<ComponentReplicaRequirements>,
    #[prost(int32, tag = "3")]
    pub(crate) replicas: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ComponentReplicaRequirements {
    #[prost(message, optional, tag = "1")]
    pub(crate) node_claim: Option<NodeClaim>,
    #[prost(string, tag = "3")]
    pub(crate) priority_class_name: String,
    /// [`Quantity`] by resource.
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(crate) resource_request_bytes: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeClaim {
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) node_selector: BTreeMap<String, String>,
    /// [`NodeSelector`].
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) node_affinity_bytes: Vec<u8>,
    /// [`Toleration`]s.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(crate) tolerations_bytes: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AssumedWorkload {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) components: Vec<Component>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectReference {
    #[prost(string, tag = "1")]
    pub(crate) api_version: String,
    #[prost(string, tag = "2")]
    pub(crate) kind: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "4")]
    pub(crate) name: String,
}

/// `k8s.io.apimachinery.pkg.api.resource.Quantity`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quantity {
    #[prost(string, optional, tag = "1")]
    pub(crate) string: Option<String>,
}

/// `k8s.io.api.core.v1.NodeSelector`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "1")]
    pub(crate) match_expressions: Vec<NodeSelectorRequirement>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelectorRequirement {
    #[prost(string, optional, tag = "1")]
    pub(crate) key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) operator: Option<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) values: Vec<String>,
}

/// `k8s.io.api.core.v1.Toleration`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Toleration {
    #[prost(string, optional, tag = "1")]
    pub(crate) key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) operator: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) value: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) effect: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub(crate) toleration_seconds: Option<i64>,
}

#[cfg(test)]
mod tests;
