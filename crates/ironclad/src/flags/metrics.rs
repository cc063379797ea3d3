//! Flags of the metrics of members (specification/autoscaling.md 3.1).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ironclad_cli::report::Misused;
use ironclad_extension::metrics::{AdapterOptions, AdapterService, MetricsOptions};
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_membermetrics::Options;

/// Flags of questions for metrics.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Metrics of members")]
pub(crate) struct MetricsFlags {
    /// Requests for metrics per second to each member, 0 for no limit
    #[arg(long, env = "IRONCLAD_CLUSTER_API_QPS", default_value_t = 40.0, value_name = "RATE")]
    cluster_api_qps: f64,
    /// Requests for metrics to each member that may exceed this rate
    #[arg(long, env = "IRONCLAD_CLUSTER_API_BURST", default_value_t = 60, value_name = "NUMBER")]
    cluster_api_burst: u32,
}

impl MetricsFlags {
    /// Returns the bounds of requests to members.
    ///
    /// # Errors
    /// A rate is not a number, or negative.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let qps = self.cluster_api_qps;
        if !qps.is_finite() || qps < 0.0 {
            return Err(Misused(format!("--cluster-api-qps {qps} is not a rate\n  try: 40, or 0 for no limit")).into());
        }
        Ok(Options { qps, burst: self.cluster_api_burst, ..Options::default() })
    }

    /// Returns what is served.
    pub(crate) fn served(gates: &Gates) -> MetricsOptions {
        MetricsOptions { external: gates.enabled(Gate::FederatedHPAExternalMetrics) }
    }
}

/// Flags of the metrics APIs behind a kube-apiserver.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Metrics of members")]
pub(crate) struct AdapterFlags {
    /// Address on which the metrics APIs are served and registered, with managed certificates: PORT on loopback, or
    /// ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_METRICS_ADAPTER_BIND_ADDRESS", default_value = "0", value_name = "[ADDRESS:]PORT")]
    metrics_adapter_bind_address: String,
    /// The Service by which the kube-apiserver finds them [default: one of type ExternalName is made for the address]
    #[arg(long, env = "IRONCLAD_METRICS_ADAPTER_SERVICE", value_name = "NAMESPACE/NAME[:PORT]")]
    metrics_adapter_service: Option<String>,
}

/// The metrics APIs as a server.
#[derive(Debug)]
pub(crate) struct Adapter {
    /// Address to listen on.
    pub bind: SocketAddr,
    /// The Service, if it is not made for the address.
    service: Option<AdapterService>,
}

impl AdapterFlags {
    /// Returns the address and service; `None` if the metrics APIs are not served.
    ///
    /// # Errors
    /// An address is invalid, or would be unreachable.
    pub(crate) fn adapter(&self) -> anyhow::Result<Option<Adapter>> {
        let text = self.metrics_adapter_bind_address.as_str();
        if text == "0" {
            return Ok(None);
        }
        let port = text.parse::<u16>().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        let bind = port.or_else(|_| text.parse::<SocketAddr>()).map_err(|_| {
            Misused(format!(
                "--metrics-adapter-bind-address {text:?} is not an address and port\n  try: 8444, 0.0.0.0:8444, or 0 for none"
            ))
        })?;
        let service = self.metrics_adapter_service.as_deref().map(service).transpose()?;
        if service.is_none() && bind.ip().is_unspecified() {
            let text = "the metrics APIs have no address for the kube-apiserver\n  because they are served on all addresses\n  \
                        try: --metrics-adapter-service NAMESPACE/NAME";
            return Err(Misused(text.to_owned()).into());
        }
        Ok(Some(Adapter { bind, service }))
    }
}

impl Adapter {
    /// Returns the options of the server that listens at this address.
    pub(crate) fn options(self, listened: SocketAddr) -> AdapterOptions {
        let ip = listened.ip();
        // An external name is one of DNS; a kube-apiserver takes addresses of version 4 for such.
        let host = if ip.is_loopback() { "localhost".to_owned() } else { ip.to_string() };
        let mut hosts = vec![host.clone()];
        if !ip.is_unspecified() {
            hosts.push(ip.to_string());
        }
        let service = self.service.unwrap_or(AdapterService::Made { host, port: listened.port() });
        AdapterOptions { service, hosts }
    }
}

fn service(text: &str) -> anyhow::Result<AdapterService> {
    let misused = || Misused(format!("--metrics-adapter-service {text:?} is not NAMESPACE/NAME[:PORT]"));
    let (namespace, rest) = text.split_once('/').ok_or_else(misused)?;
    let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(misused)?;
    if namespace.is_empty() || name.is_empty() {
        return Err(misused().into());
    }
    Ok(AdapterService::Named { namespace: namespace.to_owned(), name: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(bind: &str, service: Option<&str>) -> AdapterFlags {
        AdapterFlags {
            metrics_adapter_bind_address: bind.to_owned(),
            metrics_adapter_service: service.map(str::to_owned),
        }
    }

    #[test]
    fn addresses_of_the_metrics_apis() {
        assert!(flags("0", None).adapter().unwrap().is_none());
        let made = |host: &str, port| AdapterService::Made { host: host.into(), port };
        let named = |port| AdapterService::Named { namespace: "a".into(), name: "b".into(), port };
        for (bind, service, address, want) in [
            ("8444", None, "127.0.0.1:8444", made("localhost", 8444)),
            ("10.0.0.5:8444", None, "10.0.0.5:8444", made("10.0.0.5", 8444)),
            ("0.0.0.0:8444", Some("a/b"), "0.0.0.0:8444", named(443)),
            ("8444", Some("a/b:9443"), "127.0.0.1:8444", named(9443)),
        ] {
            let adapter = flags(bind, service).adapter().unwrap().unwrap();
            assert_eq!(adapter.bind, address.parse().unwrap(), "{bind}");
            let listened = adapter.bind;
            assert_eq!(adapter.options(listened).service, want, "{bind} {service:?}");
        }
        for (flags, want) in [
            (flags("x", None), "--metrics-adapter-bind-address \"x\" is not an address and port"),
            (flags("0.0.0.0:1", None), "the metrics APIs have no address for the kube-apiserver"),
            (flags("1", Some("b")), "--metrics-adapter-service \"b\" is not NAMESPACE/NAME[:PORT]"),
            (flags("1", Some("a/b:0")), "--metrics-adapter-service \"a/b:0\" is not NAMESPACE/NAME[:PORT]"),
        ] {
            let error = flags.adapter().unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn rates_are_numbers() {
        let of = |qps| MetricsFlags { cluster_api_qps: qps, cluster_api_burst: 60 }.options();
        assert_eq!(of(0.0).unwrap().qps, 0.0);
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
