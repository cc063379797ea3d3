//! Works of objects that the control plane creates itself, without a binding: impersonation
//! (specification/propagation.md 23), quotas (specification/propagation.md 25), autoscalers of members
//! (specification/autoscaling.md 6) and services over clusters (specification/mcs.md).

use std::sync::Arc;

use ironclad_api::{
    OwnerReference, StringMap, annotations, finalizers, labels, names,
    work::{Work, WorkSpec, WorkloadTemplate},
};
use ironclad_fleet::{ClusterName, WorkKey, finalizer, merge_patch_between};
use serde_json::{Value, json};

use super::{
    Owner, key_of,
    manifest::{self, Marks},
    owner,
};
use crate::{new_ids::NewIds, template::Identity};

/// Labels by which a Work belongs to a binding.
const BINDING_LABELS: [&str; 2] =
    [labels::RESOURCE_BINDING_PERMANENT_ID, labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID];
/// Annotations that name the binding of a Work.
const BINDING_ANNOTATIONS: [&str; 3] = [
    annotations::RESOURCE_BINDING_NAMESPACE,
    annotations::RESOURCE_BINDING_NAME,
    annotations::CLUSTER_RESOURCE_BINDING_NAME,
];

/// Object that one cluster should have.
#[derive(Debug, Clone)]
pub struct DesiredWork<'a> {
    pub cluster: &'a ClusterName,
    /// The object in the member.
    pub manifest: Value,
    /// Labels of the Work besides its id.
    pub labels: StringMap,
    /// Annotations of the Work besides its conflict resolution.
    pub annotations: StringMap,
    /// Handling of a Work of a binding under the same name.
    pub of_binding: OfBinding,
    /// Owner of the Work, for garbage collection.
    pub owner: Option<OwnerReference>,
    /// `work.karmada.io/conflict-resolution` of the Work.
    pub conflict_resolution: &'static str,
    /// The Work only carries its manifest to the control plane, and is never applied (specification/api.md 8).
    pub reports_only: bool,
}

/// Handling of a Work of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfBinding {
    /// The binding keeps it.
    Keeps,
    /// It changes hands: the binding is about to be deleted, and the object in the member has to stay.
    Loses,
}

/// Write of a Work.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Create(Box<Work>),
    /// Patch a Work, without resourceVersion.
    Patch {
        key: WorkKey,
        patch: Value,
    },
    /// Delete a Work that is no longer needed.
    Delete {
        key: WorkKey,
        uid: String,
    },
}

/// The key of the Work of an object in a cluster.
#[must_use]
pub fn key(cluster: &ClusterName, kind: &str, namespace: &str, name: &str) -> WorkKey {
    WorkKey { cluster: cluster.clone(), name: names::work_name(kind, namespace, name).into() }
}

/// Creates or updates the Work. `None` if it is up to date, if it belongs to a binding, or while its predecessor is
/// being deleted: the end of that reconciles again.
#[must_use]
pub fn write(desired: DesiredWork<'_>, existing: Option<&Work>, ids: &mut NewIds) -> Option<Write> {
    let is_of_binding = |work: &Work| matches!(owner(work), Some(Owner::Binding { .. }));
    let kept = desired.of_binding == OfBinding::Keeps;
    if existing.is_some_and(|work| work.metadata.deletion_timestamp.is_some() || (kept && is_of_binding(work))) {
        return None;
    }
    let mut work = existing.cloned().unwrap_or_else(|| {
        let identity = Identity::of(&desired.manifest);
        let name = names::work_name(identity.kind, identity.namespace, identity.name);
        let mut work = Work::new(&name, WorkSpec::default());
        work.metadata.namespace = Some(names::execution_namespace(&desired.cluster.0));
        work
    });
    if let Some(owner) = desired.owner {
        work.metadata.owner_references = Some(vec![owner]);
    }
    if desired.reports_only {
        work.spec.suspend_dispatching = Some(true);
    } else {
        finalizer::add(&mut work.metadata, finalizers::EXECUTION_CONTROLLER);
    }
    let label_map = work.metadata.labels.get_or_insert_default();
    label_map.retain(|key, _| kept || !BINDING_LABELS.contains(&key.as_str()));
    label_map.extend(desired.labels);
    let work_id = label_map.entry(labels::WORK_PERMANENT_ID.into()).or_insert_with(|| ids.allocate()).clone();
    let annotation_map = work.metadata.annotations.get_or_insert_default();
    annotation_map.retain(|key, _| kept || !BINDING_ANNOTATIONS.contains(&key.as_str()));
    annotation_map.extend(desired.annotations);
    annotation_map.insert(annotations::CONFLICT_RESOLUTION.into(), desired.conflict_resolution.into());
    let mut manifest = desired.manifest;
    let marks = Marks {
        work_namespace: work.metadata.namespace.as_deref().unwrap_or_default(),
        work_name: work.metadata.name.as_deref().unwrap_or_default(),
        work_id: &work_id,
        conflict_resolution: desired.conflict_resolution,
    };
    manifest::finish(&mut manifest, &marks);
    work.spec.workload = WorkloadTemplate { manifests: vec![manifest.into()] };
    match existing {
        None => Some(Write::Create(Box::new(work))),
        Some(existing) => {
            let patch = merge_patch_between(&written(existing), &written(&work))?;
            Some(Write::Patch { key: key_of(existing)?, patch })
        }
    }
}

/// Deletes a Work, unless it is being deleted already.
#[must_use]
pub fn delete(work: &Arc<Work>) -> Option<Write> {
    let uid = work.metadata.uid.clone().unwrap_or_default();
    work.metadata.deletion_timestamp.is_none().then_some(())?;
    Some(Write::Delete { key: key_of(work)?, uid })
}

fn written(work: &Work) -> Value {
    json!({
        "metadata": {
            "labels": work.metadata.labels,
            "annotations": work.metadata.annotations,
            "finalizers": work.metadata.finalizers,
            "ownerReferences": work.metadata.owner_references,
        },
        "spec": work.spec,
    })
}
