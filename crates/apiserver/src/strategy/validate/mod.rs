//! What is wrong with objects of built-in kinds, and which changes they refuse (apiserver.md 16).

use serde_json::Value;

use crate::status::Cause;

/// What is wrong with the object or, with `old`, with the change.
pub(crate) fn validate(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crd::validate(object, old),
        _ => vec![],
    }
}
