//! Group `cluster.karmada.io/v1alpha1`: the members (specification/api.md 2).

use k8s_openapi::{
    api::core::v1::{Secret, Taint},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Condition},
};
use serde::{Deserialize, Serialize};

use crate::{ResourceList, Shared, StringMap, conditions, kind::kind, omit, schema::JsonSchema};

/// Longest name of a Cluster: its execution namespace has to fit into 63 characters.
pub const NAME_LENGTH_MAX: usize = 48;

/// `apiVersion` of Clusters.
pub const GROUP_VERSION: &str = "cluster.karmada.io/v1alpha1";
/// Group in which `run --aggregate-clusters` stores Clusters (specification/operations.md 4.1).
pub const STORED_GROUP: &str = "cluster.ironclad.io";
/// `apiVersion` of stored Clusters.
pub const STORED_GROUP_VERSION: &str = "cluster.ironclad.io/v1alpha1";
/// Name of the CRD of Clusters.
pub const DEFINITION: &str = "clusters.cluster.karmada.io";
/// Name of the CRD of stored Clusters.
pub const STORED_DEFINITION: &str = "clusters.cluster.ironclad.io";
/// Group of users whose requests for stored Clusters a process of ours passes on, and has authorized.
pub const STORED_USERS: &str = "system:ironclad:stored-clusters";

kind! {
    /// A member cluster.
    Cluster: "cluster.karmada.io", "v1alpha1", "clusters", Cluster
    { spec: ClusterSpec; status: ClusterStatus }
}

/// Access to a member: the result of [`Cluster::access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAccess<'a> {
    /// `https://HOST:PORT`.
    pub endpoint: &'a str,
    /// The bearer token.
    pub token: &'a [u8],
    /// The certificates to trust, PEM; `None` trusts any.
    pub ca_bundle: Option<&'a [u8]>,
    /// The proxy on the way there; empty for none.
    pub proxy: &'a str,
}

/// Reason for which a member cannot be accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAccess {
    /// The Cluster has no secretRef.
    #[error("spec.secretRef is not set: join the cluster with `ironclad join`")]
    NoSecretRef,
    /// The Secret does not exist.
    #[error("secret {0} named by spec.secretRef does not exist")]
    NoSecret(String),
    /// The Secret lacks a key.
    #[error("the credentials have no key `{0}`")]
    NoKey(&'static str),
}

impl Cluster {
    /// Endpoint and credentials (specification/operations.md 10.1): `spec.apiEndpoint`, `spec.proxyURL`, and the
    /// keys `token` and `caBundle` of the Secret that `spec.secretRef` names.
    ///
    /// # Errors
    /// If any of them is missing.
    pub fn access<'a>(&'a self, credentials: Option<&'a Secret>) -> Result<MemberAccess<'a>, NoAccess> {
        let secret = credentials.ok_or_else(|| match &self.spec.secret_ref {
            Some(reference) => NoAccess::NoSecret(format!("{}/{}", reference.namespace, reference.name)),
            None => NoAccess::NoSecretRef,
        })?;
        let key = |name| secret.data.as_ref().and_then(|data| data.get(name)).map(|bytes| bytes.0.as_slice());
        let token = key("token").ok_or(NoAccess::NoKey("token"))?;
        let ca_bundle = match self.spec.insecure_skip_tls_verification {
            true => None,
            false => Some(key("caBundle").ok_or(NoAccess::NoKey("caBundle"))?),
        };
        Ok(MemberAccess { endpoint: &self.spec.api_endpoint, token, ca_bundle, proxy: &self.spec.proxy_url })
    }

    /// Everything on which a connection depends: if it changes, the member is connected anew.
    pub fn connection_identity(&self, credentials: Option<&Secret>) -> String {
        let version = credentials.and_then(|s| s.metadata.resource_version.as_deref()).unwrap_or("-");
        format!(
            "{} {:?} {} {} {}",
            self.metadata.uid.as_deref().unwrap_or_default(),
            self.spec.sync_mode,
            self.spec.api_endpoint,
            self.spec.insecure_skip_tls_verification,
            version
        )
    }

    /// Status of condition Ready, as the API spells it; None when the condition is missing.
    pub fn ready(&self) -> Option<&str> {
        let conditions = &self.status.as_ref()?.conditions;
        conditions::get(conditions, conditions::cluster::READY).map(|condition| condition.status.as_str())
    }

    /// True if condition Ready is `True`.
    pub fn is_ready(&self) -> bool {
        self.ready() == Some(conditions::TRUE)
    }

    /// Returns whether the member serves a kind (specification/api.md 2.1).
    pub fn api_enablement(&self, api_version: &str, kind: &str) -> ApiEnablement {
        let Some(status) = &self.status else { return ApiEnablement::Unknown };
        let listed = status
            .api_enablements
            .iter()
            .filter(|enablement| enablement.group_version == api_version)
            .any(|enablement| enablement.resources.iter().any(|resource| resource.kind == kind));
        if listed {
            ApiEnablement::Enabled
        } else if conditions::is_true(&status.conditions, conditions::cluster::COMPLETE_API_ENABLEMENTS) {
            ApiEnablement::Disabled
        } else {
            ApiEnablement::Unknown
        }
    }
}

/// Availability of a kind in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiEnablement {
    /// The member serves the kind.
    Enabled,
    /// The member's discovery is complete and lacks the kind.
    Disabled,
    /// The member's discovery is not complete.
    Unknown,
}

/// Component that applies objects in a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// The control plane.
    #[default]
    Push,
    /// The agent in the member.
    Pull,
}

/// Access to a member, its location and its taints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Unique id of the member: its ClusterProperty `cluster.clusterset.k8s.io`, else the UID of its namespace
    /// kube-system.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128_000))]
    pub id: String,
    /// Push: the control plane applies. Pull: the agent in the member applies.
    pub sync_mode: SyncMode,
    /// Address of the member's API server.
    #[serde(rename = "apiEndpoint", default, skip_serializing_if = "String::is_empty")]
    pub api_endpoint: String,
    /// Credentials to reach the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalSecretReference>,
    /// Token of the impersonating account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impersonator_secret_ref: Option<LocalSecretReference>,
    /// Does not verify the member's certificate.
    #[serde(rename = "insecureSkipTLSVerification", default, skip_serializing_if = "omit::zero")]
    pub insecure_skip_tls_verification: bool,
    /// Forward proxy on the way to the member.
    #[serde(rename = "proxyURL", default, skip_serializing_if = "String::is_empty")]
    pub proxy_url: String,
    /// Extra headers for that proxy; several values are comma-joined in one string.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub proxy_header: StringMap,
    /// Cloud provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// Region.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Deprecated, moved to zones by admission.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Failure zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Taints on the member, unique per key and effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Grades for node-capacity statistics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_models: Shared<Vec<ResourceModel>>,
}

/// Reference to a Secret of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecretReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One grade of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModel {
    /// The grade, from 0.
    #[schemars(schema_with = "crate::schema::int")]
    pub grade: u64,
    /// Ranges of a node's resources in this grade.
    pub ranges: Vec<ResourceModelRange>,
}

/// Range of one resource of a node in a grade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceModelRange {
    /// The resource.
    pub name: String,
    /// At least this much.
    pub min: Quantity,
    /// Less than this.
    pub max: Quantity,
}

/// Observed state of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Git version of the member.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// API resources that the member serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Shared<Vec<APIEnablement>>,
    /// Ready, CompleteAPIEnablements, ServiceDomainNameResolutionReady and whatever users add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Node counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// Allocatable, pending and allocated resources, and nodes per grade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<ResourceSummary>,
    /// Actions that remedies currently demand, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy_actions: Vec<String>,
}

/// API resources of one group and version in a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct APIEnablement {
    /// Group and version.
    pub group_version: String,
    /// Its resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<APIResource>,
}

/// One resource that a member serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct APIResource {
    /// Plural.
    pub name: String,
    /// Kind.
    pub kind: String,
}

/// Node counts of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// All nodes.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub total_num: i32,
    /// Ready nodes.
    #[serde(default, skip_serializing_if = "omit::zero")]
    pub ready_num: i32,
}

/// Resources of a member and their use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSummary {
    /// Allocatable resources of all nodes.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// Requests of pods that are not assigned to a node yet.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocating: ResourceList,
    /// Requests of pods that are assigned to nodes.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocated: ResourceList,
    /// Nodes per grade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<AllocatableModeling>,
}

/// Nodes of one grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatableModeling {
    /// The grade.
    #[schemars(schema_with = "crate::schema::int")]
    pub grade: u64,
    /// Nodes.
    #[schemars(schema_with = "crate::schema::int")]
    pub count: i64,
}
