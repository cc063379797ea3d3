//! Idempotent writes: existing values are not written again.

use ironclad_runtime::Api;
use kube::{
    Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use crate::print::text;

/// The command line's field manager.
pub(crate) const FIELD_MANAGER: &str = "ironclad";

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The object was not there.
    Created,
    /// It was there and differed.
    Updated,
    /// It was there as wanted.
    Unchanged,
}

/// Persistence of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The write is persisted.
    Keep,
    /// The server only validates it.
    DryRun,
}

/// The API of an object's kind, in its namespace if it has one.
pub(crate) fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let api_version = text(object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text(object, "/kind")));
    match text(object, "/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Creates the object.
///
/// # Errors
/// Those of the server, also if it exists.
pub(crate) async fn create(client: &Client, object: &Value, mode: Mode) -> Result<DynamicObject, kube::Error> {
    let wanted: DynamicObject = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: mode == Mode::DryRun, field_manager: Some(FIELD_MANAGER.to_owned()) };
    api_of(client, object).create(&params, &wanted).await
}

/// Merges the object into the one that is there.
///
/// # Errors
/// Those of the server, also if it was replaced by another of the same name.
pub(crate) async fn merge(
    client: &Client,
    object: &Value,
    present: &DynamicObject,
    mode: Mode,
) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams {
        dry_run: mode == Mode::DryRun,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let mut patch = object.clone();
    patch["metadata"]["uid"] = present.metadata.uid.clone().into();
    api_of(client, object)
        .patch(present.metadata.name.as_deref().unwrap_or_default(), &params, &Patch::Merge(patch))
        .await
}

/// True if `present` has every value of `wanted`.
pub(crate) fn contains(present: &DynamicObject, wanted: &Value) -> bool {
    serde_json::to_value(present).is_ok_and(|present| says(&present, wanted))
}

fn says(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => wanted.iter().all(|(key, value)| match stored.get(key) {
            Some(stored) => says(stored, value),
            None => value.is_null(),
        }),
        _ => stored == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_have_all_wanted_values_are_not_written() {
        let stored = json!({"metadata": {"name": "a", "uid": "1"}, "rules": [{"verbs": ["*"]}]});
        for (name, wanted, want) in [
            ("the same", stored.clone(), true),
            ("less", json!({"metadata": {"name": "a"}}), true),
            ("an additional label", json!({"metadata": {"labels": {"a": "b"}}}), false),
            ("another list", json!({"rules": []}), false),
            ("a removed value does not exist", json!({"spec": null}), true),
            ("a removed value exists", json!({"rules": null}), false),
        ] {
            assert_eq!(says(&stored, &wanted), want, "{name}");
        }
    }
}
