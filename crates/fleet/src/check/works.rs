//! Works against the bindings and namespaces that they are for.

use std::collections::BTreeMap;

use ironclad_api::{
    annotations, finalizers, labels,
    work::{ResourceBindingSpec, Work},
};
use serde_json::Value;

use super::Violation;
use crate::{BindingKey, ClusterName, Gvk, ObjectKey, WorkKey, World, targets};

/// Expected state of a binding's Works.
struct Bound<'a> {
    key: &'a BindingKey,
    spec: &'a ResourceBindingSpec,
    deleting: bool,
    /// The first Work found in each cluster, not being deleted.
    works: BTreeMap<ClusterName, &'a WorkKey>,
}

/// No Work without binding or namespace, one per target, and as the binding says.
pub(super) fn works(world: &World, found: &mut Vec<Violation>) {
    let id_of = |metadata: &'_ ironclad_api::ObjectMeta, label: &str| -> Option<String> {
        metadata.labels.as_ref()?.get(label).filter(|id| !id.is_empty()).cloned()
    };
    let mut ids: Vec<(String, Bound<'_>)> = Vec::new();
    for (key, binding) in &world.bindings {
        if let Some(id) = id_of(&binding.metadata, labels::RESOURCE_BINDING_PERMANENT_ID) {
            let deleting = binding.metadata.deletion_timestamp.is_some();
            ids.push((id, Bound { key, spec: &binding.spec, deleting, works: BTreeMap::new() }));
        }
    }
    for (key, binding) in &world.cluster_bindings {
        if let Some(id) = id_of(&binding.metadata, labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID) {
            let deleting = binding.metadata.deletion_timestamp.is_some();
            ids.push((id, Bound { key, spec: &binding.spec, deleting, works: BTreeMap::new() }));
        }
    }
    let mut bound: BTreeMap<String, Bound<'_>> = ids.into_iter().collect();

    let mut work_ids: BTreeMap<&str, &WorkKey> = BTreeMap::new();
    for (key, work) in &world.works {
        let label = |label: &str| work.metadata.labels.as_ref().and_then(|l| l.get(label)).filter(|id| !id.is_empty());
        if let Some(id) = label(labels::WORK_PERMANENT_ID)
            && let Some(first) = work_ids.insert(id, key)
        {
            let (first, second) = (format!("Work {first}"), format!("Work {key}"));
            found.push(Violation::IdShared { id: id.clone(), first, second });
        }
        if work.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let binding = label(labels::RESOURCE_BINDING_PERMANENT_ID)
            .or_else(|| label(labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID));
        match binding {
            Some(id) => match bound.get_mut(id) {
                Some(bound) => of_binding(key, work, bound, found),
                None => found.push(Violation::WorkWithoutBinding { work: key.clone(), id: id.clone() }),
            },
            None => of_namespace(world, key, work, found),
        }
    }
    for bound in bound.values().filter(|bound| !bound.deleting) {
        for target in targets::targets(bound.spec) {
            if world.clusters.contains_key(&target.cluster) && !bound.works.contains_key(&target.cluster) {
                found.push(Violation::WorkMissing { binding: bound.key.clone(), cluster: target.cluster });
            }
        }
    }
}

fn of_binding<'a>(key: &'a WorkKey, work: &Work, bound: &mut Bound<'a>, found: &mut Vec<Violation>) {
    let binding = || bound.key.clone();
    let [manifest] = work.spec.workload.manifests.as_slice() else {
        found.push(Violation::ManifestCount { work: key.clone(), count: work.spec.workload.manifests.len() });
        return;
    };
    let manifest = &manifest.object();
    marks(key, work, manifest, found);
    if bound.deleting || !targets::expected_clusters(bound.spec).contains(&key.cluster) {
        found.push(Violation::WorkUnexpected { work: key.clone(), binding: binding() });
        return;
    }
    if let Some(first) = bound.works.get(&key.cluster) {
        found.push(Violation::WorkTwice { first: (*first).clone(), second: key.clone(), binding: binding() });
        return;
    }
    // A cluster that is being left keeps its Work as it was: only targets are compared.
    if let Some(target) = targets::targets(bound.spec).into_iter().find(|target| target.cluster == key.cluster) {
        for field in differences(work, manifest, bound.spec, &target) {
            found.push(Violation::WorkDiffers { work: key.clone(), binding: binding(), field });
        }
    }
    bound.works.insert(key.cluster.clone(), key);
}

fn differences(
    work: &Work,
    manifest: &Value,
    spec: &ResourceBindingSpec,
    target: &targets::Target,
) -> Vec<&'static str> {
    let mut fields = Vec::new();
    let suspended = spec.suspension.as_ref().is_some_and(|suspension| {
        suspension.dispatching == Some(true)
            || suspension
                .dispatching_on_clusters
                .as_ref()
                .is_some_and(|on| on.cluster_names.iter().any(|name| **name == *target.cluster.0))
    });
    if work.spec.suspend_dispatching.unwrap_or(false) != suspended {
        fields.push("suspendDispatching");
    }
    let preserved = spec.preserve_resources_on_deletion.unwrap_or(false);
    if work.spec.preserve_resources_on_deletion.unwrap_or(false) != preserved {
        fields.push("preserveResourcesOnDeletion");
    }
    if !work.metadata.finalizers.iter().flatten().any(|f| f == finalizers::EXECUTION_CONTROLLER) {
        fields.push("metadata.finalizers");
    }
    let at = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if (at("/kind"), at("/metadata/namespace"), at("/metadata/name"))
        != (&*spec.resource.kind, &*spec.resource.namespace, &*spec.resource.name)
    {
        fields.push("workload");
    }
    // An override may set replicas as it likes.
    let overridden = work.metadata.annotations.as_ref().is_some_and(|a| {
        a.contains_key(annotations::APPLIED_OVERRIDES) || a.contains_key(annotations::APPLIED_CLUSTER_OVERRIDES)
    });
    let replicas = match (at("/apiVersion"), at("/kind")) {
        ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") => manifest.pointer("/spec/replicas"),
        ("batch/v1", "Job") => manifest.pointer("/spec/parallelism"),
        _ => None,
    };
    if spec.is_workload()
        && spec.components.is_empty()
        && !overridden
        && replicas.and_then(Value::as_i64).is_some_and(|replicas| replicas != i64::from(target.replicas))
    {
        fields.push("replicas");
    }
    fields
}

/// The marks by which a member object is found back (specification/propagation.md 9.4).
fn marks(key: &WorkKey, work: &Work, manifest: &Value, found: &mut Vec<Violation>) {
    let value = |map: &str, key: &str| {
        manifest
            .get("metadata")
            .and_then(|m| m.get(map))
            .and_then(|m| m.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let id = work.metadata.labels.as_ref().and_then(|l| l.get(labels::WORK_PERMANENT_ID)).map_or("", String::as_str);
    for (map, mark, want) in [
        ("labels", labels::MANAGED, labels::TRUE),
        ("labels", labels::WORK_PERMANENT_ID, id),
        ("annotations", annotations::WORK_NAME, &*key.name),
        ("annotations", annotations::WORK_NAMESPACE, work.metadata.namespace.as_deref().unwrap_or_default()),
    ] {
        if value(map, mark) != want {
            found.push(Violation::ManifestUnmarked { work: key.clone(), key: mark });
        }
    }
}

fn of_namespace(world: &World, key: &WorkKey, work: &Work, found: &mut Vec<Violation>) {
    let owner = work.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Namespace");
    let Some(owner) = owner else { return };
    let gvk = Gvk::from_manifest(&owner.api_version, &owner.kind);
    let namespace = ObjectKey { gvk, namespace: "".into(), name: owner.name.as_str().into() };
    let exists = world
        .templates
        .get(&namespace)
        .is_some_and(|object| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(&*owner.uid));
    if !exists {
        found.push(Violation::WorkWithoutNamespace { work: key.clone(), namespace: owner.name.clone() });
    }
}
