//! Metrics of the script engines that interpret kinds (specification/operations.md 6). Upstream counts how often an
//! engine is taken from a pool. Here each customization has its own engine, so the number of engines and of calls
//! counts.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Label of a source: `customization` or `shipped`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: &'static str,
}

/// Labels of calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    source: &'static str,
    operation: &'static str,
    result: &'static str,
}

/// The metrics of the interpreter's engines.
#[derive(Debug, Clone)]
pub(crate) struct InterpreterMetrics {
    engines: Family<SourceLabel, Gauge>,
    calls: Family<Call, Counter>,
    duration: Family<SourceLabel, Histogram, fn() -> Histogram>,
}

impl InterpreterMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            engines: Family::default(),
            calls: Family::default(),
            // From a tenth of a millisecond to beyond the second that a call may take.
            duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 15))),
        };
        let help = "Script engines that are kept, one for each customization";
        registry.register("ironclad_interpreter_pool_engines", help, metrics.engines.clone());
        registry.register("ironclad_interpreter_pool_calls", "Calls of scripts", metrics.calls.clone());
        let help = "How long a call of a script took, waiting for its engine included";
        registry.register("ironclad_interpreter_pool_call_duration_seconds", help, metrics.duration.clone());
        metrics
    }

    /// Sets the number of engines of a source.
    pub(crate) fn kept(&self, source: &'static str, engines: usize) {
        self.engines.get_or_create(&SourceLabel { source }).set(i64::try_from(engines).unwrap_or(i64::MAX));
    }

    /// Records a call of a script.
    pub(crate) fn called(&self, source: &'static str, operation: &'static str, result: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { source, operation, result }).inc();
        self.duration.get_or_create(&SourceLabel { source }).observe(took.as_secs_f64());
    }
}
