//! Replicas under other loads, divided by the scheduler.

use ironclad_autoscaling::federated_hpa::report::MetricReport;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_hpa::{options::Options as AutoscalerOptions, ratio::Tolerance};
use serde_json::json;

use super::*;
use crate::testkit::world_of;

const FLEET: &str = r#"
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: {syncMode: Push}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: CompleteAPIEnablements, status: "True", reason: Complete, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Push}, status: *ready}
"#;

fn binding(type_: &str, replicas: i32, clusters: &[(&str, i32)]) -> Binding {
    let clusters: Vec<_> =
        clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    let weights: Vec<_> = [("m1", 1), ("m2", 3)]
        .iter()
        .map(|(name, weight)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight}))
        .collect();
    let mut scheduling = json!({"replicaSchedulingType": type_});
    if type_ == "Divided" {
        scheduling["replicaDivisionPreference"] = json!("Weighted");
        scheduling["weightPreference"] = json!({"staticWeightList": weights});
    }
    let binding: ironclad_api::work::ResourceBinding = serde_json::from_value(json!({
        "metadata": {"name": "web-deployment", "namespace": "shop", "uid": "b", "generation": 2,
                     "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": replicas, "clusters": clusters, "schedulerName": "default-scheduler",
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "replicaScheduling": scheduling},
        },
        "status": {"schedulerObservedGeneration": 2},
    }))
    .unwrap();
    Binding::from(Arc::new(binding))
}

fn autoscaler(max: i32) -> FederatedHPA {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    }))
    .unwrap()
}

/// A last round in which pods that request 100m use this much together.
fn report(current: i32, total: i64) -> Report {
    let load = Some(Load { total, is_of_pods: true, request: 100 });
    let metric = MetricReport { name: "cpu".into(), load, ..MetricReport::default() };
    Report { name: "web".into(), current: Some(current), metrics: vec![metric], ..Report::default() }
}

/// Seconds, replicas, and replicas by cluster.
type Points = Vec<(i64, i32, Vec<i32>)>;

fn foreseen(binding: &Binding, max: i32, report: &Report, startup: i64) -> Result<Points, LoadError> {
    foreseen_with(&Settings::default(), &autoscaler(max), binding, report, startup)
}

fn foreseen_with(
    settings: &Settings,
    autoscaler: &FederatedHPA,
    binding: &Binding,
    report: &Report,
    startup: i64,
) -> Result<Points, LoadError> {
    let world = world_of(FLEET);
    let found = foresee(&Question {
        autoscaler,
        report,
        binding,
        clusters: &world.clusters,
        load: 3_000,
        lasts: SignedDuration::from_secs(600),
        startup: SignedDuration::from_secs(startup),
        settings,
        now: Timestamp::from_second(1_767_225_600).unwrap(),
    });
    let shown = |point: &Point| (point.after_seconds, point.replicas, point.clusters.values().copied().collect());
    found.map(|found| found.points.iter().map(shown).collect())
}

#[test]
fn replicas_follow_the_load_and_are_divided_by_the_policy() {
    let divided = binding("Divided", 4, &[("m1", 1), ("m2", 3)]);
    let points = foreseen(&divided, 100, &report(4, 200), 10).unwrap();
    assert_eq!(
        points,
        [
            (0, 4, vec![1, 3]),
            (15, 8, vec![2, 6]),
            (30, 12, vec![3, 9]),
            // The load ends after ten minutes; the last recommendation of twelve counts for five more.
            (900, 4, vec![1, 3]),
        ]
    );
    let points = foreseen(&divided, 10, &report(4, 200), 10).unwrap();
    assert_eq!(points[2].1, 10, "the maximum holds");
}

#[test]
fn flags_and_behavior_of_the_autoscaler_count() {
    let divided = binding("Divided", 4, &[("m1", 1), ("m2", 3)]);
    let flags = AutoscalerOptions {
        sync_period: SignedDuration::from_secs(60),
        downscale_stabilization: SignedDuration::from_secs(30),
        ..AutoscalerOptions::default()
    };
    let short = Settings::default().with_autoscaler(&flags);
    let tolerant = AutoscalerOptions { tolerance: Tolerance::parse("2").unwrap(), ..flags.clone() };
    let tolerant = Settings::default().with_autoscaler(&tolerant);
    let mut patient = autoscaler(100);
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 900}});
    patient.spec.behavior = serde_json::from_value(behavior).unwrap();
    for (name, settings, autoscaler, want) in [
        ("the flags of the leader", &short, autoscaler(100), vec![(0, 4), (60, 8), (120, 12), (660, 4)]),
        ("a tolerance that covers the load", &tolerant, autoscaler(100), vec![(0, 4)]),
        ("a window of its own is waited for", &short, patient, vec![(0, 4), (60, 8), (120, 12), (1_500, 4)]),
    ] {
        let points = foreseen_with(settings, &autoscaler, &divided, &report(4, 200), 10).unwrap();
        let points: Vec<(i64, i32)> = points.into_iter().map(|point| (point.0, point.1)).collect();
        assert_eq!(points, want, "{name}");
    }
}

/// A queue of 45 that is three times as long for ten minutes, with one replica for each 20.
#[test]
fn zero_replicas_are_left_only_by_who_set_them() {
    let on = Gates::default().with(Gate::HPAScaleToZero, true);
    let on = Settings::new(on, &Default::default());
    let queue = |depth: i64| {
        let load = Some(Load { total: depth * 1_000, is_of_pods: false, request: 0 });
        let metric = MetricReport { name: "depth".into(), load, ..MetricReport::default() };
        Report { name: "web".into(), current: Some(0), metrics: vec![metric], ..Report::default() }
    };
    let scaled = |holds: &str| -> FederatedHPA {
        let mut autoscaler = json!(autoscaler(10));
        autoscaler["spec"]["minReplicas"] = json!(0);
        autoscaler["spec"]["metrics"] = json!([{"type": "External", "external": {
            "metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "20"}}}]);
        autoscaler["status"] = json!({"desiredReplicas": 0, "conditions": [
            {"type": "ScaledToZero", "status": holds, "reason": "r", "message": ""}]});
        serde_json::from_value(autoscaler).unwrap()
    };
    let divided = binding("Divided", 0, &[("m1", 0), ("m2", 0)]);
    for (name, holds, depth, want) in [
        ("its own zero", "True", 45, vec![(0, 0), (15, 4), (30, 7), (900, 3)]),
        ("a queue that is empty", "True", 0, vec![(0, 0)]),
        ("a user's zero", "False", 45, vec![(0, 0)]),
    ] {
        let points = foreseen_with(&on, &scaled(holds), &divided, &queue(depth), 10).unwrap();
        let points: Vec<(i64, i32)> = points.into_iter().map(|point| (point.0, point.1)).collect();
        assert_eq!(points, want, "{name}");
    }
}

#[test]
fn copies_in_every_cluster_are_counted_once() {
    let points = foreseen(&binding("Duplicated", 2, &[("m1", 2), ("m2", 2)]), 100, &report(2, 200), 10).unwrap();
    assert_eq!(points[..2], [(0, 2, vec![2, 2]), (15, 4, vec![4, 4])]);
    assert_eq!(points.iter().map(|point| point.1).max(), Some(6), "600m of 50m per pod in two clusters");
}

#[test]
fn what_is_not_known_is_named() {
    let divided = binding("Divided", 4, &[("m1", 1), ("m2", 3)]);
    let failed = MetricReport { name: "cpu".into(), error: Some("no answer".into()), ..MetricReport::default() };
    for (name, report, want) in [
        (
            "the replicas",
            Report { name: "web".into(), error: Some("it is gone".into()), ..Report::default() },
            "the last round of FederatedHPA web failed: it is gone",
        ),
        (
            "a metric",
            Report { metrics: vec![failed], ..report(4, 200) },
            "metric cpu of FederatedHPA web is not known: no answer",
        ),
        (
            "metrics that were added since",
            Report { metrics: Vec::new(), ..report(4, 200) },
            "the last round of FederatedHPA web failed: its metrics changed since",
        ),
    ] {
        assert_eq!(foreseen(&divided, 10, &report, 10).unwrap_err().to_string(), want, "{name}");
    }
}
