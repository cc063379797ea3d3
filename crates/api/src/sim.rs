//! Group `sim.ironclad.io/v1alpha1`: SimulatedCluster, in `ironclad up` only (specification/api.md 11.8).

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector};
use serde::{Deserialize, Serialize};

use crate::{ResourceList, StringMap, kind::kind, omit, schema::JsonSchema};

kind! {
    /// A simulated member: its nodes, its faults and the load that it reports.
    SimulatedCluster: "sim.ironclad.io", "v1alpha1", "simulatedclusters", Cluster
    { spec: SimulatedClusterSpec; status: SimulatedClusterStatus }
}

/// Nodes, faults and load of a simulated member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedClusterSpec {
    /// Number of nodes.
    pub nodes: i32,
    /// Capacity of each node: cpu, memory, pods.
    pub capacity: ResourceList,
    /// Labels of each node.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub node_labels: StringMap,
    /// Faults of the member.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub faults: Faults,
    /// Usage that its metrics API reports; the last rule that matches a pod is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<UsageRule>,
}

/// Faults of a simulated member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Faults {
    /// Its server does not answer, and its controllers do not run.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub down: bool,
    /// It is disconnected from the control plane, and continues to run.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub partition: bool,
    /// Every answer is delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
    /// Alternates between reachable and down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flap: Option<Flap>,
}

/// Every answer is delayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slow {
    /// Delay, as `250ms`.
    pub latency: String,
}

/// Alternates between reachable and down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Flap {
    /// Time for which it is reachable, as `2m`.
    pub up: String,
    /// Time for which it is down, as `30s`.
    pub down: String,
}

/// Usage that the metrics API reports per matching pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRule {
    /// Namespace of the pods; empty means all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels of the pods; absent or empty means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// CPU of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// Address of the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedClusterStatus {
    /// Generation that the status describes.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub observed_generation: i64,
    /// The member's address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}
