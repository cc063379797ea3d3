//! The AdmissionReview that a webhook gets.

use serde_json::{Value, json};

use super::matching::Seen;
use crate::{
    admission::review::{Operation, Write},
    context::Cx,
    object,
    registry::Resource,
};

/// `request` of the review, without the objects.
///
/// `seen` is the resource in the version in which the objects are shown.
pub(crate) fn request(cx: &Cx, seen: &Resource, write: &Write<'_>, uid: &str) -> Value {
    let resource = &*cx.resource;
    let kind = |r: &Resource| match &write.subresource_kind {
        Some(gvk) => json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind}),
        None => json!({"group": r.group, "version": r.version, "kind": r.kind}),
    };
    let plural = |r: &Resource| json!({"group": r.group, "version": r.version, "resource": r.plural});
    let (operation, options) = match write.operation {
        Operation::Create => ("CREATE", "CreateOptions"),
        Operation::Update => ("UPDATE", "UpdateOptions"),
        Operation::Delete => ("DELETE", "DeleteOptions"),
        Operation::Connect => ("CONNECT", ""),
    };
    let options = match options {
        "" => Value::Null,
        kind => {
            let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
            if write.dry_run {
                options["dryRun"] = json!(["All"]);
            }
            let given =
                ["fieldManager", "fieldValidation"].into_iter().filter_map(|key| Some((key, cx.query.text(key)?)));
            given.filter(|_| kind != "DeleteOptions").for_each(|(key, text)| options[key] = json!(text));
            options
        }
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
        "uid": uid, "kind": kind(seen), "resource": plural(seen), "requestKind": kind(resource), "requestResource": plural(resource),
        "name": cx.name(), "operation": operation, "userInfo": user, "dryRun": write.dry_run,
        "options": options,
    });
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
pub(super) fn review(cx: &Cx, seen: &Seen<'_>, uid: &str) -> Value {
    let (write, new) = (seen.write(), seen.object());
    let mut request = request(cx, &seen.resource, &write, uid);
    // A new object has the name that its creator chose; a deletion of a collection has none.
    if request["name"] == "" {
        match new.filter(|object| object::meta_str(object, "generateName").is_empty()) {
            Some(new) => request["name"] = json!(object::meta_str(new, "name")),
            None => drop(request.as_object_mut().and_then(|request| request.remove("name"))),
        }
    }
    request["object"] = new.cloned().unwrap_or(Value::Null);
    request["oldObject"] = write.old.cloned().unwrap_or(Value::Null);
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}
