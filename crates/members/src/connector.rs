//! From a Cluster and its Secret to a client (specification/operations.md 10.1).

use std::sync::Arc;

use ironclad_api::{
    addresses::is_never_a_server,
    cluster::{Cluster, SyncMode},
};
use ironclad_runtime::{Streams, TokenAccess, Traffic, Tunnels, client_by_token, client_through};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};

/// Makes the client of a member: over the network from its credentials, or in-process for a simulated one.
pub trait Connector: Send + Sync + 'static {
    /// A client for the member.
    ///
    /// # Errors
    /// Returns the reason as text: it becomes the message of the cluster's condition.
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String>;

    /// The tunnels by which it reaches members in pull mode, if it does.
    fn tunnels(&self) -> Option<&Tunnels> {
        None
    }
}

/// A client by `spec.apiEndpoint` and the Secret named by `spec.secretRef` (keys `token`, `caBundle`), whose requests
/// are counted in `traffic`.
///
/// # Errors
/// Returns the reason as text.
pub fn client(cluster: &Cluster, credentials: Option<&Secret>, traffic: Arc<Traffic>) -> Result<Client, String> {
    let access = cluster.access(credentials).map_err(|error| error.to_string())?;
    let access = TokenAccess {
        endpoint: access.endpoint,
        token: access.token,
        ca_bundle: access.ca_bundle,
        proxy: access.proxy,
        proxy_header: &cluster.spec.proxy_header,
        bars: is_never_a_server,
    };
    client_by_token(access, traffic)
}

/// Passes requests on to the member with this token of an impersonator; `ca_bundle` is PEM.
///
/// # Errors
/// Returns the reason as text.
pub fn streams(cluster: &Cluster, token: &[u8], ca_bundle: Option<&[u8]>) -> Result<Streams, String> {
    let ca_bundle = match (cluster.spec.insecure_skip_tls_verification, ca_bundle) {
        (true, _) => None,
        (false, Some(bundle)) => Some(bundle),
        (false, None) => return Err("the credentials have no key `caBundle`".to_owned()),
    };
    Streams::by_token(TokenAccess {
        endpoint: &cluster.spec.api_endpoint,
        token,
        ca_bundle,
        proxy: &cluster.spec.proxy_url,
        proxy_header: &cluster.spec.proxy_header,
        bars: is_never_a_server,
    })
}

/// Makes the clients of members over the network, and of those in pull mode over the tunnels of their agents.
pub struct NetworkConnector {
    traffic: Arc<Traffic>,
    tunnels: Tunnels,
}

impl NetworkConnector {
    /// A connector whose clients count their requests in `traffic`.
    #[must_use]
    pub fn new(traffic: Arc<Traffic>, tunnels: Tunnels) -> Self {
        Self { traffic, tunnels }
    }
}

impl Connector for NetworkConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        match cluster.spec.sync_mode {
            SyncMode::Push => client(cluster, credentials, self.traffic.clone()),
            SyncMode::Pull => Ok(client_through(&self.tunnels, &cluster.name_any(), self.traffic.clone())),
        }
    }

    fn tunnels(&self) -> Option<&Tunnels> {
        Some(&self.tunnels)
    }
}
