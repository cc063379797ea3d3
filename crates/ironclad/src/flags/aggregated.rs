//! Flags of API servers behind a kube-apiserver: address and Service.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use ironclad_cli::report::Misused;
use ironclad_extension::ServerService;
use tokio::net::TcpListener;

use super::bind::address;

/// Flags of the leader's state behind a kube-apiserver.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "The leader's state")]
pub(crate) struct ExplainFlags {
    /// Address on which `explain.ironclad.io` is served and registered, with managed certificates, so that verbs can
    /// ask the leader: PORT on loopback, or ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_EXPLAIN_BIND_ADDRESS", default_value = "0", value_name = "[ADDRESS:]PORT")]
    explain_bind_address: String,
    /// The Service by which the kube-apiserver finds it, on any replica [default: one of type ExternalName is made for
    /// the leader's address]
    #[arg(long, env = "IRONCLAD_EXPLAIN_SERVICE", value_name = "NAMESPACE/NAME[:PORT]")]
    explain_service: Option<String>,
}

impl ExplainFlags {
    /// Returns the address and service; `None` if the group is not served.
    ///
    /// # Errors
    /// An address is invalid, or would be unreachable.
    pub(crate) fn explain(&self) -> anyhow::Result<Option<Bound>> {
        Flag { bind: "--explain-bind-address", service: "--explain-service", what: "explain.ironclad.io" }
            .bound(&self.explain_bind_address, self.explain_service.as_deref())
    }
}

/// Flags of Clusters as an aggregated API.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Clusters")]
pub(crate) struct ClusterFlags {
    /// Serve `cluster.karmada.io` with clusters/NAME/proxy behind the kube-apiserver, which stores Clusters in group
    /// `cluster.ironclad.io`. Clusters are carried over when the flag is given first, and back when it is not given any
    /// more. Give it to all replicas at once
    #[arg(long, env = "IRONCLAD_AGGREGATE_CLUSTERS", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    aggregate_clusters: bool,
    /// Address on which it is served, with managed certificates: PORT on loopback, or ADDRESS:PORT
    #[arg(long, env = "IRONCLAD_CLUSTERS_BIND_ADDRESS", default_value = "8448", value_name = "[ADDRESS:]PORT")]
    clusters_bind_address: String,
    /// The Service by which the kube-apiserver finds it, on any replica [default: one of type ExternalName is made for
    /// the leader's address]
    #[arg(long, env = "IRONCLAD_CLUSTERS_SERVICE", value_name = "NAMESPACE/NAME[:PORT]")]
    clusters_service: Option<String>,
}

impl ClusterFlags {
    /// Returns the address and service; `None` if Clusters are objects of a CRD.
    ///
    /// # Errors
    /// An address is invalid, or would be unreachable.
    pub(crate) fn clusters(&self) -> anyhow::Result<Option<Bound>> {
        let flag = Flag { bind: "--clusters-bind-address", service: "--clusters-service", what: "cluster.karmada.io" };
        if !self.aggregate_clusters {
            return Ok(None);
        }
        match flag.bound(&self.clusters_bind_address, self.clusters_service.as_deref())? {
            None => {
                Err(Misused("--aggregate-clusters needs an address: --clusters-bind-address is 0".to_owned()).into())
            }
            bound => Ok(bound),
        }
    }
}

/// Flags of the proxy to members.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Proxy to members")]
pub(crate) struct ProxyFlags {
    /// Address on which clusters/NAME/proxy is served, with managed certificates: PORT on loopback, or ADDRESS:PORT; 0
    /// for none. The kube-apiserver authenticates and authorizes
    #[arg(long, env = "IRONCLAD_PROXY_BIND_ADDRESS", default_value = "0", value_name = "[ADDRESS:]PORT")]
    proxy_bind_address: String,
    /// URL at which users reach it, for `ironclad kubeconfig` [default: https://ADDRESS:PORT]
    #[arg(long, env = "IRONCLAD_PROXY_URL", value_name = "https://HOST[:PORT]")]
    proxy_url: Option<String>,
}

/// A proxy to members.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BoundProxy {
    /// Address to listen on.
    pub(crate) bind: SocketAddr,
    /// URL for users, if it is not the address.
    pub(crate) url: Option<String>,
    /// Names and addresses of the certificate.
    pub(crate) hosts: Vec<String>,
}

impl ProxyFlags {
    /// Returns what is served; `None` if nothing is.
    ///
    /// # Errors
    /// The address or the URL is invalid, or none says where the proxy is.
    pub(crate) fn proxy(&self) -> anyhow::Result<Option<BoundProxy>> {
        if self.proxy_bind_address == "0" {
            return Ok(None);
        }
        let bind = address("--proxy-bind-address", &self.proxy_bind_address)?;
        let host = match &self.proxy_url {
            None if bind.ip().is_unspecified() => {
                let text = "there is no address of the proxy for users\n  because it is served on all addresses\n  \
                            try: --proxy-url https://HOST:PORT";
                return Err(Misused(text.to_owned()).into());
            }
            None => bind.ip().to_string(),
            Some(url) => {
                let parsed = url.parse::<http::Uri>().ok().filter(|url| url.scheme_str() == Some("https"));
                let host =
                    parsed.as_ref().and_then(http::Uri::host).map(|host| host.trim_matches(['[', ']']).to_owned());
                host.ok_or_else(|| Misused(format!("--proxy-url {url:?} is not https://HOST[:PORT]")))?
            }
        };
        let mut hosts = vec![host, "localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
        hosts.sort();
        hosts.dedup();
        Ok(Some(BoundProxy { bind, url: self.proxy_url.clone(), hosts }))
    }
}

/// Names of the flags of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) bind: &'static str,
    pub(crate) service: &'static str,
    /// The API that is served.
    pub(crate) what: &'static str,
}

/// A server behind a kube-apiserver.
#[derive(Debug)]
pub(crate) struct Bound {
    flag: Flag,
    /// Address to listen on.
    bind: SocketAddr,
    /// The Service, if it is not made for the address.
    service: Option<ServerService>,
}

impl Flag {
    /// Reads the values of the flags; `None` if nothing is served.
    ///
    /// # Errors
    /// An address is invalid, or would be unreachable.
    pub(crate) fn bound(self, text: &str, service: Option<&str>) -> anyhow::Result<Option<Bound>> {
        let Self { bind: flag, what, .. } = self;
        if text == "0" {
            return Ok(None);
        }
        let bind = address(flag, text)?;
        let service = service.map(|text| self.named(text)).transpose()?;
        if service.is_none() && bind.ip().is_unspecified() {
            let text = format!(
                "there is no address of {what} for the kube-apiserver\n  because {what} is served on all addresses\n  \
                 try: {} NAMESPACE/NAME",
                self.service
            );
            return Err(Misused(text).into());
        }
        Ok(Some(Bound { flag: self, bind, service }))
    }

    fn named(self, text: &str) -> anyhow::Result<ServerService> {
        let misused = || Misused(format!("{} {text:?} is not NAMESPACE/NAME[:PORT]", self.service));
        let (namespace, rest) = text.split_once('/').ok_or_else(misused)?;
        let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(misused)?;
        if namespace.is_empty() || name.is_empty() {
            return Err(misused().into());
        }
        Ok(ServerService::Named { namespace: namespace.to_owned(), name: name.to_owned(), port })
    }
}

impl Bound {
    /// Listens; returns the address, too.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub(crate) async fn listen(&self) -> anyhow::Result<(TcpListener, SocketAddr)> {
        let Flag { bind: flag, what, .. } = self.flag;
        let listening = || format!("listening on {} for {what}\n  try: another {flag}, or 0 for none", self.bind);
        let listener = TcpListener::bind(self.bind).await.with_context(listening)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    /// Returns the Service of the server that listens at this address.
    pub(crate) fn service(self, listened: SocketAddr) -> ServerService {
        let ip = listened.ip();
        // An external name is one of DNS; a kube-apiserver takes addresses of version 4 for such.
        let host = if ip.is_loopback() { "localhost".to_owned() } else { ip.to_string() };
        self.service.unwrap_or(ServerService::Made { host, port: listened.port() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers() {
        let flags = |bind: &str, service: Option<&str>| {
            Flag { bind: "--bind", service: "--service", what: "the group" }.bound(bind, service)
        };
        assert!(flags("0", None).unwrap().is_none());
        let made = |host: &str, port| ServerService::Made { host: host.into(), port };
        let named = |port| ServerService::Named { namespace: "a".into(), name: "b".into(), port };
        for (bind, service, address, want) in [
            ("8444", None, "127.0.0.1:8444", made("localhost", 8444)),
            ("10.0.0.5:8444", None, "10.0.0.5:8444", made("10.0.0.5", 8444)),
            ("0.0.0.0:8444", Some("a/b"), "0.0.0.0:8444", named(443)),
            ("8444", Some("a/b:9443"), "127.0.0.1:8444", named(9443)),
        ] {
            let bound = flags(bind, service).unwrap().unwrap();
            assert_eq!(bound.bind, address.parse().unwrap(), "{bind}");
            let listened = bound.bind;
            assert_eq!(bound.service(listened), want, "{bind} {service:?}");
        }
        for (flags, want) in [
            (flags("x", None), "--bind \"x\" is not an address and port"),
            (flags("0.0.0.0:1", None), "there is no address of the group for the kube-apiserver"),
            (flags("1", Some("b")), "--service \"b\" is not NAMESPACE/NAME[:PORT]"),
            (flags("1", Some("a/b:0")), "--service \"a/b:0\" is not NAMESPACE/NAME[:PORT]"),
        ] {
            let error = flags.unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
    #[test]
    fn addresses_of_the_proxy() {
        let flags = |bind: &str, url: Option<&str>| {
            ProxyFlags { proxy_bind_address: bind.into(), proxy_url: url.map(str::to_owned) }.proxy()
        };
        assert_eq!(flags("0", None).unwrap(), None);
        for (bind, url, listens, hosts) in [
            ("8447", None, "127.0.0.1:8447", vec!["127.0.0.1", "localhost"]),
            ("10.0.0.5:8447", None, "10.0.0.5:8447", vec!["10.0.0.5", "127.0.0.1", "localhost"]),
            (
                "0.0.0.0:8447",
                Some("https://fleet.example"),
                "0.0.0.0:8447",
                vec!["127.0.0.1", "fleet.example", "localhost"],
            ),
        ] {
            let got = flags(bind, url).unwrap().unwrap();
            assert_eq!((got.bind.to_string(), got.url.as_deref()), (listens.to_owned(), url), "{bind}");
            assert_eq!(got.hosts, hosts, "{bind}");
        }
        for (bind, url, want) in [
            ("x", None, "--proxy-bind-address \"x\" is not an address and port"),
            ("0.0.0.0:1", None, "there is no address of the proxy for users"),
            ("1", Some("http://a"), "--proxy-url \"http://a\" is not https://HOST[:PORT]"),
        ] {
            let error = flags(bind, url).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
