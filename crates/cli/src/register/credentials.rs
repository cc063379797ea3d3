//! From a bootstrap token to the kubeconfig of an agent.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ironclad_seam::Clock;
use kube::{Client, Config, config::Kubeconfig};
use serde_json::{Value, json};

use super::{
    RegisterError,
    certificate::{CertificateRequest, PrivateKey, certificate_request},
    discovery, refuse_name,
};
use crate::{connect, print, token::BootstrapToken};

/// Name of the control plane in the kubeconfig of an agent.
pub const KUBECONFIG_CLUSTER: &str = "karmada-apiserver";

/// Way from a bootstrap token to the credentials of an agent (specification/operations.md 2.5).
#[derive(Debug, Clone)]
pub struct Bootstrap {
    /// Address of the control plane, as [`address`](super::address) returns it: `https://HOST:PORT`.
    pub server: String,
    /// The token.
    pub token: BootstrapToken,
    /// Hashes (`sha256:<hex>`) of public keys, one of which the control plane's certificate has to have.
    pub ca_hashes: Vec<String>,
    /// The control plane is believed without such a hash.
    pub unsafe_skip: bool,
    /// Timeout of the discovery, and then of the certificate.
    pub timeout: Duration,
    /// The cluster.
    pub cluster: String,
    /// Lifetime of the certificate, in seconds.
    pub expiration_seconds: i32,
}

/// The kubeconfig (YAML) with which the agent of a cluster reaches the control plane: discovers the control plane by
/// the token, requests a certificate, and waits until it is signed (specification/operations.md 2.5). `report` takes
/// lines about what is waited for.
///
/// # Errors
/// If the control plane is not found, or another one, or does not sign.
pub async fn credentials(bootstrap: &Bootstrap, clock: &Clock, mut report: impl FnMut(&str)) -> anyhow::Result<String> {
    refuse_name(&bootstrap.cluster)?;
    let (client, certificates) = enter(bootstrap, clock, &mut report).await?;
    let key = PrivateKey::generate()?;
    let request = CertificateRequest {
        cluster: &bootstrap.cluster,
        key: &key,
        expiration_seconds: bootstrap.expiration_seconds,
        timeout: bootstrap.timeout,
    };
    let certificate = certificate_request(&client, clock, &request, report).await?;
    kubeconfig(&bootstrap.server, &certificates, &bootstrap.cluster, &certificate, &key.pem())
}

/// Discovers the control plane; returns a client with the token, and the certificates of the control plane.
pub(super) async fn enter(
    bootstrap: &Bootstrap,
    clock: &Clock,
    report: impl FnMut(&str),
) -> anyhow::Result<(Client, String)> {
    if bootstrap.ca_hashes.is_empty() && !bootstrap.unsafe_skip {
        return Err(RegisterError::NoPins.into());
    }
    let certificates = discovery::certificates(bootstrap, clock, report).await?;
    let token = json!({"token": bootstrap.token.to_string()});
    let client = connect::client(config(entry(&bootstrap.server, &certificates), token).await?)?;
    Ok((client, certificates))
}

/// The kubeconfig (YAML) of an agent, with everything inline: its user has the name of the cluster, by which renewals
/// find it. Certificates and key are PEM.
///
/// # Errors
/// If it can't be written as YAML.
pub fn kubeconfig(
    server: &str,
    certificates: &str,
    cluster: &str,
    certificate: &str,
    key: &str,
) -> anyhow::Result<String> {
    let user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(certificate), "client-key-data": BASE64_STANDARD.encode(key),
    });
    print::documents(&[with_one_context(KUBECONFIG_CLUSTER, entry(server, certificates), cluster, user)])
}

fn entry(server: &str, certificates: &str) -> Value {
    json!({"server": server, "certificate-authority-data": BASE64_STANDARD.encode(certificates)})
}

fn with_one_context(cluster: &str, entry: Value, user: &str, credentials: Value) -> Value {
    let context = format!("{user}@{cluster}");
    json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": context,
        "clusters": [{"name": cluster, "cluster": entry}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "users": [{"name": user, "user": credentials}],
    })
}

/// The client configuration of a server and a user, each as a kubeconfig has them.
pub(super) async fn config(entry: Value, user: Value) -> Result<Config, RegisterError> {
    let server = print::text(&entry, "/server").to_owned();
    let failed = |why: String| RegisterError::Client { server, why };
    let whole = with_one_context(KUBECONFIG_CLUSTER, entry, "bootstrap", user);
    let kubeconfig: Kubeconfig = match serde_json::from_value(whole) {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => return Err(failed(error.to_string())),
    };
    connect::config(kubeconfig, None, "control plane").await.map_err(|error| failed(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kubeconfigs_of_agents_have_the_names_that_renewals_look_for() {
        let made = rcgen::generate_simple_self_signed(vec!["m1".to_owned()]).unwrap();
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let text = kubeconfig("https://plane:6443", &pem, "m1", &pem, &key).unwrap();
        let read = Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("m1@karmada-apiserver"));
        assert_eq!((&*read.clusters[0].name, &*read.auth_infos[0].name), ("karmada-apiserver", "m1"));
        let config = connect::config(read, None, "control plane").await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://plane:6443/");
        assert!(!config.accept_invalid_certs && config.root_cert.is_some());
    }
}
