//! The kinds of authentication.k8s.io.

pub(in crate::kinds) mod self_subject_review;
pub(in crate::kinds) mod token_review;

use serde_json::{Value, json};

use crate::Identity;

pub(super) fn user_info(identity: &Identity) -> Value {
    let mut out = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        out["uid"] = json!(identity.uid);
    }
    if !identity.extra.is_empty() {
        out["extra"] = json!(identity.extra);
    }
    out
}
