//! The line by which a member is registered.

use std::net::IpAddr;

use super::BootstrapToken;

/// The command that registers a member with a token (specification/operations.md 2.6): for the control plane at
/// `HOST:PORT` with these hashes, and for the one cluster of the token, if it is for one.
#[must_use]
pub fn register_line(address: &str, token: &BootstrapToken, hashes: &[String], cluster: Option<&str>) -> String {
    let mut line =
        format!("ironclad register {address} --token {token} --discovery-token-ca-cert-hash {}", hashes.join(","));
    if let Some(cluster) = cluster {
        line += &format!(" --cluster-name {cluster}");
    }
    line
}

/// True if members outside can't reach a host: an address of this machine alone, or a name within a cluster.
#[must_use]
pub fn is_internal(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.is_loopback() || address.is_unspecified();
    }
    let ends = [".localhost", ".svc", ".cluster.local"];
    let named = ["localhost", "kubernetes", "kubernetes.default"].contains(&host.as_str());
    named || ends.iter().any(|end| host.ends_with(end)) || host.contains(".svc.")
}

/// The address to print of the two that are known: the kubeconfig's, and the one in ConfigMap `cluster-info`, which
/// the control plane publishes for others.
pub(super) fn best<'a>(own: &'a str, published: Option<&'a str>) -> &'a str {
    let host = |address: &str| address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
    let outside = published.filter(|published| !is_internal(&host(published)));
    outside.filter(|_| is_internal(&host(own))).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_can_be_pasted() {
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        let hashes = ["sha256:a".to_owned(), "sha256:b".to_owned()];
        let line =
            "ironclad register p:1 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:a,sha256:b";
        assert_eq!(register_line("p:1", &token, &hashes, None), line);
        assert_eq!(register_line("p:1", &token, &hashes, Some("m1")), format!("{line} --cluster-name m1"));
    }

    #[test]
    fn hosts_that_members_cannot_reach() {
        for (host, want) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("[::1]", true),
            ("0.0.0.0", true),
            ("localhost", true),
            ("karmada-apiserver.karmada-system.svc", true),
            ("karmada-apiserver.karmada-system.svc.cluster.local.", true),
            ("Kubernetes.Default.Svc.Example.org", true),
            ("10.0.0.1", false),
            ("plane.example.com", false),
            ("plane", false),
            ("svc.example.com", false),
        ] {
            assert_eq!(is_internal(host), want, "{host}");
        }
    }

    #[test]
    fn published_addresses_replace_only_internal_ones() {
        for (own, published, want) in [
            ("127.0.0.1:6443", None, "127.0.0.1:6443"),
            ("127.0.0.1:6443", Some("plane.example.com:443"), "plane.example.com:443"),
            ("127.0.0.1:6443", Some("localhost:443"), "127.0.0.1:6443"),
            ("10.0.0.1:6443", Some("plane.example.com:443"), "10.0.0.1:6443"),
            ("[::1]:6443", Some("plane.example.com:443"), "plane.example.com:443"),
        ] {
            assert_eq!(best(own, published), want, "{own} {published:?}");
        }
    }
}
