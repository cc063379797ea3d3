//! Metrics of the eviction queue, under the names of both proposals and of upstream (specification/failover.md 6.11,
//! specification/operations.md 6). Names with the same meaning are read from one number, so they can't differ.

use std::fmt;

use ironclad_failover::{
    taint_manager::queue::{QueueName, Waited},
    taint_manager::rate::State,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

use super::running::Shared;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabel {
    cluster_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue_name: &'static str,
    name: &'static str,
}

/// Upper bounds in seconds: 0.001 to 16.384 doubling, then 30 s to 4 h, as waits last from milliseconds to hours.
pub(crate) fn latency_buckets() -> impl Iterator<Item = f64> {
    let doubling = (0..15).map(|n| 0.001 * f64::from(1u32 << n));
    doubling.chain([30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0])
}

/// The families. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EvictionMetrics {
    by_cluster: Family<ClusterLabel, Histogram, fn() -> Histogram>,
    by_queue: Family<QueueLabel, Histogram, fn() -> Histogram>,
    source: Shared,
}

impl EvictionMetrics {
    /// Registers the families.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let new: fn() -> Histogram = || Histogram::new(latency_buckets());
        let (by_cluster, by_queue) = (Family::new_with_constructor(new), Family::new_with_constructor(new));
        let help = "From becoming ready for eviction until processed";
        registry.register("evict_processing_latency_seconds", help, by_cluster.clone());
        registry.register("eviction_processing_latency_seconds", help, by_queue.clone());
        let source = Shared::default();
        registry.register_collector(Box::new(Queue(source.clone())));
        Self { by_cluster, by_queue, source }
    }

    /// The decisions from which the numbers are read.
    pub(crate) fn source(&self) -> Shared {
        self.source.clone()
    }

    /// Records waits that ended.
    pub(crate) fn waited(&self, waited: Vec<Waited>) {
        for one in waited {
            let seconds = one.wait.as_secs_f64();
            let cluster = ClusterLabel { cluster_name: one.cluster.to_string() };
            self.by_cluster.get_or_create(&cluster).observe(seconds);
            let queue = QueueLabel { queue_name: one.queue.queue_name(), name: one.queue.upstream_name() };
            self.by_queue.get_or_create(&queue).observe(seconds);
        }
    }

    /// Removes the series of a removed cluster.
    pub(crate) fn forget(&self, cluster: &str) {
        self.by_cluster.remove(&ClusterLabel { cluster_name: cluster.to_owned() });
    }
}

struct Queue(Shared);

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

/// Samples of one metric: labels and a value.
type Samples<'a> = Vec<(Vec<(&'static str, &'a str)>, f64)>;

impl Collector for Queue {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let guard = self.0.lock();
        let Some(running) = guard.as_ref() else { return Ok(()) };
        let (evictions, now) = (&running.evictions, running.now());
        let tally = evictions.queue().tally();
        let allowed = evictions.allowed(now);
        let queues = QueueName::ALL.map(|name| (name, tally.queue(name)));
        let faulty = |name: &ironclad_fleet::ClusterName| evictions.episodes().contains_key(name);
        let clusters: Vec<_> = tally.clusters().iter().filter(|(name, _)| faulty(name)).collect();

        let mut gauge = |name: &str, help: &str, samples: Samples<'_>| -> Result<(), fmt::Error> {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in samples {
                if labels.is_empty() {
                    return ConstGauge::new(value).encode(family);
                }
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let by_cluster = || clusters.iter().map(|(name, tally)| (&*name.0, *tally));
        gauge(
            "evict_total",
            "Elements in the eviction queue, by cluster",
            by_cluster().map(|(name, tally)| (vec![("cluster_name", name)], number(tally.pending()))).collect(),
        )?;
        gauge(
            "eviction_total",
            "Elements in the eviction queue, by queue",
            queues.iter().map(|(name, q)| (vec![("queue_name", name.queue_name())], number(q.pending))).collect(),
        )?;
        gauge(
            "eviction_queue_depth",
            "Elements that wait for their turn",
            queues.iter().map(|(name, q)| (vec![("name", name.upstream_name())], number(q.ready()))).collect(),
        )?;
        let kinds = by_cluster().flat_map(|(name, tally)| {
            tally
                .kinds
                .iter()
                .map(move |(kind, n)| (vec![("cluster_name", name), ("resource_kind", &**kind)], number(*n)))
        });
        gauge("evict_kind_total", "Elements in the eviction queue, by kind of the resource", kinds.collect())?;
        let binding_kinds = by_cluster().flat_map(|(name, tally)| {
            tally.queues.iter().map(move |(queue, n)| {
                (vec![("member_cluster", name), ("resource_kind", queue.binding_kind())], number(*n))
            })
        });
        gauge(
            "eviction_kind_total",
            "Elements in the eviction queue, by kind of the binding",
            binding_kinds.collect(),
        )?;
        gauge(
            "evict_rate",
            "Elements processed and removed per second, over a minute",
            by_cluster().map(|(name, tally)| (vec![("cluster_name", name)], tally.rate(now.mono))).collect(),
        )?;
        gauge(
            "evict_success_rate",
            "Share of successes among the processed elements of the present episode",
            by_cluster()
                .filter_map(|(name, tally)| Some((vec![("cluster_name", name)], tally.success_rate()?)))
                .collect(),
        )?;
        gauge("cluster_fault_num", "Unhealthy clusters", vec![(vec![], number(allowed.counts.unhealthy))])?;
        for name in ["cluster_fault_rate", "cluster_failure_rate"] {
            gauge(name, "Share of unhealthy clusters", vec![(vec![], allowed.counts.ratio())])?;
        }
        gauge("eviction_allowed_rate", "Evictions per second in force", vec![(vec![], allowed.rate)])?;
        gauge(
            "eviction_rate_state",
            "1 for the state that the rate is in",
            State::ALL
                .iter()
                .map(|state| (vec![("state", state.as_str())], f64::from(u8::from(*state == allowed.state))))
                .collect(),
        )?;
        gauge(
            "eviction_oldest_age_seconds",
            "Age of the head of the eviction queue",
            queues
                .iter()
                .map(|(name, q)| (vec![("queue_name", name.queue_name())], q.oldest_age(now.mono).as_secs_f64()))
                .collect(),
        )?;

        let mut counter = |name: &str, help: &str, samples: Vec<(Vec<(&'static str, &str)>, u64)>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, value) in samples {
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
            Ok::<(), fmt::Error>(())
        };
        let processed = queues.iter().flat_map(|(name, q)| {
            [("success", q.succeeded), ("error", q.failed)].map(|(result, n)| {
                (vec![("queue_name", name.queue_name()), ("name", name.upstream_name()), ("result", result)], n)
            })
        });
        counter("eviction_processing", "Processing attempts", processed.collect())?;
        let abandoned = tally.clusters().iter().flat_map(|(name, tally)| {
            tally.abandoned.iter().map(move |(why, n)| (vec![("cluster_name", &*name.0), ("reason", why.as_str())], *n))
        });
        counter("eviction_abandoned", "Elements that left the queue without eviction", abandoned.collect())
    }
}

#[allow(clippy::cast_precision_loss, reason = "a gauge need not be exact beyond 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three clusters, of which one is faulty and has a workload that waits.
    fn metrics() -> String {
        let mut registry = Registry::default();
        let metrics = EvictionMetrics::register(&mut registry);
        let mut flags = ironclad_failover::Flags::default();
        flags.eviction.eviction_warm_up = Some(std::time::Duration::ZERO);
        let clock = ironclad_seam::Clock::system();
        let now = ironclad_failover::Now { wall: jiff::Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
        let mut evictions = ironclad_failover::Evictions::new(flags, now);
        let cluster = |name: &str, status: &str, taints: serde_json::Value| -> ironclad_api::cluster::Cluster {
            let ready = serde_json::json!({
                "type": "Ready", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": name },
                "spec": { "syncMode": "Push", "taints": taints },
                "status": { "conditions": [ready] },
            }))
            .unwrap()
        };
        let broken = serde_json::json!([{ "key": "k", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z" }]);
        let fleet =
            [("m1", "False", broken), ("m2", "True", serde_json::json!([])), ("m3", "True", serde_json::json!([]))];
        for (name, status, taints) in fleet {
            evictions.cluster(&name.into(), Some(&cluster(name, status, taints)), false.into(), now);
        }
        let binding: ironclad_api::work::ResourceBinding = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
                "clusters": [{ "name": "m1" }],
                "placement": {},
            },
        }))
        .unwrap();
        let binding = ironclad_fleet::Binding::from(std::sync::Arc::new(binding));
        evictions.binding(&binding.key(), Some(&binding), now);
        *metrics.source.lock() = Some(super::super::running::Running::new(evictions, clock));
        metrics.waited(vec![Waited {
            cluster: "m1".into(),
            queue: QueueName::ResourceBinding,
            wait: std::time::Duration::from_secs(45),
            succeeded: true,
        }]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn every_name_of_the_proposals_and_of_upstream_is_shown() {
        let text = metrics();
        for line in [
            "evict_total{cluster_name=\"m1\"} 1.0",
            "eviction_total{queue_name=\"resource-binding\"} 1.0",
            "eviction_total{queue_name=\"cluster-resource-binding\"} 0.0",
            "eviction_queue_depth{name=\"binding-eviction\"} 1.0",
            "evict_kind_total{cluster_name=\"m1\",resource_kind=\"apps/v1/Deployment\"} 1.0",
            "eviction_kind_total{member_cluster=\"m1\",resource_kind=\"ResourceBinding\"} 1.0",
            "evict_rate{cluster_name=\"m1\"} 0.0",
            "cluster_fault_num 1.0",
            "eviction_allowed_rate 0.5",
            "eviction_rate_state{state=\"normal\"} 1.0",
            "eviction_rate_state{state=\"held\"} 0.0",
            "eviction_processing_total{queue_name=\"resource-binding\",name=\"binding-eviction\",result=\"success\"} 0",
            "eviction_processing_total{queue_name=\"cluster-resource-binding\",name=\"cluster-binding-eviction\",result=\"error\"} 0",
            "evict_processing_latency_seconds_bucket{le=\"60.0\",cluster_name=\"m1\"} 1",
            "eviction_processing_latency_seconds_count{queue_name=\"resource-binding\",name=\"binding-eviction\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        // Aliases are equal (invariant 38).
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            line.split_once(' ').unwrap().1.to_owned()
        };
        assert_eq!(value("cluster_fault_rate"), value("cluster_failure_rate"));
        assert!(value("cluster_fault_rate").starts_with("0.333"));
        for name in ["eviction_oldest_age_seconds", "eviction_abandoned", "evict_success_rate"] {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not in\n{text}");
        }
    }

    #[test]
    fn buckets_reach_from_milliseconds_to_hours() {
        let buckets: Vec<f64> = latency_buckets().collect();
        assert_eq!((buckets.len(), buckets[0], buckets[14], buckets[24]), (25, 0.001, 16.384, 14_400.0));
        assert!(buckets.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
