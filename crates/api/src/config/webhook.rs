//! ResourceInterpreterWebhookConfiguration: webhooks that interpret kinds (specification/api.md 9.2).

use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use serde::{Deserialize, Serialize};

use crate::{kind::kind, schema::JsonSchema};

kind! {
    /// Webhooks that interpret kinds.
    ResourceInterpreterWebhookConfiguration:
        "config.karmada.io", "v1alpha1", "resourceinterpreterwebhookconfigurations", Cluster
    { webhooks: Vec<ResourceInterpreterWebhook> }
}

/// One webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInterpreterWebhook {
    /// Fully qualified name, unique in the object.
    pub name: String,
    /// Address of the webhook: exactly one of url and service.
    pub client_config: WebhookClientConfig,
    /// Kinds and operations for which the webhook is called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleWithOperations>,
    /// Longest wait for an answer, 1 to 30; absent means 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Versions of the payload that the webhook accepts.
    pub interpreter_context_versions: Vec<String>,
}

/// Operations and kinds of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithOperations {
    /// The operations, or `*` alone.
    pub operations: Vec<String>,
    /// The API groups, or `*` alone.
    pub api_groups: Vec<String>,
    /// The API versions, or `*` alone.
    pub api_versions: Vec<String>,
    /// The kinds, or `*` alone.
    pub kinds: Vec<String>,
}
