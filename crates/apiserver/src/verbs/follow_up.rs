//! Work that follows a write: a CRD's instances are deleted with it, APIServices follow what is served.

use std::{sync::Arc, time::Duration};

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

/// Wait after a clean-up that failed; it doubles each time.
const CLEAN_UP_AGAIN: Duration = Duration::from_secs(1);
/// Longest wait until the next try: a conversion webhook can be away for days.
const CLEAN_UP_AGAIN_MAX: Duration = Duration::from_secs(300);

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
            FollowUp::ReleaseCrd(crd) => {
                if let Err(error) = lifecycle::release(state, &crd).await {
                    tracing::warn!(%crd, %error, "CustomResourceDefinition without instances is not removed yet");
                    clean_up_crd(state, crd);
                }
            }
            FollowUp::SyncApiServices => api_services::sync(state).await.map_err(ApiError::internal)?,
        }
    }
    Ok(())
}

/// Deletes the instances of a CRD that is being deleted, as a task of the server, then the CRD. It is tried until
/// it succeeds.
pub(crate) fn clean_up_crd(state: &Arc<State>, crd: String) {
    let server = state.clone();
    state.seam.tasks.spawn("crd-cleanup", async move {
        let mut wait = CLEAN_UP_AGAIN;
        while let Err(error) = delete_instances(&server, &crd).await {
            tracing::warn!(%crd, %error, ?wait, "instances of a deleted CustomResourceDefinition remain");
            lifecycle::note_failed_clean_up(&server, &crd, &error).await;
            tokio::select! {
                biased;
                () = server.seam.tasks.stopping() => return,
                () = server.seam.clock.sleep(wait) => {}
            }
            wait = (wait * 2).min(CLEAN_UP_AGAIN_MAX);
        }
    });
}

async fn delete_instances(state: &Arc<State>, crd: &str) -> Result<(), ApiError> {
    let resource = lifecycle::resource_of(state, crd);
    // By now a new CRD may have the name.
    if let Some(resource) = resource.filter(|resource| resource.custom().is_some_and(|custom| custom.terminating)) {
        delete_all(&Cx::own(state.clone(), resource)).await?;
    }
    lifecycle::release(state, crd).await
}
