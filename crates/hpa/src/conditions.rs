//! Conditions of autoscalers (specification/autoscaling.md 2.8), with the words of kube-controller-manager.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::{HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// The controller can read and change the replicas.
pub const ABLE_TO_SCALE: &str = "AbleToScale";
/// Metrics say how many replicas there should be.
pub const SCALING_ACTIVE: &str = "ScalingActive";
/// The replicas that metrics ask for are out of bounds, or too far away to be set at once.
pub const SCALING_LIMITED: &str = "ScalingLimited";
/// The autoscaler set zero replicas itself (gate `HPAScaleToZero`).
pub const SCALED_TO_ZERO: &str = "ScaledToZero";

/// Value of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// True for `True`, false for `False`.
    pub holds: bool,
    pub reason: &'static str,
    pub message: Cow<'static, str>,
}

impl Condition {
    /// A condition that is `True`.
    #[must_use]
    pub fn holds(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { holds: true, reason, message: message.into() }
    }

    /// A condition that is `False`.
    #[must_use]
    pub fn fails(reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { holds: false, reason, message: message.into() }
    }

    /// Returns the condition of an object after `old`. One whose status is unchanged keeps its time.
    fn of_type(
        &self,
        type_: &str,
        old: Option<&HorizontalPodAutoscalerCondition>,
        now: Timestamp,
    ) -> HorizontalPodAutoscalerCondition {
        let status = if self.holds { "True" } else { "False" };
        let since = old.filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
        HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(self.reason.to_owned()),
            message: Some(self.message.clone().into_owned()),
            last_transition_time: since.or(Some(Time(now))),
        }
    }
}

const fn of(holds: bool, reason: &'static str, message: &'static str) -> Condition {
    Condition { holds, reason, message: Cow::Borrowed(message) }
}

pub(crate) const GOT_SCALE: Condition =
    of(true, "SucceededGetScale", "the HPA controller was able to get the target's current scale");
pub(crate) const READY: Condition = of(true, "ReadyForNewScale", "recommended size matches current size");
pub(crate) const UP_STABILIZED: Condition = of(
    true,
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
pub(crate) const DOWN_STABILIZED: Condition = of(
    true,
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
/// The reason is one that every reader of the status knows: fewer replicas have to wait.
pub(crate) const SETTLING: Condition = of(
    true,
    "ScaleDownStabilized",
    "the last change of the replicas has not arrived in all clusters, scaling down waits for it",
);
pub(crate) const WITHIN_RANGE: Condition =
    of(false, "DesiredWithinRange", "the desired count is within the acceptable range");
pub(crate) const DISABLED: Condition =
    of(false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero");

const IS_SCALED_TO_ZERO: Condition = of(true, SCALED_TO_ZERO, "the HPA controller scaled the workload to zero");
const NOT_SCALED_TO_ZERO: Condition =
    of(false, "NotScaledToZero", "the HPA controller did not scale the workload to zero");

/// Change of condition `ScaledToZero` with the replicas of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScaledToZero {
    /// It stays.
    #[default]
    Kept,
    /// It goes: nobody keeps it up to date without gate `HPAScaleToZero`.
    Removed,
    /// It becomes true or false once the replicas are written.
    Becomes(bool),
    /// It is true for a workload that runs, and becomes false: the controller ended between its two writes.
    Outdated,
}

impl ScaledToZero {
    /// Brings the conditions of a status up to date.
    pub(crate) fn apply(
        self,
        conditions: &mut Vec<HorizontalPodAutoscalerCondition>,
        is_rescaled: bool,
        now: Timestamp,
    ) {
        let is_it = |condition: &HorizontalPodAutoscalerCondition| condition.type_ == SCALED_TO_ZERO;
        let condition = match self {
            Self::Removed => return conditions.retain(|condition| !is_it(condition)),
            Self::Becomes(true) if is_rescaled => IS_SCALED_TO_ZERO,
            Self::Becomes(false) if is_rescaled => NOT_SCALED_TO_ZERO,
            Self::Outdated => NOT_SCALED_TO_ZERO,
            Self::Kept | Self::Becomes(_) => return,
        };
        let old = conditions.iter().position(is_it).map(|at| conditions.remove(at));
        conditions.push(condition.of_type(SCALED_TO_ZERO, old.as_ref(), now));
    }
}

/// Returns true if the status says that the autoscaler set zero replicas itself.
pub(crate) fn is_scaled_to_zero(status: Option<&HorizontalPodAutoscalerStatus>) -> bool {
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    conditions.into_iter().any(|condition| condition.type_ == SCALED_TO_ZERO && condition.status == "True")
}

/// Returns `ScalingLimited` for a limit.
pub(crate) fn limited_by(reason: &'static str) -> Condition {
    let message = match reason {
        "TooFewReplicas" => "the desired replica count is less than the minimum replica count",
        "TooManyReplicas" => "the desired replica count is more than the maximum replica count",
        "ScaleUpLimit" => "the desired replica count is increasing faster than the maximum scale rate",
        _ => "the desired replica count is decreasing faster than the maximum scale rate",
    };
    Condition::holds(reason, message)
}

/// Values of the three conditions; those that a round says nothing about stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `AbleToScale`.
    pub able: Option<Condition>,
    /// `ScalingActive`.
    pub active: Option<Condition>,
    /// `ScalingLimited`.
    pub limited: Option<Condition>,
}

impl Conditions {
    /// Returns the conditions after this round. One whose status is unchanged keeps its time.
    #[must_use]
    pub fn after(
        &self,
        before: &[HorizontalPodAutoscalerCondition],
        now: Timestamp,
    ) -> Vec<HorizontalPodAutoscalerCondition> {
        let all = [(ABLE_TO_SCALE, &self.able), (SCALING_ACTIVE, &self.active), (SCALING_LIMITED, &self.limited)];
        let mut after = Vec::new();
        for (type_, condition) in all {
            let old = before.iter().find(|old| old.type_ == type_);
            let Some(condition) = condition else {
                after.extend(old.cloned());
                continue;
            };
            after.push(condition.of_type(type_, old, now));
        }
        let known = [ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED];
        after.extend(before.iter().filter(|old| !known.contains(&old.type_.as_str())).cloned());
        after
    }
}
