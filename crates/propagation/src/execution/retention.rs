//! Metadata of a member object that a replacement keeps (specification/propagation.md 13.3).

use std::collections::BTreeMap;

use ironclad_api::annotations;
use serde_json::{Map, Value, json};

use crate::template;

/// The manifest with the member's resourceVersion, finalizers and owners, and with the labels and annotations that are
/// not ours.
pub(super) fn retain_metadata(manifest: &Value, observed: &Value) -> Value {
    let mut desired = manifest.clone();
    if let Some(root) = desired.as_object_mut() {
        root.insert("metadata".into(), retained(manifest, observed));
    }
    desired
}

/// The same, with nothing but `metadata`.
pub(super) fn retain_metadata_of(manifest: &Value, observed: &Value) -> Value {
    json!({ "metadata": retained(manifest, observed) })
}

fn retained(manifest: &Value, observed: &Value) -> Value {
    let mut metadata = match manifest.get("metadata") {
        None => Map::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(other) => return other.clone(),
    };
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        match observed.get("metadata").and_then(|m| m.get(field)).filter(|value| !value.is_null()) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    for (map, managed) in [("labels", annotations::MANAGED_LABELS), ("annotations", annotations::MANAGED_ANNOTATIONS)] {
        let merged = merged(
            template::map(manifest, &format!("/metadata/{map}")),
            template::map(observed, &format!("/metadata/{map}")),
            template::annotation(observed, managed),
        );
        if merged.is_empty() {
            metadata.remove(map);
        } else {
            metadata.insert(map.into(), json!(merged));
        }
    }
    Value::Object(metadata)
}

/// Merges ours over theirs; those that were ours and are no longer in the manifest are removed.
fn merged(ours: BTreeMap<String, String>, theirs: BTreeMap<String, String>, managed: &str) -> BTreeMap<String, String> {
    let managed: Vec<&str> = managed.split(',').collect();
    let mut all: BTreeMap<String, String> =
        theirs.into_iter().filter(|(key, _)| !managed.contains(&key.as_str())).collect();
    all.extend(ours);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_both_sides_is_merged() {
        let manifest = json!({"metadata": {"name": "w", "labels": {"a": "1"}, "annotations": {"x": "new"}, "finalizers": ["ours"], "ownerReferences": [1]}});
        let observed = json!({"metadata": {
            "name": "w", "resourceVersion": "7", "uid": "u", "finalizers": ["theirs"], "ownerReferences": [{"uid": "o"}],
            "labels": {"a": "0", "b": "1", "theirs": "1"},
            "annotations": {"x": "old", "gone": "1", "theirs": "1", annotations::MANAGED_LABELS: "a,b,work", annotations::MANAGED_ANNOTATIONS: format!("gone,x,{},{}", annotations::MANAGED_ANNOTATIONS, annotations::MANAGED_LABELS)},
        }});
        assert_eq!(
            retain_metadata(&manifest, &observed),
            json!({"metadata": {"name": "w", "resourceVersion": "7", "finalizers": ["theirs"], "ownerReferences": [{"uid": "o"}],
                "labels": {"a": "1", "theirs": "1"}, "annotations": {"x": "new", "theirs": "1"}}})
        );
        let bare = json!({"metadata": {"name": "w", "resourceVersion": "8"}});
        assert_eq!(
            retain_metadata(&manifest, &bare),
            json!({"metadata": {"name": "w", "resourceVersion": "8", "labels": {"a": "1"}, "annotations": {"x": "new"}}}),
            "the manifest's own finalizers and owners are ignored"
        );
        assert_eq!(
            retain_metadata_of(&json!({"metadata": {"name": "w"}, "spec": {}}), &bare),
            json!({"metadata": {"name": "w", "resourceVersion": "8"}}),
            "metadata alone"
        );
    }
}
