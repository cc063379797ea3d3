//! Work that follows a write: a CRD's instances are deleted with it, APIServices follow what is served.

use std::sync::Arc;

use serde_json::Value;

use super::delete::delete_all;
use crate::{
    api_services,
    context::Cx,
    crd::lifecycle,
    kinds::{self, kind::FollowUp},
    state::State,
    status::ApiError,
};

/// After a write is durable. `old` is absent after a create, `new` after a removal.
pub(crate) fn after_write(cx: &Cx, old: Option<&Value>, new: Option<&Value>) -> Result<Vec<FollowUp>, ApiError> {
    match (cx.resource.custom(), new) {
        (Some(custom), None) if custom.terminating => Ok(vec![FollowUp::ReleaseCrd(custom.crd.clone())]),
        _ => (kinds::hooks(&cx.resource).after_write)(cx, old, new),
    }
}

/// Carries out follow-up work.
pub(crate) async fn carry_out(state: &Arc<State>, follow_ups: Vec<FollowUp>) -> Result<(), ApiError> {
    for follow_up in follow_ups {
        match follow_up {
            FollowUp::CleanUpCrd(crd) => clean_up_crd(state, crd),
            FollowUp::ReleaseCrd(crd) => lifecycle::release(state, &crd).await?,
            FollowUp::SyncApiServices => api_services::sync(state).await.map_err(ApiError::internal)?,
        }
    }
    Ok(())
}

/// Deletes the instances of a CRD that is being deleted, as a task of the server, then the CRD.
pub(crate) fn clean_up_crd(state: &Arc<State>, crd: String) {
    let server = state.clone();
    state.seam.tasks.spawn("crd-cleanup", async move {
        if let Err(error) = delete_instances(&server, &crd).await {
            tracing::warn!(%crd, %error, "instances of a deleted CustomResourceDefinition remain");
        }
    });
}

async fn delete_instances(state: &Arc<State>, crd: &str) -> Result<(), ApiError> {
    if let Some(resource) = lifecycle::resource_of(state, crd) {
        delete_all(&Cx::own(state.clone(), resource)).await?;
    }
    lifecycle::release(state, crd).await
}
