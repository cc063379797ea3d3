//! Cluster affinities and resource selectors of policies (specification/api.md 1).

use k8s_openapi::{api::core::v1::NodeSelectorRequirement, apimachinery::pkg::apis::meta::v1::LabelSelector};
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;

/// Selects clusters. All given parts must match; an empty affinity selects every cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Clusters by label. Absent or empty, it does not filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Clusters by location fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Explicit allow list; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
    /// Deny list; it takes precedence over every other selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Clusters by the location fields of their spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    /// Requirements on `provider`, `region` and `zone`, which must all hold. The operator is In or NotIn;
    /// `zone` looks at all zones of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// Selects resource templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// Group and version of the templates.
    pub api_version: String,
    /// Kind of the templates.
    pub kind: String,
    /// Namespace of the templates; empty inherits the policy's. In a namespaced policy it must be the policy's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the template; empty means any. When set, labelSelector is ignored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Templates by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}
