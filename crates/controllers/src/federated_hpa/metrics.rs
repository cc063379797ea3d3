//! Metrics of FederatedHPAs (specification/operations.md 6).

use std::time::Duration;

use ironclad_hpa::{Plan, combine::Evaluated};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::metrics::{ResultLabel, result};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoundLabels {
    action: &'static str,
    error: &'static str,
}

/// Labels of metrics of a round.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MetricLabels {
    action: &'static str,
    error: &'static str,
    metric_type: &'static str,
}

/// Labels of questions to metrics APIs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case, reason = "the name of the label is Karmada's")]
struct PullLabels {
    result: &'static str,
    metricType: &'static str,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone)]
pub(crate) struct HpaMetrics {
    objects: Seconds<ResultLabel>,
    pulls: Seconds<PullLabels>,
    rounds: Family<RoundLabels, Counter>,
    round_seconds: Seconds<RoundLabels>,
    metrics: Family<MetricLabels, Counter>,
    metric_seconds: Seconds<MetricLabels>,
}

fn long() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 12))
}

fn short() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl HpaMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            objects: Seconds::new_with_constructor(long),
            pulls: Seconds::new_with_constructor(long),
            rounds: Family::default(),
            round_seconds: Seconds::new_with_constructor(short),
            metrics: Family::default(),
            metric_seconds: Seconds::new_with_constructor(short),
        };
        registry.register(
            "federatedhpa_process_duration_seconds",
            "Time to handle a FederatedHPA",
            metrics.objects.clone(),
        );
        registry.register(
            "federatedhpa_pull_metrics_duration_seconds",
            "Time to ask members for a metric",
            metrics.pulls.clone(),
        );
        registry.register(
            "horizontal_pod_autoscaler_controller_reconciliations",
            "Rounds of FederatedHPAs by what they did",
            metrics.rounds.clone(),
        );
        registry.register(
            "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
            "Time of rounds of FederatedHPAs by what they did",
            metrics.round_seconds.clone(),
        );
        registry.register(
            "horizontal_pod_autoscaler_controller_metric_computation",
            "Metrics of FederatedHPAs by what they proposed",
            metrics.metrics.clone(),
        );
        registry.register(
            "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
            "Time to compute proposals of metrics of FederatedHPAs",
            metrics.metric_seconds.clone(),
        );
        metrics
    }

    /// Shows each metric once, for the comparison with the reference.
    #[cfg(test)]
    pub(crate) fn show(&self) {
        self.pulled("ResourceMetric", &Ok::<(), ()>(()), Duration::ZERO);
        self.rounded(&Plan::default(), false, Duration::ZERO);
        let labels = MetricLabels { action: "none", error: "none", metric_type: "Resource" };
        self.metrics.get_or_create(&labels).inc();
        self.metric_seconds.get_or_create(&labels).observe(0.0);
    }

    /// Records that members were asked for a metric of this type.
    pub(crate) fn pulled<T, E>(&self, metric_type: &'static str, outcome: &Result<T, E>, took: Duration) {
        let labels = PullLabels { result: result(outcome), metricType: metric_type };
        self.pulls.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Records a round.
    pub(crate) fn rounded(&self, plan: &Plan, failed: bool, took: Duration) {
        let current = plan.current.unwrap_or(plan.desired);
        let error = if failed || plan.error.is_some() { "internal" } else { "none" };
        let labels = RoundLabels { action: if failed { "none" } else { action(plan.desired, current) }, error };
        self.rounds.get_or_create(&labels).inc();
        self.round_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let outcome = if failed { Err(()) } else { Ok(()) };
        self.objects.get_or_create(&ResultLabel::of(&outcome)).observe(took.as_secs_f64());
    }

    /// Records the proposals of a round; `took` is the time of all of them.
    pub(crate) fn computed(&self, evaluated: &[Evaluated<'_>], current: i32, took: Duration) {
        for metric in evaluated {
            let metric_type = metric.source.as_ref().map_or("Unknown", |source| source.type_.name());
            let (action, error) = match (&metric.proposal, &metric.source) {
                (Ok(proposal), _) => (action(proposal.replicas, current), "none"),
                (Err(_), Some(_)) => ("none", "internal"),
                (Err(_), None) => ("none", "spec"),
            };
            let labels = MetricLabels { action, error, metric_type };
            self.metrics.get_or_create(&labels).inc();
            self.metric_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }
}

fn action(wanted: i32, current: i32) -> &'static str {
    match wanted {
        more if more > current => "scale_up",
        fewer if fewer < current => "scale_down",
        _ => "none",
    }
}
