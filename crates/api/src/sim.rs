//! Group `sim.ironclad.io/v1alpha1`: SimulatedCluster, in `ironclad up` only (api.md 11.8).

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ResourceList, StringMap, kind::kind, omit};

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
    /// What each node has: cpu, memory, pods.
    pub capacity: ResourceList,
    /// Labels of each node.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub node_labels: StringMap,
    /// What is wrong with the member.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub faults: Faults,
    /// What its metrics API reports; the last rule that matches a pod wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<UsageRule>,
}

/// What is wrong with a simulated member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Faults {
    /// Its server answers nothing and nothing in it moves.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub down: bool,
    /// It is cut off from the control plane, and goes on by itself.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub partition: bool,
    /// Every answer comes later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
    /// Reachable and down by turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flap: Option<Flap>,
}

/// Every answer comes later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slow {
    /// How much later, as `250ms`.
    pub latency: String,
}

/// Reachable and down by turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Flap {
    /// How long it is reachable, as `2m`.
    pub up: String,
    /// How long it is down, as `30s`.
    pub down: String,
}

/// What the metrics API reports per matching pod.
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

/// Where the member is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedClusterStatus {
    /// Generation that the rest speaks of.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub observed_generation: i64,
    /// The member's address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
}
