//! From a Cluster and its Secret to a client (specification/operations.md 10.1).

use std::sync::Arc;

use ironclad_api::{addresses::is_never_a_server, cluster::Cluster};
use ironclad_runtime::{Streams, TokenAccess, Traffic, client_by_token};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

/// Makes the client of a member: over the network from its credentials, or in-process for a simulated one.
pub trait Connector: Send + Sync + 'static {
    /// A client for the member.
    ///
    /// # Errors
    /// Returns the reason as text: it becomes the message of the cluster's condition.
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String>;
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

/// Makes the clients of members over the network, which count their requests here.
pub struct NetworkConnector(pub Arc<Traffic>);

impl Connector for NetworkConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        client(cluster, credentials, self.0.clone())
    }
}
