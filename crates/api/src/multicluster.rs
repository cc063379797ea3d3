//! Group `multicluster.x-k8s.io`: the Kubernetes project's ServiceExport and ServiceImport (specification/api.md 11.6).
//!
//! Both are stored as v1alpha1, as Karmada has them, and served as v1beta1, too, which has more optional fields: one
//! schema that has them all serves both, so that nothing is lost between them.

use k8s_openapi::{api::core::v1::SessionAffinityConfig, apimachinery::pkg::apis::meta::v1::Condition};
use serde::{Deserialize, Serialize};

use crate::{StringMap, kind::kind, schema::JsonSchema};

kind! {
    /// Exports the Service of the same name from its clusters.
    ServiceExport: "multicluster.x-k8s.io", "v1alpha1", "serviceexports", Namespaced
    { ; spec: ServiceExportSpec, status: ServiceExportStatus }
}

kind! {
    /// Imports the Service of the same name into its clusters.
    ServiceImport: "multicluster.x-k8s.io", "v1alpha1", "serviceimports", Namespaced
    { ; spec: ServiceImportSpec, status: ServiceImportStatus }
}

/// Settings of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExportSpec {
    /// Labels that importing Services get.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub exported_labels: StringMap,
    /// Annotations that importing Services get.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub exported_annotations: StringMap,
}

/// State of the export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExportStatus {
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Settings of the import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportSpec {
    /// Its ports.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<ServicePort>,
    /// The virtual addresses, one for each family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ips: Vec<String>,
    /// With or without a virtual address.
    #[serde(rename = "type")]
    pub type_: ServiceImportType,
    /// None or ClientIP.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session_affinity: String,
    /// Settings of the session affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// Families of its addresses, IPv4 or IPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ip_families: Vec<String>,
    /// Cluster or Local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<String>,
    /// Preference of near endpoints, such as PreferSameZone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
}

/// Type of an imported Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ServiceImportType {
    /// It has one.
    #[default]
    ClusterSetIP,
    /// It has none.
    Headless,
}

/// One port of an imported Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name of the port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// TCP, UDP or SCTP; empty means TCP.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// Protocol of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// The port.
    pub port: i32,
}

/// State of the import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportStatus {
    /// The clusters that it is imported from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub clusters: Vec<ClusterStatus>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A cluster that a Service is imported from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Its name.
    pub cluster: String,
}
