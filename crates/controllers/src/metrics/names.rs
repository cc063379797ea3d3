//! The names, types and labels that the reference promises of clusters and evictions (failover.md 6.11, operations.md 6), and
//! those that the users' page lists, against what is really shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{cluster::Cluster, work::GracefulEvictionTask};
use ironclad_failover::{Bound, Clusters, Evictions, Flags, Now, eviction::Next, graceful::Cleared, health::Probe};
use ironclad_runtime::Change;
use ironclad_seam::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Metrics;
use crate::taint_manager::Running;

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

fn binding(name: &str, uid: &str) -> Bound {
    let binding: ironclad_api::work::ResourceBinding = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop", "uid": uid},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
            "clusters": [{"name": "m1"}], "placement": {},
        },
    }))
    .unwrap();
    Bound::from(Arc::new(binding))
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
    *metrics.eviction.source().lock() = Some(Running::new(evictions, clock));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry()).unwrap();
    text
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

#[test]
fn what_the_reference_lists_is_shown() {
    let text = shown();
    let series = series(&text);
    const OF_CLUSTER: &[&str] = &["cluster_name"];
    const OF_MEMBER: &[&str] = &["member_cluster"];
    for (name, kind, labels) in [
        ("cluster_ready_state", "gauge", OF_MEMBER),
        ("cluster_node_number", "gauge", OF_MEMBER),
        ("cluster_ready_node_number", "gauge", OF_MEMBER),
        ("cluster_memory_allocatable_bytes", "gauge", OF_MEMBER),
        ("cluster_cpu_allocatable_number", "gauge", OF_MEMBER),
        ("cluster_pod_allocatable_number", "gauge", OF_MEMBER),
        ("cluster_memory_allocated_bytes", "gauge", OF_MEMBER),
        ("cluster_cpu_allocated_number", "gauge", OF_MEMBER),
        ("cluster_pod_allocated_number", "gauge", OF_MEMBER),
        ("cluster_sync_status_duration_seconds", "histogram", OF_MEMBER),
        ("cluster_probes_total", "counter", &["member_cluster", "result"]),
        ("cluster_ready_transitions_total", "counter", &["member_cluster", "status"]),
        ("cluster_ready_transition_timestamp_seconds", "gauge", OF_MEMBER),
        ("eviction_queue_depth", "gauge", &["name"]),
        ("eviction_kind_total", "gauge", &["member_cluster", "resource_kind"]),
        ("eviction_total", "gauge", &["queue_name"]),
        ("evict_total", "gauge", OF_CLUSTER),
        ("evict_kind_total", "gauge", &["cluster_name", "resource_kind"]),
        ("evict_rate", "gauge", OF_CLUSTER),
        ("eviction_processing_latency_seconds", "histogram", &["queue_name", "name"]),
        ("evict_processing_latency_seconds", "histogram", OF_CLUSTER),
        ("eviction_processing_total", "counter", &["queue_name", "name", "result"]),
        ("evict_success_rate", "gauge", OF_CLUSTER),
        ("cluster_fault_num", "gauge", &[]),
        ("cluster_fault_rate", "gauge", &[]),
        ("cluster_failure_rate", "gauge", &[]),
        ("eviction_allowed_rate", "gauge", &[]),
        ("eviction_rate_state", "gauge", &["state"]),
        ("eviction_abandoned_total", "counter", &["cluster_name", "reason"]),
        ("eviction_oldest_age_seconds", "gauge", &["queue_name"]),
        ("graceful_eviction_tasks", "gauge", &["cluster_name", "reason", "purge_mode"]),
        ("graceful_eviction_duration_seconds", "histogram", &["reason", "cleared_by"]),
    ] {
        // The text format names a counter without its ending.
        let family = if kind == "counter" { name.trim_end_matches("_total") } else { name };
        assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "no {kind} {name} in\n{text}");
        let one = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
        let got = series.get(one.as_str()).unwrap_or_else(|| panic!("no series {one} in\n{text}"));
        assert_eq!(*got, labels.iter().copied().collect(), "labels of {name}");
    }
}

#[test]
fn what_the_users_pages_list_is_shown() {
    let text = shown();
    let series = series(&text);
    let failover = include_str!("../../../../docs/failover.md");
    let clusters = include_str!("../../../../docs/clusters.md");
    let mut found = 0;
    for page in [failover, clusters] {
        let (_, table) = page.split_once("## Metrics\n").unwrap();
        let table = table.split("\n## ").next().unwrap();
        // The names stand in the first column, with their labels in braces.
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
