//! Ownership of member objects: recognition, adoption and release (specification/propagation.md 13.2,
//! specification/propagation.md 13.7; specification/propagation.md 31 rows 2, 7, 17).

use ironclad_api::{annotations, labels};
use serde_json::{Map, Value, json};

use crate::template;

/// Annotation on a member namespace (ours): it existed before its Work, so it is not deleted with it.
const ADOPTED: &str = "work.ironclad.io/adopted";

/// Labels that release removes.
const OUR_LABELS: [&str; 6] = [
    labels::RESOURCE_BINDING_PERMANENT_ID,
    labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
    labels::WORK_PERMANENT_ID,
    labels::MANAGED,
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
];
/// Annotations that release removes.
const OUR_ANNOTATIONS: [&str; 15] = [
    annotations::APPLIED_FIELDS,
    annotations::MANAGED_ANNOTATIONS,
    annotations::MANAGED_LABELS,
    annotations::TEMPLATE_UID,
    annotations::TEMPLATE_GENERATION,
    annotations::RESOURCE_BINDING_NAMESPACE,
    annotations::RESOURCE_BINDING_NAME,
    annotations::CLUSTER_RESOURCE_BINDING_NAME,
    annotations::WORK_NAMESPACE,
    annotations::WORK_NAME,
    annotations::CONFLICT_RESOLUTION,
    annotations::PROPAGATION_POLICY_NAMESPACE,
    annotations::PROPAGATION_POLICY_NAME,
    annotations::CLUSTER_PROPAGATION_POLICY_NAME,
    ADOPTED,
];

/// Owner of a member object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// The Work of this manifest.
    Ours,
    /// No control plane.
    Nobody,
    /// Another Work, by its name as far as it is known.
    Other(String),
}

/// Recognises the owner by the permanent id of the Work; without one, by the managed label.
///
/// A Work that was created again for the same template (the cluster was removed and joined again, or the Work was
/// deleted by force) has another id: then the Work's name together with the template's uid counts. Another control
/// plane has other uids.
pub(super) fn of(observed: &Value, manifest: &Value) -> Owner {
    let theirs = template::label(observed, labels::WORK_PERMANENT_ID);
    let ours = template::label(manifest, labels::WORK_PERMANENT_ID);
    if theirs.is_empty() {
        let managed = template::label(observed, labels::MANAGED) == labels::TRUE;
        return if managed { Owner::Ours } else { Owner::Nobody };
    }
    if theirs == ours {
        return Owner::Ours;
    }
    let same = |key| {
        let value = template::annotation(observed, key);
        !value.is_empty() && value == template::annotation(manifest, key)
    };
    if same(annotations::WORK_NAMESPACE) && same(annotations::WORK_NAME) && same(annotations::TEMPLATE_UID) {
        return Owner::Ours;
    }
    let (namespace, name) = (
        template::annotation(observed, annotations::WORK_NAMESPACE),
        template::annotation(observed, annotations::WORK_NAME),
    );
    Owner::Other(if name.is_empty() {
        format!("Work {theirs}")
    } else {
        format!("Work {namespace}/{name}, id {theirs}")
    })
}

/// The likely owner of an object that no control plane manages.
pub(super) fn likely_owner(observed: &Value) -> Option<String> {
    let references = observed.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = references.and_then(|list| {
        list.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true))).or_else(|| list.first())
    });
    let by = template::label(observed, "app.kubernetes.io/managed-by");
    match owner {
        Some(owner) => Some(format!("{} {}", template::text(owner, "/kind"), template::text(owner, "/name"))),
        None => (!by.is_empty()).then(|| by.to_owned()),
    }
}

/// Returns true if the namespace existed before its Work.
pub(super) fn is_adopted(observed: &Value) -> bool {
    template::annotation(observed, ADOPTED) == labels::TRUE
}

/// The merge patch that adopts the object and changes only metadata.
pub(super) fn adoption(manifest: &Value, observed: &Value) -> Value {
    let mut marks = template::map(manifest, "/metadata/annotations");
    marks.insert(ADOPTED.into(), labels::TRUE.into());
    json!({"metadata": {
        "labels": template::map(manifest, "/metadata/labels"),
        "annotations": marks,
        "resourceVersion": template::text(observed, "/metadata/resourceVersion"),
    }})
}

/// The merge patch that removes our labels and annotations; `None` if there are none.
pub(super) fn release(observed: &Value) -> Option<Value> {
    let mut metadata = Map::new();
    for (map, ours) in [("labels", &OUR_LABELS[..]), ("annotations", &OUR_ANNOTATIONS[..])] {
        let there = template::map(observed, &format!("/metadata/{map}"));
        let removed: Map<String, Value> =
            ours.iter().filter(|key| there.contains_key(**key)).map(|key| ((*key).to_owned(), Value::Null)).collect();
        if !removed.is_empty() {
            metadata.insert(map.into(), Value::Object(removed));
        }
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".into(), template::text(observed, "/metadata/resourceVersion").into());
    Some(json!({"metadata": metadata}))
}
