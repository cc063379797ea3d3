//! Indexes of the shared caches, and the keys under which they find objects.

use ironclad_api::{
    annotations,
    autoscaling::FederatedHPA,
    labels, names,
    work::{ResourceBindingSpec, Work},
};
use ironclad_fleet::{ClusterName, Gvk, ObjectKey, eviction_task};
use ironclad_runtime::Key;
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use kube::{Resource, ResourceExt as _};

/// Works of one binding, by its permanent id.
pub(crate) const BY_BINDING: &str = "binding";
/// Bindings of one template, by [`template_name`].
pub(crate) const BY_TEMPLATE: &str = "template";
/// Bindings and templates claimed by one policy, by its permanent id.
pub(crate) const BY_POLICY: &str = "policy";
/// Bindings with graceful eviction tasks, by the clusters that they leave and by those of their result.
pub(crate) const BY_EVICTION: &str = "eviction";
/// Preempted bindings, by the bindings that preempted them.
pub(crate) const BY_PREEMPTOR: &str = "preemptor";
/// Bindings by the clusters of their result.
pub(crate) const BY_TARGET: &str = "target";
/// Bindings by the dependencies that they recorded.
pub(crate) const BY_DEPENDENCY: &str = "dependency";
/// Works of one FederatedResourceQuota, by its namespace and name.
pub(crate) const BY_QUOTA: &str = "quota";
/// Works of one distributed HorizontalPodAutoscaler, by its uid.
pub(crate) const BY_AUTOSCALER: &str = "autoscaler";
/// Works of one MultiClusterService, by its namespace and name.
pub(crate) const BY_SERVICE: &str = "service";
/// Works of one ServiceExport, by its namespace and name.
pub(crate) const BY_EXPORT: &str = "export";
/// Autoscalers by the workload that they scale.
pub(crate) const BY_SCALED: &str = "scaled";
/// Attached bindings by the labels that name the bindings that need them.
pub(crate) const BY_DEPENDENT: &str = "dependent";

/// The clusters of a binding's result.
pub(crate) fn target_names(spec: &ResourceBindingSpec) -> Vec<String> {
    spec.clusters.iter().map(|target| target.name.clone()).collect()
}

/// The clusters that a binding with graceful eviction tasks leaves, and those of its result; none without tasks.
pub(crate) fn evicting(spec: &ResourceBindingSpec) -> Vec<String> {
    let mut all: Vec<String> = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.clone()).collect();
    if !all.is_empty() {
        all.extend(target_names(spec));
        all.sort();
        all.dedup();
    }
    all
}

/// The bindings that preempted this one, as long as its tasks last.
pub(crate) fn preemptors(spec: &ResourceBindingSpec) -> Vec<String> {
    let named = spec.graceful_eviction_tasks.iter().filter_map(eviction_task::preemptor);
    named.map(|preemptor| preemptor.to_string()).collect()
}

/// The value of [`BY_TEMPLATE`] for a binding.
pub(crate) fn template_of(spec: &ResourceBindingSpec) -> String {
    let r = &spec.resource;
    index_name(&r.api_version, &r.kind, &r.namespace, &r.name)
}

/// The value of [`BY_SCALED`] for a FederatedHPA.
pub(crate) fn scaled(hpa: &FederatedHPA) -> String {
    scaled_name(&hpa.namespace().unwrap_or_default(), &hpa.spec.scale_target_ref)
}

/// The value of [`BY_SCALED`] for a workload.
pub(crate) fn scaled_name(namespace: &str, target: &CrossVersionObjectReference) -> String {
    index_name(target.api_version.as_deref().unwrap_or_default(), &target.kind, namespace, &target.name)
}

/// The value of [`BY_TEMPLATE`] for a template.
pub(crate) fn template_name(key: &ObjectKey) -> String {
    index_name(&key.gvk.api_version(), &key.gvk.kind, &key.namespace, &key.name)
}

fn index_name(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{api_version}/{kind}/{namespace}/{name}")
}

/// The key of a binding's template.
pub(crate) fn template_key(spec: &ResourceBindingSpec) -> ObjectKey {
    let resource = &spec.resource;
    ObjectKey {
        gvk: Gvk::from_manifest(&resource.api_version, &resource.kind),
        namespace: resource.namespace.as_str().into(),
        name: resource.name.as_str().into(),
    }
}

/// The key of an object of this kind.
pub(crate) fn object_key<K: Resource>(gvk: &Gvk, object: &K) -> ObjectKey {
    let Key { namespace, name } = Key::of(object);
    ObjectKey { gvk: gvk.clone(), namespace, name }
}

/// The cluster whose execution space contains the Work.
pub(crate) fn cluster_of(work: &Work) -> Option<ClusterName> {
    names::cluster_of_execution_namespace(work.metadata.namespace.as_deref()?).ok().map(ClusterName::from)
}

/// The binding that a Work belongs to, by its annotations.
pub(crate) fn binding_of(work: &Work) -> Option<Key> {
    let annotations = work.annotations();
    if let Some(name) = annotations.get(annotations::CLUSTER_RESOURCE_BINDING_NAME) {
        return Some(Key::new("", name));
    }
    let namespace = annotations.get(annotations::RESOURCE_BINDING_NAMESPACE)?;
    Some(Key::new(namespace, annotations.get(annotations::RESOURCE_BINDING_NAME)?))
}

/// The permanent ids of the policies that claim an object.
pub(crate) fn policy_ids<K: Resource>(object: &K) -> Vec<String> {
    let mut ids = label(object, labels::PROPAGATION_POLICY_PERMANENT_ID);
    ids.extend(label(object, labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID));
    ids
}

/// The permanent ids of the binding that a Work belongs to.
pub(crate) fn binding_ids(work: &Work) -> Vec<String> {
    let mut ids = label(work, labels::RESOURCE_BINDING_PERMANENT_ID);
    ids.extend(label(work, labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID));
    ids
}

fn label<K: Resource>(object: &K, label: &str) -> Vec<String> {
    object.labels().get(label).filter(|v| !v.is_empty()).cloned().into_iter().collect()
}
