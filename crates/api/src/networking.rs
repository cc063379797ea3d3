//! Group `networking.karmada.io/v1alpha1`: services and ingresses over several clusters (specification/api.md 11.1,
//! 11.2).

use k8s_openapi::api::{
    core::v1::ServiceStatus,
    networking::v1::{IngressLoadBalancerStatus, IngressSpec},
};
use serde::{Deserialize, Serialize};

use crate::{kind::kind, omit, schema::JsonSchema};

kind! {
    /// Ingress over several clusters.
    MultiClusterIngress: "networking.karmada.io", "v1alpha1", "multiclusteringresses", Namespaced
    { ; spec: IngressSpec, status: MultiClusterIngressStatus }
}

kind! {
    /// Service of the same name over several clusters.
    MultiClusterService: "networking.karmada.io", "v1alpha1", "multiclusterservices", Namespaced
    { spec: MultiClusterServiceSpec; status: ServiceStatus }
}

/// State of the ingress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterIngressStatus {
    /// Status of the load balancer.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub load_balancer: IngressLoadBalancerStatus,
    /// Clusters whose backends must not get traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic_block_clusters: Vec<String>,
    /// Clusters of each backend Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_locations: Vec<ServiceLocation>,
}

/// Clusters of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLocation {
    /// The Service.
    pub name: String,
    /// Its clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
}

/// Exposure of a Service between clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterServiceSpec {
    /// CrossCluster or LoadBalancer, one value only; immutable.
    pub types: Vec<String>,
    /// Ports that are exposed; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ExposurePort>,
    /// Deprecated: clusters.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub range: ExposureRange,
    /// Deprecated: clusters where backends run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_provision_clusters: Vec<String>,
    /// Deprecated: clusters where it is reachable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_consumption_clusters: Vec<String>,
    /// Clusters where backends run; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_clusters: Vec<ClusterSelector>,
    /// Clusters where it is reachable; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumer_clusters: Vec<ClusterSelector>,
}

/// An exposed port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposurePort {
    /// Name of the port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The port, 1 to 65535.
    pub port: i32,
}

/// Deprecated: clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRange {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// A cluster by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// The name.
    pub name: String,
}
