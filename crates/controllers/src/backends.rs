//! Clients of what serves decisions beside the API servers: interpreter webhooks and estimators.

use std::sync::Arc;

use ironclad_estimator::{Client as EstimatorClient, ClientTls, Estimator};
use ironclad_interpreter::webhook::Endpoint;
use ironclad_runtime::webhook_client;
use ironclad_seam::{Clock, Tasks};
use kube::Client;

/// Makes these clients: over the network, unless a test says otherwise.
pub trait Backends: Send + Sync + 'static {
    /// A client for an interpreter webhook; `ca_bundle` is PEM.
    ///
    /// # Errors
    /// Returns the reason as text.
    fn webhook(&self, endpoint: &Endpoint, ca_bundle: Option<&[u8]>) -> Result<Client, String> {
        webhook_client(&endpoint.base, endpoint.server_name.as_deref(), ca_bundle, Arc::default())
    }

    /// A client of a cluster's estimator at the first of these addresses that answers. It connects in the background,
    /// in tasks of this group.
    fn estimator(
        &self,
        cluster: &str,
        addresses: Vec<String>,
        tls: &ClientTls,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Arc<dyn Estimator> {
        Arc::new(EstimatorClient::new(cluster, addresses, tls.clone(), clock, tasks))
    }
}

/// Backends over the network.
pub struct NetworkBackends;

impl Backends for NetworkBackends {}
