//! The kinds of rbac.authorization.k8s.io.

pub(in crate::kinds) mod role;
pub(in crate::kinds) mod role_binding;

use serde_json::Value;

use crate::{context::Cx, kinds::kind::FollowUp, status::ApiError};

/// Roles and bindings are read again.
fn changed(cx: &Cx, _: Option<&Value>, _: Option<&Value>) -> Result<Vec<FollowUp>, ApiError> {
    cx.state.rbac_changed();
    Ok(vec![])
}
