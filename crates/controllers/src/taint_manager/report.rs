//! Publishes state that only the leader's memory has in a ConfigMap: the rate in force with its reason, and the head of
//! the queue. `ironclad failover status`, `get evictions` and `why evicted` read it without a connection to the leader.

use std::{sync::Arc, time::Duration};

use ironclad_api::namespaces;
use ironclad_failover::taint_manager::{REPORT_CONFIG_MAP, Report};
use ironclad_runtime::{Api, Failure};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

use super::running::Shared;
use crate::setup::Setup;

/// Time between two checks for a changed report.
const EVERY: Duration = Duration::from_secs(10);

/// The report, as it was last published.
pub(super) struct Publisher {
    seam: Seam,
    plane: Client,
    running: Shared,
    published: Mutex<Option<Report>>,
}

impl Publisher {
    pub(super) fn new(setup: &Setup, running: Shared) -> Arc<Self> {
        let (seam, plane) = (setup.seam.clone(), setup.plane.clone());
        Arc::new(Self { seam, plane, running, published: Mutex::default() })
    }

    pub(super) fn start(self: &Arc<Self>) {
        let this = self.clone();
        self.seam.tasks.supervise(&self.seam.clock, "taint manager report", move || {
            let this = this.clone();
            async move {
                loop {
                    if let Err(failure) = this.publish().await {
                        tracing::debug!(%failure, "the report about evictions was not written");
                    }
                    this.seam.clock.sleep(EVERY).await;
                }
            }
        });
    }

    /// Writes the report if it differs from the published one. A fleet that never had a fault has no report.
    async fn publish(&self) -> Result<(), Failure> {
        let report = {
            let running = self.running.lock();
            let Some(running) = running.as_ref() else { return Ok(()) };
            running.evictions.report(running.now())
        };
        let last = self.published.lock().clone();
        if last.as_ref().is_some_and(|last| last.says_the_same(&report)) {
            return Ok(());
        }
        let api: Api<ConfigMap> = Api::namespaced(self.plane.clone(), namespaces::SYSTEM);
        if last.is_none() && report.is_quiet() {
            // Only the report of an earlier leader could be wrong now.
            let before = api.get_opt(REPORT_CONFIG_MAP).await?;
            let before = before.and_then(|map| Report::parse(map.data.as_ref()?));
            if before.is_none_or(|before| before.says_the_same(&report)) {
                *self.published.lock() = Some(report);
                return Ok(());
            }
        }
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": REPORT_CONFIG_MAP, "namespace": namespaces::SYSTEM },
            "data": report.data(),
        });
        let params = PatchParams::apply("ironclad-taint-manager").force();
        if let Err(failure) = api.patch(REPORT_CONFIG_MAP, &params, &Patch::Apply(&map)).await.map_err(Failure::from) {
            if failure.is_not_found() {
                self.create_namespace().await?;
            }
            return Err(failure);
        }
        *self.published.lock() = Some(report);
        Ok(())
    }

    /// Creates the namespace on a control plane that does not have it yet. The report follows with the next check.
    async fn create_namespace(&self) -> Result<(), Failure> {
        let metadata = ObjectMeta { name: Some(namespaces::SYSTEM.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        match Api::all(self.plane.clone()).create(&PostParams::default(), &namespace).await.map_err(Failure::from) {
            Ok(_) | Err(Failure::AlreadyExists(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}
