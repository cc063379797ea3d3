//! The object in the member that a Work is for.

use std::borrow::Cow;

use ironclad_api::{
    annotations,
    cluster::Cluster,
    labels,
    work::{Named, ObjectReference, Work},
};
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_interpreter::Interpreter;
use serde_json::Value;

use crate::{template, work::manifest};

/// The object in the member that the Work is for; `None` if its manifest names none.
#[must_use]
pub fn object_key(work: &Work) -> Option<ObjectKey> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    let Named { api_version, kind, metadata } = manifest.named();
    let is_named = !kind.is_empty() && !metadata.name.is_empty();
    is_named.then(|| ObjectKey {
        gvk: Gvk::from_manifest(&api_version, &kind),
        namespace: metadata.namespace.into(),
        name: metadata.name.into(),
    })
}

/// The version and the plural name under which a member serves a kind: its own version, otherwise another one. A member
/// that dropped the version of a Work still has the object. `None` if the member does not serve the kind.
#[must_use]
pub fn serving_api(cluster: &Cluster, gvk: &Gvk) -> Option<(Gvk, String)> {
    let enablements = cluster.status.iter().flat_map(|status| &status.api_enablements);
    let versions = enablements.filter_map(|enablement| {
        let served = Gvk::from_manifest(&enablement.group_version, &gvk.kind);
        let resource = enablement.resources.iter().find(|resource| *resource.kind == *gvk.kind)?;
        (served.group == gvk.group).then(|| (served, resource.name.clone()))
    });
    versions.min_by_key(|(served, _)| (served.version != gvk.version, served.version.clone()))
}

/// The version in which the control plane serves a kind that a Work has in a version of older members: it is the same
/// resource (specification/autoscaling.md 6.7).
#[must_use]
pub fn successor(gvk: &Gvk) -> Option<Gvk> {
    let is_older = (&*gvk.group, &*gvk.kind) == ("autoscaling", "HorizontalPodAutoscaler")
        && matches!(&*gvk.version, "v2beta1" | "v2beta2");
    is_older.then(|| Gvk { version: "v2".into(), ..gvk.clone() })
}

/// The kind of a Work whose replicas the member decides, if it is not known where the kind has them
/// ([`Interpreter::missing_replicas_path`]).
#[must_use]
pub fn missing_replicas_path(work: &Work, interpreter: &Interpreter) -> Option<Gvk> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    // Most manifests need not be parsed to know.
    let text = manifest.as_str();
    if !text.contains(labels::RETAIN_REPLICAS) && !text.contains(annotations::FEDERATED_HPA_APPLIED_REPLICAS) {
        return None;
    }
    interpreter.missing_replicas_path(&manifest.object())
}

/// The manifest as it is sent to the member. Our binding controller completes manifests itself; those of other writers
/// of Works may lack the labels and annotations by which their objects are found again (specification/propagation.md
/// 9.4).
pub(super) fn finished<'a>(work: &'a Work, manifest: &'a Value) -> Cow<'a, Value> {
    let text = |field: &'a Option<String>| field.as_deref().unwrap_or_default();
    let (work_namespace, work_name) = (text(&work.metadata.namespace), text(&work.metadata.name));
    let is_finished = template::label(manifest, labels::MANAGED) == labels::TRUE
        && template::annotation(manifest, annotations::WORK_NAMESPACE) == work_namespace
        && template::annotation(manifest, annotations::WORK_NAME) == work_name
        && !template::annotation(manifest, annotations::APPLIED_FIELDS).is_empty();
    if is_finished {
        return Cow::Borrowed(manifest);
    }
    let mark = |map: &'a Option<ironclad_api::StringMap>, key| {
        map.as_ref().and_then(|map| map.get(key)).map_or("", String::as_str)
    };
    let marks = manifest::Marks {
        work_namespace,
        work_name,
        work_id: mark(&work.metadata.labels, labels::WORK_PERMANENT_ID),
        conflict_resolution: mark(&work.metadata.annotations, annotations::CONFLICT_RESOLUTION),
    };
    let mut manifest = manifest.clone();
    manifest::finish(&mut manifest, &marks);
    Cow::Owned(manifest)
}

/// A reference to the Work, for events.
pub(super) fn reference(work: &Work) -> ObjectReference {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectReference {
        api_version: "work.karmada.io/v1alpha1".into(),
        kind: "Work".into(),
        namespace: text(&work.metadata.namespace),
        name: text(&work.metadata.name),
        uid: text(&work.metadata.uid),
        resource_version: String::new(),
    }
}
