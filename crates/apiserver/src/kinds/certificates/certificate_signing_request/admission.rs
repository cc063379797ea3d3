//! Admission of certificate requests: the requester, the rights to approve and sign (specification/apiserver.md 17,
//! 21).
//!
//! The server signs nothing: a signer is a client that watches these objects and has the verb `sign`.

use serde_json::{Value, json};

use super::validate::organizations;
use crate::{
    auth::{Attributes, allowed},
    context::Cx,
    identity::MASTERS,
    object,
    status::ApiError,
};

const GROUP: &str = "certificates.k8s.io";
const KIND: &str = "CertificateSigningRequest";
/// The signer of certificates that the API server takes for users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn refused(cx: &Cx, object: &Value, why: &str) -> ApiError {
    ApiError::forbidden(&cx.resource.plural, GROUP, object::meta_str(object, "name"), why)
}

/// Records the requester, and refuses certificates of administrators.
pub(super) fn create(cx: &Cx, value: &mut Value) -> Result<(), ApiError> {
    let administrator = || organizations(value).iter().any(|group| group == MASTERS);
    if value["spec"]["signerName"] == CLIENT_SIGNER && administrator() {
        let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
        return Err(refused(cx, value, &why));
    }
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    for key in ["username", "uid", "groups", "extra"] {
        spec.remove(key);
    }
    let identity = &cx.identity;
    spec.insert("username".into(), json!(identity.user));
    if !identity.uid.is_empty() {
        spec.insert("uid".into(), json!(identity.uid));
    }
    if !identity.groups.is_empty() {
        spec.insert("groups".into(), json!(identity.groups));
    }
    if !identity.extra.is_empty() {
        spec.insert("extra".into(), json!(identity.extra));
    }
    Ok(())
}

/// Refuses verdicts and certificates of those who may not give them, and verdicts where there is no place for them.
pub(super) fn update(cx: &Cx, old: &Value, new: &mut Value) -> Result<(), ApiError> {
    let new = &*new;
    let signer = old.pointer("/spec/signerName").and_then(Value::as_str).unwrap_or_default();
    let changed = |pointer: &str| old.pointer(pointer) != new.pointer(pointer);
    match cx.subresource() {
        Some("approval") if !may(cx, "approve", signer) => {
            let why = format!("user not permitted to approve requests with signerName {signer:?}");
            Err(refused(cx, old, &why))
        }
        Some("status") if changed("/status/certificate") && !may(cx, "sign", signer) => {
            let why = format!("user not permitted to sign requests with signerName {signer:?}");
            Err(refused(cx, old, &why))
        }
        Some("status") => {
            let has = |object: &Value, kind: &str| {
                let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
                conditions.into_iter().flatten().any(|c| c["type"] == kind)
            };
            let added = ["Approved", "Denied"].into_iter().find(|kind| has(new, kind) && !has(old, kind));
            let Some(kind) = added else { return Ok(()) };
            let why = format!("updates may not add a condition of type {kind:?}");
            let cause = crate::status::Cause::forbidden("status.conditions", why);
            Err(ApiError::invalid(KIND, GROUP, cx.name(), vec![cause]))
        }
        _ => Ok(()),
    }
}

/// True if the user may do this for a signer, or for all signers of its domain.
fn may(cx: &Cx, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    [signer, &domain].into_iter().any(|name| {
        let (resource, subresource, namespace, path) = ("signers", "", "", "");
        let attributes = Attributes { verb, group: GROUP, resource, subresource, namespace, name, path };
        allowed(&cx.state, &cx.identity, &attributes).is_ok()
    })
}

/// Times at which conditions were set and last changed.
pub(super) fn set_condition_times(now: &str, old: &Value, new: &mut Value) {
    let before = old.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let was = before.iter().find(|c| c["type"] == condition["type"]);
        if was == Some(condition) {
            continue;
        }
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = json!(now);
        }
        if condition["lastTransitionTime"].is_null() {
            let same = was.filter(|was| was["status"] == condition["status"]);
            let since = same.map_or(&Value::Null, |was| &was["lastTransitionTime"]);
            condition["lastTransitionTime"] = if since.is_null() { json!(now) } else { since.clone() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let with = |conditions: Value| json!({"status": {"conditions": conditions}});
        let old = with(json!([{"type": "A", "status": "True", "lastUpdateTime": "1", "lastTransitionTime": "1"}]));
        let mut new = with(json!([
            {"type": "A", "status": "True", "message": "m"},
            {"type": "B", "status": "True"},
            {"type": "C", "status": "True", "lastUpdateTime": "own", "lastTransitionTime": "own"},
        ]));
        set_condition_times("2", &old, &mut new);
        let times = |i: usize| {
            let condition = &new["status"]["conditions"][i];
            format!("{} {}", condition["lastUpdateTime"], condition["lastTransitionTime"])
        };
        assert_eq!([times(0), times(1), times(2)], [r#""2" "1""#, r#""2" "2""#, r#""own" "own""#]);
        let mut same = old.clone();
        set_condition_times("3", &old, &mut same);
        assert_eq!(same, old);
    }
}
