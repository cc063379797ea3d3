//! Admission webhooks of users: who is asked of a write, and what becomes of it (apiserver.md 21).
//!
//! The calls are awaited inside one try of a write, before its transaction: if somebody else wrote in between, the try is
//! repeated, and so are the calls. Who carries them is told to the server ([`WebhookCaller`]): over the network in the
//! product; in a simulation nobody, or a caller of the test's, so that a run depends on its seed alone.
//!
//! Not here: subresources that speak a kind of their own (scale, binding, eviction).

mod call;
mod config;
mod matching;
mod review;

use std::{fmt::Debug, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};

use self::{call::Answer, config::Hook};
pub(crate) use self::{
    config::Hooks,
    matching::{Matcher, Seen, condition_type, selector},
    review::request,
};
use crate::{
    admission::{OWN_USER, Operation},
    context::Cx,
    convert, object, schema,
    status::ApiError,
};

/// A call of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookCall {
    /// Where, with the query `timeout`.
    pub url: String,
    /// The name that its certificate must have, where that isn't the URL's host.
    pub server_name: Option<String>,
    /// The certificates to trust, PEM; `None`: those that the system trusts.
    pub ca_bundle: Option<Vec<u8>>,
    /// The AdmissionReview, JSON.
    pub body: Bytes,
    /// The call is given up after this time.
    pub timeout: Duration,
}

/// The answer to a [`WebhookCall`]: the body, or why there is none.
pub type WebhookAnswer = Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>>;

/// Carries calls to webhooks.
pub trait WebhookCaller: Debug + Send + Sync {
    /// POSTs the body. An answer that isn't 2xx is an error: `an error on the server ("…") has prevented the request from
    /// succeeding`.
    fn call(&self, call: WebhookCall) -> WebhookAnswer;
}

/// A write on its way.
pub(crate) struct Write<'a> {
    pub(crate) operation: Operation,
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

/// True when webhooks may be asked of this request at all.
fn concerns(cx: &Cx) -> bool {
    // Whoever could make a webhook that refuses its own removal would keep it for good.
    cx.identity.user != OWN_USER
        && cx.resource.group != "admissionregistration.k8s.io"
        && matches!(
            cx.subresource(),
            None | Some("status" | "ephemeralcontainers" | "resize" | "approval" | "finalize")
        )
}

/// What the mutating webhooks make of an object; true if they changed it.
pub(crate) async fn mutate(cx: &Cx, write: &Write<'_>, new: Option<&mut Value>) -> Result<bool, ApiError> {
    let hooks = cx.server.webhooks.get(|| Hooks::read(&cx.server));
    if hooks.mutating.is_empty() || !concerns(cx) {
        return Ok(false);
    }
    let mut object = new;
    let (mut changed, mut asked) = (false, vec![None; hooks.mutating.len()]);
    for (i, hook) in hooks.mutating.iter().enumerate() {
        let one = ask_and_patch(cx, hook, write, object.as_deref_mut()).await?;
        asked[i] = one;
        changed |= one == Some(true);
    }
    // Those that want to see what later ones changed are asked once more.
    for (i, hook) in hooks.mutating.iter().enumerate() {
        let later = asked.iter().skip(i + 1).any(|one| *one == Some(true));
        if hook.reinvoke && asked[i].is_some() && later {
            changed |= ask_and_patch(cx, hook, write, object.as_deref_mut()).await? == Some(true);
        }
    }
    Ok(changed)
}

/// Whether the hook changed the object; `None` when it wasn't asked.
async fn ask_and_patch(
    cx: &Cx,
    hook: &Hook,
    write: &Write<'_>,
    object: Option<&mut Value>,
) -> Result<Option<bool>, ApiError> {
    let Some(seen) = hook.matcher.matches(cx, write, object.as_deref(), hook.fails)? else { return Ok(None) };
    let Some(Answer { patch }) = call::ask(cx, hook, &seen).await? else { return Ok(Some(false)) };
    let Some(patch) = patch else { return Ok(Some(false)) };
    let shown = seen.object().cloned();
    let resource = seen.resource;
    let (Some(object), Some(shown)) = (object, shown) else {
        let message = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        );
        return Err(ApiError::internal(message));
    };
    let mut patched = shown.clone();
    ironclad_patch::json_patch(&mut patched, &patch).map_err(ApiError::internal)?;
    if patched == shown {
        return Ok(Some(false));
    }
    let mut checked = schema::check(&resource, patched).map_err(|e| ApiError::internal(e.to_string()))?.value;
    if !std::sync::Arc::ptr_eq(&resource, &cx.resource) {
        checked = convert::between(&resource, &cx.resource, &checked);
    }
    // What identifies it stays as the server made it.
    for key in ["uid", "creationTimestamp", "resourceVersion", "name", "namespace", "managedFields"] {
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
    Ok(Some(changed))
}

/// Refuses what a validating webhook refuses.
pub(crate) async fn validate(cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<(), ApiError> {
    let hooks = cx.server.webhooks.get(|| Hooks::read(&cx.server));
    if hooks.validating.is_empty() || !concerns(cx) {
        return Ok(());
    }
    for hook in &hooks.validating {
        if let Some(seen) = hook.matcher.matches(cx, write, new, hook.fails)? {
            call::ask(cx, hook, &seen).await?;
        }
    }
    Ok(())
}
