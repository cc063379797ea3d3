//! Metrics of the scheduler, under upstream's names (specification/operations.md 6, specification/scheduling.md 13.3).

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ironclad_runtime::{Key, Queue};
use ironclad_scheduling::{Attempt, CycleEvent, Plugin, ScheduleType, Step};
use ironclad_seam::Clock;
use jiff::SignedDuration;
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
use tokio::time::Instant;

use super::waiting::Waiting;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    result: &'static str,
    schedule_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabel {
    schedule_step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabel {
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PointLabels {
    extension_point: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
    extension_point: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Single plugins are measured in one of this many cycles, as in upstream: they run once for each cluster.
const MEASURED_ONE_OF: u64 = 10;

/// Event that enqueued a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// It was created, or became this scheduler's.
    BindingAdd,
    /// Its spec changed.
    BindingUpdate,
    /// Its last attempt failed.
    ScheduleAttemptFailure,
    /// A cluster changed, or has more capacity.
    ClusterChanged,
    /// A quota that refused its result changed.
    QuotaChanged,
}

impl Incoming {
    fn as_str(self) -> &'static str {
        match self {
            Self::BindingAdd => "BindingAdd",
            Self::BindingUpdate => "BindingUpdate",
            Self::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            Self::ClusterChanged => "ClusterChanged",
            Self::QuotaChanged => "QuotaChanged",
        }
    }
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// The families. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SchedulerMetrics {
    attempts: Family<AttemptLabels, Counter>,
    whole: Seconds<AttemptLabels>,
    steps: Seconds<StepLabel>,
    points: Seconds<PointLabels>,
    plugins: Seconds<PluginLabels>,
    turns: Arc<AtomicU64>,
    incoming: Family<EventLabel, Counter>,
    preemptions: Family<ResultLabel, Counter>,
    victims: Histogram,
    evaluations: Histogram,
    nominated: Gauge,
    nominations: Seconds<OutcomeLabel>,
    waiting: Arc<Mutex<Waiting>>,
    queue: Arc<OnceLock<Queue<Key>>>,
}

impl SchedulerMetrics {
    /// Registers the families.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let from_1_ms: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let from_100_us: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 2.0, 12));
        let from_10_us: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_01, 1.5, 20));
        let metrics = Self {
            attempts: Family::default(),
            whole: Family::new_with_constructor(from_1_ms),
            steps: Family::new_with_constructor(from_1_ms),
            points: Family::new_with_constructor(from_100_us),
            plugins: Family::new_with_constructor(from_10_us),
            turns: Arc::default(),
            incoming: Family::default(),
            preemptions: Family::default(),
            victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            nominations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.1, 2.0, 14))),
            evaluations: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            nominated: Gauge::default(),
            waiting: Arc::default(),
            queue: Arc::default(),
        };
        let prefixed = |name: &str| format!("karmada_scheduler_{name}");
        registry.register(prefixed("schedule_attempts"), "Passes, by how they ended", metrics.attempts.clone());
        let help = "A whole attempt with its writes";
        registry.register(prefixed("e2e_scheduling_duration_seconds"), help, metrics.whole.clone());
        let name = prefixed("scheduling_algorithm_duration_seconds");
        registry.register(name, "One step of a pass", metrics.steps.clone());
        let name = prefixed("framework_extension_point_duration_seconds");
        registry.register(name, "All plugins of a point on all clusters", metrics.points.clone());
        let help = "One plugin on one cluster, in one turn of ten";
        registry.register(prefixed("plugin_execution_duration_seconds"), help, metrics.plugins.clone());
        registry.register(prefixed("queue_incoming_bindings"), "Turns, by what gave them", metrics.incoming.clone());
        let help = "Looks for bindings to preempt, by what they came to";
        registry.register(prefixed("preemption_attempts"), help, metrics.preemptions.clone());
        registry.register(prefixed("preemption_victims"), "Victims of one preemption", metrics.victims.clone());
        let name = prefixed("preemption_evaluation_duration_seconds");
        registry.register(name, "One search for bindings to preempt", metrics.evaluations.clone());
        let help = "Bindings for which capacity is held";
        registry.register(prefixed("nominated_bindings"), help, metrics.nominated.clone());
        let help = "Time for which capacity was held for a preemptor, by how it ended";
        registry.register(prefixed("preemption_nomination_duration_seconds"), help, metrics.nominations.clone());
        let pending = Pending { waiting: metrics.waiting.clone(), queue: metrics.queue.clone() };
        registry.register_collector(Box::new(pending));
        metrics
    }

    /// Sets the queue whose bindings are shown. Only the first call counts.
    pub(crate) fn watch(&self, queue: &Queue<Key>) {
        self.queue.get_or_init(|| queue.clone());
    }

    /// The bindings whose last attempt failed.
    pub(crate) fn waiting(&self) -> Arc<Mutex<Waiting>> {
        self.waiting.clone()
    }

    /// Counts an enqueued binding.
    pub(crate) fn incoming(&self, event: Incoming) {
        self.incoming.get_or_create(&EventLabel { event: event.as_str() }).inc();
    }

    /// Counts a look for bindings to preempt.
    pub(crate) fn preemption_attempted(&self, result: &'static str) {
        self.preemptions.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts the victims of a preemption.
    pub(crate) fn victims(&self, count: usize) {
        self.victims.observe(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }

    /// Sets the number of bindings for which capacity is held.
    pub(crate) fn nominated(&self, count: usize) {
        self.nominated.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Measures a nomination that ended.
    pub(crate) fn nomination_ended(&self, outcome: &'static str, lasted: SignedDuration) {
        self.nominations.get_or_create(&OutcomeLabel { outcome }).observe(lasted.as_secs_f64());
    }

    /// Begins the measurement of a cycle.
    pub(crate) fn attempt<'a>(&'a self, clock: &'a Clock) -> Timed<'a> {
        let now = clock.mono();
        let measured = self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(MEASURED_ONE_OF);
        Timed { metrics: self, clock, began: now, last: now, plugin: measured.then_some(now), filter: None }
    }

    fn point(&self, extension_point: &'static str, result: &'static str, seconds: f64) {
        self.points.get_or_create(&PointLabels { extension_point, result }).observe(seconds);
    }
}

/// The measurement of one cycle.
pub(crate) struct Timed<'a> {
    metrics: &'a SchedulerMetrics,
    clock: &'a Clock,
    began: Instant,
    last: Instant,
    /// Start of the running plugin, if single plugins are measured.
    plugin: Option<Instant>,
    /// Duration of the filters, until it is known whether a cluster passed them.
    filter: Option<f64>,
}

impl Timed<'_> {
    /// Takes in an event of the cycle.
    pub(crate) fn tick(&mut self, tick: CycleEvent) {
        match tick {
            CycleEvent::Step(step) => self.step(step),
            CycleEvent::Cluster => {
                if let Some(began) = &mut self.plugin {
                    *began = self.clock.mono();
                }
            }
            CycleEvent::Plugin { plugin, passed } => self.ran(plugin, passed),
        }
    }

    fn ran(&mut self, plugin: &'static Plugin, passed: bool) {
        let Some(began) = &mut self.plugin else { return };
        let now = self.clock.mono();
        let seconds = (now - std::mem::replace(began, now)).as_secs_f64();
        let result = if passed { "Success" } else { "Unschedulable" };
        let labels = PluginLabels { plugin: plugin.name, extension_point: plugin.extension_point(), result };
        self.metrics.plugins.get_or_create(&labels).observe(seconds);
    }

    fn step(&mut self, step: Step) {
        let now = self.clock.mono();
        let seconds = (now - std::mem::replace(&mut self.last, now)).as_secs_f64();
        self.metrics.steps.get_or_create(&StepLabel { schedule_step: step.as_str() }).observe(seconds);
        match step {
            Step::Filter => {
                self.refused();
                self.filter = Some(seconds);
            }
            Step::Score => {
                if let Some(filter) = self.filter.take() {
                    self.metrics.point("Filter", "Success", filter);
                }
                self.metrics.point("Score", "Success", seconds);
            }
            Step::Preempt => self.metrics.evaluations.observe(seconds),
            Step::Select | Step::AssignReplicas => {}
        }
    }

    /// Notes that no cluster passed the last filters, as nothing was scored.
    fn refused(&mut self) {
        if let Some(filter) = self.filter.take() {
            self.metrics.point("Filter", "Unschedulable", filter);
        }
    }

    /// Ends the measurement; `written` is true if the writes succeeded.
    pub(crate) fn ended(mut self, attempt: Option<(ScheduleType, Attempt)>, written: bool) {
        self.refused();
        let Some((schedule_type, attempt)) = attempt else { return };
        let attempt = if written { attempt } else { Attempt::Error };
        let labels = AttemptLabels { result: attempt.as_str(), schedule_type: schedule_type.as_str() };
        self.metrics.attempts.get_or_create(&labels).inc();
        self.metrics.whole.get_or_create(&labels).observe((self.clock.mono() - self.began).as_secs_f64());
    }
}

/// The pending bindings, counted when they are shown.
struct Pending {
    waiting: Arc<Mutex<Waiting>>,
    queue: Arc<OnceLock<Queue<Key>>>,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl Collector for Pending {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (unschedulable, backoff) = self.waiting.lock().counts();
        let all = self.queue.get().map_or(0, Queue::len);
        let active = all.saturating_sub(unschedulable + backoff);
        let help = "Bindings that wait for a turn";
        let mut family = encoder.encode_descriptor("scheduler_pending_bindings", help, None, MetricType::Gauge)?;
        for (queue, count) in [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&[("queue", queue)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ironclad_api::work::ResourceBinding;
    use ironclad_scheduling::{
        Options,
        plugins::{CLUSTER_AFFINITY, CLUSTER_LOCALITY, TAINT_TOLERATION},
    };
    use ironclad_seam::Rng;

    use super::*;

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn the_scheduler_is_counted_under_upstreams_names() {
        let mut registry = Registry::default();
        let metrics = SchedulerMetrics::register(&mut registry);
        let clock = Clock::system();
        let pass = |steps: &[Step], ended: Option<(ScheduleType, Attempt)>, written| {
            let mut attempt = metrics.attempt(&clock);
            steps.iter().for_each(|step| attempt.tick(CycleEvent::Step(*step)));
            attempt.ended(ended, written);
        };
        let all = [Step::Filter, Step::Score, Step::Select, Step::AssignReplicas];
        pass(&all, Some((ScheduleType::Reconcile, Attempt::Scheduled)), true);
        pass(&all, Some((ScheduleType::Scale, Attempt::Scheduled)), false);
        pass(&all[..1], Some((ScheduleType::Reconcile, Attempt::Unschedulable)), true);
        // Two affinity groups: nothing fits the first.
        pass(&[Step::Filter, Step::Filter, Step::Score], Some((ScheduleType::Reconcile, Attempt::Unschedulable)), true);
        pass(&[], None, true);
        metrics.incoming(Incoming::BindingAdd);
        metrics.incoming(Incoming::ClusterChanged);
        metrics.incoming(Incoming::ClusterChanged);
        let text = shown(&registry);
        for line in [
            "karmada_scheduler_schedule_attempts_total{result=\"scheduled\",schedule_type=\"ReconcileSchedule\"} 1",
            "karmada_scheduler_schedule_attempts_total{result=\"error\",schedule_type=\"ScaleSchedule\"} 1",
            "karmada_scheduler_schedule_attempts_total{result=\"unschedulable\",schedule_type=\"ReconcileSchedule\"} 2",
            "karmada_scheduler_e2e_scheduling_duration_seconds_count{result=\"scheduled\",schedule_type=\"ReconcileSchedule\"} 1",
            "karmada_scheduler_e2e_scheduling_duration_seconds_bucket{le=\"16.384\",result=\"error\",schedule_type=\"ScaleSchedule\"} 1",
            "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"Filter\"} 5",
            "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"AssignReplicas\"} 2",
            "karmada_scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Filter\",result=\"Success\"} 3",
            "karmada_scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Filter\",result=\"Unschedulable\"} 2",
            "karmada_scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Score\",result=\"Success\"} 3",
            "karmada_scheduler_queue_incoming_bindings_total{event=\"BindingAdd\"} 1",
            "karmada_scheduler_queue_incoming_bindings_total{event=\"ClusterChanged\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn single_plugins_are_measured_in_one_cycle_of_ten() {
        let mut registry = Registry::default();
        let metrics = SchedulerMetrics::register(&mut registry);
        let clock = Clock::system();
        for _ in 0..11 {
            let mut attempt = metrics.attempt(&clock);
            attempt.tick(CycleEvent::Cluster);
            clock.sleep(Duration::from_millis(2)).await;
            attempt.tick(CycleEvent::Plugin { plugin: &CLUSTER_AFFINITY, passed: true });
            clock.sleep(Duration::from_millis(1)).await;
            attempt.tick(CycleEvent::Plugin { plugin: &TAINT_TOLERATION, passed: false });
            clock.sleep(Duration::from_secs(5)).await;
            attempt.tick(CycleEvent::Cluster);
            attempt.tick(CycleEvent::Plugin { plugin: &CLUSTER_LOCALITY, passed: true });
        }
        let text = shown(&registry);
        let name = "karmada_scheduler_plugin_execution_duration_seconds";
        for line in [
            format!("{name}_count{{plugin=\"ClusterAffinity\",extension_point=\"Filter\",result=\"Success\"}} 2"),
            format!("{name}_sum{{plugin=\"ClusterAffinity\",extension_point=\"Filter\",result=\"Success\"}} 0.004"),
            format!(
                "{name}_sum{{plugin=\"TaintToleration\",extension_point=\"Filter\",result=\"Unschedulable\"}} 0.002"
            ),
            format!("{name}_sum{{plugin=\"ClusterLocality\",extension_point=\"Score\",result=\"Success\"}} 0.0"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pending_bindings_are_counted_by_queue() {
        let mut registry = Registry::default();
        let metrics = SchedulerMetrics::register(&mut registry);
        let queue = Queue::new(Clock::system(), Rng::from_seed(1).stream("q"));
        metrics.watch(&queue);
        let key = |name: &str| Key::new("n", name);
        queue.add(key("ready"));
        queue.add_after(key("full"), Duration::from_secs(300));
        queue.add_after(key("unfit"), Duration::from_secs(300));
        queue.add_after(key("failed"), Duration::from_secs(1));
        let full = ResourceBinding::new("full", Default::default());
        metrics.waiting().lock().for_capacity(&key("full"), (&full).into(), false, &Options::default());
        metrics.waiting().lock().for_fit(&key("unfit"));
        metrics.waiting().lock().backs_off(&key("failed"));
        let text = shown(&registry);
        for (place, count) in [("active", 1), ("backoff", 1), ("unschedulable", 2)] {
            let line = format!("scheduler_pending_bindings{{queue=\"{place}\"}} {count}");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
