//! Metrics of the detector (specification/operations.md 6).

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::metrics::ResultLabel;

/// The families. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DetectorMetrics {
    matched: Histogram,
    applied: Family<ResultLabel, Histogram, fn() -> Histogram>,
    attempts: Family<ResultLabel, Counter>,
}

impl DetectorMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let all =
            Self { matched: seconds(), applied: Family::new_with_constructor(seconds), attempts: Family::default() };
        let (matched, applied) = (all.matched.clone(), all.applied.clone());
        registry.register("resource_match_policy_duration_seconds", "Finding the policy of a template", matched);
        registry.register("resource_apply_policy_duration_seconds", "Applying a policy to a template", applied);
        registry.register("policy_apply_attempts", "Attempts to apply a policy", all.attempts.clone());
        all
    }

    /// Records that the policy of a template was searched for.
    pub(crate) fn matched(&self, took: Duration) {
        self.matched.observe(took.as_secs_f64());
    }

    /// Records that a policy was applied to a template.
    pub(crate) fn applied<T, E>(&self, took: Duration, outcome: &Result<T, E>) {
        let label = ResultLabel::of(outcome);
        self.attempts.get_or_create(&label).inc();
        self.applied.get_or_create(&label).observe(took.as_secs_f64());
    }
}
