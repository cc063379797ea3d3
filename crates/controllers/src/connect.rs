//! Connects members over the network from the credentials that `join` left in the control plane (operations.md 10.1).

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use ironclad_runtime::{Traffic, client_from_kubeconfig};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Config, config::AuthInfo};
use secrecy::SecretString;

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
        let spec = &cluster.spec;
        let endpoint: http::Uri = spec
            .api_endpoint
            .parse()
            .map_err(|e| format!("spec.apiEndpoint {:?} is not a URL: {e}", spec.api_endpoint))?;
        let secret = credentials.ok_or_else(|| match &spec.secret_ref {
            Some(r) => format!("secret {}/{} named by spec.secretRef does not exist", r.namespace, r.name),
            None => "spec.secretRef is not set: join the cluster with `ironclad join`".to_owned(),
        })?;
        let data = secret.data.as_ref();
        let token = data.and_then(|d| d.get("token")).ok_or("the credentials have no key `token`")?;
        let token = String::from_utf8(token.0.clone()).map_err(|_| "the key `token` is not text")?;
        let mut config = Config::new(endpoint);
        config.auth_info = AuthInfo { token: Some(SecretString::from(token)), ..AuthInfo::default() };
        config.accept_invalid_certs = spec.insecure_skip_tls_verification;
        if !spec.insecure_skip_tls_verification {
            let bundle = data.and_then(|d| d.get("caBundle")).ok_or("the credentials have no key `caBundle`")?;
            config.root_cert = Some(certificates(&bundle.0)?);
        }
        client_from_kubeconfig(config, self.traffic.clone()).map_err(|e| e.to_string())
    }
}

/// The certificates of a PEM bundle, as DER.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|c| c.map(|der| der.as_ref().to_vec())).collect();
    match all {
        Ok(list) if list.is_empty() => Err("the key `caBundle` holds no certificate".to_owned()),
        Ok(list) => Ok(list),
        Err(e) => Err(format!("the key `caBundle` is not PEM: {e}")),
    }
}
