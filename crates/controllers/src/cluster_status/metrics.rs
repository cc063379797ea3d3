//! Metrics of members, from the status of their Clusters (specification/operations.md 6).

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use ironclad_api::{
    Quantity,
    cluster::{Cluster, ClusterStatus},
    conditions,
    quantity::Amount,
};
use ironclad_failover::{cluster::health::Probe, taint_manager::guards};
use ironclad_runtime::Change;
use kube::ResourceExt as _;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Label of a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MemberLabel {
    member_cluster: String,
}

/// Labels of a member's probes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProbeLabel {
    member_cluster: String,
    result: &'static str,
}

/// Labels of changes of a member's condition Ready.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    member_cluster: String,
    status: &'static str,
}

type Number = Family<MemberLabel, Gauge<f64, AtomicU64>>;
type Read = fn(&ClusterStatus) -> Option<f64>;

/// Names, help and sources of the gauges.
const GAUGES: [(&str, &str, Read); 9] = [
    ("cluster_ready_state", "1 if the member is ready", |status| Some(f64::from(u8::from(is_ready(status))))),
    ("cluster_node_number", "Nodes", |status| Some(f64::from(status.node_summary.as_ref()?.total_num))),
    ("cluster_ready_node_number", "Ready nodes", |status| Some(f64::from(status.node_summary.as_ref()?.ready_num))),
    ("cluster_memory_allocatable_bytes", "Allocatable memory", |status| allocatable(status, "memory")),
    ("cluster_cpu_allocatable_number", "Allocatable cores", |status| allocatable(status, "cpu")),
    ("cluster_pod_allocatable_number", "Allocatable Pods", |status| allocatable(status, "pods")),
    ("cluster_memory_allocated_bytes", "Requested memory", |status| allocated(status, "memory")),
    ("cluster_cpu_allocated_number", "Requested cores", |status| allocated(status, "cpu")),
    ("cluster_pod_allocated_number", "Pods", |status| allocated(status, "pods")),
];

/// Statuses of a condition.
const STATUSES: [&str; 3] = [conditions::TRUE, conditions::FALSE, conditions::UNKNOWN];

fn known(status: &str) -> Option<&'static str> {
    STATUSES.into_iter().find(|known| *known == status)
}

fn is_ready(status: &ClusterStatus) -> bool {
    let ready = status.conditions.iter().find(|condition| condition.type_ == conditions::cluster::READY);
    ready.is_some_and(|condition| condition.status == conditions::TRUE)
}

fn amount(quantity: Option<&Quantity>) -> Option<f64> {
    Some(Amount::parse(&quantity?.0).ok()?.to_f64())
}

fn allocatable(status: &ClusterStatus, resource: &str) -> Option<f64> {
    amount(status.resource_summary.as_ref()?.allocatable.get(resource))
}

fn allocated(status: &ClusterStatus, resource: &str) -> Option<f64> {
    amount(status.resource_summary.as_ref()?.allocated.get(resource))
}

/// The families. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClusterMetrics {
    gauges: [Number; GAUGES.len()],
    sync: Family<MemberLabel, Histogram, fn() -> Histogram>,
    probes: Family<ProbeLabel, Counter>,
    transitions: Family<StatusLabel, Counter>,
    since: Number,
}

impl ClusterMetrics {
    /// Registers the families.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let gauges = std::array::from_fn(|_| Number::default());
        for ((name, help, _), gauge) in GAUGES.iter().zip(&gauges) {
            registry.register(*name, *help, gauge.clone());
        }
        let seconds: fn() -> Histogram =
            || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let sync = Family::new_with_constructor(seconds);
        registry.register("cluster_sync_status_duration_seconds", "One collection of a member's status", sync.clone());
        let (probes, transitions, since) = (Family::default(), Family::default(), Number::default());
        registry.register("cluster_probes", "Probes of a member, by what they saw", probes.clone());
        registry.register(
            "cluster_ready_transitions",
            "Changes of condition Ready, by what it became",
            transitions.clone(),
        );
        let help = "When condition Ready last changed, in seconds since 1970";
        registry.register("cluster_ready_transition_timestamp_seconds", help, since.clone());
        Self { gauges, sync, probes, transitions, since }
    }

    /// Counts a probe.
    pub(crate) fn probed(&self, cluster: &str, probe: &Probe) {
        let label = ProbeLabel { member_cluster: cluster.to_owned(), result: probe.as_str() };
        self.probes.get_or_create(&label).inc();
    }

    /// Updates the gauges from a changed Cluster. A removed one loses its series.
    pub(crate) fn changed(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let label = MemberLabel { member_cluster: cluster.name_any() };
        let status = change.new.as_ref().and_then(|cluster| cluster.status.as_ref());
        for ((_, _, read), gauge) in GAUGES.iter().zip(&self.gauges) {
            match status.and_then(read) {
                Some(value) => {
                    gauge.get_or_create(&label).set(value);
                }
                None => {
                    gauge.remove(&label);
                }
            }
        }
        match change.new.as_deref().and_then(guards::ready_since) {
            // Whole seconds, far below 2^53.
            #[allow(clippy::cast_precision_loss, reason = "see above")]
            Some(since) => {
                self.since.get_or_create(&label).set(since.as_second() as f64);
            }
            None => {
                self.since.remove(&label);
            }
        }
        let status = |cluster: &Option<Arc<Cluster>>| cluster.as_ref().and_then(|cluster| known(cluster.ready()?));
        if let (Some(before), Some(status)) = (status(&change.old), status(&change.new))
            && before != status
        {
            let label = StatusLabel { member_cluster: label.member_cluster.clone(), status };
            self.transitions.get_or_create(&label).inc();
        }
        if change.new.is_none() {
            self.sync.remove(&label);
            self.forget(&label.member_cluster);
        }
    }

    fn forget(&self, member_cluster: &str) {
        for result in Probe::RESULTS {
            self.probes.remove(&ProbeLabel { member_cluster: member_cluster.to_owned(), result });
        }
        for status in STATUSES {
            self.transitions.remove(&StatusLabel { member_cluster: member_cluster.to_owned(), status });
        }
    }

    /// Records the time of a collection.
    pub(crate) fn synced(&self, cluster: &str, took: Duration) {
        self.sync.get_or_create(&MemberLabel { member_cluster: cluster.to_owned() }).observe(took.as_secs_f64());
    }
}
