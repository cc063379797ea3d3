//! Metrics of the proxy (specification/operations.md 6).

use std::{
    sync::atomic::{AtomicI64, AtomicU64},
    time::Duration,
};

use http::{Method, StatusCode};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

/// Metrics of a proxy, shown by whoever registers them as a collector. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProxyObserved {
    requests: Family<Asked, Counter>,
    seconds: Histogram,
    open: Family<Cluster, Gauge>,
    bytes: Family<Carried, Counter>,
}

/// Labels of a request. Clusters are those that exist, so that users can't make series by their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    cluster: String,
    verb: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Carried {
    cluster: String,
    direction: &'static str,
}

impl Default for ProxyObserved {
    fn default() -> Self {
        let seconds = Histogram::new(exponential_buckets(0.001, 2.0, 15));
        Self { requests: Family::default(), seconds, open: Family::default(), bytes: Family::default() }
    }
}

impl ProxyObserved {
    /// Counts a request that a cluster, or this process in its place, answered after this time.
    pub(super) fn answered(&self, cluster: &str, verb: &'static str, code: StatusCode, after: Duration) {
        self.requests.get_or_create(&Asked { cluster: cluster.to_owned(), verb, code: code.as_u16() }).inc();
        self.seconds.observe(after.as_secs_f64());
    }

    /// Counts a stream as open until the value is dropped.
    pub(super) fn opened(&self, cluster: &str) -> Open {
        let gauge = self.open.get_or_create_owned(&Cluster { cluster: cluster.to_owned() });
        gauge.inc();
        let of = |direction| self.bytes.get_or_create_owned(&Carried { cluster: cluster.to_owned(), direction });
        Open { gauge, to_member: of("to_member"), from_member: of("from_member") }
    }
}

/// The verb of a request as metrics have it.
pub(super) fn verb(method: &Method, is_upgrade: bool) -> &'static str {
    match *method {
        _ if is_upgrade => "connect",
        Method::GET | Method::HEAD | Method::OPTIONS => "read",
        _ => "write",
    }
}

/// An open stream, and the bytes that it carries.
#[derive(Debug)]
pub(super) struct Open {
    gauge: Gauge<i64, AtomicI64>,
    pub(super) to_member: Counter<u64, AtomicU64>,
    pub(super) from_member: Counter<u64, AtomicU64>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl Collector for ProxyObserved {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut show = |name: &str, help: &str, metric: &dyn Shown| metric.show(&mut encoder, name, help);
        show(
            "ironclad_cluster_proxy_requests",
            "Requests of users to members, by cluster, verb (read, write, connect) and the code of the answer",
            &self.requests,
        )?;
        show(
            "ironclad_cluster_proxy_request_duration_seconds",
            "Time until the head of a member's answer arrived",
            &self.seconds,
        )?;
        show("ironclad_cluster_proxy_open_streams", "Answers and upgraded connections under way", &self.open)?;
        show(
            "ironclad_cluster_proxy_bytes",
            "Bytes of bodies and upgraded connections, by cluster and direction (to_member, from_member)",
            &self.bytes,
        )
    }
}

/// A metric of any type.
trait Shown {
    fn show(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> Result<(), std::fmt::Error>;
}

impl<M: EncodeMetric> Shown for M {
    fn show(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> Result<(), std::fmt::Error> {
        let of_metric = encoder.encode_descriptor(name, help, None, self.metric_type())?;
        self.encode(of_metric)
    }
}
