//! Rows 22 to 24, 37 and 38 of the specification's worked examples, statuses, and rules for whole runs.

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    plan::Written,
    proposal::Reading,
    samples::Samples,
    status::{before_zero, status},
    testkit::{at, key, running, sample},
};

const NOW: i64 = 10_000;

fn cpu(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn memory(average: &str) -> Value {
    json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": average}}})
}

fn spec_of(min: i32, max: i32, metrics: &[Value]) -> HorizontalPodAutoscalerSpec {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    serde_json::from_value(
        json!({"minReplicas": min, "maxReplicas": max, "scaleTargetRef": target, "metrics": metrics}),
    )
    .unwrap()
}

/// Pods of two clusters, each with this usage of every metric, in thousandths.
fn workload(count: usize, used: i64, now: i64) -> (BTreeMap<PodKey, Arc<Pod>>, Samples) {
    let keys = (0..count).map(|n| key(&format!("m{}", n % 2), &format!("web-{}", n / 2)));
    let keys: Vec<PodKey> = keys.collect();
    let pods = keys.iter().map(|key| (key.clone(), Arc::new(running()))).collect();
    (pods, keys.into_iter().map(|key| (key, sample(now, used))).collect())
}

fn snapshot(pods: &BTreeMap<PodKey, Arc<Pod>>, current: i32) -> Snapshot<'_> {
    Snapshot {
        current,
        pods,
        selection: Selection::By("app=web".into()),
        status_replicas: i64::from(current),
        calibration: Calibration::ONE,
        is_settling: false,
    }
}

/// Decides over `current` pods with these usages of the two metrics: CPU at a target of 50 %, memory of 50 per pod.
fn decided(current: i32, cpu_used: Option<i64>, memory_used: Option<i64>) -> Plan {
    let spec = spec_of(1, 10, &[cpu(50), memory("50m")]);
    let (pods, _) = workload(usize::try_from(current).unwrap(), 0, NOW);
    let reading = |used: Option<i64>| {
        let used = used.ok_or_else(|| "no answer".to_owned())?;
        Ok(Reading::Pods(workload(usize::try_from(current).unwrap(), used, NOW).1))
    };
    let readings = [reading(cpu_used), reading(memory_used)];
    let seen = snapshot(&pods, current);
    decide(&(&spec).into(), &seen, &readings, &History::default(), &Options::default(), at(NOW))
}

#[test]
fn examples_of_several_metrics_and_bounds() {
    for (row, current, cpu, memory, desired, active, errs) in [
        ("22: the largest", 4, Some(60), Some(30), 5, Some("ValidMetricFound"), false),
        ("23: one that fails does not hold up growth", 4, Some(60), None, 5, Some("ValidMetricFound"), true),
        ("24: but a shrinking", 4, Some(30), None, 4, Some("FailedGetResourceMetric"), true),
        ("all fail", 4, None, None, 4, Some("FailedGetResourceMetric"), true),
        ("37: above max at once", 12, None, None, 10, None, false),
        ("zero replicas switch it off", 0, Some(60), Some(60), 0, Some("ScalingDisabled"), false),
    ] {
        let plan = decided(current, cpu, memory);
        let reason = plan.conditions.active.as_ref().map(|condition| condition.reason);
        assert_eq!((plan.desired, reason, plan.error.is_some()), (desired, active, errs), "row {row}");
    }
    let spec = spec_of(3, 10, &[cpu(50)]);
    let pods = BTreeMap::new();
    let plan = decide(&(&spec).into(), &snapshot(&pods, 1), &[], &History::default(), &Options::default(), at(NOW));
    assert_eq!(
        (plan.desired, plan.because.as_str()),
        (3, "Current number of replicas below Spec.MinReplicas"),
        "row 38"
    );
    assert!(!needs_metrics(&(&spec).into(), 1) && needs_metrics(&(&spec).into(), 3));
}

#[test]
fn failures_are_told_in_the_words_of_kube_controller_manager() {
    let plan = decided(4, Some(30), None);
    let events: Vec<(&str, &str)> = plan.events.iter().map(|event| (event.reason, event.message.as_str())).collect();
    let message = "failed to get memory usage: unable to get metrics for resource memory: no answer";
    let outer = format!(
        "invalid metrics (1 invalid out of 2), first error is: failed to get memory resource metric value: {message}"
    );
    assert_eq!(events, [("FailedGetResourceMetric", message), ("FailedComputeMetricsReplicas", outer.as_str())]);
    let active = plan.conditions.active.unwrap();
    assert_eq!(active.message, format!("the HPA was unable to compute the replica count: {message}"));
}

#[test]
fn a_metric_that_cannot_be_read_from_the_spec_fails_alone() {
    let spec = spec_of(1, 10, &[json!({"type": "Load"}), cpu(50)]);
    let (pods, samples) = workload(4, 60, NOW);
    let readings = [Err("it is unknown".to_owned()), Ok(Reading::Pods(samples))];
    let seen = snapshot(&pods, 4);
    let plan = decide(&(&spec).into(), &seen, &readings, &History::default(), &Options::default(), at(NOW));
    assert_eq!((plan.desired, plan.events[0].reason), (5, "InvalidMetricSourceType"));
    assert_eq!(plan.metrics.unwrap()[0], MetricStatus::default(), "its entry in the status is empty");
}

#[test]
fn statuses_of_rounds() {
    let before: HorizontalPodAutoscalerStatus = serde_json::from_value(json!({
        "desiredReplicas": 4, "currentReplicas": 4, "lastScaleTime": "1970-01-01T00:00:01Z",
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "Old", "lastTransitionTime": "1970-01-01T00:00:02Z"},
            {"type": "ScalingActive", "status": "False", "lastTransitionTime": "1970-01-01T00:00:03Z"}],
    }))
    .unwrap();
    let after = |plan: &Plan, written: Written| {
        let status = status(Some(&before), Some(7), plan, &written, at(NOW));
        let conditions = status.conditions.clone().unwrap();
        let shown: Vec<String> = conditions
            .iter()
            .map(|c| {
                let since = c.last_transition_time.as_ref().unwrap().0.as_second();
                format!("{}={} {} {since}", c.type_, c.status, c.reason.as_deref().unwrap_or_default())
            })
            .collect();
        (status, shown)
    };
    let plan = decided(4, Some(60), Some(30));
    let (status, conditions) = after(&plan, Written::Rescaled);
    assert_eq!(
        conditions,
        [
            "AbleToScale=True SucceededRescale 2",
            "ScalingActive=True ValidMetricFound 10000",
            "ScalingLimited=False DesiredWithinRange 10000"
        ]
    );
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(4), 5));
    assert_eq!(status.last_scale_time.unwrap().0, at(NOW));
    let metrics = status.current_metrics.unwrap();
    let current = &metrics[0].resource.as_ref().unwrap().current;
    assert_eq!((current.average_utilization, current.average_value.as_ref().unwrap().0.as_str()), (Some(60), "60m"));

    let (status, conditions) = after(&plan, Written::Failed("no".into()));
    assert_eq!(conditions[0], "AbleToScale=False FailedUpdateScale 10000");
    assert_eq!((status.desired_replicas, status.current_metrics), (4, None), "what was not written is not shown");

    let (status, conditions) = after(&decided(4, None, None), Written::Nothing);
    assert_eq!(conditions, ["AbleToScale=True SucceededGetScale 2", "ScalingActive=False FailedGetResourceMetric 3"]);
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(4), 4));

    let again = crate::status::status(Some(&status), Some(7), &decided(4, None, None), &Written::Nothing, at(NOW + 15));
    assert_eq!(again, status, "the same round leaves the same status");
}

#[test]
fn outcomes_are_told() {
    let plan = decided(4, Some(60), Some(30));
    let notice = |written| plan.notice_of(&written).map(|notice| (notice.is_warning, notice.reason, notice.message));
    let because = "reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(notice(Written::Nothing), None);
    assert_eq!(notice(Written::Rescaled), Some((false, "SuccessfulRescale", format!("New size: 5; {because}"))));
    assert_eq!(
        notice(Written::Failed("no".into())),
        Some((true, "FailedRescale", format!("New size: 5; {because}; error: no")))
    );
    assert_eq!(decided(4, Some(30), Some(30)).because, "All metrics below target");
}

#[test]
fn unusable_selectors_stop_the_round() {
    let spec = spec_of(1, 10, &[cpu(50)]);
    let (pods, samples) = workload(4, 90, NOW);
    let readings = [Ok(Reading::Pods(samples))];
    let others = vec!["a".to_owned(), "b".to_owned()];
    let ambiguous = Selection::Ambiguous { selector: "app=web".into(), others };
    for (selection, reason) in [(Selection::Missing, "InvalidSelector"), (ambiguous, "AmbiguousSelector")] {
        let seen = Snapshot { selection, ..snapshot(&pods, 4) };
        let plan = decide(&(&spec).into(), &seen, &readings, &History::default(), &Options::default(), at(NOW));
        assert_eq!((plan.desired, plan.conditions.active.unwrap().reason), (4, reason));
        assert!(plan.events.iter().any(|event| event.reason == "FailedComputeMetricsReplicas"));
    }
}

#[test]
fn settling_holds_up_scaling_down_for_a_while() {
    let spec = spec_of(1, 10, &[cpu(50)]);
    let (pods, samples) = workload(4, 10, NOW);
    let readings = [Ok(Reading::Pods(samples))];
    let seen = Snapshot { is_settling: true, ..snapshot(&pods, 4) };
    for (name, since, desired) in [("just now", NOW, 4), ("for less", NOW - 299, 4), ("for five minutes", NOW - 300, 1)]
    {
        let mut history = History::default();
        history.settle(true, at(since));
        let plan = decide(&(&spec).into(), &seen, &readings, &history, &Options::default(), at(NOW));
        assert_eq!(plan.desired, desired, "{name}");
    }
}

fn queue(depth: i128) -> [Result<Reading, String>; 1] {
    [Ok(Reading::Total { value: depth, unanswered: Vec::new() })]
}

fn depth_metric() -> Value {
    let target = json!({"type": "AverageValue", "averageValue": "20m"});
    json!({"type": "External", "external": {"metric": {"name": "depth"}, "target": target}})
}

#[test]
fn zero_replicas_are_left_by_who_set_them() {
    let on = Options { scale_to_zero: true, ..Options::default() };
    let status = |by_autoscaler: Option<bool>| -> HorizontalPodAutoscalerStatus {
        let condition = |holds: bool| json!({"type": "ScaledToZero", "status": if holds { "True" } else { "False" }});
        let conditions: Vec<Value> = by_autoscaler.map(condition).into_iter().collect();
        serde_json::from_value(json!({"desiredReplicas": 0, "conditions": conditions})).unwrap()
    };
    let off = Options::default();
    let pods = BTreeMap::new();
    for (name, options, (min, metric), by_autoscaler, depth, want) in [
        ("the autoscaler did, and there is work", &on, (0, depth_metric()), Some(true), 45, (3, "ValidMetricFound")),
        ("there is none", &on, (0, depth_metric()), Some(true), 0, (0, "ValidMetricFound")),
        ("a user did", &on, (0, depth_metric()), Some(false), 45, (0, "ScalingDisabled")),
        ("it was created with zero", &on, (0, depth_metric()), None, 45, (0, "ScalingDisabled")),
        ("the gate was switched off since", &off, (0, depth_metric()), Some(true), 45, (0, "ScalingDisabled")),
        ("the minimum was raised since", &on, (2, depth_metric()), Some(true), 0, (2, "ValidMetricFound")),
        ("more than the raised minimum is needed", &on, (2, depth_metric()), Some(true), 65, (4, "ValidMetricFound")),
        (
            "usage alone never tells about pods that are not there",
            &on,
            (0, cpu(50)),
            Some(true),
            0,
            (0, "ScalingDisabled"),
        ),
    ] {
        let (spec, status) = (spec_of(min, 10, &[metric]), status(by_autoscaler));
        let spec = Spec::from(&spec).with_status(Some(&status), options);
        let plan = decide(&spec, &snapshot(&pods, 0), &queue(depth), &History::default(), options, at(NOW));
        assert_eq!((plan.desired, plan.conditions.active.unwrap().reason), want, "{name}");
        assert_eq!(needs_metrics(&spec, 0), want.1 != "ScalingDisabled", "{name}");
    }
}

#[test]
fn condition_scaled_to_zero_follows_each_change_of_the_replicas() {
    let on = Options { scale_to_zero: true, ..Options::default() };
    let (pods, _) = workload(2, 0, NOW);
    for (name, options, was, min, depth, written, want) in [
        ("to zero", &on, "False", 0, 0, Written::Rescaled, Some("True ScaledToZero")),
        ("it is not written", &on, "False", 0, 0, Written::Failed("no".into()), Some("False Old")),
        ("elsewhere", &on, "False", 0, 90, Written::Rescaled, Some("False NotScaledToZero")),
        ("nothing changes", &on, "False", 0, 40, Written::Nothing, Some("False Old")),
        ("it runs already", &on, "True", 0, 40, Written::Nothing, Some("False NotScaledToZero")),
        ("zero is still to be written", &on, "True", 0, 0, Written::Failed("no".into()), Some("True Old")),
        ("without the gate", &Options::default(), "True", 1, 40, Written::Nothing, None),
    ] {
        let spec = spec_of(min, 10, &[depth_metric()]);
        let before: HorizontalPodAutoscalerStatus = serde_json::from_value(json!({"desiredReplicas": 2,
            "conditions": [{"type": "ScaledToZero", "status": was, "reason": "Old"}]}))
        .unwrap();
        let spec = Spec::from(&spec).with_status(Some(&before), options);
        let plan = decide(&spec, &snapshot(&pods, 2), &queue(depth), &History::default(), options, at(NOW));
        let first = before_zero(Some(&before), &plan, at(NOW));
        assert_eq!(first.is_some(), plan.desired == 0 && was == "False", "{name}: it is stored before zero is written");
        let again = first.as_ref().and_then(|first| before_zero(Some(first), &plan, at(NOW)));
        assert_eq!(again, None, "{name}: once");
        let after = status(Some(&before), None, &plan, &written, at(NOW));
        let condition = after.conditions.unwrap().into_iter().find(|condition| condition.type_ == "ScaledToZero");
        let shown = condition.map(|condition| format!("{} {}", condition.status, condition.reason.unwrap()));
        assert_eq!(shown.as_deref(), want, "{name}");
    }
}

/// Runs rounds every 15 s under a load that the pods share; returns the replicas after each.
fn run(spec: &HorizontalPodAutoscalerSpec, load: i64, mut current: i32, rounds: usize) -> Vec<i32> {
    let spec = Spec::from(spec);
    let options = Options::default();
    let mut history = History::begin(current, None, at(NOW));
    let mut sizes = Vec::new();
    for round in 0..rounds {
        let now = NOW + 15 * i64::try_from(round).unwrap();
        let count = usize::try_from(current).unwrap();
        let (pods, samples) = workload(count, load / i64::from(current.max(1)), now);
        let seen = snapshot(&pods, current);
        let plan = decide(&spec, &seen, &[Ok(Reading::Pods(samples))], &history, &options, at(now));
        let written = if plan.rescales() { Written::Rescaled } else { Written::Nothing };
        plan.record(&mut history, &written, at(now));
        history.forget(&spec, &options, at(now));
        current = plan.desired;
        sizes.push(current);
    }
    sizes
}

#[test]
fn a_run_follows_the_load_up_at_once_and_down_after_the_window() {
    let mut spec = spec_of(1, 100, &[cpu(50)]);
    assert_eq!(run(&spec, 1_000, 2, 4), [4, 8, 16, 20], "twice the size at most, four at least");
    let down = run(&spec, 100, 20, 25);
    assert_eq!((down[18], down[20]), (20, 2), "the size at the start counts for 300 s");
    spec.behavior = serde_json::from_value(json!({"scaleDown": {"stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 5, "periodSeconds": 60}]}}))
    .unwrap();
    assert_eq!(run(&spec, 100, 20, 9), [15, 15, 15, 15, 10, 10, 10, 10, 5]);
}

fn any_behavior() -> impl Strategy<Value = Value> {
    let policy = || {
        let type_ = prop_oneof![Just("Pods"), Just("Percent")];
        (type_, 1..200_i32, 1..120_i32)
            .prop_map(|(type_, value, period)| json!({"type": type_, "value": value, "periodSeconds": period}))
    };
    let rules = move || {
        (0..600_i32, proptest::option::of(prop_oneof![Just("Max"), Just("Min")]), proptest::collection::vec(policy(), 0..3))
            .prop_map(|(window, select, policies)| {
                json!({"stabilizationWindowSeconds": window, "selectPolicy": select, "policies": policies})
            })
    };
    prop_oneof![Just(Value::Null), (rules(), rules()).prop_map(|(up, down)| json!({"scaleUp": up, "scaleDown": down}))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn replicas_stay_within_the_bounds(
        min in 1..20_i32, more in 0..30_i32, load in 0..10_000_i64, start in 1..60_i32, target in 1..150_i32,
        behavior in any_behavior(),
    ) {
        let mut spec = spec_of(min, min + more, &[cpu(target)]);
        spec.behavior = serde_json::from_value(behavior).unwrap();
        for size in run(&spec, load, start, 12) {
            prop_assert!((min..=min + more).contains(&size), "{size} is out of {min} to {}", min + more);
        }
    }

    #[test]
    fn constant_load_ends_in_a_constant_size(load in 1..6_000_i64, start in 1..40_i32, target in 20..150_i32) {
        let spec = spec_of(1, 60, &[cpu(target)]);
        let sizes = run(&spec, load, start, 100);
        let last = sizes[60];
        prop_assert!(sizes[60..].iter().all(|size| *size == last), "{sizes:?}");
    }
}
