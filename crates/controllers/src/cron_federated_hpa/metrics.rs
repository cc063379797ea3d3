//! Metrics of CronFederatedHPAs (specification/operations.md 6).

use std::time::Duration;

use prometheus_client::{
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::metrics::ResultLabel;

type Seconds = Family<ResultLabel, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone)]
pub(crate) struct CronMetrics {
    objects: Seconds,
    rules: Seconds,
}

impl CronMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let seconds = || Seconds::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 12)));
        let metrics = Self { objects: seconds(), rules: seconds() };
        let help = "Time to handle a CronFederatedHPA";
        registry.register("cronfederatedhpa_process_duration_seconds", help, metrics.objects.clone());
        let help = "Time to execute a rule of a CronFederatedHPA";
        registry.register("cronfederatedhpa_rule_process_duration_seconds", help, metrics.rules.clone());
        metrics
    }

    /// Records that an object was handled.
    pub(crate) fn processed(&self, took: Duration, succeeded: bool) {
        observe(&self.objects, took, succeeded);
    }

    /// Records that a rule was executed.
    pub(crate) fn executed(&self, took: Duration, succeeded: bool) {
        observe(&self.rules, took, succeeded);
    }
}

fn observe(family: &Seconds, took: Duration, succeeded: bool) {
    let outcome = if succeeded { Ok(()) } else { Err(()) };
    family.get_or_create(&ResultLabel::of(&outcome)).observe(took.as_secs_f64());
}
