//! The metrics APIs of `ironclad run`: an API server of its own behind a kube-apiserver.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use ironclad_apiserver::{RequestBody, ResponseBody};
use ironclad_seam::Seam;
use kube::Client;
use tokio::net::TcpListener;

use super::adapter::MetricsAdapter;
use crate::{
    CertificateExpiry,
    admission::WebhookError,
    aggregated::{self, AggregatedApi, Sender, ServedVersion, ServerNames, ServerService},
};

/// Serves the metrics APIs on a listener, registers them, and maintains certificates and registrations until the tasks
/// are stopped. Returns once they are registered.
///
/// # Errors
/// The control plane rejects the Secret, the Service or an APIService.
pub async fn serve_metrics(
    client: Client,
    listener: TcpListener,
    adapter: MetricsAdapter,
    service: ServerService,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<(), WebhookError> {
    aggregated::serve(client, listener, Arc::new(adapter), service, expiry, seam).await.map(drop)
}

impl AggregatedApi for MetricsAdapter {
    fn names(&self) -> ServerNames {
        ServerNames {
            server: "ironclad-metrics-adapter",
            secret: "ironclad-metrics-adapter-certificates",
            authority: "ironclad-metrics-adapter-ca",
            flag: "--metrics-adapter-service",
        }
    }

    fn versions(&self) -> Vec<ServedVersion> {
        let of = |group: super::address::Group| {
            let one = move |version: &&'static str| ServedVersion {
                group: group.name(),
                version,
                priority: group.priority(),
            };
            group.versions().iter().map(one)
        };
        self.groups().into_iter().flat_map(of).collect()
    }

    /// Every replica serves the metrics of all members, leader or not.
    fn registers(&self) -> bool {
        true
    }

    fn answer(&self, request: Request<RequestBody>, _: Sender) -> BoxFuture<'static, Response<ResponseBody>> {
        let adapter = self.clone();
        // Metrics are read: a body means nothing.
        let request = request.map(|_| Bytes::new());
        // The inherent function of the same name.
        Box::pin(async move { MetricsAdapter::answer(&adapter, &request).await })
    }
}
