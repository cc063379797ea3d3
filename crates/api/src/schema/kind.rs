//! Parts of a kind's declaration that its CRD is made from. [`crate::kind`] implements them.

use schemars::{Schema, SchemaGenerator};

/// Scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In a namespace.
    Namespaced,
    /// For the whole control plane.
    Cluster,
}

impl Scope {
    /// Spelling in a CRD.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
        }
    }
}

/// The names under which a kind is served (specification/api.md 0.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindInfo {
    /// API group.
    pub(crate) group: &'static str,
    /// Version in the group.
    pub(crate) version: &'static str,
    /// Kind, in CamelCase.
    pub(crate) kind: &'static str,
    /// Plural, as in paths.
    pub(crate) plural: &'static str,
    /// Namespaced or not.
    pub(crate) scope: Scope,
}

/// One field of a root object beside `metadata`.
pub(crate) struct Member {
    /// JSON name.
    pub(crate) name: &'static str,
    /// True if the schema requires it.
    pub(crate) required: bool,
    /// The schema of its type, before [`crate::crds::generate`] completes it.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

/// Root type of this crate.
pub(crate) trait Kind: kube_core::Resource<DynamicType = ()> {
    /// Its purpose in a sentence.
    const DESCRIPTION: &'static str;
    /// Its names.
    const INFO: KindInfo;
    /// The fields of the object beside `apiVersion`, `kind` and `metadata`.
    const MEMBERS: &'static [Member];
}
