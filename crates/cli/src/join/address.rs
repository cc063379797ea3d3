//! Address of a member: the fields of a kubeconfig that go into the Cluster.

use k8s_openapi::ByteString;
use kube::Config;

/// Characters of a line in a PEM file.
const PEM_LINE: usize = 64;

/// Address of an API server, and the certificates to trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// URL of the server.
    pub endpoint: String,
    /// Certificate authorities of the server, as PEM; empty if the kubeconfig has none.
    pub ca_bundle: String,
    /// True if its certificate is not verified.
    pub insecure: bool,
    /// Proxy, empty if there is none.
    pub proxy: String,
}

impl From<&Config> for Address {
    fn from(config: &Config) -> Self {
        let certificates = config.root_cert.iter().flatten().map(|der| pem(der));
        Self {
            endpoint: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            ca_bundle: certificates.collect(),
            insecure: config.accept_invalid_certs,
            proxy: config.proxy_url.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

fn pem(der: &[u8]) -> String {
    let encoded = serde_json::to_value(ByteString(der.to_vec())).expect("bytes are plain data");
    let encoded = encoded.as_str().unwrap_or_default();
    let lines: Vec<&str> =
        (0..encoded.len()).step_by(PEM_LINE).map(|i| &encoded[i..encoded.len().min(i + PEM_LINE)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_kubeconfig() {
        let mut config = Config::new("https://10.0.0.1:6443/".parse().unwrap());
        config.root_cert = Some(vec![vec![0; 60]]);
        config.proxy_url = Some("http://proxy:3128".parse().unwrap());
        let address = Address::from(&config);
        assert_eq!((address.endpoint.as_str(), address.insecure), ("https://10.0.0.1:6443", false));
        assert_eq!(address.proxy, "http://proxy:3128/");
        let lines: Vec<&str> = address.ca_bundle.lines().collect();
        assert_eq!((lines.len(), lines[1].len(), lines[2].len()), (4, 64, 16), "{lines:?}");
    }
}
