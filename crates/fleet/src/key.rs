//! The names by which decisions speak of objects.

use std::{fmt, sync::Arc};

use ironclad_api::work::ObjectReference;
use serde::{Deserialize, Serialize};

/// The name of a member cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterName(pub Arc<str>);

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Group, version and kind of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gvk {
    /// The API group, empty for core.
    pub group: Arc<str>,
    /// The version in the group.
    pub version: Arc<str>,
    pub kind: Arc<str>,
}

impl Gvk {
    /// From `apiVersion` and `kind` as a manifest has them.
    #[must_use]
    pub fn from_manifest(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// `apiVersion` as written in a manifest.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// An object of any kind, in the control plane or in a member. The namespace is empty for cluster-scoped kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// Its namespace, empty if it has none.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.gvk.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.gvk.kind, self.namespace, self.name)
        }
    }
}

/// A ResourceBinding, or with an empty namespace a ClusterResourceBinding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BindingKey {
    /// Empty for a ClusterResourceBinding.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl BindingKey {
    /// Kind of the binding, as in manifests.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.namespace.is_empty() { "ClusterResourceBinding" } else { "ResourceBinding" }
    }

    /// Reference to the binding with this uid, for events.
    #[must_use]
    pub fn reference(&self, uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: "work.karmada.io/v1alpha2".to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: uid.to_owned(),
            resource_version: String::new(),
        }
    }
}

impl fmt::Display for BindingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// A Work: which cluster's execution space, and its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkKey {
    /// The cluster whose execution space holds it.
    pub cluster: ClusterName,
    pub name: Arc<str>,
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cluster, self.name)
    }
}
