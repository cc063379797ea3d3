//! Paths of the proxy, and of what is behind it.

use http::Uri;
use percent_encoding::percent_decode_str;

/// Paths of Clusters.
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/";
/// Name that means all clusters.
const EVERY: &str = "*";

/// Clusters that a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Clusters {
    One(String),
    Every,
}

/// A path of the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    pub(super) clusters: Clusters,
    /// The path before that at the member.
    pub(super) prefix: &'a str,
    /// The path at the member, as the client wrote it.
    pub(super) path: &'a str,
}

impl<'a> Address<'a> {
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(CLUSTERS)?;
        let (name, rest) = rest.split_once('/')?;
        let below = rest.strip_prefix("proxy")?;
        let name = percent_decode_str(name).decode_utf8().ok()?;
        // It becomes part of other paths.
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        if name.is_empty() || !(is_name || name == EVERY) || !(below.is_empty() || below.starts_with('/')) {
            return None;
        }
        let clusters = if name == EVERY { Clusters::Every } else { Clusters::One(name.into_owned()) };
        let prefix = &path[..path.len() - below.len()];
        Some(Self { clusters, prefix, path: if below.is_empty() { "/" } else { below } })
    }

    /// Returns whether the path stays below the proxy's: it was authorized as it is, and a member that resolves `..`
    /// would answer for another one.
    pub(super) fn stays(&self) -> bool {
        let decoded = percent_decode_str(self.path).decode_utf8_lossy();
        !decoded.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."))
    }
}

/// The path of the proxy to one cluster.
pub(super) fn proxy_of(cluster: &str) -> String {
    format!("{CLUSTERS}{cluster}/proxy")
}

/// Value of the header Location of a member's answer, so that the client comes back through the proxy. Other places
/// stay as they are.
pub(super) fn location(value: &str, server: &Uri, prefix: &str) -> String {
    let base = server.path().trim_end_matches('/');
    let below = match value.parse::<Uri>() {
        Ok(uri) if uri.authority().is_some() && uri.authority() != server.authority() => return value.to_owned(),
        Ok(uri) => uri.path_and_query().map(|path| path.as_str().to_owned()),
        Err(_) => None,
    };
    match below.as_deref().filter(|path| path.starts_with('/')) {
        // Relative to where the client is, or no URL at all.
        None => value.to_owned(),
        Some(path) => {
            format!("{prefix}{}", path.strip_prefix(base).filter(|rest| rest.starts_with('/')).unwrap_or(path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |rest: &str| {
            let path = format!("{CLUSTERS}{rest}");
            Address::of(&path).map(|a| (a.clusters, a.path.to_owned(), a.prefix[CLUSTERS.len()..].to_owned()))
        };
        let one = |name: &str| Clusters::One(name.to_owned());
        for (rest, want) in [
            ("m1/proxy", Some((one("m1"), "/", "m1/proxy"))),
            ("m1/proxy/", Some((one("m1"), "/", "m1/proxy"))),
            ("m1/proxy/api/v1/pods", Some((one("m1"), "/api/v1/pods", "m1/proxy"))),
            ("m1/proxy//a%2fb/", Some((one("m1"), "//a%2fb/", "m1/proxy"))),
            ("*/proxy/api", Some((Clusters::Every, "/api", "*/proxy"))),
            ("%2A/proxy/api", Some((Clusters::Every, "/api", "%2A/proxy"))),
            ("m1", None),
            ("m1/status", None),
            ("m1/proxyless", None),
            ("/proxy/api", None),
            ("m1%2fstatus/proxy/api", None),
            ("m1%3fa/proxy/api", None),
        ] {
            let want = want.map(|(clusters, path, prefix)| (clusters, path.to_owned(), prefix.to_owned()));
            assert_eq!(of(rest), want, "{rest}");
        }
        assert_eq!(Address::of("/apis/apps/v1/clusters/m1/proxy"), None);
    }

    #[test]
    fn paths_that_lead_out_are_known() {
        for (path, want) in [
            ("/api/v1/pods", true),
            ("/api/v1/..pods/a..b/...", true),
            ("/api/../secrets", false),
            ("/..", false),
            ("/api/./v1", false),
            ("/api/%2e%2E/secrets", false),
            ("/api/a%2f..%2fb", false),
            ("/api/..%5cb", false),
        ] {
            let path = format!("{CLUSTERS}m1/proxy{path}");
            assert_eq!(Address::of(&path).map(|address| address.stays()), Some(want), "{path}");
        }
    }

    #[test]
    fn redirects_lead_back_through_the_proxy() {
        let prefix = "/p/m1/proxy";
        for (server, value, want) in [
            ("https://m1:6443/", "/api/v1/", "/p/m1/proxy/api/v1/"),
            ("https://m1:6443/", "https://m1:6443/login?a=b", "/p/m1/proxy/login?a=b"),
            ("https://m1:6443/", "https://other/login", "https://other/login"),
            ("https://m1:6443/", "http://169.254.169.254/", "http://169.254.169.254/"),
            ("https://m1:6443/", "next/", "next/"),
            ("https://rancher/k8s/c-1", "/k8s/c-1/api/", "/p/m1/proxy/api/"),
        ] {
            assert_eq!(location(value, &server.parse().unwrap(), prefix), want, "{value} of {server}");
        }
    }
}
