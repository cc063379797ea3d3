//! Metrics of distributed HorizontalPodAutoscalers (specification/operations.md 6).

use std::time::Duration;

use prometheus_client::{
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::metrics::ResultLabel;

/// The families. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct DistributedHpaMetrics {
    processed: Family<ResultLabel, Histogram, fn() -> Histogram>,
}

impl DistributedHpaMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let processed = Family::new_with_constructor(seconds);
        let help = "Time to handle a distributed HorizontalPodAutoscaler";
        registry.register("ironclad_distributed_hpa_process_duration_seconds", help, processed.clone());
        Self { processed }
    }

    /// Records that an object was handled.
    pub(crate) fn processed<T, E>(&self, took: Duration, outcome: &Result<T, E>) {
        self.processed.get_or_create(&ResultLabel::of(outcome)).observe(took.as_secs_f64());
    }
}
