//! SelfSubjectRulesReviews: all that the user may do in a namespace.

use serde_json::{Value, json};

use crate::{
    auth::rbac,
    context::Cx,
    kinds::kind::{Hooks, Kind},
    status::ApiError,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    hooks: Hooks { review: Some(review), ..Hooks::NONE },
    ..Kind::new("authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview C verbs=create")
};

fn review(cx: &Cx, review: &mut Value) -> Result<Value, ApiError> {
    let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    // Without the bootstrap roles, list the rights of members of the group all the same.
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
