//! Writes that can be repeated: what is there already is not written again.

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

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
pub(crate) enum Mode {
    /// The write is persisted.
    Keep,
    /// The server only validates it.
    DryRun,
}

/// The API of an object's kind, in its namespace if it has one.
pub(crate) fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Creates the object, or merges what it says into the one that is there.
pub(crate) async fn ensure(
    client: &Client,
    object: &Value,
    mode: Mode,
) -> Result<(Outcome, DynamicObject), kube::Error> {
    let api = api_of(client, object);
    let dry_run = mode == Mode::DryRun;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let Some(present) = api.get_opt(name).await? else {
        let wanted: DynamicObject = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        return match api.create(&params, &wanted).await {
            Ok(created) => Ok((Outcome::Created, created)),
            // Somebody else was quicker, which is what a second run heals.
            Err(kube::Error::Api(status)) if status.is_already_exists() => merge(&api, name, object, dry_run).await,
            Err(error) => Err(error),
        };
    };
    let stored = serde_json::to_value(&present).map_err(kube::Error::SerdeError)?;
    if says(&stored, object) { Ok((Outcome::Unchanged, present)) } else { merge(&api, name, object, dry_run).await }
}

async fn merge(
    api: &Api<DynamicObject>,
    name: &str,
    object: &Value,
    dry_run: bool,
) -> Result<(Outcome, DynamicObject), kube::Error> {
    let params = PatchParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let merged = api.patch(name, &params, &Patch::Merge(object)).await?;
    Ok((Outcome::Updated, merged))
}

/// True if `stored` has every value of `wanted`.
fn says(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| stored.get(key).is_some_and(|stored| says(stored, value)))
        }
        _ => stored == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_already() {
        let stored = json!({"metadata": {"name": "a", "uid": "1"}, "rules": [{"verbs": ["*"]}]});
        for (name, wanted, want) in [
            ("the same", stored.clone(), true),
            ("less", json!({"metadata": {"name": "a"}}), true),
            ("a label more", json!({"metadata": {"labels": {"a": "b"}}}), false),
            ("another list", json!({"rules": []}), false),
        ] {
            assert_eq!(says(&stored, &wanted), want, "{name}");
        }
    }
}
