//! Texts of a round's report.

use std::sync::Arc;

use ironclad_api::autoscaling::FederatedHPASpec;
use ironclad_hpa::{
    calibration::Calibration,
    explain,
    pods::{Pod, PodKey},
    samples::{Sample, Samples},
    selecting::Selection,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod as CorePod;
use serde_json::json;

use super::*;
use crate::federated_hpa::{self, target::Unread};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A pod that has been ready for long, and requests 100m.
fn running() -> Pod {
    let pod: CorePod = serde_json::from_value(json!({
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": "Running", "startTime": at(50), "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at(100)},
        ]},
    }))
    .unwrap();
    Pod::from(&pod)
}

fn spec() -> FederatedHPASpec {
    serde_json::from_value(json!({
        "minReplicas": 1, "maxReplicas": 10, "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "behavior": {},
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
        ],
    }))
    .unwrap()
}

#[test]
fn every_step_is_shown_with_its_numbers() {
    let spec = spec();
    let spec = federated_hpa::spec(&spec);
    let key = |cluster: &str, name: &str| PodKey { cluster: cluster.into(), name: name.into() };
    let sample = |value: i64| Sample { at: at(1_000), window: SignedDuration::ZERO, value };
    let keys = [key("m1", "web-0"), key("m1", "web-1"), key("m2", "web-0")];
    let pods: BTreeMap<_, Arc<Pod>> = keys.iter().map(|key| (key.clone(), Arc::new(running()))).collect();
    let samples: Samples = keys.iter().take(2).map(|key| (key.clone(), sample(90))).collect();
    let readings = [Ok(Reading::Pods(samples)), Err("no answer".to_owned())];
    let seen = Snapshot {
        current: 3,
        pods: &pods,
        selection: Selection::By("app=web".into()),
        status_replicas: 3,
        calibration: Calibration::ONE,
        is_settling: false,
    };
    let history = History::begin(3, None, at(990));
    let options = Options::default();
    let (plan, trace) = explain(&spec, &seen, &readings, &history, &options, at(1_000));
    let report = Round {
        namespace: "shop",
        name: "web",
        spec: &spec,
        seen: Some(&seen),
        readings: &readings,
        unreached: &[("m3".to_owned(), "it is not ready".to_owned())],
        trace: Some(&trace),
        plan: &plan,
        history: &history,
        options: &options,
        now: at(1_000),
    }
    .report();
    assert_eq!(
        report.lines(),
        [
            "FederatedHPA shop/web scales Deployment web between 1 and 10",
            "3 replicas become 4: cpu resource utilization (percentage of request) above target",
            "error: invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: unable to get \
             metric rps: no answer",
            "cluster m3 was not asked: it is not ready",
            "metric cpu resource utilization (percentage of request): 90% (90m per pod), target 50%",
            "  pods in m1: 2 ready, total 180m",
            "  pods in m2: 1 without a sample, total 0",
            "  ratio 1.800",
            "  ratio 1.200 over 3 pods, with what is assumed of missing and unready pods",
            "  ratio * 3, rounded up: 4",
            "metric pods metric rps: unable to get metric rps: no answer",
            "replicas",
            "  the largest proposal is 4, by cpu resource utilization (percentage of request)",
            "  the lowest recommendation of 0 s is 4",
            "  the highest recommendation of 300 s is 4",
            "  stabilized: 4 (ReadyForNewScale)",
            "  scaling up is limited to 7 (100% of 3 in 15 s: 6; 4 pods of 3 in 15 s: 7)",
            "  scaling down is limited to 0 (100% of 3 in 15 s: 0)",
            "  within 1 and 10: 4 (DesiredWithinRange)",
        ]
    );
    assert_eq!(report.metrics[0].load, Some(Load { total: 180, is_of_pods: true, request: 100 }));
    let again: Report = serde_json::from_value(serde_json::to_value(&report).unwrap()).unwrap();
    assert_eq!(again, report, "it is read from the wire as it was written");
}

#[test]
fn a_round_that_ended_early_says_why() {
    let spec = spec();
    let spec = federated_hpa::spec(&spec);
    let (history, options) = (History::default(), Options::default());
    let plan = Unread::Clusters.plan(Some(3));
    let report = Round {
        namespace: "shop",
        name: "web",
        spec: &spec,
        seen: None,
        readings: &[],
        unreached: &[],
        trace: None,
        plan: &plan,
        history: &history,
        options: &options,
        now: at(1_000),
    }
    .report();
    assert_eq!(
        report.lines(),
        [
            "FederatedHPA shop/web scales Deployment web between 1 and 10",
            "3 replicas, and they stay",
            "error: the binding of the target names no clusters: it has not been scheduled",
        ]
    );
}
