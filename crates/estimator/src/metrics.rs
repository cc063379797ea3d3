//! Metrics of an estimator server, under upstream's names (specification/operations.md 6).

use std::time::Duration;

use ironclad_scheduling::estimator::EstimatePart;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The families. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallMetrics {
    requests: Family<RequestLabels, Counter>,
    steps: Histograms<StepLabels>,
    points: Histograms<PointLabels>,
    plugins: Histograms<PluginLabels>,
}

/// A step of a call that is measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// How many replicas fit.
    Replicas,
    /// How many component sets fit.
    Sets,
    /// How many replicas found no node.
    Unschedulable,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    result: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    result: &'static str,
    r#type: &'static str,
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PointLabels {
    estimating_plugin_extension_point: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    estimating_plugin: &'static str,
    estimating_plugin_extension_point: &'static str,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Replicas => "MaxAvailableReplicas",
            Self::Sets => "MaxAvailableComponentSets",
            Self::Unschedulable => "GetWorkloadUnschedulablePods",
        }
    }

    /// The extension point of the plugins; `None` if it has none.
    fn point(self) -> Option<&'static str> {
        match self {
            Self::Replicas => Some("estimate_replicas"),
            Self::Sets => Some("estimate_components"),
            Self::Unschedulable => None,
        }
    }
}

fn result(works: bool) -> &'static str {
    if works { "success" } else { "error" }
}

impl Default for CallMetrics {
    fn default() -> Self {
        let from_1_ms: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 10));
        let from_100_us: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 2.0, 12));
        let from_10_us: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_01, 1.5, 20));
        Self {
            requests: Family::default(),
            steps: Family::new_with_constructor(from_1_ms),
            points: Family::new_with_constructor(from_100_us),
            plugins: Family::new_with_constructor(from_10_us),
        }
    }
}

impl CallMetrics {
    /// Registers all families.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let prefixed = |name: &str| format!("karmada_scheduler_estimator_estimating_{name}");
        registry.register(prefixed("request"), "Number of questions to this estimator", metrics.requests.clone());
        let help = "Time of a call (step Total) and of the computation in it";
        registry.register(prefixed("algorithm_duration_seconds"), help, metrics.steps.clone());
        let help = "Time of all parts of an estimate";
        registry.register(prefixed("plugin_extension_point_duration_seconds"), help, metrics.points.clone());
        let help = "Time of one part of an estimate";
        registry.register(prefixed("plugin_execution_duration_seconds"), help, metrics.plugins.clone());
        metrics
    }

    /// Records a whole call.
    pub(crate) fn called(&self, method: &'static str, works: bool, took: Duration) {
        let result = result(works);
        self.requests.get_or_create(&RequestLabels { result, r#type: method }).inc();
        let labels = StepLabels { result, r#type: method, step: "Total" };
        self.steps.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Records a step of a call.
    pub(crate) fn step(&self, method: &'static str, step: Step, works: bool, took: Duration) {
        let labels = StepLabels { result: result(works), r#type: method, step: step.name() };
        self.steps.get_or_create(&labels).observe(took.as_secs_f64());
        if let Some(estimating_plugin_extension_point) = step.point() {
            let labels = PointLabels { estimating_plugin_extension_point };
            self.points.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// Records a part of an estimate.
    pub(crate) fn plugin(&self, step: Step, part: EstimatePart, took: Duration) {
        let Some(estimating_plugin_extension_point) = step.point() else { return };
        let estimating_plugin = match part {
            EstimatePart::Nodes => "NodeResourceEstimator",
            EstimatePart::Quotas => "ResourceQuotaEstimator",
        };
        let labels = PluginLabels { estimating_plugin, estimating_plugin_extension_point };
        self.plugins.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_under_upstreams_names_with_its_buckets() {
        let mut registry = Registry::default();
        let metrics = CallMetrics::register(&mut registry);
        let took = Duration::from_millis(3);
        for part in [EstimatePart::Nodes, EstimatePart::Quotas] {
            metrics.plugin(Step::Replicas, part, took);
        }
        metrics.step("MaxAvailableReplicas", Step::Replicas, true, took);
        metrics.called("MaxAvailableReplicas", true, took);
        metrics.step("GetUnschedulableReplicas", Step::Unschedulable, false, took);
        metrics.called("GetUnschedulableReplicas", false, took);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let prefix = "karmada_scheduler_estimator_estimating_";
        for line in [
            r#"request_total{result="success",type="MaxAvailableReplicas"} 1"#,
            r#"request_total{result="error",type="GetUnschedulableReplicas"} 1"#,
            r#"algorithm_duration_seconds_count{result="success",type="MaxAvailableReplicas",step="Total"} 1"#,
            r#"algorithm_duration_seconds_count{result="success",type="MaxAvailableReplicas",step="MaxAvailableReplicas"} 1"#,
            r#"algorithm_duration_seconds_count{result="error",type="GetUnschedulableReplicas",step="GetWorkloadUnschedulablePods"} 1"#,
            r#"algorithm_duration_seconds_bucket{le="0.512",result="success",type="MaxAvailableReplicas",step="Total"} 1"#,
            r#"plugin_extension_point_duration_seconds_count{estimating_plugin_extension_point="estimate_replicas"} 1"#,
            r#"plugin_extension_point_duration_seconds_bucket{le="0.2048",estimating_plugin_extension_point="estimate_replicas"} 1"#,
            r#"plugin_execution_duration_seconds_count{estimating_plugin="NodeResourceEstimator",estimating_plugin_extension_point="estimate_replicas"} 1"#,
            r#"plugin_execution_duration_seconds_count{estimating_plugin="ResourceQuotaEstimator",estimating_plugin_extension_point="estimate_replicas"} 1"#,
        ] {
            assert!(text.contains(&format!("{prefix}{line}")), "{line} is not in\n{text}");
        }
        // Of a call without plugins there is none.
        assert_eq!(text.matches("plugin_extension_point_duration_seconds_count{").count(), 1);
    }
}
