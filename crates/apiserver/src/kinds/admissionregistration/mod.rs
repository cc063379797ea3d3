//! The kinds of admissionregistration.k8s.io.

mod constraints;
pub(in crate::kinds) mod mutating_admission_policy;
pub(in crate::kinds) mod mutating_admission_policy_binding;
mod policy;
pub(in crate::kinds) mod validating_admission_policy;
pub(in crate::kinds) mod validating_admission_policy_binding;
pub(in crate::kinds) mod webhook_configuration;

use serde_json::Value;

use crate::{context::Cx, kinds::kind::FollowUp, status::ApiError};

/// Webhooks and policies are read again.
fn changed(cx: &Cx, _: Option<&Value>, _: Option<&Value>) -> Result<Vec<FollowUp>, ApiError> {
    cx.state.admission_changed();
    Ok(vec![])
}
