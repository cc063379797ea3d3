//! Flags of the metrics of members (specification/autoscaling.md 3.1).

use ironclad_cli::report::Misused;
use ironclad_extension::metrics::MetricsOptions;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_membermetrics::Options;

use super::aggregated::{Bound, Flag};

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

impl AdapterFlags {
    /// Returns the address and service; `None` if the metrics APIs are not served.
    ///
    /// # Errors
    /// An address is invalid, or would be unreachable.
    pub(crate) fn adapter(&self) -> anyhow::Result<Option<Bound>> {
        Flag { bind: "--metrics-adapter-bind-address", service: "--metrics-adapter-service", what: "the metrics APIs" }
            .bound(&self.metrics_adapter_bind_address, self.metrics_adapter_service.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers() {
        let of = |qps| MetricsFlags { cluster_api_qps: qps, cluster_api_burst: 60 }.options();
        assert_eq!(of(0.0).unwrap().qps, 0.0);
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
