//! Connectors make the clients of members (specification/operations.md 10.1).

use std::sync::Arc;

use ironclad_api::{addresses::is_never_a_server, cluster::Cluster};
use ironclad_estimator::{Client as EstimatorClient, ClientTls, Estimator};
use ironclad_interpreter::webhook::Endpoint;
use ironclad_runtime::{TokenAccess, Traffic, client_by_token, webhook_client};
use ironclad_seam::{Clock, Tasks};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

/// Makes the client of a member: over the network from its credentials, or in-process for a simulated one.
pub trait Connector: Send + Sync + 'static {
    /// A client for the member.
    ///
    /// # Errors
    /// Returns the reason as text: it becomes the message of the cluster's condition.
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String>;

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

/// Connects push members by `spec.apiEndpoint` and the Secret named by `spec.secretRef` (keys `token`, `caBundle`).
pub struct NetworkConnector {
    traffic: Arc<Traffic>,
}

impl NetworkConnector {
    /// A connector whose clients count their requests in `traffic`.
    #[must_use]
    pub fn new(traffic: Arc<Traffic>) -> Self {
        Self { traffic }
    }
}

impl Connector for NetworkConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        let access = cluster.access(credentials).map_err(|e| e.to_string())?;
        let access = TokenAccess {
            endpoint: access.endpoint,
            token: access.token,
            ca_bundle: access.ca_bundle,
            proxy: access.proxy,
            proxy_header: &cluster.spec.proxy_header,
            bars: is_never_a_server,
        };
        client_by_token(access, self.traffic.clone())
    }
}
