//! Reviews: questions about access, answered and never stored (apiserver.md 20).

use serde_json::{Value, json};

use crate::{
    Identity,
    context::Cx,
    respond::{self, Reply},
    status::{ApiError, Cause},
    verbs::{body, options::WriteOptions},
};

use super::{Attributes, allowed, bearer, jwt::ISSUER, rbac};

/// POST of a review of any kind.
pub(crate) fn review(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut review = body::object(cx, bytes, options.field_validation)?;
    let status = match cx.resource.kind.as_str() {
        "SelfSubjectReview" => {
            review["metadata"] = json!({"creationTimestamp": cx.state.now()});
            json!({"userInfo": user_info(&cx.identity)})
        }
        "TokenReview" => token(cx, &review)?,
        "SelfSubjectRulesReview" => rules(cx, &review)?,
        "SelfSubjectAccessReview" => access(cx, &review, &cx.identity)?,
        _ => {
            let spec = &review["spec"];
            let user = spec["user"].as_str().unwrap_or_default().to_owned();
            let groups: Vec<String> =
                spec["groups"].as_array().into_iter().flatten().filter_map(|g| g.as_str().map(str::to_owned)).collect();
            if user.is_empty() && groups.is_empty() {
                let cause = Cause::invalid("spec.user", &json!(""), "at least one of user or group must be specified");
                return Err(ApiError::invalid("", "authorization.k8s.io", "", vec![cause]));
            }
            if cx.resource.kind == "LocalSubjectAccessReview" {
                let own = cx.namespace().unwrap_or_default();
                let asked = spec.pointer("/resourceAttributes/namespace").cloned().unwrap_or_else(|| json!(""));
                if asked != own {
                    let field = "spec.resourceAttributes.namespace";
                    let cause = Cause::invalid(field, &asked, "must match metadata.namespace");
                    return Err(ApiError::invalid("", "authorization.k8s.io", "", vec![cause]));
                }
                crate::object::metadata_mut(&mut review).insert("namespace".into(), json!(own));
            }
            let identity = Identity { user, groups, ..Identity::default() };
            access(cx, &review, &identity)?
        }
    };
    if review["metadata"].is_null() {
        review["metadata"] = json!({});
    }
    review["status"] = status;
    Ok(respond::formatted(cx, 201, &review))
}

fn user_info(identity: &Identity) -> Value {
    let mut out = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        out["uid"] = json!(identity.uid);
    }
    if !identity.extra.is_empty() {
        out["extra"] = json!(identity.extra);
    }
    out
}

fn token(cx: &Cx, review: &Value) -> Result<Value, ApiError> {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
    let audiences: Vec<String> =
        audiences.into_iter().flatten().filter_map(|a| a.as_str().map(str::to_owned)).collect();
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    Ok(match bearer::bearer(&cx.state, token, &audiences) {
        Ok(bearer) => {
            json!({"authenticated": true, "user": user_info(&bearer.identity), "audiences": bearer.audiences})
        }
        Err(error) => json!({"user": {}, "error": error}),
    })
}

fn access(cx: &Cx, review: &Value, identity: &Identity) -> Result<Value, ApiError> {
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
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
        None => json!({"allowed": false}),
    })
}

fn rules(cx: &Cx, review: &Value) -> Result<Value, ApiError> {
    let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    // Whoever made the server without the first roles still is told what members of the group may do.
    if cx.identity.is_master() && !cx.state.options.bootstrap {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    rbac::for_each_rule(&cx.state.bindings(), &cx.identity, namespace, |_, _, rule| {
        if rule["resources"].as_array().is_some_and(|r| !r.is_empty()) {
            resources.push(rule.clone());
        }
        if rule["nonResourceURLs"].as_array().is_some_and(|r| !r.is_empty()) {
            paths.push(json!({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}));
        }
    });
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}
