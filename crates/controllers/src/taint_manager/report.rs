//! Tells in a ConfigMap what only the leader's memory knows: the rate in force, why, and the head of the queue. So
//! `ironclad failover status`, `get evictions` and `why evicted` need no way to the leader (docs/decisions).

use std::{sync::Arc, time::Duration};

use ironclad_api::namespaces;
use ironclad_failover::eviction::{REPORT_CONFIG_MAP, Report as Said};
use ironclad_runtime::Failure;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::Context;

/// From one look at what there is to tell to the next.
const EVERY: Duration = Duration::from_secs(10);

/// What was told last.
#[derive(Default)]
pub(super) struct Report(Mutex<Option<Said>>);

pub(super) fn start(cx: &Arc<Context>) {
    let teller = cx.clone();
    let tell = async move {
        loop {
            if let Err(failure) = tell(&teller).await {
                tracing::debug!(%failure, "the state of evictions was not told");
            }
            teller.seam.clock.sleep(EVERY).await;
        }
    };
    drop(cx.seam.tasks.spawn("taint manager report", tell));
}

/// Writes what there is to tell, if it differs from what was told last. A fleet that never had a fault tells nothing.
async fn tell(cx: &Context) -> Result<(), Failure> {
    let said = {
        let running = cx.taint_manager.running.lock();
        let Some(running) = running.as_ref() else { return Ok(()) };
        running.evictions.report(running.now())
    };
    let last = cx.taint_manager.report.0.lock().clone();
    if last.as_ref().is_some_and(|last| last.says_the_same(&said)) {
        return Ok(());
    }
    if last.is_none() && said.is_quiet() {
        // Only what an earlier leader said could be wrong now.
        let api: Api<ConfigMap> = Api::namespaced(cx.plane.clone(), namespaces::SYSTEM);
        let before = api.get_opt(REPORT_CONFIG_MAP).await?;
        let before = before.and_then(|map| Said::parse(map.data.as_ref()?));
        if before.is_none_or(|before| before.says_the_same(&said)) {
            *cx.taint_manager.report.0.lock() = Some(said);
            return Ok(());
        }
    }
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": REPORT_CONFIG_MAP, "namespace": namespaces::SYSTEM },
        "data": said.data(),
    });
    let api: Api<ConfigMap> = Api::namespaced(cx.plane.clone(), namespaces::SYSTEM);
    let params = PatchParams::apply("ironclad-taint-manager").force();
    if let Err(failure) = api.patch(REPORT_CONFIG_MAP, &params, &Patch::Apply(&map)).await.map_err(Failure::from) {
        if failure.is_not_found() {
            make_namespace(cx).await?;
        }
        return Err(failure);
    }
    *cx.taint_manager.report.0.lock() = Some(said);
    Ok(())
}

/// On a plane where nobody needed the namespace yet; what was to be told is told the next time.
async fn make_namespace(cx: &Context) -> Result<(), Failure> {
    let metadata = ObjectMeta { name: Some(namespaces::SYSTEM.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match Api::all(cx.plane.clone()).create(&PostParams::default(), &namespace).await.map_err(Failure::from) {
        Ok(_) | Err(Failure::AlreadyExists(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}
