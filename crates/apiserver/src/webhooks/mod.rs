//! Admission webhooks of users: which of them review a write, and how their answers apply
//! (specification/apiserver.md 21).
//!
//! The calls are awaited inside one attempt of a write, before its transaction: if the object changed in between, the
//! attempt is repeated, and so are the calls. A [`WebhookCaller`] carries them: over the network in the product; in a
//! simulation a caller of the test, so that a run depends on its seed alone.
//!
//! Subresources with a kind of their own (scale, binding, eviction, token, exec) are reviewed as objects of that kind;
//! the change of their parent object is not reviewed again.

pub(crate) mod address;
mod call;
mod caller;
mod config;
mod matcher;
mod matching;
mod reach;
mod review;

use std::sync::Arc;

use ironclad_patch::PatchError;
use serde_json::{Value, json};

pub use self::caller::{WebhookAnswer, WebhookCall, WebhookCaller};
pub(crate) use self::{
    address::address,
    config::Webhooks,
    matcher::{ConditionVariables, Matcher, condition_type, label_selector},
    matching::{Seen, conditions_met, matches, select},
    reach::warn_unreachable,
    review::request,
};
use self::{
    call::{Answer, Kind},
    config::Hook,
};
use crate::{
    admission::{
        reinvocation::{Reinvocation, Round},
        review::{Operation, Write},
    },
    context::Cx,
    convert, object,
    registry::{Resource, SubresourceKind},
    schema,
    state::State,
    status::ApiError,
};

/// Letters of a generated name behind its prefix.
const DRAWN_LETTERS: usize = 5;

/// True for requests that webhooks and policies may review.
pub(crate) fn concerns(cx: &Cx, write: &Write<'_>) -> bool {
    // A webhook that refuses its own removal could never be removed.
    !cx.identity.is_server()
        && cx.resource.group != "admissionregistration.k8s.io"
        // A change that a subresource of another kind makes was reviewed as an object of that kind.
        && (write.subresource_kind.is_some() || cx.subresource_kind().is_none())
}

/// True if webhooks are configured.
pub(crate) fn any(state: &State) -> bool {
    let hooks = state.webhooks();
    !hooks.mutating.is_empty() || !hooks.validating.is_empty()
}

/// Calls the mutating webhooks of a round; true if they changed the object.
pub(crate) async fn mutate(
    cx: &Cx,
    write: &Write<'_>,
    new: Option<&mut Value>,
    round: Round,
    again: &mut Reinvocation<usize>,
) -> Result<bool, ApiError> {
    let hooks = cx.state.webhooks();
    if hooks.mutating.is_empty() || !concerns(cx, write) {
        return Ok(false);
    }
    let mut object = new;
    let mut changed = false;
    again.begin(round, object.as_deref());
    for (i, hook) in hooks.mutating.iter().enumerate() {
        if !again.asks(round, &i) {
            continue;
        }
        let Some(changed_by_hook) = call_and_patch(cx, hook, write, object.as_deref_mut()).await? else { continue };
        if changed_by_hook {
            changed = true;
            again.require();
        }
        if hook.reinvoke {
            again.record(i);
        }
    }
    again.end(object.as_deref());
    Ok(changed)
}

/// A new object as mutating webhooks and policies see it: without uid, time and generated name, which the server sets.
pub(crate) fn before_creation(object: &Value) -> Value {
    let mut out = object.clone();
    let metadata = object::metadata_mut(&mut out);
    metadata.remove("uid");
    metadata.remove("creationTimestamp");
    let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if !prefix.is_empty() && name.strip_prefix(prefix).is_some_and(|rest| rest.len() == DRAWN_LETTERS) {
        metadata.remove("name");
    }
    out
}

/// The reason why a patch does not apply, with the path of the failing operation.
pub(crate) fn inapplicable(object: &Value, patch: &Value, why: String) -> String {
    let mut object = object.clone();
    for operation in patch.as_array().into_iter().flatten() {
        if ironclad_patch::json_patch(&mut object, &json!([operation])).is_err() {
            let path = operation["path"].as_str().unwrap_or_default();
            return match operation["op"].as_str() {
                Some(op @ ("add" | "remove")) if !why.contains(path) => {
                    format!("error in {op} for path: '{path}': {why}")
                }
                _ => why,
            };
        }
    }
    why
}

/// Calls a webhook and applies its patch: true if the object changed, `None` if the webhook was not called.
async fn call_and_patch(
    cx: &Cx,
    hook: &Hook,
    write: &Write<'_>,
    object: Option<&mut Value>,
) -> Result<Option<bool>, ApiError> {
    let new_object =
        object.as_deref().filter(|_| write.operation == Operation::Create && write.subresource_kind.is_none());
    let new_object = new_object.map(before_creation);
    let new = new_object.as_ref().or(object.as_deref());
    let Some(seen) = matches(&hook.matcher, cx, write, new, hook.fails)? else { return Ok(None) };
    let Some(Answer { patch }) = call::call(cx, Kind::Mutating, hook, &seen).await? else { return Ok(Some(false)) };
    let Some(patch) = patch else { return Ok(Some(false)) };
    let shown = seen.object().cloned();
    let (resource, subresource_kind) = (seen.resource, seen.subresource_kind);
    let (Some(object), Some(shown)) = (object, shown) else {
        let message = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        );
        return Err(ApiError::internal(message));
    };
    let mut patched = shown.clone();
    ironclad_patch::json_patch(&mut patched, &patch).map_err(|error| match error {
        PatchError::Unprocessable(why) => ApiError::internal(inapplicable(&shown, &patch, why)),
        other => ApiError::internal(other),
    })?;
    if patched == shown {
        return Ok(Some(false));
    }
    adopt(cx, write.operation, (&resource, subresource_kind.as_ref()), patched, object).map(Some)
}

/// Takes over a changed object that a webhook or a policy saw in this resource and kind; true if it differs.
pub(crate) fn adopt(
    cx: &Cx,
    operation: Operation,
    (resource, subresource_kind): (&Arc<Resource>, Option<&SubresourceKind>),
    patched: Value,
    object: &mut Value,
) -> Result<bool, ApiError> {
    if let Some(gvk) = subresource_kind {
        let (group, version, kind) = (&gvk.group, &gvk.version, &gvk.kind);
        let mut checked =
            schema::check_kind(group, version, kind, patched).map_err(|e| ApiError::internal(e.to_string()))?;
        checked["apiVersion"] = json!(gvk.api_version());
        checked["kind"] = json!(kind);
        let changed = checked != *object;
        *object = checked;
        return Ok(changed);
    }
    let mut checked = schema::check(resource, patched).map_err(|e| ApiError::internal(e.to_string()))?.value;
    if !Arc::ptr_eq(resource, &cx.resource) {
        checked = convert::between(resource, &cx.resource, &checked);
    }
    // Identifying metadata stays as the server made it, but a webhook may name a new object.
    let named = operation == Operation::Create && !object::meta_str(&checked, "name").is_empty();
    for key in ["uid", "creationTimestamp", "resourceVersion", "name", "namespace", "managedFields"] {
        if named && key == "name" {
            continue;
        }
        let metadata = object::metadata(object).get(key).cloned();
        let target = object::metadata_mut(&mut checked);
        match metadata {
            Some(value) => target.insert(key.to_owned(), value),
            None => target.remove(key),
        };
    }
    checked["apiVersion"] = json!(cx.resource.api_version());
    checked["kind"] = json!(cx.resource.kind);
    let changed = checked != *object;
    *object = checked;
    Ok(changed)
}

/// Refuses what a validating webhook refuses.
pub(crate) async fn validate(cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<(), ApiError> {
    let hooks = cx.state.webhooks();
    if hooks.validating.is_empty() || !concerns(cx, write) {
        return Ok(());
    }
    // All at once, and all to their end: warnings count also where another refuses.
    let asked = hooks.validating.iter().map(async |hook| {
        if let Some(seen) = matches(&hook.matcher, cx, write, new, hook.fails)? {
            call::call(cx, Kind::Validating, hook, &seen).await?;
        }
        Ok(())
    });
    futures::future::join_all(asked).await.into_iter().collect()
}
