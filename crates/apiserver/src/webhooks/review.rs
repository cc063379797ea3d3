//! The AdmissionReview that a webhook gets.

use serde_json::{Value, json};

use super::Write;
use crate::{admission::Operation, context::Cx, object};

/// `request` of the review, without the objects.
pub(crate) fn request(cx: &Cx, write: &Write<'_>, uid: &str) -> Value {
    let resource = &*cx.resource;
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let plural = json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let (operation, options) = match write.operation {
        Operation::Create => ("CREATE", "CreateOptions"),
        Operation::Update => ("UPDATE", "UpdateOptions"),
        Operation::Delete => ("DELETE", "DeleteOptions"),
    };
    let identity = &cx.identity;
    let mut user = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        user["uid"] = json!(identity.uid);
    }
    if !identity.extra.is_empty() {
        user["extra"] = json!(identity.extra);
    }
    let mut out = json!({
        "uid": uid, "kind": kind, "resource": plural, "requestKind": kind, "requestResource": plural,
        "name": cx.name(), "operation": operation, "userInfo": user, "dryRun": write.dry_run,
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
    });
    if let Some(old) = write.old.filter(|_| cx.name().is_empty()) {
        out["name"] = json!(object::meta_str(old, "name"));
    }
    let namespace = match cx.namespace() {
        Some(namespace) if resource.namespaced => namespace,
        _ if resource.namespaced => object::meta_str(write.old.unwrap_or(&Value::Null), "namespace"),
        _ => "",
    };
    if !namespace.is_empty() {
        out["namespace"] = json!(namespace);
    }
    if let Some(subresource) = cx.subresource() {
        out["subResource"] = json!(subresource);
        out["requestSubResource"] = json!(subresource);
    }
    out
}

/// The whole review.
pub(super) fn review(cx: &Cx, write: &Write<'_>, uid: &str, new: Option<&Value>) -> Value {
    let mut request = request(cx, write, uid);
    if request["name"] == "" {
        request["name"] = json!(object::meta_str(new.unwrap_or(&Value::Null), "name"));
    }
    request["object"] = new.cloned().unwrap_or(Value::Null);
    request["oldObject"] = write.old.cloned().unwrap_or(Value::Null);
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}
