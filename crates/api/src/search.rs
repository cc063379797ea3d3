//! Group `search.karmada.io/v1alpha1`: ResourceRegistry, served by the search API, never as a CRD
//! (specification/api.md 11.5).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::{cluster::LocalSecretReference, kind::kind, policy::ClusterAffinity, schema::JsonSchema};

kind! {
    /// Selects objects of clusters to cache.
    ResourceRegistry: "search.karmada.io", "v1alpha1", "resourceregistries", Cluster
    { spec: ResourceRegistrySpec; status: ResourceRegistryStatus }
}

/// Objects and clusters to cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRegistrySpec {
    /// The clusters.
    pub target_cluster: ClusterAffinity,
    /// The objects.
    pub resource_selectors: Vec<ResourceSelector>,
    /// Storage of the objects; absent means memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_store: Option<BackendStoreConfig>,
}

/// Selects objects of members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty means all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// Storage of the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendStoreConfig {
    /// In OpenSearch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_search: Option<OpenSearchConfig>,
}

/// An OpenSearch installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenSearchConfig {
    /// Its URLs.
    pub addresses: Vec<String>,
    /// A Secret with the keys userName and password.
    pub secret_ref: LocalSecretReference,
}

/// State of the registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRegistryStatus {
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
