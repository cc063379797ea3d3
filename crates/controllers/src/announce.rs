//! Announcement of the leader's settings in a ConfigMap, for verbs that cannot ask its process
//! (specification/operations.md 4.4).

use std::time::Duration;

use ironclad_api::namespaces;
use ironclad_planning::{
    announcement::{Announcement, CONFIG_MAP, LeaseName},
    leader::Configuration,
};
use ironclad_runtime::{Api, Failure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::setup::Setup;

/// Time between two attempts.
const EVERY: Duration = Duration::from_secs(5);

/// Writes the announcement as a task of the term.
pub(crate) fn start(setup: &Setup, configuration: Configuration, leads: Option<(LeaseName, String)>) {
    let (lease, holder) = leads.map_or((None, String::new()), |(lease, holder)| (Some(lease), holder));
    let announcement = Announcement { at: setup.seam.clock.wall_seconds(), lease, holder, configuration };
    let (plane, clock) = (setup.plane.clone(), setup.seam.clock.clone());
    setup.seam.tasks.supervise(&setup.seam.clock, "announcement of the settings", move || {
        let (plane, clock, announcement) = (plane.clone(), clock.clone(), announcement.clone());
        async move {
            while let Err(failure) = write(&plane, &announcement).await {
                tracing::debug!(%failure, "the settings were not announced");
                clock.sleep(EVERY).await;
            }
        }
    });
}

/// Applies the announcement under a field manager of its key, so that processes with different Leases keep each
/// other's.
async fn write(plane: &Client, announcement: &Announcement) -> Result<(), Failure> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": CONFIG_MAP, "namespace": namespaces::SYSTEM },
        "data": announcement.data(),
    });
    let api: Api<ConfigMap> = Api::namespaced(plane.clone(), namespaces::SYSTEM);
    let params = PatchParams::apply(&manager(&announcement.key())).force();
    let written = api.patch(CONFIG_MAP, &params, &Patch::Apply(&map)).await.map_err(Failure::from);
    if written.as_ref().is_err_and(Failure::is_not_found) {
        // The Lease may be in another namespace.
        let metadata = ObjectMeta { name: Some(namespaces::SYSTEM.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        match Api::all(plane.clone()).create(&PostParams::default(), &namespace).await.map_err(Failure::from) {
            Ok(_) | Err(Failure::AlreadyExists(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    written.map(|_| ())
}

/// Field manager for a key, within the 128 bytes that a server allows.
fn manager(key: &str) -> String {
    const BYTES_MAX: usize = 128;
    let mut name = format!("ironclad-announcement-{key}");
    // Names of Leases are ASCII.
    name.truncate(BYTES_MAX);
    name
}
