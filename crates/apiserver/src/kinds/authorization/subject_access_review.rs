//! SubjectAccessReviews and LocalSubjectAccessReviews: what a user may do.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::access::access;
use crate::{
    Identity,
    context::Cx,
    kinds::kind::{Hooks, Kind},
    object,
    status::{ApiError, Cause},
};

pub(in crate::kinds) const KIND: Kind = Kind {
    hooks: Hooks {
        review: Some(|cx, review| {
            let identity = subject(review)?;
            access(cx, review, &identity)
        }),
        ..Hooks::NONE
    },
    ..Kind::new("authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview C verbs=create")
};

pub(in crate::kinds) const LOCAL: Kind = Kind {
    hooks: Hooks { review: Some(review_local), ..Hooks::NONE },
    ..Kind::new("authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview N verbs=create")
};

/// The user that a review asks about.
fn subject(review: &Value) -> Result<Identity, ApiError> {
    let spec = &review["spec"];
    let user = spec["user"].as_str().unwrap_or_default().to_owned();
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(|g| g.as_str().map(str::to_owned));
    let groups: Vec<String> = groups.collect();
    if user.is_empty() && groups.is_empty() {
        let cause = Cause::invalid("spec.user", &json!(""), "at least one of user or group must be specified");
        return Err(ApiError::invalid("", "authorization.k8s.io", "", vec![cause]));
    }
    Ok(Identity::known(user, String::new(), groups, BTreeMap::new()))
}

fn review_local(cx: &Cx, review: &mut Value) -> Result<Value, ApiError> {
    let identity = subject(review)?;
    let own = cx.namespace().unwrap_or_default();
    let asked = review.pointer("/spec/resourceAttributes/namespace").cloned().unwrap_or_else(|| json!(""));
    if asked != own {
        let field = "spec.resourceAttributes.namespace";
        let cause = Cause::invalid(field, &asked, "must match metadata.namespace");
        return Err(ApiError::invalid("", "authorization.k8s.io", "", vec![cause]));
    }
    object::metadata_mut(review).insert("namespace".into(), json!(own));
    access(cx, review, &identity)
}
