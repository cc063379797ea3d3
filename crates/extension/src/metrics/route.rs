//! The metrics APIs in front of the embedded server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use ironclad_apiserver::{Identity, Route, RouteFuture, ServedApi, Server};
use ironclad_seam::Seam;

use super::{
    adapter::MetricsAdapter,
    address::{Address, Group},
};

/// Time between two readings of the metrics that members list, for aggregated discovery.
const DISCOVER_EVERY: Duration = Duration::from_secs(60);

/// Priorities of a group and its versions in APIServices (specification/autoscaling.md 3.1).
pub(crate) fn priority(group: Group) -> (u32, u32) {
    match group {
        Group::Resource => (2_000, 10),
        Group::Custom | Group::External => (100, 200),
    }
}

/// The metrics APIs as a route. Paths of their groups are the server's, apart from those of versions.
pub struct MetricsRoute(MetricsAdapter);

impl MetricsRoute {
    /// Mounts the metrics APIs in front of a server, and keeps its discovery up to date as a task of this seam.
    pub fn mount(adapter: MetricsAdapter, server: &Arc<Server>, seam: &Seam) {
        server.mount(Arc::new(Self(adapter.clone())));
        let (weak, clock) = (Arc::downgrade(server), seam.clock.clone());
        let adapter = Arc::new(adapter);
        for group in adapter.groups() {
            announce(server, group, Vec::new());
        }
        seam.tasks.supervise(&seam.clock, "metrics-discovery", move || {
            let (adapter, weak, clock) = (adapter.clone(), weak.clone(), clock.clone());
            async move {
                loop {
                    for group in adapter.groups() {
                        let (resources, _) = adapter.resources(group).await;
                        let Some(server) = weak.upgrade() else { return };
                        announce(&server, group, resources);
                    }
                    clock.sleep(DISCOVER_EVERY).await;
                }
            }
        });
    }
}

fn announce(server: &Arc<Server>, group: Group, resources: Vec<ironclad_apiserver::ApiResource>) {
    let (group_priority, version_priority) = priority(group);
    for version in group.versions() {
        server.announce_api(ServedApi {
            group: group.name().to_owned(),
            version: (*version).to_owned(),
            group_priority,
            version_priority,
            // Users bring these themselves, with KEDA for example, and an APIService of ours would be in their way.
            registered: group != Group::External,
            resources: resources.clone(),
        });
    }
}

impl Route for MetricsRoute {
    fn takes(&self, path: &str) -> bool {
        // Called for every request: reject foreign paths without decoding.
        path.starts_with("/apis/")
            && path.contains("metrics.k8s.io/")
            && match Address::of(path) {
                // The server lists its groups itself.
                None | Some(Address::Groups | Address::Group(_)) => false,
                Some(address) => address.group().is_some_and(|group| self.0.groups().contains(&group)),
            }
    }

    fn call(&self, request: Request<Bytes>, _: Identity) -> RouteFuture {
        let adapter = self.0.clone();
        Box::pin(async move { adapter.answer(&request).await })
    }
}
