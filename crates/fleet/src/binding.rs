//! A ResourceBinding or ClusterResourceBinding behind one type.

use std::sync::Arc;

use ironclad_api::{
    Condition, ObjectMeta,
    conditions::{self, binding::SCHEDULED},
    finalizers, labels,
    work::{ClusterResourceBinding, ObjectReference, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus},
};
use jiff::Timestamp;

use crate::{BindingKey, Gvk, ObjectKey};

/// A shared binding of either kind.
#[derive(Debug, Clone)]
pub enum Binding {
    /// The binding of a namespaced template.
    Namespaced(Arc<ResourceBinding>),
    /// The binding of a cluster-scoped template.
    Cluster(Arc<ClusterResourceBinding>),
}

/// A borrowed binding of either kind.
#[derive(Debug, Clone, Copy)]
pub enum BindingRef<'a> {
    /// The binding of a namespaced template.
    Namespaced(&'a ResourceBinding),
    /// The binding of a cluster-scoped template.
    Cluster(&'a ClusterResourceBinding),
}

impl From<Arc<ResourceBinding>> for Binding {
    fn from(binding: Arc<ResourceBinding>) -> Self {
        Self::Namespaced(binding)
    }
}

impl From<Arc<ClusterResourceBinding>> for Binding {
    fn from(binding: Arc<ClusterResourceBinding>) -> Self {
        Self::Cluster(binding)
    }
}

impl<'a> From<&'a ResourceBinding> for BindingRef<'a> {
    fn from(binding: &'a ResourceBinding) -> Self {
        Self::Namespaced(binding)
    }
}

impl<'a> From<&'a ClusterResourceBinding> for BindingRef<'a> {
    fn from(binding: &'a ClusterResourceBinding) -> Self {
        Self::Cluster(binding)
    }
}

impl<'a> From<&'a Binding> for BindingRef<'a> {
    fn from(binding: &'a Binding) -> Self {
        binding.view()
    }
}

impl Binding {
    /// Borrows the binding.
    #[must_use]
    pub fn view(&self) -> BindingRef<'_> {
        match self {
            Self::Namespaced(binding) => BindingRef::Namespaced(binding),
            Self::Cluster(binding) => BindingRef::Cluster(binding),
        }
    }

    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        self.view().metadata()
    }

    #[must_use]
    pub fn spec(&self) -> &ResourceBindingSpec {
        self.view().spec()
    }

    /// Spec, to change it. Clones the object if it is shared.
    pub fn spec_mut(&mut self) -> &mut ResourceBindingSpec {
        match self {
            Self::Namespaced(binding) => &mut Arc::make_mut(binding).spec,
            Self::Cluster(binding) => &mut Arc::make_mut(binding).spec,
        }
    }

    /// Status, if one was ever written.
    #[must_use]
    pub fn status(&self) -> Option<&ResourceBindingStatus> {
        self.view().status()
    }

    /// Kind, as in manifests.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.view().kind()
    }

    /// `metadata.uid`, empty if unset.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.view().uid()
    }

    /// Key of the binding.
    #[must_use]
    pub fn key(&self) -> BindingKey {
        self.view().key()
    }

    /// Key of the template.
    #[must_use]
    pub fn template(&self) -> ObjectKey {
        self.view().template()
    }

    /// True once the scheduler has observed the current generation.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.view().observed_generation() >= self.view().generation()
    }

    /// Reference to the binding, for events.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        self.view().reference()
    }
}

impl<'a> BindingRef<'a> {
    #[must_use]
    pub fn metadata(self) -> &'a ObjectMeta {
        match self {
            Self::Namespaced(binding) => &binding.metadata,
            Self::Cluster(binding) => &binding.metadata,
        }
    }

    #[must_use]
    pub fn spec(self) -> &'a ResourceBindingSpec {
        match self {
            Self::Namespaced(binding) => &binding.spec,
            Self::Cluster(binding) => &binding.spec,
        }
    }

    /// Status, if one was ever written.
    #[must_use]
    pub fn status(self) -> Option<&'a ResourceBindingStatus> {
        match self {
            Self::Namespaced(binding) => binding.status.as_ref(),
            Self::Cluster(binding) => binding.status.as_ref(),
        }
    }

    /// Kind, as in manifests.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Namespaced(_) => "ResourceBinding",
            Self::Cluster(_) => "ClusterResourceBinding",
        }
    }

    /// `metadata.uid`, empty if unset.
    #[must_use]
    pub fn uid(self) -> &'a str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// Key of the binding.
    #[must_use]
    pub fn key(self) -> BindingKey {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        BindingKey { namespace: text(&self.metadata().namespace), name: text(&self.metadata().name) }
    }

    /// Key of the template.
    #[must_use]
    pub fn template(self) -> ObjectKey {
        let resource = &self.spec().resource;
        ObjectKey {
            gvk: Gvk::from_manifest(&resource.api_version, &resource.kind),
            namespace: resource.namespace.as_str().into(),
            name: resource.name.as_str().into(),
        }
    }

    /// Returns whether this is the binding of the template, in any version of its API group.
    #[must_use]
    pub fn is_of(self, template: &ObjectKey) -> bool {
        let resource = &self.spec().resource;
        let group = resource.api_version.split_once('/').map_or("", |(group, _)| group);
        group == &*template.gvk.group
            && resource.kind == *template.gvk.kind
            && resource.namespace == *template.namespace
            && resource.name == *template.name
    }

    /// Reference to the binding, for events.
    #[must_use]
    pub fn reference(self) -> ObjectReference {
        self.key().reference(self.uid())
    }

    /// Label that carries the permanent id of this kind of binding.
    #[must_use]
    pub fn id_label(self) -> &'static str {
        match self {
            Self::Namespaced(_) => labels::RESOURCE_BINDING_PERMANENT_ID,
            Self::Cluster(_) => labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
        }
    }

    /// Permanent id, if one was assigned.
    #[must_use]
    pub fn permanent_id(self) -> Option<&'a str> {
        let id = self.metadata().labels.as_ref()?.get(self.id_label())?;
        (!id.is_empty()).then_some(id)
    }

    /// Finalizer of this kind of binding.
    #[must_use]
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced(_) => finalizers::BINDING_CONTROLLER,
            Self::Cluster(_) => finalizers::CLUSTER_RESOURCE_BINDING_CONTROLLER,
        }
    }

    /// Returns whether the binding is being deleted.
    #[must_use]
    pub fn is_deleting(self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// `metadata.generation`, 0 if unset.
    #[must_use]
    pub fn generation(self) -> i64 {
        self.metadata().generation.unwrap_or_default()
    }

    /// `status.schedulerObservedGeneration`, 0 if the binding was never scheduled.
    #[must_use]
    pub fn observed_generation(self) -> i64 {
        self.status().map_or(0, |status| status.scheduler_observed_generation)
    }

    /// `status.schedulerObservingAffinityName`, empty if unset.
    #[must_use]
    pub fn observed_group(self) -> &'a str {
        self.status().map_or("", |status| &status.scheduler_observed_affinity_name)
    }

    /// `status.lastScheduledTime`.
    #[must_use]
    pub fn last_scheduled(self) -> Option<Timestamp> {
        self.status()?.last_scheduled_time.as_ref().map(|time| time.0)
    }

    /// `status.conditions`.
    #[must_use]
    pub fn conditions(self) -> &'a [Condition] {
        self.status().map_or(&[], |status| &status.conditions)
    }

    /// Condition `Scheduled`.
    #[must_use]
    pub fn scheduled(self) -> Option<&'a Condition> {
        conditions::get(self.conditions(), SCHEDULED)
    }

    /// Returns whether condition `Scheduled` is `True`.
    #[must_use]
    pub fn is_scheduled(self) -> bool {
        conditions::is_true(self.conditions(), SCHEDULED)
    }

    /// True if a reschedule was requested after the last scheduling (specification/scheduling.md 1, 16.15). Stored
    /// times have whole seconds, so a request in the second of the last scheduling counts as later.
    #[must_use]
    pub fn reschedule_required(self) -> bool {
        let requested = self.spec().reschedule_triggered_at.as_ref().map(|time| time.0);
        matches!((requested, self.last_scheduled()), (Some(requested), Some(last)) if requested >= last)
    }
}
