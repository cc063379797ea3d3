//! Labels and annotations of every manifest in a Work, the same for every writer (specification/propagation.md 9.4,
//! specification/api.md 12.2).

use std::collections::BTreeSet;

use ironclad_api::{annotations, labels};
use serde_json::{Map, Value};

use crate::template;

/// Values that a Work sets on its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks<'a> {
    /// Namespace of the Work.
    pub work_namespace: &'a str,
    /// Name of the Work.
    pub work_name: &'a str,
    /// Permanent id of the Work, empty if it has none.
    pub work_id: &'a str,
    /// The Work's conflict resolution, empty if it has none.
    pub conflict_resolution: &'a str,
}

/// Prunes the manifest and sets labels and annotations. Idempotent, so that a webhook that does the same never
/// conflicts with a controller.
pub fn finish(manifest: &mut Value, marks: &Marks<'_>) {
    let uid = template::text(manifest, "/metadata/uid").to_owned();
    set_label(manifest, labels::MANAGED, labels::TRUE);
    for (key, value) in [
        (annotations::TEMPLATE_UID, uid.as_str()),
        (annotations::WORK_NAME, marks.work_name),
        (annotations::WORK_NAMESPACE, marks.work_namespace),
        (annotations::CONFLICT_RESOLUTION, marks.conflict_resolution),
    ] {
        if !value.is_empty() {
            set_annotation(manifest, key, value);
        }
    }
    ironclad_interpreter::prune(manifest);
    let fields = crate::execution::applied_fields(manifest);
    set_annotation(manifest, annotations::APPLIED_FIELDS, &fields);
    let managed = keys(manifest, "annotations", &[annotations::MANAGED_ANNOTATIONS, annotations::MANAGED_LABELS]);
    set_annotation(manifest, annotations::MANAGED_ANNOTATIONS, &managed);
    if !marks.work_id.is_empty() {
        set_label(manifest, labels::WORK_PERMANENT_ID, marks.work_id);
    }
    let managed = keys(manifest, "labels", &[]);
    set_annotation(manifest, annotations::MANAGED_LABELS, &managed);
}

/// The sorted keys of a metadata map and `more`, joined by commas.
fn keys(object: &Value, map: &str, more: &[&str]) -> String {
    let found = object.get("metadata").and_then(|m| m.get(map)).and_then(Value::as_object);
    let keys: BTreeSet<&str> =
        found.into_iter().flat_map(Map::keys).map(String::as_str).chain(more.iter().copied()).collect();
    keys.into_iter().collect::<Vec<_>>().join(",")
}

pub fn set_label(object: &mut Value, key: &str, value: &str) {
    set(object, "labels", key, value);
}

pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set(object, "annotations", key, value);
}

fn set(object: &mut Value, map: &str, key: &str, value: &str) {
    let Some(root) = object.as_object_mut() else { return };
    let mut at = root;
    for step in ["metadata", map] {
        let next = at.entry(step).or_insert_with(|| Value::Object(Map::new()));
        if !next.is_object() {
            *next = Value::Object(Map::new());
        }
        let Some(map) = next.as_object_mut() else { return };
        at = map;
    }
    at.insert(key.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testkit::deployment;

    const MARKS: Marks<'_> =
        Marks { work_namespace: "karmada-es-m1", work_name: "w", work_id: "wid", conflict_resolution: "abort" };

    #[test]
    fn finished_manifest_has_labels_and_annotations() {
        let mut manifest = deployment();
        manifest["metadata"]["annotations"] = json!({"b": "1", "deployment.kubernetes.io/revision": "3"});
        manifest["status"] = json!({});
        finish(&mut manifest, &MARKS);
        assert_eq!(
            manifest["metadata"],
            json!({
                "namespace": "shop", "name": "web",
                "labels": {"app": "web", "karmada.io/managed": "true", "work.karmada.io/permanent-id": "wid"},
                "annotations": {
                    "b": "1", "resourcetemplate.karmada.io/uid": "uid-web", "work.karmada.io/name": "w", "work.karmada.io/namespace": "karmada-es-m1",
                    "work.karmada.io/conflict-resolution": "abort",
                    annotations::APPLIED_FIELDS: crate::execution::applied_fields(&deployment()),
                    "resourcetemplate.karmada.io/managed-annotations": "b,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.ironclad.io/applied-fields,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace",
                    "resourcetemplate.karmada.io/managed-labels": "app,karmada.io/managed,work.karmada.io/permanent-id",
                },
            })
        );
        assert!(manifest.get("status").is_none());
    }

    #[test]
    fn missing_id_and_resolution_are_not_labelled() {
        let mut manifest = deployment();
        finish(&mut manifest, &Marks { work_id: "", conflict_resolution: "", ..MARKS });
        assert!(manifest.pointer("/metadata/labels/work.karmada.io~1permanent-id").is_none());
        assert!(manifest.pointer("/metadata/annotations/work.karmada.io~1conflict-resolution").is_none());
    }

    proptest! {
        #[test]
        fn finishing_is_idempotent(labels in prop::collection::btree_map("[a-c./]{1,4}", "[a-z]{0,3}", 0..4), annotations in prop::collection::btree_map("[a-c./]{1,4}", "[a-z]{0,3}", 0..4), uid in "[a-z]{0,3}", id in "[a-z]{0,3}", odd in any::<bool>()) {
            let mut manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": uid, "labels": labels, "annotations": annotations}});
            if odd { manifest["metadata"]["labels"] = Value::Null; }
            let marks = Marks { work_id: &id, ..MARKS };
            finish(&mut manifest, &marks);
            let once = manifest.clone();
            finish(&mut manifest, &marks);
            prop_assert_eq!(once, manifest);
        }
    }
}
