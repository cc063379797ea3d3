//! A binding of either kind, as decisions on failover take it.

use std::sync::Arc;

use ironclad_api::{
    ObjectMeta,
    work::{ClusterResourceBinding, ObjectReference, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_fleet::BindingKey;

/// A shared binding of either kind.
#[derive(Debug, Clone)]
pub enum Bound {
    /// Of a namespaced template.
    Namespaced(Arc<ResourceBinding>),
    /// Of a cluster-scoped one.
    Cluster(Arc<ClusterResourceBinding>),
}

impl Bound {
    /// Its metadata.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespaced(binding) => &binding.metadata,
            Self::Cluster(binding) => &binding.metadata,
        }
    }

    /// Its spec.
    #[must_use]
    pub fn spec(&self) -> &ResourceBindingSpec {
        match self {
            Self::Namespaced(binding) => &binding.spec,
            Self::Cluster(binding) => &binding.spec,
        }
    }

    /// Its status, if anything was ever written.
    #[must_use]
    pub fn status(&self) -> Option<&ResourceBindingStatus> {
        match self {
            Self::Namespaced(binding) => binding.status.as_ref(),
            Self::Cluster(binding) => binding.status.as_ref(),
        }
    }

    /// Its kind, as in manifests.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Namespaced(_) => "ResourceBinding",
            Self::Cluster(_) => "ClusterResourceBinding",
        }
    }

    /// Its uid, empty if it has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> BindingKey {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        BindingKey { namespace: text(&self.metadata().namespace), name: text(&self.metadata().name) }
    }

    /// Whether the scheduler has seen the spec as it is.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        let observed = self.status().map_or(0, |status| status.scheduler_observed_generation);
        observed >= self.metadata().generation.unwrap_or(0)
    }

    /// How events name it.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        reference(&self.key(), self.uid())
    }
}

impl From<Arc<ResourceBinding>> for Bound {
    fn from(binding: Arc<ResourceBinding>) -> Self {
        Self::Namespaced(binding)
    }
}

impl From<Arc<ClusterResourceBinding>> for Bound {
    fn from(binding: Arc<ClusterResourceBinding>) -> Self {
        Self::Cluster(binding)
    }
}

/// How events name a binding.
#[must_use]
pub fn reference(key: &BindingKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: "work.karmada.io/v1alpha2".to_owned(),
        kind: kind_of(key).to_owned(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: uid.to_owned(),
        resource_version: String::new(),
    }
}

/// The kind of the binding of this key, as in manifests.
#[must_use]
pub fn kind_of(key: &BindingKey) -> &'static str {
    if key.namespace.is_empty() { "ClusterResourceBinding" } else { "ResourceBinding" }
}
