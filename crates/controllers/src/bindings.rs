//! Bindings of either kind under one key: a ClusterResourceBinding is the one without a namespace.

use std::sync::Arc;

use ironclad_api::{
    ObjectMeta,
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::{Binding, BindingRef, ObjectKey, StatusPart};
use ironclad_runtime::{Caches, Failure, Informer, Key, StatusWriter, Writer};
use ironclad_seam::Seam;
use kube::{Api, Client};
use serde_json::Value;

use crate::{
    caches::{BINDINGS, CLUSTER_BINDINGS},
    index::template_key,
    targets::{Typed, json},
};

/// A cached binding of either kind.
#[derive(Debug, Clone)]
pub(crate) enum AnyBinding {
    /// Of a namespaced template.
    Namespaced(Arc<ResourceBinding>),
    /// Of a cluster-scoped template.
    Cluster(Arc<ClusterResourceBinding>),
}

impl AnyBinding {
    /// Borrowed, as decisions take it.
    #[must_use]
    pub(crate) fn view(&self) -> BindingRef<'_> {
        match self {
            Self::Namespaced(binding) => BindingRef::Namespaced(binding),
            Self::Cluster(binding) => BindingRef::Cluster(binding),
        }
    }

    /// Its key in queues and caches.
    #[must_use]
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Namespaced(binding) => Key::of(&**binding),
            Self::Cluster(binding) => Key::of(&**binding),
        }
    }

    /// Its metadata.
    #[must_use]
    pub(crate) fn metadata(&self) -> &ObjectMeta {
        self.view().metadata()
    }

    /// Its spec.
    #[must_use]
    pub(crate) fn spec(&self) -> &ResourceBindingSpec {
        self.view().spec()
    }

    /// Its uid.
    #[must_use]
    pub(crate) fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// The key of its template.
    #[must_use]
    pub(crate) fn template(&self) -> ObjectKey {
        template_key(self.spec())
    }
}

impl From<AnyBinding> for Binding {
    fn from(binding: AnyBinding) -> Self {
        match binding {
            AnyBinding::Namespaced(binding) => Self::Namespaced(binding),
            AnyBinding::Cluster(binding) => Self::Cluster(binding),
        }
    }
}

impl From<Binding> for AnyBinding {
    fn from(binding: Binding) -> Self {
        match binding {
            Binding::Namespaced(binding) => Self::Namespaced(binding),
            Binding::Cluster(binding) => Self::Cluster(binding),
        }
    }
}

/// The bindings of the control plane, and the one writer of their status. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bindings {
    /// All ResourceBindings.
    pub(crate) namespaced: Informer<ResourceBinding>,
    /// All ClusterResourceBindings.
    pub(crate) cluster_scoped: Informer<ClusterResourceBinding>,
    plane: Client,
    status: StatusWriter<Typed<ResourceBinding>>,
    cluster_scoped_status: StatusWriter<Typed<ClusterResourceBinding>>,
}

impl Bindings {
    pub(crate) fn start(seam: &Seam, plane: &Client, caches: &Caches) -> Self {
        let (namespaced, cluster_scoped) = (caches.take(&BINDINGS), caches.take(&CLUSTER_BINDINGS));
        let target = Typed {
            client: plane.clone(),
            cache: namespaced.clone(),
            writer: Writer::new("bindingStatus"),
            api: |client, namespace| Api::namespaced(client.clone(), namespace),
            status: |b: &ResourceBinding| json(&b.status),
        };
        let status = StatusWriter::start("status/bindings", seam, target);
        let target = Typed {
            client: plane.clone(),
            cache: cluster_scoped.clone(),
            writer: Writer::new("bindingStatus"),
            api: |client, _| Api::all(client.clone()),
            status: |b: &ClusterResourceBinding| json(&b.status),
        };
        let cluster_scoped_status = StatusWriter::start("status/clusterbindings", seam, target);
        Self { namespaced, cluster_scoped, plane: plane.clone(), status, cluster_scoped_status }
    }

    /// The binding of this key.
    pub(crate) fn get(&self, key: &Key) -> Option<AnyBinding> {
        if key.namespace.is_empty() {
            self.cluster_scoped.get_key(key).map(AnyBinding::Cluster)
        } else {
            self.namespaced.get_key(key).map(AnyBinding::Namespaced)
        }
    }

    /// The binding with its status as it will be once all requests are written.
    pub(crate) fn get_as_requested(&self, key: &Key) -> Option<AnyBinding> {
        let binding = self.get(key)?;
        let status = match &binding {
            AnyBinding::Namespaced(b) => self.status.read(key, binding.uid(), || json(&b.status)),
            AnyBinding::Cluster(b) => self.cluster_scoped_status.read(key, binding.uid(), || json(&b.status)),
        };
        let Some(status) = status else { return Some(binding) };
        let status = serde_json::from_value(status).ok();
        Some(match binding {
            AnyBinding::Namespaced(b) => AnyBinding::Namespaced(Arc::new(ResourceBinding { status, ..(*b).clone() })),
            AnyBinding::Cluster(b) => AnyBinding::Cluster(Arc::new(ClusterResourceBinding { status, ..(*b).clone() })),
        })
    }

    /// The bindings under this value of an index, namespaced ones first.
    pub(crate) fn by_index(&self, index: &'static str, value: &str) -> Vec<AnyBinding> {
        let namespaced = self.namespaced.by_index(index, value).into_iter().map(AnyBinding::Namespaced);
        namespaced.chain(self.cluster_scoped.by_index(index, value).into_iter().map(AnyBinding::Cluster)).collect()
    }

    /// All bindings, namespaced ones first.
    pub(crate) fn list(&self) -> Vec<AnyBinding> {
        let namespaced = self.namespaced.list().into_iter().map(AnyBinding::Namespaced);
        namespaced.chain(self.cluster_scoped.list().into_iter().map(AnyBinding::Cluster)).collect()
    }

    /// Requests a part of a binding's status.
    pub(crate) fn request_status(&self, key: &Key, uid: &str, contributor: &'static str, part: StatusPart) {
        if key.namespace.is_empty() {
            self.cluster_scoped_status.request(key, uid, contributor, part, false);
        } else {
            self.status.request(key, uid, contributor, part, false);
        }
    }

    /// Notes that the binding changed in a way that will soon change its status more than once: its status is written
    /// after some quiet, so that it does not conflict with the next result.
    pub(crate) fn note_activity(&self, key: &Key) {
        if key.namespace.is_empty() {
            self.cluster_scoped_status.note_activity(key.clone());
        } else {
            self.status.note_activity(key.clone());
        }
    }

    /// Merge-patches a binding, provided that it is still the version seen.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; otherwise the failure of the request.
    pub(crate) async fn patch(&self, writer: &Writer, seen: &AnyBinding, patch: Value) -> Result<(), Failure> {
        match seen {
            AnyBinding::Namespaced(b) => {
                let api = Api::namespaced(self.plane.clone(), b.metadata.namespace.as_deref().unwrap_or_default());
                writer.patch(&api, Some(&self.namespaced), &**b, patch).await.map(drop)
            }
            AnyBinding::Cluster(b) => {
                let api = Api::all(self.plane.clone());
                writer.patch(&api, Some(&self.cluster_scoped), &**b, patch).await.map(drop)
            }
        }
    }

    /// True if every requested status is written.
    pub(crate) fn is_quiet(&self) -> bool {
        self.status.is_quiet() && self.cluster_scoped_status.is_quiet()
    }
}
