//! ResourceInterpreterContext: request and response of an interpreter webhook (specification/api.md 9.3). It is never
//! stored.

use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::LabelSelector};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    omit,
    work::{AggregatedStatusItem, Component, ReplicaRequirements},
};

/// The only patch type of a response.
pub const JSON_PATCH: &str = "JSONPatch";

/// Body of a request to an interpreter webhook, and of its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInterpreterContext {
    /// `config.karmada.io/v1alpha1`.
    pub api_version: String,
    /// `ResourceInterpreterContext`.
    pub kind: String,
    /// The question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ResourceInterpreterRequest>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResourceInterpreterResponse>,
}

impl Default for ResourceInterpreterContext {
    fn default() -> Self {
        Self {
            api_version: "config.karmada.io/v1alpha1".to_owned(),
            kind: "ResourceInterpreterContext".to_owned(),
            request: None,
            response: None,
        }
    }
}

/// A kind in its group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// Request to a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInterpreterRequest {
    /// Identifies the request; the response repeats it.
    pub uid: String,
    /// The kind of the object.
    pub kind: GroupVersionKind,
    /// The name of the object.
    pub name: String,
    /// The namespace of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The operation, one of [`super::operations`].
    pub operation: String,
    /// The object.
    #[serde(default)]
    pub object: Value,
    /// The object in the member; of Retain only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_object: Option<Value>,
    /// The replica count to write; of ReviseReplica only.
    #[serde(rename = "replicas", default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// The statuses to fold; of AggregateStatus only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// Response of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInterpreterResponse {
    /// The uid of the question.
    pub uid: String,
    /// True if the webhook could answer.
    pub successful: bool,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RequestStatus>,
    /// A JSON patch on the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<ByteString>,
    /// [`JSON_PATCH`] when there is a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// Requirements of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// Replica count; of InterpretReplica only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Components; of InterpretComponent only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// Objects that the template refers to; of InterpretDependency only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<DependentObjectReference>,
    /// The status to report; of InterpretStatus only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_status: Option<Value>,
    /// Health of the object; of InterpretHealth only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
}

/// Reason of a webhook's failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestStatus {
    /// Message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// An HTTP status code.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub code: i32,
}

/// Dependency of a template: objects selected by name or by labels. The name takes precedence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentObjectReference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}
