//! Metrics of queues and reconcilers, under the names of controller-runtime (specification/operations.md 6).

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Labels of the families of a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
    controller: &'static str,
}

/// Labels of the depth of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DepthLabels {
    name: &'static str,
    controller: &'static str,
    priority: &'static str,
}

/// Labels of the families of a reconciler.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

/// Labels of the outcome of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
/// Time for which the present keys have been worked on, seconds: the sum and the longest. `None` once the queue is
/// deleted.
type Unfinished = Box<dyn Fn() -> Option<(f64, f64)> + Send + Sync>;

/// The families of all queues and reconcilers of one process. Cheap to clone.
#[derive(Clone)]
pub struct WorkMetrics {
    depth: Family<DepthLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    waited: Histograms<QueueLabels>,
    worked: Histograms<QueueLabels>,
    results: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    times: Histograms<ControllerLabels>,
    workers: Family<ControllerLabels, Gauge>,
    active: Family<ControllerLabels, Gauge>,
    unfinished: Arc<Mutex<Vec<(QueueLabels, Unfinished)>>>,
}

impl WorkMetrics {
    /// Registers the families.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_01, 10.0, 8));
        let all = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(seconds),
            worked: Family::new_with_constructor(seconds),
            results: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            times: Family::new_with_constructor(seconds),
            workers: Family::default(),
            active: Family::default(),
            unfinished: Arc::default(),
        };
        registry.register("workqueue_depth", "Keys that are ready to be worked on", all.depth.clone());
        registry.register("workqueue_adds", "Keys added", all.adds.clone());
        registry.register("workqueue_retries", "Keys added again after a failure", all.retries.clone());
        registry.register("workqueue_queue_duration_seconds", "Wait of a key from ready to work", all.waited.clone());
        registry.register("workqueue_work_duration_seconds", "Work on a key", all.worked.clone());
        registry.register("controller_runtime_reconcile", "Passes, by how they ended", all.results.clone());
        registry.register("controller_runtime_reconcile_errors", "Passes that failed", all.errors.clone());
        registry.register("controller_runtime_reconcile_panics", "Passes that panicked", all.panics.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Length of a pass", all.times.clone());
        registry.register("controller_runtime_max_concurrent_reconciles", "Workers", all.workers.clone());
        registry.register("controller_runtime_active_workers", "Workers in a pass", all.active.clone());
        registry.register_collector(Box::new(InWork(all.unfinished.clone())));
        all
    }

    /// The handles of one queue. `unfinished` gives its work in progress as long as the queue lives.
    pub(crate) fn meter(&self, name: &'static str, unfinished: Unfinished) -> Meter {
        let labels = QueueLabels { name, controller: name };
        let depth = |priority| self.depth.get_or_create_owned(&DepthLabels { name, controller: name, priority });
        let result = |result| self.results.get_or_create_owned(&ResultLabels { controller: name, result });
        let controller = ControllerLabels { controller: name };
        self.unfinished.lock().push((labels.clone(), unfinished));
        Meter {
            depth: [depth("0"), depth("-100")],
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            waited: self.waited.get_or_create_owned(&labels),
            worked: self.worked.get_or_create_owned(&labels),
            succeeded: result("success"),
            requeued_after: result("requeue_after"),
            requeued: result("requeue"),
            failed: result("error"),
            errors: self.errors.get_or_create_owned(&controller),
            panics: self.panics.get_or_create_owned(&controller),
            times: self.times.get_or_create_owned(&controller),
            workers: self.workers.get_or_create_owned(&controller),
            active: self.active.get_or_create_owned(&controller),
        }
    }
}

impl Debug for WorkMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WorkMetrics")
    }
}

/// The handles of one queue and its workers.
pub(crate) struct Meter {
    /// By priority: normal, low.
    pub(crate) depth: [Gauge; 2],
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    waited: Histogram,
    worked: Histogram,
    pub(crate) succeeded: Counter,
    pub(crate) requeued_after: Counter,
    pub(crate) requeued: Counter,
    pub(crate) failed: Counter,
    pub(crate) errors: Counter,
    pub(crate) panics: Counter,
    times: Histogram,
    pub(crate) workers: Gauge,
    pub(crate) active: Gauge,
}

impl Meter {
    /// Records the time that a key waited for a worker.
    pub(crate) fn waited(&self, wait: Duration) {
        self.waited.observe(wait.as_secs_f64());
    }

    /// Records the time of a reconcile.
    pub(crate) fn worked(&self, work: Duration) {
        self.worked.observe(work.as_secs_f64());
        self.times.observe(work.as_secs_f64());
    }
}

/// The families that are computed when they are read.
struct InWork(Arc<Mutex<Vec<(QueueLabels, Unfinished)>>>);

impl Debug for InWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InWork")
    }
}

impl Collector for InWork {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut all = self.0.lock();
        all.retain(|(_, unfinished)| unfinished().is_some());
        // The queues of all members have one name.
        let mut by_name: BTreeMap<&QueueLabels, (f64, f64)> = BTreeMap::new();
        for (labels, unfinished) in all.iter() {
            let (sum, longest) = unfinished().unwrap_or_default();
            let both = by_name.entry(labels).or_default();
            *both = (both.0 + sum, both.1.max(longest));
        }
        let mut family = |name: &str, help: &str, pick: fn((f64, f64)) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, both) in &by_name {
                ConstGauge::new(pick(*both)).encode(family.encode_family(*labels)?)?;
            }
            Ok(())
        };
        family("workqueue_unfinished_work_seconds", "Work in progress, of all workers", |(sum, _)| sum)?;
        family("workqueue_longest_running_processor_seconds", "The longest work in progress", |(_, longest)| longest)
    }
}
