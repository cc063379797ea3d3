//! Rows 25 to 36 of the specification's worked examples, and the windows.

use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscalerBehavior};
use serde_json::{Value, json};

use super::*;
use crate::testkit::at;

const NOW: i64 = 10_000;

fn limited(behavior: &Value, current: i32, proposal: i32, history: &History, holds: bool) -> Normalized {
    let behavior: Option<HorizontalPodAutoscalerBehavior> = serde_json::from_value(behavior.clone()).unwrap();
    let target = CrossVersionObjectReference::default();
    let spec =
        Spec { target: &target, min: 1, max: 100, metrics: &[], behavior: behavior.as_ref(), scaled_to_zero: None };
    normalize(proposal, current, &spec, history, holds, &Options::default(), at(NOW))
}

fn changed(ago: i64, by: i32) -> History {
    History::of(Vec::new(), vec![(at(NOW - ago), by)])
}

fn recommended(all: &[(i64, i32)]) -> History {
    History::of(all.iter().map(|(ago, replicas)| (at(NOW - ago), *replicas)).collect(), Vec::new())
}

#[test]
fn examples_of_rates() {
    let none = History::default();
    let slowly = json!({"scaleDown": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}});
    let up_a_tenth = json!({"scaleUp": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 15}]}});
    let least = json!({"scaleUp": {"selectPolicy": "Min"}});
    let least_given = json!({"scaleUp": {"selectPolicy": "Min", "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]}});
    let no_down = json!({"scaleDown": {"selectPolicy": "Disabled"}});
    let no_up = json!({"scaleUp": {"selectPolicy": "Disabled"}});
    let pods_down = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]}});
    let both_down = json!({"scaleDown": {"selectPolicy": "Min", "policies": [
        {"type": "Pods", "value": 3, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]}});
    for (row, behavior, current, proposal, history, desired, reason) in [
        ("25", &Value::Null, 1, 10, &none, 4, "ScaleUpLimit"),
        ("26", &Value::Null, 5, 20, &none, 10, "ScaleUpLimit"),
        ("27", &json!({}), 1, 10, &none, 5, "ScaleUpLimit"),
        ("28", &json!({}), 10, 20, &changed(3, 5), 10, "ScaleUpLimit"),
        ("29", &slowly, 80, 40, &none, 72, "ScaleDownLimit"),
        ("30", &slowly, 72, 40, &changed(30, -8), 72, "ScaleDownLimit"),
        ("30, when the period is over", &slowly, 72, 40, &changed(60, -8), 64, "ScaleDownLimit"),
        ("31", &up_a_tenth, 3, 10, &none, 4, "ScaleUpLimit"),
        (
            "32",
            &json!({"scaleDown": {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}}),
            3,
            1,
            &none,
            2,
            "ScaleDownLimit",
        ),
        ("33", &least, 10, 30, &none, 14, "ScaleUpLimit"),
        ("33, with the policies given", &least_given, 10, 30, &none, 14, "ScaleUpLimit"),
        ("34", &no_down, 10, 2, &none, 10, "ScaleDownLimit"),
        ("scale-up disabled", &no_up, 3, 9, &none, 3, "ScaleUpLimit"),
        ("pods down", &pods_down, 10, 2, &none, 7, "ScaleDownLimit"),
        ("the smaller change down", &both_down, 10, 2, &none, 7, "ScaleDownLimit"),
        ("within", &Value::Null, 3, 4, &none, 4, "DesiredWithinRange"),
        ("max is below the rate", &Value::Null, 60, 200, &none, 100, "TooManyReplicas"),
        ("min", &Value::Null, 3, 0, &none, 1, "TooFewReplicas"),
        ("min with behavior: all may go", &json!({}), 3, 0, &none, 1, "TooFewReplicas"),
    ] {
        let found = limited(behavior, current, proposal, history, false);
        assert_eq!((found.desired, found.limited.reason), (desired, reason), "row {row}");
    }
}

#[test]
fn examples_of_stabilization() {
    let minute = json!({"scaleUp": {"stabilizationWindowSeconds": 60}});
    let short = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let off = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    for (row, behavior, current, proposal, history, desired, reason) in [
        ("35", &Value::Null, 10, 3, recommended(&[(60, 10), (30, 8)]), 10, "ScaleDownStabilized"),
        ("35 with behavior", &json!({}), 10, 3, recommended(&[(60, 10), (30, 8)]), 10, "ScaleDownStabilized"),
        ("36", &minute, 4, 10, recommended(&[(40, 6), (20, 8)]), 6, "ScaleUpStabilized"),
        ("36, when the window is over", &minute, 4, 10, recommended(&[(60, 6), (20, 8)]), 8, "ScaleUpStabilized"),
        ("the highest of five minutes", &Value::Null, 5, 2, recommended(&[(299, 5)]), 5, "ScaleDownStabilized"),
        ("older ones do not count", &Value::Null, 5, 2, recommended(&[(300, 5)]), 2, "ReadyForNewScale"),
        ("a window of its own", &short, 5, 2, recommended(&[(59, 5)]), 5, "ScaleDownStabilized"),
        ("when that is over", &short, 5, 2, recommended(&[(60, 5)]), 2, "ReadyForNewScale"),
        ("no window", &off, 5, 2, recommended(&[(1, 5)]), 2, "ReadyForNewScale"),
        ("a rise is not delayed", &Value::Null, 3, 6, recommended(&[(15, 3)]), 6, "ReadyForNewScale"),
    ] {
        let found = limited(behavior, current, proposal, &history, false);
        assert_eq!((found.desired, found.able.reason), (desired, reason), "row {row}");
    }
}

#[test]
fn nothing_is_scaled_down_while_replicas_are_on_their_way() {
    let none = History::default();
    let found = limited(&Value::Null, 8, 3, &none, true);
    assert_eq!((found.desired, found.able), (8, conditions::SETTLING));
    assert_eq!(limited(&Value::Null, 8, 12, &none, true).desired, 12, "more are set at once");
}
