//! Counters whose upstream names lack the suffix `_total`, which the text format would add.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric, gauge::ConstGauge},
};

/// A counter that is shown under its plain name.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlainCounter(Arc<AtomicU64>);

impl PlainCounter {
    /// Adds one.
    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The present count.
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl TypedMetric for PlainCounter {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for PlainCounter {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        // Counts stay far below 2^53, where a float begins to skip numbers.
        #[allow(clippy::cast_precision_loss, reason = "see above")]
        ConstGauge::new(self.get() as f64).encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
