//! One call of a webhook, and its answer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::Value;

use super::{address::address, caller::WebhookCall, config::Hook, matching::Seen, review};
use crate::{context::Cx, status::ApiError};

/// The answer of a webhook that allows a write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// A JSON patch.
    pub(super) patch: Option<Value>,
}

/// Mutating or validating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It may answer a patch.
    Mutating,
    /// It may not.
    Validating,
}

/// Calls a webhook. `None`: the call failed, and its failurePolicy is to ignore that.
pub(super) async fn call(cx: &Cx, kind: Kind, hook: &Hook, seen: &Seen<'_>) -> Result<Option<Answer>, ApiError> {
    let name = &hook.name;
    if seen.write().dry_run && !hook.dry_run {
        return Err(ApiError::bad_request(format!("admission webhook {name:?} does not support dry run")));
    }
    let uid = cx.state.seam.rng.stream("reviews").uuid();
    let answer = response(cx, hook, seen, &uid).await;
    let answer = answer.and_then(|response| {
        let patch = patch(kind, &response).map_err(invalid)?;
        Ok((response, patch))
    });
    let (response, patch) = match answer {
        Ok(answer) => answer,
        Err(why) if hook.fails => {
            return Err(ApiError::internal(format!("failed calling webhook {name:?}: {why}")));
        }
        Err(why) => {
            tracing::warn!(webhook = %name, %why, "a webhook could not be asked, its failurePolicy lets writes pass");
            return Ok(None);
        }
    };
    let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    warnings.for_each(|text| cx.warn(text));
    if response["allowed"] != true {
        return Err(denied(name, &response["status"]));
    }
    Ok(Some(Answer { patch }))
}

fn invalid(why: String) -> String {
    format!("received invalid webhook response: {why}")
}

/// The `response` of the answer to a review.
async fn response(cx: &Cx, hook: &Hook, seen: &Seen<'_>, uid: &str) -> Result<Value, String> {
    let failed = |why: String| format!("failed to call webhook: {why}");
    let timed = |base: &str| {
        let separator = if base.contains('?') { '&' } else { '?' };
        format!("{base}{separator}timeout={}s", hook.timeout.as_secs())
    };
    let address = address(&cx.state, &hook.client);
    let (base, server_name) = address.map_err(|(base, why)| failed(format!("Post {:?}: {why}", timed(&base))))?;
    let url = timed(&base);
    let Some(caller) = &cx.state.options.webhooks else {
        return Err(failed(format!("Post {url:?}: this server calls no webhooks")));
    };
    let body = Bytes::from(review::review(cx, seen, uid).to_string());
    let call =
        WebhookCall { url: url.clone(), server_name, ca_bundle: hook.ca_bundle.clone(), body, timeout: hook.timeout };
    let answer = match tokio::time::timeout(hook.timeout, caller.call(call)).await {
        Ok(answer) => answer.map_err(failed)?,
        Err(_) => return Err(failed(format!("Post {url:?}: context deadline exceeded"))),
    };
    read(&answer, uid)
}

/// The `response` in an AdmissionReview.
fn read(answer: &[u8], uid: &str) -> Result<Value, String> {
    let unreadable = |error: serde_json::Error| {
        let why = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        format!("failed to call webhook: couldn't get version/kind; json parse error: {why}")
    };
    let mut review: Value = serde_json::from_slice(answer).map_err(unreadable)?;
    if review["kind"] == "AdmissionReview" && review["apiVersion"] == "admission.k8s.io/v1beta1" {
        let why = "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion";
        return Err(format!("failed to call webhook: {why}"));
    }
    if review["kind"] != "AdmissionReview" || review["apiVersion"] != "admission.k8s.io/v1" {
        let given = format!("apiVersion={}, kind={}", review["apiVersion"], review["kind"]);
        return Err(invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {given}"
        )));
    }
    let response = review["response"].take();
    if response.is_null() {
        return Err(invalid("webhook response was absent".to_owned()));
    }
    match response["uid"].as_str().unwrap_or_default() {
        given if given == uid => Ok(response),
        given => Err(invalid(format!("expected response.uid={uid:?}, got {given:?}"))),
    }
}

fn patch(kind: Kind, response: &Value) -> Result<Option<Value>, String> {
    let encoded = response["patch"].as_str().filter(|p| !p.is_empty());
    match (kind, encoded, response["patchType"].as_str()) {
        (_, None, None) => Ok(None),
        (Kind::Validating, Some(_), _) => Err("validating webhook may not return response.patch".to_owned()),
        (Kind::Validating, None, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        (Kind::Mutating, Some(_), None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (Kind::Mutating, None, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (Kind::Mutating, Some(encoded), Some("JSONPatch")) => {
            let bytes = STANDARD.decode(encoded).map_err(|e| format!("patch: {e}"))?;
            serde_json::from_slice(&bytes).map(Some).map_err(|e| format!("undecodable patch: {e}"))
        }
        (Kind::Mutating, Some(_), Some(other)) => Err(format!("unsupported patch type {other:?}")),
    }
}

/// The refusal of a webhook by its status.
fn denied(name: &str, status: &Value) -> ApiError {
    let code = status["code"].as_u64().and_then(|c| u16::try_from(c).ok()).filter(|c| (400..600).contains(c));
    let reason = status["reason"].as_str().unwrap_or_default();
    let message = match (status["message"].as_str().unwrap_or_default(), reason) {
        ("", "") => format!("admission webhook {name:?} denied the request without explanation"),
        ("", reason) => format!("admission webhook {name:?} denied the request: {reason}"),
        (message, _) => format!("admission webhook {name:?} denied the request: {message}"),
    };
    let error = ApiError::new(code.unwrap_or(400), "", message);
    ApiError { reason: reason.to_owned().into(), ..error }
}
