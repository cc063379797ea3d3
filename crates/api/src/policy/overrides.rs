//! OverridePolicy and its cluster-scoped twin (specification/api.md 4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ClusterAffinity, ResourceSelector};
use crate::{StringMap, kind::kind, omit, schema::JsonSchema};

kind! {
    /// Overrides templates of its own namespace per cluster.
    OverridePolicy: "policy.karmada.io", "v1alpha1", "overridepolicies", Namespaced
    { spec: OverrideSpec }
}

kind! {
    /// Overrides any templates per cluster.
    ClusterOverridePolicy: "policy.karmada.io", "v1alpha1", "clusteroverridepolicies", Cluster
    { spec: OverrideSpec }
}

/// Templates, clusters and overriders of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// The templates; empty means every template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Rules per group of clusters, applied in list order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<RuleWithCluster>,
    /// Deprecated: the clusters of overriders; not together with overrideRules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Deprecated: one set of changes; not together with overrideRules.
    #[serde(default)]
    pub overriders: Overriders,
}

/// Changes for a group of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// The clusters; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// The changes.
    pub overriders: Overriders,
}

/// A set of changes, applied in this order: images, commands, arguments, labels, annotations, fields,
/// plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// JSON patches on the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Edits of image names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Edits of container commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Edits of container arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Edits of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Edits of annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Edits inside string fields that hold JSON or YAML documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

/// Operation on a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OverriderOperator {
    /// Add it.
    #[default]
    Add,
    /// Remove it.
    Remove,
    /// Replace the existing value.
    Replace,
}

/// Operation on items of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SequenceOperator {
    /// Append them.
    #[default]
    Add,
    /// Remove them.
    Remove,
}

/// A part of an image name, `[registry/]repository[:tag|@digest]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ImageComponent {
    /// The host, with its port.
    #[default]
    Registry,
    /// The path.
    Repository,
    /// The tag or digest.
    Tag,
}

/// Edit of one part of image names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Path of a single image; without it all containers of the built-in workload kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// Part of the image name.
    pub component: ImageComponent,
    /// The operation.
    pub operator: OverriderOperator,
    /// The value; needed for add and replace, ignored for remove.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Path of an image name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePredicate {
    /// JSON pointer to the field.
    pub path: String,
}

/// Edit of a container's command or arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgsOverrider {
    /// The container.
    pub container_name: String,
    /// Append or remove.
    pub operator: SequenceOperator,
    /// The items; empty changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// Edit of labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// The operation: remove deletes matching keys, replace changes existing keys only.
    pub operator: OverriderOperator,
    /// The pairs.
    pub value: StringMap,
}

/// Edits inside one string field that holds a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// JSON pointer to the string field.
    pub field_path: String,
    /// Patches of a JSON document; not together with yaml.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<ValuePatch>,
    /// Patches of a YAML document; not together with json.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<ValuePatch>,
}

/// One patch inside a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuePatch {
    /// JSON pointer into the document.
    pub sub_path: String,
    /// The operation.
    pub operator: OverriderOperator,
    /// The value, of any JSON type; needed for add and replace, absent for remove.
    #[serde(default, deserialize_with = "omit::some", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_value")]
    pub value: Option<Value>,
}

/// One JSON patch on the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// JSON pointer into the object.
    pub path: String,
    /// The operation.
    pub operator: OverriderOperator,
    /// The value, of any JSON type.
    #[serde(default, deserialize_with = "omit::some", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_value")]
    pub value: Option<Value>,
}
