//! Bindings of either kind under one key: a ClusterResourceBinding is the one without a namespace.

use std::sync::Arc;

use ironclad_api::{
    ObjectMeta,
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::{Gvk, ObjectKey, StatusPart};
use ironclad_propagation::detector::binding::Binding;
use ironclad_runtime::{Failure, Key, Writer};
use kube::Api;
use serde_json::Value;

use crate::Context;

/// A cached binding of either kind.
#[derive(Debug, Clone)]
pub enum AnyBinding {
    /// Of a namespaced template.
    Namespaced(Arc<ResourceBinding>),
    /// Of a cluster-scoped one.
    Cluster(Arc<ClusterResourceBinding>),
}

impl AnyBinding {
    /// As the decisions of propagation take it.
    #[must_use]
    pub fn view(&self) -> Binding<'_> {
        match self {
            Self::Namespaced(binding) => Binding::Namespaced(binding),
            Self::Cluster(binding) => Binding::Cluster(binding),
        }
    }

    /// As the scheduler takes it.
    #[must_use]
    pub fn for_scheduler(&self) -> ironclad_scheduling::Binding<'_> {
        match self {
            Self::Namespaced(binding) => (&**binding).into(),
            Self::Cluster(binding) => (&**binding).into(),
        }
    }

    /// Its metadata.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        self.view().metadata()
    }

    /// Its spec.
    #[must_use]
    pub fn spec(&self) -> &ResourceBindingSpec {
        self.view().spec()
    }

    /// Its uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// The key of its template.
    #[must_use]
    pub fn template(&self) -> ObjectKey {
        template_key(self.spec())
    }
}

/// The key of a binding's template.
#[must_use]
pub(crate) fn template_key(spec: &ResourceBindingSpec) -> ObjectKey {
    let resource = &spec.resource;
    ObjectKey {
        gvk: Gvk::from_manifest(&resource.api_version, &resource.kind),
        namespace: resource.namespace.as_str().into(),
        name: resource.name.as_str().into(),
    }
}

impl Context {
    /// The binding of this key.
    #[must_use]
    pub fn binding(&self, key: &Key) -> Option<AnyBinding> {
        if key.namespace.is_empty() {
            self.cluster_bindings.get_key(key).map(AnyBinding::Cluster)
        } else {
            self.bindings.get_key(key).map(AnyBinding::Namespaced)
        }
    }

    /// The binding with its status as it will stand once what is held back is written.
    #[must_use]
    pub fn binding_as_written(&self, key: &Key) -> Option<AnyBinding> {
        let binding = self.binding(key)?;
        let status = match &binding {
            AnyBinding::Namespaced(b) => self.binding_status.read(key, binding.uid(), || json(&b.status)),
            AnyBinding::Cluster(b) => self.cluster_binding_status.read(key, binding.uid(), || json(&b.status)),
        };
        let Some(status) = status else { return Some(binding) };
        let status = serde_json::from_value(status).ok();
        Some(match binding {
            AnyBinding::Namespaced(b) => AnyBinding::Namespaced(Arc::new(ResourceBinding { status, ..(*b).clone() })),
            AnyBinding::Cluster(b) => AnyBinding::Cluster(Arc::new(ClusterResourceBinding { status, ..(*b).clone() })),
        })
    }

    /// The bindings under this value of an index, namespaced ones first.
    #[must_use]
    pub fn bindings_by(&self, index: &'static str, value: &str) -> Vec<AnyBinding> {
        let namespaced = self.bindings.by_index(index, value).into_iter().map(AnyBinding::Namespaced);
        namespaced.chain(self.cluster_bindings.by_index(index, value).into_iter().map(AnyBinding::Cluster)).collect()
    }

    /// All bindings, namespaced ones first.
    #[must_use]
    pub fn all_bindings(&self) -> Vec<AnyBinding> {
        let namespaced = self.bindings.list().into_iter().map(AnyBinding::Namespaced);
        namespaced.chain(self.cluster_bindings.list().into_iter().map(AnyBinding::Cluster)).collect()
    }

    /// Has a part of a binding's status written.
    pub fn want_binding_status(&self, key: &Key, uid: &str, contributor: &'static str, part: StatusPart) {
        if key.namespace.is_empty() {
            self.cluster_binding_status.want(key, uid, contributor, part, false);
        } else {
            self.binding_status.want(key, uid, contributor, part, false);
        }
    }

    /// The binding is on its way to other clusters: what its status is to say of that waits for some quiet, and does not get in
    /// the way of the next result.
    pub(crate) fn binding_departs(&self, key: &Key) {
        if key.namespace.is_empty() {
            self.cluster_binding_status.noise(key.clone());
        } else {
            self.binding_status.noise(key.clone());
        }
    }

    /// Merge-patches a binding, provided that it is still the version seen.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; what the server or the way to it said.
    pub async fn patch_binding(&self, writer: &Writer, seen: &AnyBinding, patch: Value) -> Result<(), Failure> {
        match seen {
            AnyBinding::Namespaced(b) => {
                let api = Api::namespaced(self.plane.clone(), b.metadata.namespace.as_deref().unwrap_or_default());
                writer.patch(&api, Some(&self.bindings), &**b, patch).await.map(drop)
            }
            AnyBinding::Cluster(b) => {
                let api = Api::all(self.plane.clone());
                writer.patch(&api, Some(&self.cluster_bindings), &**b, patch).await.map(drop)
            }
        }
    }
}

pub(crate) fn json<T: serde::Serialize>(status: &Option<T>) -> Value {
    // A status of ours always is JSON; were it not, it would count as absent and be written anew.
    serde_json::to_value(status).unwrap_or(Value::Null)
}
