//! The answer to a question about access.

use serde_json::{Value, json};

use crate::{
    Identity,
    auth::{Attributes, allowed},
    context::Cx,
    status::{ApiError, Cause},
};

pub(super) fn access(cx: &Cx, review: &Value, identity: &Identity) -> Result<Value, ApiError> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() && path.is_object() {
        // Here the fields go by their names in Go.
        let path = json!({"Path": path["path"], "Verb": path["verb"]});
        let why = "cannot be specified in combination with resourceAttributes";
        let cause = Cause::invalid("spec.nonResourceAttributes", &path, why);
        return Err(ApiError::invalid("", "authorization.k8s.io", "", vec![cause]));
    }
    if resource.is_object() == path.is_object() {
        let message = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let cause = Cause::invalid("spec.resourceAttributes", &Value::Null, message);
        return Err(ApiError::invalid("", "authorization.k8s.io", "", vec![cause]));
    }
    let text =
        |key: &str| if resource.is_object() { resource[key].as_str() } else { path[key].as_str() }.unwrap_or_default();
    let attributes = Attributes {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        path: text("path"),
    };
    Ok(match allowed(&cx.state, identity, &attributes) {
        Ok(reason) if reason.is_empty() => json!({"allowed": true}),
        Ok(reason) => json!({"allowed": true, "reason": reason}),
        Err(reason) if reason.is_empty() => json!({"allowed": false}),
        Err(reason) => json!({"allowed": false, "reason": reason}),
    })
}
