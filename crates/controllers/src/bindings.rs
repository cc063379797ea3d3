//! Bindings of either kind under one key: a ClusterResourceBinding is the one without a namespace.

use std::sync::{Arc, Weak};

use ironclad_api::work::{ClusterResourceBinding, ResourceBinding};
use ironclad_fleet::{Binding, ObjectKey, StatusPart};
use ironclad_runtime::{Api, Caches, Change, Failure, Informer, Key, StatusWriter, Writer};
use ironclad_seam::Seam;
use kube::Client;
use serde_json::Value;

use crate::{
    caches::{BINDINGS, CLUSTER_BINDINGS},
    events::Events,
    index::{BY_TEMPLATE, template_name},
    targets::{Typed, json},
};

/// The key of a binding in queues and caches.
pub(crate) fn queue_key(binding: &Binding) -> Key {
    match binding {
        Binding::Namespaced(binding) => Key::of(&**binding),
        Binding::Cluster(binding) => Key::of(&**binding),
    }
}

/// A change of a binding of either kind.
pub(crate) struct BindingChange {
    /// The binding before, `None` if it is new.
    pub(crate) old: Option<Binding>,
    /// The binding after, `None` if it was deleted.
    pub(crate) new: Option<Binding>,
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
    pub(crate) fn start(seam: &Seam, plane: &Client, caches: &Caches, events: &Events) -> Self {
        let (namespaced, cluster_scoped) = (caches.take(&BINDINGS), caches.take(&CLUSTER_BINDINGS));
        let target = Typed {
            client: plane.clone(),
            cache: namespaced.clone(),
            writer: Writer::new("bindingStatus"),
            events: events.clone(),
            api: |client, namespace| Api::namespaced(client.clone(), namespace),
            status: |b: &ResourceBinding| json(&b.status),
        };
        let status = StatusWriter::start("status/bindings", seam, target);
        let target = Typed {
            client: plane.clone(),
            cache: cluster_scoped.clone(),
            writer: Writer::new("bindingStatus"),
            events: events.clone(),
            api: |client, _| Api::all(client.clone()),
            status: |b: &ClusterResourceBinding| json(&b.status),
        };
        let cluster_scoped_status = StatusWriter::start("status/clusterbindings", seam, target);
        Self { namespaced, cluster_scoped, plane: plane.clone(), status, cluster_scoped_status }
    }

    /// Calls the handler for every change of a binding of either kind as long as the controller lives.
    pub(crate) fn on_change<C: Send + Sync + 'static>(&self, controller: &Arc<C>, handler: fn(&C, &BindingChange)) {
        fn call<C, K>(controller: &Weak<C>, change: &Change<K>, handler: fn(&C, &BindingChange))
        where
            Binding: From<Arc<K>>,
        {
            let Some(controller) = controller.upgrade() else { return };
            let (old, new) = (change.old.clone().map(Binding::from), change.new.clone().map(Binding::from));
            handler(&controller, &BindingChange { old, new });
        }
        let weak = Arc::downgrade(controller);
        self.namespaced.on_change(move |change| call(&weak, change, handler));
        let weak = Arc::downgrade(controller);
        self.cluster_scoped.on_change(move |change| call(&weak, change, handler));
    }

    /// True once all bindings of this one's kind are in the cache.
    pub(crate) fn is_synced(&self, of: &Binding) -> bool {
        match of {
            Binding::Namespaced(_) => self.namespaced.is_synced(),
            Binding::Cluster(_) => self.cluster_scoped.is_synced(),
        }
    }

    /// The binding of this key.
    pub(crate) fn get(&self, key: &Key) -> Option<Binding> {
        if key.namespace.is_empty() {
            self.cluster_scoped.get_key(key).map(Binding::Cluster)
        } else {
            self.namespaced.get_key(key).map(Binding::Namespaced)
        }
    }

    /// The binding with its status as it will be once all requests are written.
    pub(crate) fn get_as_requested(&self, key: &Key) -> Option<Binding> {
        let binding = self.get(key)?;
        let status = match &binding {
            Binding::Namespaced(b) => self.status.read(key, binding.uid(), || json(&b.status)),
            Binding::Cluster(b) => self.cluster_scoped_status.read(key, binding.uid(), || json(&b.status)),
        };
        let Some(status) = status else { return Some(binding) };
        let status = serde_json::from_value(status).ok();
        Some(match binding {
            Binding::Namespaced(b) => Binding::Namespaced(Arc::new(ResourceBinding { status, ..(*b).clone() })),
            Binding::Cluster(b) => Binding::Cluster(Arc::new(ClusterResourceBinding { status, ..(*b).clone() })),
        })
    }

    /// The bindings under this value of an index, namespaced ones first.
    pub(crate) fn by_index(&self, index: &'static str, value: &str) -> Vec<Binding> {
        let namespaced = self.namespaced.by_index(index, value).into_iter().map(Binding::Namespaced);
        namespaced.chain(self.cluster_scoped.by_index(index, value).into_iter().map(Binding::Cluster)).collect()
    }

    /// The binding that a policy makes for a template: the one in the template's own namespace, or without a namespace.
    /// A cluster-scoped template may besides have a namespaced binding, as a dependency of a workload.
    pub(crate) fn of_template(&self, template: &ObjectKey) -> Option<Binding> {
        let all = self.by_index(BY_TEMPLATE, &template_name(template));
        all.into_iter().find(|binding| *binding.view().key().namespace == *template.namespace)
    }

    /// All bindings, namespaced ones first.
    pub(crate) fn list(&self) -> Vec<Binding> {
        let namespaced = self.namespaced.list().into_iter().map(Binding::Namespaced);
        namespaced.chain(self.cluster_scoped.list().into_iter().map(Binding::Cluster)).collect()
    }

    /// Requests a part of a binding's status.
    pub(crate) fn request_status(&self, key: &Key, uid: &str, contributor: &'static str, part: StatusPart) {
        self.request(key, uid, contributor, part, false);
    }

    /// The same for a part that others wait for: it is written at once.
    pub(crate) fn request_urgent_status(&self, key: &Key, uid: &str, contributor: &'static str, part: StatusPart) {
        self.request(key, uid, contributor, part, true);
    }

    fn request(&self, key: &Key, uid: &str, contributor: &'static str, part: StatusPart, urgent: bool) {
        if key.namespace.is_empty() {
            self.cluster_scoped_status.request(key, uid, contributor, part, urgent);
        } else {
            self.status.request(key, uid, contributor, part, urgent);
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
    pub(crate) async fn patch(&self, writer: &Writer, seen: &Binding, patch: Value) -> Result<(), Failure> {
        match seen {
            Binding::Namespaced(b) => {
                let api = Api::namespaced(self.plane.clone(), b.metadata.namespace.as_deref().unwrap_or_default());
                writer.patch(&api, Some(&self.namespaced), &**b, patch).await.map(drop)
            }
            Binding::Cluster(b) => {
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
