//! How fast `behavior` lets an autoscaler scale (specification/autoscaling.md 2.7).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HPAScalingRules;

use crate::history::History;

/// Period of the policies that apply if none are given.
pub(crate) const DEFAULT_PERIOD: SignedDuration = SignedDuration::from_secs(15);

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More replicas.
    Up,
    /// Fewer replicas.
    Down,
}

/// Size of the change that a policy allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Number of replicas.
    Pods(i64),
    /// Percent of the replicas at the start of the period.
    Percent(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The change that it allows.
    pub step: Step,
    /// The time in which it allows it.
    pub period: SignedDuration,
}

/// Limit of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyLimit {
    pub policy: Policy,
    /// Replicas at the start of its period.
    pub start: i64,
    /// Replicas that it allows.
    pub limit: i64,
}

/// Limit of all policies of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The replicas that may be reached now.
    pub replicas: i32,
    /// Each policy's limit; none if scaling in this direction is disabled.
    pub policies: Vec<PolicyLimit>,
}

/// Returns the policies of a direction: the given ones, or those that admission would fill in.
pub(crate) fn policies(rules: Option<&HPAScalingRules>, up: bool) -> impl Iterator<Item = Policy> + '_ {
    let given = rules.and_then(|rules| rules.policies.as_deref()).unwrap_or_default();
    let pods = Policy { step: Step::Pods(4), period: DEFAULT_PERIOD };
    let percent = Policy { step: Step::Percent(100), period: DEFAULT_PERIOD };
    let otherwise = given.is_empty().then(|| [Some(percent), up.then_some(pods)]);
    let read = |policy: &k8s_openapi::api::autoscaling::v2::HPAScalingPolicy| Policy {
        step: match policy.type_.as_str() {
            "Pods" => Step::Pods(i64::from(policy.value)),
            _ => Step::Percent(i64::from(policy.value)),
        },
        period: SignedDuration::from_secs(i64::from(policy.period_seconds)),
    };
    given.iter().map(read).chain(otherwise.into_iter().flatten().flatten())
}

/// Computes how many replicas may be reached now. A missing `selectPolicy` is `Max`.
pub(crate) fn limit(
    rules: Option<&HPAScalingRules>,
    direction: Direction,
    current: i32,
    history: &History,
    now: Timestamp,
) -> RateLimit {
    let select = rules.and_then(|rules| rules.select_policy.as_deref()).unwrap_or("Max");
    if select == "Disabled" {
        return RateLimit { replicas: current, policies: Vec::new() };
    }
    let policies = policies(rules, direction == Direction::Up).map(|policy| {
        let start = (i64::from(current) - history.changed_within(policy.period, now)).max(0);
        let limit = match (policy.step, direction) {
            _ if history.is_changed_before(policy.period, now) => i64::from(current),
            (Step::Pods(value), Direction::Up) => start.saturating_add(value),
            (Step::Pods(value), Direction::Down) => start.saturating_sub(value),
            (Step::Percent(value), Direction::Up) => start.saturating_mul(100 + value).saturating_add(99) / 100,
            (Step::Percent(value), Direction::Down) => start.saturating_mul((100 - value).max(0)) / 100,
        };
        PolicyLimit { policy, start, limit: limit.max(0) }
    });
    let policies: Vec<PolicyLimit> = policies.collect();
    let limits = policies.iter().map(|policy| policy.limit);
    let largest_change = select != "Min";
    let limit = if (direction == Direction::Up) == largest_change { limits.max() } else { limits.min() };
    let limit = limit.map_or(current, |limit| i32::try_from(limit).unwrap_or(i32::MAX));
    // A change that was larger than a policy allows now is not taken back.
    let replicas = if direction == Direction::Up { limit.max(current) } else { limit.min(current) };
    RateLimit { replicas, policies }
}
