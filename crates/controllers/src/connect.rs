//! Connects members over the network from the credentials that `join` left in the control plane (operations.md 10.1).

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use ironclad_runtime::{TokenAccess, Traffic, client_by_token};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use crate::members::Connector;

/// Connects push members by `spec.apiEndpoint` and the Secret named by `spec.secretRef` (keys `token`, `caBundle`).
pub struct NetworkConnector {
    traffic: Arc<Traffic>,
}

impl NetworkConnector {
    /// A connector whose clients count their requests here.
    #[must_use]
    pub fn new(traffic: Arc<Traffic>) -> Self {
        Self { traffic }
    }
}

impl Connector for NetworkConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        let access = cluster.access(credentials).map_err(|e| e.to_string())?;
        let access = TokenAccess { endpoint: access.endpoint, token: access.token, ca_bundle: access.ca_bundle };
        client_by_token(access, self.traffic.clone())
    }
}
