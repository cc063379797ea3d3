//! The metrics of the controllers, with the reference's names (operations.md 6); a file for each area.

pub(crate) mod clusters;
pub(crate) mod eviction;
mod graceful;
mod interpreter;
#[cfg(test)]
mod names;
mod plain;
mod road;
pub(crate) mod scheduler;

use std::sync::Arc;

use ironclad_runtime::WorkMetrics;
use prometheus_client::registry::Registry;

pub use clusters::ClusterMetrics;
pub use eviction::EvictionMetrics;
pub use interpreter::InterpreterMetrics;
pub use plain::PlainCounter;
pub use road::RoadMetrics;
pub(crate) use road::{About, MemberWrite};
pub use scheduler::SchedulerMetrics;

use self::graceful::GracefulMetrics;

/// Handles to all metrics, and the registry that shows them.
#[derive(Clone)]
pub struct Metrics {
    /// Of queues and reconcile loops.
    pub work: WorkMetrics,
    /// Of the road from template to member.
    pub road: RoadMetrics,
    /// Of members.
    pub clusters: ClusterMetrics,
    /// Of the eviction queue.
    pub eviction: EvictionMetrics,
    /// Of the scheduler.
    pub scheduler: SchedulerMetrics,
    /// Of the engines that interpret kinds by scripts.
    pub interpreter: InterpreterMetrics,
    registry: Arc<Registry>,
    pub(crate) graceful: GracefulMetrics,
}

impl Metrics {
    /// Registers every metric.
    #[must_use]
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let work = WorkMetrics::register(&mut registry);
        let road = RoadMetrics::register(&mut registry);
        let clusters = ClusterMetrics::register(&mut registry);
        let graceful = GracefulMetrics::new(&mut registry);
        let eviction = EvictionMetrics::register(&mut registry);
        let scheduler = SchedulerMetrics::register(&mut registry);
        let interpreter = InterpreterMetrics::register(&mut registry);
        Self { work, road, clusters, eviction, scheduler, interpreter, registry: Arc::new(registry), graceful }
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }
}

/// The label value of how something ended.
pub(crate) fn result<T, E>(outcome: &Result<T, E>) -> &'static str {
    if outcome.is_ok() { "success" } else { "error" }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_road_is_counted_under_upstreams_names() {
        let metrics = Metrics::new();
        let about = About { api_version: "apps/v1", kind: "Deployment", cluster: "m1" };
        metrics.road.applied(Duration::from_millis(3), "success");
        metrics.road.synced_work(Duration::from_millis(3), "success");
        metrics.road.wrote(MemberWrite::Create { again: false }, about, "success");
        metrics.road.wrote(MemberWrite::Update, about, "error");
        metrics.road.wrote(MemberWrite::Delete, about, "success");
        metrics.clusters.synced("m1", Duration::from_secs(1));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry()).unwrap();
        let labels = "apiversion=\"apps/v1\",kind=\"Deployment\",member_cluster=\"m1\"";
        for line in [
            "policy_apply_attempts_total{result=\"success\"} 1".to_owned(),
            "resource_apply_policy_duration_seconds_bucket{le=\"0.004\",result=\"success\"} 1".to_owned(),
            "binding_sync_work_duration_seconds_count{result=\"success\"} 1".to_owned(),
            format!("create_resource_to_cluster{{result=\"success\",{labels},recreate=\"false\"}} 1.0"),
            format!("update_resource_to_cluster{{result=\"error\",{labels},operationResult=\"none\"}} 1.0"),
            format!("delete_resource_from_cluster{{result=\"success\",{labels}}} 1.0"),
            "cluster_sync_status_duration_seconds_sum{member_cluster=\"m1\"} 1.0".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
