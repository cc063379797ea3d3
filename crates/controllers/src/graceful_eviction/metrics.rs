//! Metrics of graceful eviction tasks (specification/failover.md 6.11).

use ironclad_api::{policy::PurgeMode, work::GracefulEvictionTask};
use ironclad_failover::graceful_eviction::Cleared;
use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Upper bounds in seconds: queueing and health take minutes to hours.
const BUCKETS: [f64; 25] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384, 30.0,
    60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    cluster_name: String,
    reason: String,
    purge_mode: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    reason: String,
    cleared_by: String,
}

/// The metrics of graceful eviction.
#[derive(Debug, Clone)]
pub(crate) struct GracefulMetrics {
    tasks: Family<Kind, Gauge>,
    duration: Family<End, Histogram>,
}

impl GracefulMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics =
            Self { tasks: Family::default(), duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)) };
        registry.register("graceful_eviction_tasks", "Eviction tasks that are under way", metrics.tasks.clone());
        let help = "From the creation of an eviction task to its end";
        registry.register("graceful_eviction_duration_seconds", help, metrics.duration.clone());
        metrics
    }

    /// Updates the gauge by the tasks of a changed binding. Label sets without tasks lose their series.
    pub(crate) fn moved(&self, old: &[GracefulEvictionTask], new: &[GracefulEvictionTask]) {
        if old == new {
            return;
        }
        for task in new {
            self.tasks.get_or_create(&kind(task)).inc();
        }
        for task in old {
            let kind = kind(task);
            if self.tasks.get_or_create(&kind).dec() <= 1 {
                self.tasks.remove(&kind);
            }
        }
    }

    /// Records the end of a task.
    pub(crate) fn cleared(&self, cleared: &Cleared, now: Timestamp) {
        let Some(begun) = &cleared.task.creation_timestamp else { return };
        let end = End { reason: cleared.task.reason.clone(), cleared_by: cleared.by.to_owned() };
        let seconds = now.duration_since(begun.0).as_secs_f64().max(0.0);
        self.duration.get_or_create(&end).observe(seconds);
    }
}

fn kind(task: &GracefulEvictionTask) -> Kind {
    let purge_mode = match task.purge_mode.unwrap_or_default() {
        PurgeMode::Directly => "Directly",
        PurgeMode::Gracefully => "Gracefully",
        PurgeMode::Never => "Never",
    };
    let (cluster_name, reason) = (task.from_cluster.clone(), task.reason.clone());
    Kind { cluster_name, reason, purge_mode: purge_mode.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(from: &str, mode: PurgeMode) -> GracefulEvictionTask {
        let (from_cluster, reason) = (from.to_owned(), "ClusterDrain".to_owned());
        GracefulEvictionTask { from_cluster, reason, purge_mode: Some(mode), ..GracefulEvictionTask::default() }
    }

    #[test]
    fn the_gauge_counts_the_tasks_of_all_bindings() {
        let mut registry = Registry::default();
        let metrics = GracefulMetrics::register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("graceful_eviction_tasks{"));
            lines
                .map(|line| line.trim_start_matches("graceful_eviction_tasks").to_owned())
                .collect::<Vec<_>>()
                .join("\n")
        };
        let m1 = || task("m1", PurgeMode::Gracefully);
        metrics.moved(&[], &[m1()]);
        metrics.moved(&[], &[m1()]);
        let line = |n: u32| format!("{{cluster_name=\"m1\",reason=\"ClusterDrain\",purge_mode=\"Gracefully\"}} {n}");
        assert_eq!(shown(), line(2));
        let mut begun = m1();
        begun.creation_timestamp = Some(ironclad_api::Time(Timestamp::UNIX_EPOCH));
        metrics.moved(&[m1()], &[begun.clone()]);
        assert_eq!(shown(), line(2), "a stamp is no other task");
        metrics.moved(&[begun], &[]);
        assert_eq!(shown(), line(1));
        metrics.moved(&[m1()], &[task("m2", PurgeMode::Directly)]);
        assert!(!shown().contains("m1"), "the series goes with the last task: {}", shown());
    }
}
