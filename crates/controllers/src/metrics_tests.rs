//! Comparison of the metrics with the reference (specification/operations.md 6, specification/failover.md 6.11) and
//! with the users' pages: names, types, labels and buckets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    cluster::Cluster,
    events,
    work::{GracefulEvictionTask, ObjectReference},
};
use ironclad_failover::{
    Evictions, Flags, Now, cluster::health::Probe, graceful_eviction::Cleared, taint_manager::Next,
};
use ironclad_fleet::{Binding, Clusters, Event};
use ironclad_membermetrics::Observed;
use ironclad_reference::Reference;
use ironclad_runtime::{Change, HotLoops, WorkMetrics};
use ironclad_scheduling::{Attempt, CycleEvent, ScheduleType, Step, plugins::TAINT_TOLERATION};
use ironclad_seam::Clock;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::{
    binding::metrics::BindingMetrics,
    cluster_status::metrics::ClusterMetrics,
    cron_federated_hpa::metrics::CronMetrics,
    detector::metrics::DetectorMetrics,
    distributed_hpa::metrics::DistributedHpaMetrics,
    estimates::EstimatorCalls,
    execution::metrics::{About, ExecutionMetrics, MemberWrite},
    federated_hpa::metrics::HpaMetrics,
    graceful_eviction::metrics::GracefulMetrics,
    interpreter::metrics::InterpreterMetrics,
    policy::metrics::PolicyMetrics,
    scheduler::metrics::{Incoming, SchedulerMetrics},
    taint_manager::{metrics::EvictionMetrics, running::Running},
};

/// The families of all controllers, in one registry.
struct Metrics {
    detector: DetectorMetrics,
    policy: PolicyMetrics,
    binding: BindingMetrics,
    execution: ExecutionMetrics,
    clusters: ClusterMetrics,
    cron: CronMetrics,
    hpa: HpaMetrics,
    distributed_hpa: DistributedHpaMetrics,
    graceful: GracefulMetrics,
    eviction: EvictionMetrics,
    scheduler: SchedulerMetrics,
    registry: Registry,
}

impl Metrics {
    fn new() -> Self {
        let mut registry = Registry::default();
        let _ = WorkMetrics::register(&mut registry);
        let interpreter = InterpreterMetrics::register(&mut registry);
        interpreter.kept("customization", 1);
        interpreter.called("customization", "InterpretReplica", "success", Duration::ZERO);
        EstimatorCalls::register(&mut registry).count("success", "MaxAvailableReplicas");
        let hot_loops = HotLoops::new(Clock::system(), &mut registry, |_| {});
        while hot_loops.attempt("binding", "shop/web".to_owned(), 1, || None).is_ok() {}
        registry.register_collector(Box::new(Observed::example()));
        Self {
            detector: DetectorMetrics::register(&mut registry),
            policy: PolicyMetrics::register(&mut registry),
            binding: BindingMetrics::register(&mut registry),
            execution: ExecutionMetrics::register(&mut registry),
            clusters: ClusterMetrics::register(&mut registry),
            cron: CronMetrics::register(&mut registry),
            hpa: HpaMetrics::register(&mut registry),
            distributed_hpa: DistributedHpaMetrics::register(&mut registry),
            graceful: GracefulMetrics::register(&mut registry),
            eviction: EvictionMetrics::register(&mut registry),
            scheduler: SchedulerMetrics::register(&mut registry),
            registry,
        }
    }
}

fn cluster(name: &str, ready: &str, taints: Value) -> Cluster {
    let amount = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"syncMode": "Push", "taints": taints},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "nodeSummary": {"totalNum": 3, "readyNum": 2},
            "resourceSummary": {"allocatable": amount, "allocated": amount},
        },
    }))
    .unwrap()
}

fn binding(name: &str, uid: &str) -> Binding {
    let binding: ironclad_api::work::ResourceBinding = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": uid},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
            "clusters": [{"name": "m1"}], "placement": {},
        },
    }))
    .unwrap();
    Binding::from(Arc::new(binding))
}

/// Three clusters of which one is faulty; a workload that has nowhere to go, and one that was deleted while it waited.
fn shown() -> String {
    let metrics = Metrics::new();
    let clock = Clock::system();
    let origin = Now { wall: Timestamp::UNIX_EPOCH, mono: Duration::ZERO };
    let mut flags = Flags::default();
    flags.eviction.eviction_warm_up = Some(Duration::ZERO);
    flags.eviction.mass_failure_hold = Duration::ZERO;
    let mut evictions = Evictions::new(flags, origin);
    let broken = json!([{"key": "k", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z"}]);
    let fleet = [cluster("m1", "False", broken), cluster("m2", "True", json!([])), cluster("m3", "True", json!([]))];
    let mut clusters = Clusters::new();
    for cluster in fleet {
        let name = cluster.metadata.name.clone().unwrap();
        evictions.cluster(&name.as_str().into(), Some(&cluster), false.into(), origin);
        let cluster = Arc::new(cluster);
        let before =
            Arc::new(Cluster { status: self::cluster(&name, "Unknown", json!([])).status, ..(*cluster).clone() });
        metrics.clusters.changed(&Change { old: Some(before), new: Some(cluster.clone()), ours: false });
        metrics.clusters.synced(&name, Duration::from_millis(20));
        metrics.clusters.probed(&name, &Probe::Healthy);
        clusters.insert(name.as_str().into(), cluster);
    }
    let (stays, goes) = (binding("stays", "a"), binding("goes", "b"));
    for one in [&stays, &goes] {
        evictions.binding(&one.key(), Some(one), origin);
    }
    evictions.binding(&goes.key(), None, origin);
    let later = Now { wall: Timestamp::from_second(60).unwrap(), mono: Duration::from_secs(60) };
    assert!(matches!(evictions.next(&clusters, |_| Some(stays.clone()), later), Next::Wait(_)), "it has nowhere to go");
    metrics.eviction.waited(evictions.take_waited());
    let task = GracefulEvictionTask {
        from_cluster: "m1".into(),
        reason: "TaintUntolerated".into(),
        creation_timestamp: Some(ironclad_api::Time(Timestamp::UNIX_EPOCH)),
        ..GracefulEvictionTask::default()
    };
    metrics.graceful.moved(&[], std::slice::from_ref(&task));
    metrics.graceful.cleared(&Cleared { task, by: "ResourceHealth" }, Timestamp::from_second(5).unwrap());
    *metrics.eviction.source().lock() = Some(Running::new(evictions, clock.clone()));
    record_propagation(&metrics);
    let mut attempt = metrics.scheduler.attempt(&clock);
    attempt.tick(CycleEvent::Cluster);
    attempt.tick(CycleEvent::Plugin { plugin: &TAINT_TOLERATION, passed: true });
    attempt.tick(CycleEvent::Step(Step::Filter));
    attempt.tick(CycleEvent::Step(Step::Score));
    attempt.ended(Some((ScheduleType::Reconcile, Attempt::Scheduled)), true);
    metrics.scheduler.incoming(Incoming::BindingAdd);
    metrics.scheduler.preemption_attempted("nominated");
    metrics.scheduler.nomination_ended("bound", jiff::SignedDuration::from_secs(3));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry).unwrap();
    text
}

fn record_propagation(metrics: &Metrics) {
    let (took, ok) = (Duration::from_millis(3), Ok::<(), ()>(()));
    metrics.detector.matched(took);
    metrics.detector.applied(took, &ok);
    metrics.binding.synced(took, &ok);
    metrics.execution.synced(took, &ok);
    let about = About { api_version: "apps/v1", kind: "Deployment", cluster: "m1" };
    for write in [MemberWrite::Create { again: false }, MemberWrite::Update, MemberWrite::Delete] {
        metrics.execution.wrote(write, about, "success");
    }
    metrics.cron.processed(Duration::ZERO, true);
    metrics.cron.executed(Duration::ZERO, false);
    metrics.hpa.show();
    metrics.distributed_hpa.processed::<(), ()>(Duration::ZERO, &Ok(()));
    metrics.policy.count(&Event::normal(ObjectReference::default(), events::PREEMPT_POLICY_SUCCEED, ""));
}

/// The names of the labels of every series, by the name of the series.
fn series(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = all.entry(name).or_default();
        if let Some((inside, _)) = rest.split_once('}') {
            labels.extend(inside.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)));
        }
    }
    all
}

/// Metrics of the table that are not shown, by prefix, with the reason.
const NOT_SHOWN: [(&str, &str); 3] = [
    (
        "karmada_scheduler_estimator_estimating_algorithm_",
        "of `ironclad estimator`, which is no controller: `estimator::metrics`",
    ),
    ("karmada_scheduler_estimator_estimating_plugin_", "likewise"),
    ("karmada_build_info", "of the process, not of its controllers: `ops::tests`"),
];

/// Counters whose names do not end in `_total`: OpenMetrics has no type for these but gauge.
const COUNTERS_SHOWN_AS_GAUGES: [&str; 3] =
    ["create_resource_to_cluster", "update_resource_to_cluster", "delete_resource_from_cluster"];

/// `exp(a,f,n)`, `LAT`, `1,2,4` and `default (…)`, as specification/operations.md 6 writes buckets.
fn buckets(text: &str) -> Vec<f64> {
    let numbers = |text: &str| -> Vec<f64> { text.split(',').map(|number| number.trim().parse().unwrap()).collect() };
    if let Some(inside) = text.strip_prefix("exp(").and_then(|rest| rest.strip_suffix(')')) {
        let [first, factor, count] = numbers(inside)[..] else { panic!("{text}") };
        return std::iter::successors(Some(first), |last| Some(last * factor)).take(count.round() as usize).collect();
    }
    match text {
        "–" => Vec::new(),
        "LAT" => {
            let waits = [30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0];
            [buckets("exp(0.001,2,15)"), waits.to_vec()].concat()
        }
        _ if text.starts_with("default") => vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
        listed => numbers(listed),
    }
}

/// The bounds of the buckets of a histogram's first series, without the last, which is infinite.
fn shown_buckets(text: &str, name: &str) -> Vec<f64> {
    let start = format!("{name}_bucket{{le=\"");
    let bounds = text.lines().filter_map(|line| line.strip_prefix(&start)?.split('"').next());
    let mut bounds: Vec<f64> = bounds.map(|bound| bound.parse().unwrap()).collect();
    bounds.truncate(bounds.iter().position(|bound| bound.is_infinite()).unwrap());
    bounds
}

fn check(text: &str, name: &str, kind: &str, labels: &BTreeSet<&str>) {
    // The text format names a counter without its ending.
    let family = if kind == "counter" { name.trim_end_matches("_total") } else { name };
    let kind = if COUNTERS_SHOWN_AS_GAUGES.contains(&name) { "gauge" } else { kind };
    assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "no {kind} {name} in\n{text}");
    let one = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
    let series = series(text);
    let got = series.get(one.as_str()).unwrap_or_else(|| panic!("no series {one} in\n{text}"));
    assert_eq!(got, labels, "labels of {name}");
}

#[test]
fn metrics_of_the_reference_are_shown() {
    let text = shown();
    let table = Reference::Operations.table("## 6. ");
    let mut unused: BTreeSet<&str> = NOT_SHOWN.iter().map(|(name, _)| *name).collect();
    let mut seen = 0;
    for row in &table.rows {
        // Two names may share a row; parentheses contain values or the source.
        for name in row[0].split('`').skip(1).step_by(2) {
            if let Some((missing, _)) = NOT_SHOWN.iter().find(|(start, _)| name.starts_with(start)) {
                assert!(!text.contains(&format!("# TYPE {} ", name.trim_end_matches("_total"))), "{name} is shown");
                unused.remove(missing);
                continue;
            }
            let listed: String =
                row[2].split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
            let labels = listed.split(',').map(str::trim).filter(|label| !["", "–"].contains(label)).collect();
            check(&text, name, &row[1], &labels);
            if row[1] == "histogram" {
                let (got, want) = (shown_buckets(&text, name), buckets(&row[3]));
                let same = got.len() == want.len() && got.iter().zip(&want).all(|(a, b)| (a - b).abs() < b * 1e-9);
                assert!(same, "buckets of {name} are {got:?}, not {want:?}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 45, "only {seen} metrics were compared");
    assert!(unused.is_empty(), "the reference does not list {unused:?} any more");
    // Below the table: those of Karmada that have no counterpart.
    for name in ["pool_get_operation", "pool_put_operation"] {
        assert!(!text.contains(&format!("# TYPE {name} ")), "{name} is shown");
    }
    // Metrics outside the table, and our own.
    for (name, kind, labels) in [
        ("cluster_probes_total", "counter", ["member_cluster", "result"].as_slice()),
        ("cluster_ready_transitions_total", "counter", &["member_cluster", "status"]),
        ("cluster_ready_transition_timestamp_seconds", "gauge", &["member_cluster"]),
    ] {
        check(&text, name, kind, &labels.iter().copied().collect());
    }
}

/// The page of all metrics: name, type, labels and the help text of the exposition.
fn page() -> String {
    let text = shown();
    let series = series(&text);
    let mut page = "# Metrics\n\nMetrics that `--metrics-bind-address` serves at `/metrics`; [monitoring](../operations/monitoring.md) says what to watch.\n\
                    Generated: `UPDATE_GOLDENS=1 cargo test -p ironclad-controllers metrics` writes this page.\n\n\
                    | metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        .to_owned();
    let mut rows = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (family, kind) = line.split_once(' ').unwrap();
        let help = format!("# HELP {family} ");
        let help = text.lines().find_map(|line| line.strip_prefix(&help)).unwrap_or_default().trim_end_matches('.');
        let sample = [family.to_owned(), format!("{family}_total"), format!("{family}_count")];
        let Some(name) = sample.iter().find(|name| series.contains_key(name.as_str())) else { continue };
        let labels: Vec<_> = series[name.as_str()].iter().map(|label| format!("`{label}`")).collect();
        let name = name.trim_end_matches("_count");
        rows.insert(format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    page.extend(rows);
    page
}

#[test]
fn page_of_metrics_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    ironclad_reference::check_golden(path, &page());
}

#[test]
fn metrics_of_the_users_pages_are_shown() {
    let text = shown();
    let series = series(&text);
    let failover = include_str!("../../../docs/concepts/failover.md");
    let clusters = include_str!("../../../docs/concepts/clusters.md");
    let mut found = 0;
    for page in [failover, clusters] {
        let (_, table) = page.split_once("## Metrics\n").unwrap();
        let table = table.split("\n## ").next().unwrap();
        // The first column has the names, with their labels in braces.
        for row in table.lines().filter(|line| line.starts_with("| `")) {
            let column = row.trim_start_matches("| ").split(" | ").next().unwrap();
            for quoted in column.split('`').skip(1).step_by(2) {
                let (name, labels) = quoted.trim_end_matches('}').split_once('{').unwrap_or((quoted, ""));
                let count = format!("{name}_count");
                let got = series.get(name).or_else(|| series.get(count.as_str()));
                let want: BTreeSet<&str> = labels.split(',').filter(|label| !label.is_empty()).collect();
                assert_eq!(got, Some(&want), "{name} of the page is not shown so");
                found += 1;
            }
        }
    }
    assert!(found > 20, "only {found} names were found on the pages");
}

#[test]
fn propagation_is_counted_under_upstreams_names() {
    let metrics = Metrics::new();
    let about = About { api_version: "apps/v1", kind: "Deployment", cluster: "m1" };
    let (took, ok) = (Duration::from_millis(3), Ok::<(), ()>(()));
    metrics.detector.applied(took, &ok);
    metrics.binding.synced(took, &ok);
    metrics.execution.wrote(MemberWrite::Create { again: false }, about, "success");
    metrics.execution.wrote(MemberWrite::Update, about, "error");
    metrics.execution.wrote(MemberWrite::Delete, about, "success");
    metrics.clusters.synced("m1", Duration::from_secs(1));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry).unwrap();
    let labels = "apiversion=\"apps/v1\",kind=\"Deployment\",member_cluster=\"m1\"";
    for line in [
        "policy_apply_attempts_total{result=\"success\"} 1".to_owned(),
        "resource_apply_policy_duration_seconds_bucket{le=\"0.004\",result=\"success\"} 1".to_owned(),
        "binding_sync_work_duration_seconds_count{result=\"success\"} 1".to_owned(),
        format!("create_resource_to_cluster{{result=\"success\",{labels},recreate=\"false\"}} 1.0"),
        format!("update_resource_to_cluster{{result=\"error\",{labels},operationResult=\"none\"}} 1.0"),
        format!("delete_resource_from_cluster{{result=\"success\",{labels}}} 1.0"),
        "cluster_sync_status_duration_seconds_sum{member_cluster=\"m1\"} 1.0".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}
