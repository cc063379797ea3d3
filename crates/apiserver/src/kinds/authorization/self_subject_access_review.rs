//! SelfSubjectAccessReviews: what the user may do.

use super::access::access;
use crate::kinds::kind::{Hooks, Kind};

pub(in crate::kinds) const KIND: Kind = Kind {
    hooks: Hooks { review: Some(|cx, review| access(cx, review, &cx.identity)), ..Hooks::NONE },
    ..Kind::new("authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview C verbs=create")
};
