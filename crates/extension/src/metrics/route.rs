//! The metrics APIs in front of the embedded server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use ironclad_apiserver::{Identity, RequestBody, Route, RouteFuture, ServedApi, Server};
use ironclad_seam::Seam;

use super::{adapter::MetricsAdapter, address::Address, discovery};

/// Time between two readings of the metrics that members list, for aggregated discovery.
const DISCOVER_EVERY: Duration = Duration::from_secs(60);

/// The metrics APIs as a route. Paths of their groups are the server's, apart from those of versions.
pub struct MetricsRoute(MetricsAdapter);

impl MetricsRoute {
    /// Mounts the metrics APIs in front of a server, and keeps its discovery up to date as a task of this seam.
    pub fn mount(adapter: MetricsAdapter, server: &Arc<Server>, seam: &Seam) {
        server.mount(Arc::new(Self(adapter.clone())));
        let (weak, clock) = (Arc::downgrade(server), seam.clock.clone());
        let adapter = Arc::new(adapter);
        server.publish_open_api(adapter.open_api().clone());
        for group in adapter.groups() {
            announce(server, discovery::served(group, &discovery::known(group)));
        }
        seam.tasks.supervise(&seam.clock, "metrics-discovery", move || {
            let (adapter, weak, clock) = (adapter.clone(), weak.clone(), clock.clone());
            async move {
                loop {
                    let apis = adapter.apis().await;
                    let Some(server) = weak.upgrade() else { return };
                    announce(&server, apis);
                    drop(server);
                    clock.sleep(DISCOVER_EVERY).await;
                }
            }
        });
    }
}

fn announce(server: &Arc<Server>, apis: Vec<ServedApi>) {
    apis.into_iter().for_each(|api| server.announce_api(api));
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

    fn call(&self, request: Request<RequestBody>, _: Identity) -> RouteFuture {
        let adapter = self.0.clone();
        // Metrics are read: a body means nothing.
        let request = request.map(|_| Bytes::new());
        Box::pin(async move { adapter.answer(&request).await })
    }
}
