//! Desired replicas of an autoscaler: metrics combined, stabilized, limited in rate and range
//! (specification/autoscaling.md 2.5 to 2.8).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::proposal::Proposal;

/// `--horizontal-pod-autoscaler-downscale-stabilization`.
const DOWN_WINDOW: i64 = 300;
/// Longest stabilization window; older history is dropped.
const LONGEST: SignedDuration = SignedDuration::from_secs(3_600);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Proposals before stabilization.
    pub(crate) proposed: Vec<(Timestamp, i32)>,
    /// Replicas added (above zero) or removed.
    pub(crate) scaled: Vec<(Timestamp, i32)>,
}

impl History {
    /// History of an autoscaler that is seen for the first time: the present size counts as its first proposal, so that
    /// a start or a restart scales nothing down before the window is over.
    pub(crate) fn begin(current: i32, now: Timestamp) -> Self {
        Self { proposed: vec![(now, current)], scaled: Vec::new() }
    }

    /// Drops entries older than the longest window.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        let since = now.checked_sub(LONGEST).unwrap_or(now);
        self.proposed.retain(|(at, _)| *at >= since);
        self.scaled.retain(|(at, _)| *at >= since);
    }

    fn within(list: &[(Timestamp, i32)], seconds: i64, now: Timestamp) -> impl Iterator<Item = i32> {
        let since = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
        list.iter().filter(move |(at, _)| *at > since).map(|(_, value)| *value)
    }
}

pub(crate) type ConditionState = (bool, &'static str, String);

#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) struct Plan {
    pub(crate) desired: i32,
    /// Proposal to record in the history.
    pub(crate) proposed: Option<i32>,
    pub(crate) able: ConditionState,
    pub(crate) active: Option<ConditionState>,
    pub(crate) limited: Option<ConditionState>,
    pub(crate) because: String,
    /// Update the metrics in the status; after a failure the previous ones remain.
    pub(crate) updates_metrics: bool,
}

/// Computes the desired replicas; `metrics` are the metrics in order, by name, with their proposals.
pub(crate) fn decide(
    hpa: &HorizontalPodAutoscaler,
    current: i32,
    metrics: &[(String, Result<Proposal, String>)],
    history: &History,
    now: Timestamp,
) -> Plan {
    let (min, max) = (hpa.spec.min_replicas.unwrap_or(1), hpa.spec.max_replicas);
    let ready = || (true, "ReadyForNewScale", "recommended size matches current size".to_owned());
    let mut plan = Plan {
        desired: current,
        proposed: None,
        able: (true, "SucceededGetScale", "the HPA controller was able to get the target's current scale".to_owned()),
        active: None,
        limited: None,
        because: String::new(),
        updates_metrics: false,
    };
    if current == 0 && min != 0 {
        let why = "scaling is disabled since the replica count of the target is zero".to_owned();
        plan.active = Some((false, "ScalingDisabled", why));
        return plan;
    }
    if current > max || current < min {
        plan.desired = if current > max { max } else { min };
        let bound = if current > max { "above Spec.MaxReplicas" } else { "below Spec.MinReplicas" };
        plan.because = format!("Current number of replicas {bound}");
        return plan;
    }
    let (name, proposal) = match combine(metrics, current) {
        Ok(best) => best,
        Err((reason, why)) => {
            plan.active = Some((false, reason, why));
            return plan;
        }
    };
    let valid = format!("the HPA was able to successfully calculate a replica count from {name}");
    plan.active = Some((true, "ValidMetricFound", valid));
    plan.updates_metrics = true;
    plan.proposed = Some(proposal);
    plan.because =
        if proposal > current { format!("{name} above target") } else { "All metrics below target".to_owned() };
    let (stabilized, desired, limited) = match &hpa.spec.behavior {
        None => plainly(proposal, current, (min, max), history, now),
        Some(behavior) => {
            let (up, down) = (behavior.scale_up.as_ref(), behavior.scale_down.as_ref());
            by_rules(proposal, current, (min, max), (up, down), history, now)
        }
    };
    plan.able = match stabilized {
        Some("ScaleUpStabilized") => (
            true,
            "ScaleUpStabilized",
            "recent recommendations were lower than current one, applying the lowest recent recommendation".to_owned(),
        ),
        Some(reason) => (
            true,
            reason,
            "recent recommendations were higher than current one, applying the highest recent recommendation"
                .to_owned(),
        ),
        None => ready(),
    };
    plan.desired = desired;
    plan.limited = Some(limited);
    plan
}

/// Returns the largest proposal; if a metric failed, never one that scales down.
fn combine(
    metrics: &[(String, Result<Proposal, String>)],
    current: i32,
) -> Result<(&str, i32), (&'static str, String)> {
    let best = metrics.iter().filter_map(|(name, p)| Some((name.as_str(), p.as_ref().ok()?.replicas)));
    // Of equal proposals the first is reported as the reason.
    let best = best.reduce(|best, next| if next.1 > best.1 { next } else { best });
    let failed = metrics.iter().find_map(|(name, p)| Some((name, p.as_ref().err()?)));
    match (best, failed) {
        (Some(best), None) => Ok(best),
        (Some(best), Some(_)) if best.1 >= current => Ok(best),
        (_, Some((name, why))) => Err((
            if name.contains("container resource") {
                "FailedGetContainerResourceMetric"
            } else {
                "FailedGetResourceMetric"
            },
            format!("the HPA was unable to compute the replica count: {why}"),
        )),
        (None, None) => Err(("InvalidMetricSourceType", "the HPA names no metrics".to_owned())),
    }
}

type Settled = (Option<&'static str>, i32, ConditionState);

/// Limits without `behavior`: the highest recent proposal, and at most twice the current replicas.
fn plainly(proposal: i32, current: i32, (min, max): (i32, i32), history: &History, now: Timestamp) -> Settled {
    let highest = History::within(&history.proposed, DOWN_WINDOW, now).fold(proposal, i32::max);
    let stabilized = (highest != proposal).then_some("ScaleDownStabilized");
    let rate = current.saturating_mul(2).max(4);
    let (desired, limited) = clamp(highest, (min, "TooFewReplicas"), bound(max, rate));
    (stabilized, desired, limited)
}

/// Returns the upper bound and the reason of the condition that names it.
fn bound(max: i32, rate: i32) -> (i32, &'static str) {
    if rate < max { (rate, "ScaleUpLimit") } else { (max, "TooManyReplicas") }
}

fn by_rules(
    proposal: i32,
    current: i32,
    (min, max): (i32, i32),
    (up, down): (Option<&HPAScalingRules>, Option<&HPAScalingRules>),
    history: &History,
    now: Timestamp,
) -> Settled {
    let window = |rules: Option<&HPAScalingRules>, otherwise: i64| {
        i64::from(rules.and_then(|r| r.stabilization_window_seconds).map_or(otherwise, i64::from).clamp(0, 3_600) as i32)
    };
    let lowest = History::within(&history.proposed, window(up, 0), now).fold(proposal, i32::min);
    let highest = History::within(&history.proposed, window(down, DOWN_WINDOW), now).fold(proposal, i32::max);
    let recommended = current.max(lowest).min(highest);
    let stabilized = (recommended != proposal).then_some(if proposal >= current {
        "ScaleUpStabilized"
    } else {
        "ScaleDownStabilized"
    });
    let upper = bound(max, limit(up, Direction::Up, current, history, now).max(current));
    let rate = limit(down, Direction::Down, current, history, now).min(current);
    let lower = if rate > min { (rate, "ScaleDownLimit") } else { (min, "TooFewReplicas") };
    let (desired, limited) = clamp(recommended, lower, upper);
    (stabilized, desired, limited)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

fn limit(rules: Option<&HPAScalingRules>, way: Direction, current: i32, history: &History, now: Timestamp) -> i32 {
    let select = rules.and_then(|r| r.select_policy.as_deref()).unwrap_or("Max");
    if select == "Disabled" {
        return current;
    }
    let policies = rules.and_then(|r| r.policies.clone()).unwrap_or_default();
    let mut given: Vec<(String, i64, i64)> =
        policies.iter().map(|p| (p.type_.clone(), i64::from(p.value), i64::from(p.period_seconds))).collect();
    if given.is_empty() {
        given.push(("Percent".to_owned(), 100, 15));
        if way == Direction::Up {
            given.push(("Pods".to_owned(), 4, 15));
        }
    }
    let limits = given.into_iter().map(|(type_, value, period)| {
        let changed: i64 = History::within(&history.scaled, period, now).map(i64::from).sum();
        let start = (i64::from(current) - changed).max(0);
        let limit = match (type_.as_str(), way) {
            ("Pods", Direction::Up) => start + value,
            ("Pods", Direction::Down) => start - value,
            (_, Direction::Up) => (start * (100 + value) + 99) / 100,
            (_, Direction::Down) => start * (100 - value).max(0) / 100,
        };
        i32::try_from(limit.max(0)).unwrap_or(i32::MAX)
    });
    let farthest = (way == Direction::Up) == (select == "Max");
    let limit = if farthest { limits.max() } else { limits.min() };
    limit.unwrap_or(current)
}

fn clamp(value: i32, (min, below): (i32, &'static str), (max, above): (i32, &'static str)) -> (i32, ConditionState) {
    let limited = match value {
        value if value < min => (min, below),
        value if value > max => (max, above),
        value => {
            return (
                value,
                (false, "DesiredWithinRange", "the desired count is within the acceptable range".to_owned()),
            );
        }
    };
    let why = match limited.1 {
        "TooFewReplicas" => "the desired replica count is less than the minimum replica count",
        "TooManyReplicas" => "the desired replica count is more than the maximum replica count",
        "ScaleUpLimit" => "the desired replica count is increasing faster than the maximum scale rate",
        _ => "the desired replica count is decreasing faster than the maximum scale rate",
    };
    (limited.0, (true, limited.1, why.to_owned()))
}

/// Updates the conditions; one whose status is unchanged keeps its time.
pub(crate) fn conditions(
    before: &[HorizontalPodAutoscalerCondition],
    wanted: [(&'static str, Option<ConditionState>); 3],
    now: Timestamp,
) -> Vec<HorizontalPodAutoscalerCondition> {
    let mut all = Vec::new();
    for (type_, condition) in wanted {
        let old = before.iter().find(|c| c.type_ == type_);
        let Some((holds, reason, message)) = condition else {
            all.extend(old.cloned());
            continue;
        };
        let status = if holds { "True" } else { "False" };
        let since = old.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
        all.push(HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: since.or(Some(Time(now))),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::at;

    const NOW: i64 = 10_000;

    fn hpa(behavior: Value) -> HorizontalPodAutoscaler {
        let mut spec =
            json!({"minReplicas": 1, "maxReplicas": 100, "scaleTargetRef": {"kind": "Deployment", "name": "web"}});
        if !behavior.is_null() {
            spec["behavior"] = behavior;
        }
        serde_json::from_value(json!({"metadata": {"name": "h"}, "spec": spec})).unwrap()
    }

    fn asks(replicas: i32) -> (String, Result<Proposal, String>) {
        (
            "cpu resource utilization (percentage of request)".into(),
            Ok(Proposal { replicas, utilization: None, average: 0 }),
        )
    }

    fn fails() -> (String, Result<Proposal, String>) {
        ("memory resource".into(), Err("no answer".into()))
    }

    #[test]
    fn metrics_are_combined() {
        for (row, current, metrics, desired, active) in [
            ("22: the largest", 4, vec![asks(5), asks(3)], 5, "ValidMetricFound"),
            ("23: one that fails does not hold up growth", 4, vec![asks(5), fails()], 5, "ValidMetricFound"),
            ("24: but a shrinking", 4, vec![asks(3), fails()], 4, "FailedGetResourceMetric"),
            ("all fail", 4, vec![fails()], 4, "FailedGetResourceMetric"),
            ("zero replicas disable scaling", 0, vec![asks(3)], 0, "ScalingDisabled"),
        ] {
            let plan = decide(&hpa(Value::Null), current, &metrics, &History::default(), at(NOW));
            assert_eq!((plan.desired, plan.active.unwrap().1), (desired, active), "{row}");
        }
        let plan = decide(&hpa(Value::Null), 200, &[asks(3)], &History::default(), at(NOW));
        assert_eq!(plan.desired, 100);
        assert!(plan.because.ends_with("above Spec.MaxReplicas"));
    }

    #[test]
    fn proposals_are_stabilized_and_limited() {
        let added = |seconds: i64, by: i32| History { scaled: vec![(at(NOW - seconds), by)], ..History::default() };
        let proposed_before = |seconds: i64, proposed: i32| History {
            proposed: vec![(at(NOW - seconds), proposed)],
            ..History::default()
        };
        let slowly = json!({"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}});
        for (row, behavior, current, proposal, history, desired, limited) in [
            ("25", Value::Null, 1, 10, History::default(), 4, "ScaleUpLimit"),
            ("26", Value::Null, 5, 20, History::default(), 10, "ScaleUpLimit"),
            ("27", json!({}), 1, 10, History::default(), 5, "ScaleUpLimit"),
            ("28", json!({}), 10, 20, added(3, 5), 10, "ScaleUpLimit"),
            ("29", slowly, 80, 40, History::default(), 72, "ScaleDownLimit"),
            ("within", Value::Null, 3, 4, History::default(), 4, "DesiredWithinRange"),
            (
                "the highest proposal of five minutes",
                Value::Null,
                5,
                2,
                proposed_before(299, 5),
                5,
                "DesiredWithinRange",
            ),
            ("older proposals do not count", Value::Null, 5, 2, proposed_before(300, 5), 2, "DesiredWithinRange"),
            (
                "scale-up is disabled",
                json!({"scaleUp": {"selectPolicy": "Disabled"}}),
                3,
                9,
                History::default(),
                3,
                "ScaleUpLimit",
            ),
            (
                "scale-up waits for its stabilization window",
                json!({"scaleUp": {"stabilizationWindowSeconds": 60}}),
                3,
                9,
                proposed_before(30, 4),
                4,
                "DesiredWithinRange",
            ),
        ] {
            let plan = decide(&hpa(behavior), current, &[asks(proposal)], &history, at(NOW));
            assert_eq!((plan.desired, plan.limited.unwrap().1), (desired, limited), "row {row}");
        }
    }

    #[test]
    fn the_size_at_the_start_counts_as_the_first_proposal() {
        let minute = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
        for (name, behavior, after, desired) in [
            ("a second before the default window ends", Value::Null, 299, 6),
            ("when the default window ends", Value::Null, 300, 2),
            ("a second before a window of its own ends", minute.clone(), 59, 6),
            ("when a window of its own ends", minute, 60, 2),
        ] {
            let history = History::begin(6, at(NOW));
            let plan = decide(&hpa(behavior), 6, &[asks(2)], &history, at(NOW + after));
            assert_eq!(plan.desired, desired, "{name}");
        }
    }
}
