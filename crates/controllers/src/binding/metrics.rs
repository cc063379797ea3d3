//! Metrics of the binding controller (specification/operations.md 6).

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
#[derive(Clone)]
pub(crate) struct BindingMetrics {
    synced: Family<ResultLabel, Histogram, fn() -> Histogram>,
}

impl BindingMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let synced = Family::new_with_constructor(seconds);
        registry.register("binding_sync_work_duration_seconds", "From binding to Works", synced.clone());
        Self { synced }
    }

    /// Records that the Works of a binding were written.
    pub(crate) fn synced<T, E>(&self, took: Duration, outcome: &Result<T, E>) {
        self.synced.get_or_create(&ResultLabel::of(outcome)).observe(took.as_secs_f64());
    }
}
