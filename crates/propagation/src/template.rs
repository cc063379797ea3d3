//! Reads fields of templates, or of any object given as JSON.

use std::collections::BTreeMap;

use ironclad_api::work::{Named, ObjectReference};
use ironclad_fleet::{Gvk, ObjectKey};
pub use ironclad_patch::text_at as text;
use serde_json::Value;

/// Identity of an object.
#[derive(Debug, Clone)]
pub struct Identity<'a> {
    /// `apiVersion` as written.
    pub api_version: &'a str,
    /// `kind`.
    pub kind: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`, empty if it has none.
    pub uid: &'a str,
    pub labels: BTreeMap<String, String>,
}

impl<'a> Identity<'a> {
    /// Reads the identity of an object.
    #[must_use]
    pub fn of(object: &'a Value) -> Self {
        Self {
            api_version: text(object, "/apiVersion"),
            kind: text(object, "/kind"),
            namespace: text(object, "/metadata/namespace"),
            name: text(object, "/metadata/name"),
            uid: text(object, "/metadata/uid"),
            labels: map(object, "/metadata/labels"),
        }
    }

    /// The group, empty for core.
    #[must_use]
    pub fn group(&self) -> &'a str {
        group(self.api_version)
    }

    /// Returns true if a manifest with these names is for the object, in any version of its kind.
    #[must_use]
    pub fn is_named(&self, manifest: &Named) -> bool {
        let Named { api_version, kind, metadata } = manifest;
        (group(api_version), &**kind, &*metadata.namespace, &*metadata.name)
            == (self.group(), self.kind, self.namespace, self.name)
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { gvk: self.gvk(), namespace: self.namespace.into(), name: self.name.into() }
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> Gvk {
        Gvk::from_manifest(self.api_version, self.kind)
    }

    /// A reference without resourceVersion, for events and bindings.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: self.api_version.into(),
            kind: self.kind.into(),
            namespace: self.namespace.into(),
            name: self.name.into(),
            uid: self.uid.into(),
            resource_version: String::new(),
        }
    }
}

/// The group of an `apiVersion`, empty for core.
#[must_use]
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The value of a label, empty if absent.
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    entry(object, "labels", key)
}

/// The value of an annotation, empty if absent.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    entry(object, "annotations", key)
}

fn entry<'a>(object: &'a Value, map: &str, key: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(map)).and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or("")
}

/// The map of strings at a JSON pointer; other values are omitted.
#[must_use]
pub fn map(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map(|map| map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect())
        .unwrap_or_default()
}

/// `metadata.generation`, 0 if absent.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Returns true if the object has a deletion timestamp.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}
