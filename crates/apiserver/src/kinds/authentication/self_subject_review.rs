//! SelfSubjectReviews: who the user is.

use serde_json::json;

use super::user_info;
use crate::kinds::kind::{Hooks, Kind};

pub(in crate::kinds) const KIND: Kind = Kind {
    hooks: Hooks {
        review: Some(|cx, review| {
            review["metadata"] = json!({"creationTimestamp": cx.state.now()});
            Ok(json!({"userInfo": user_info(&cx.identity)}))
        }),
        ..Hooks::NONE
    },
    ..Kind::new("authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview C verbs=create")
};
