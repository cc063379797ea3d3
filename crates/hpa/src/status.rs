//! Status of autoscalers (specification/autoscaling.md 2.8).

use jiff::Timestamp;
use k8s_openapi::{api::autoscaling::v2::HorizontalPodAutoscalerStatus, apimachinery::pkg::apis::meta::v1::Time};

use crate::{
    conditions::{self, ScaledToZero},
    plan::{Plan, Written},
};

/// Returns the status to store before zero replicas are written; `None` if there is nothing to store. A process that
/// ends between the two writes leaves a workload at zero that would count as switched off by a user.
#[must_use]
pub fn before_zero(
    before: Option<&HorizontalPodAutoscalerStatus>,
    plan: &Plan,
    now: Timestamp,
) -> Option<HorizontalPodAutoscalerStatus> {
    let scales = plan.rescales() && plan.scaled_to_zero == ScaledToZero::Becomes(true);
    if !scales || conditions::is_scaled_to_zero(before) {
        return None;
    }
    let mut status = before.cloned().unwrap_or_default();
    plan.scaled_to_zero.apply(status.conditions.get_or_insert_default(), true, whole_seconds(now));
    Some(status)
}

/// Returns the status after a round. Times have whole seconds, as on the wire.
#[must_use]
pub fn status(
    before: Option<&HorizontalPodAutoscalerStatus>,
    generation: Option<i64>,
    plan: &Plan,
    written: &Written,
    now: Timestamp,
) -> HorizontalPodAutoscalerStatus {
    let before = before.cloned().unwrap_or_default();
    let now = whole_seconds(now);
    let mut conditions = plan.conditions.clone();
    conditions.able = plan.able_after(written).or(conditions.able);
    let is_rescaled = *written == Written::Rescaled;
    let is_complete = plan.is_complete && !matches!(written, Written::Failed(_));
    let mut conditions = conditions.after(before.conditions.as_deref().unwrap_or_default(), now);
    plan.scaled_to_zero.apply(&mut conditions, is_rescaled, now);
    HorizontalPodAutoscalerStatus {
        conditions: Some(conditions),
        current_metrics: if is_complete {
            plan.metrics.clone().or(before.current_metrics)
        } else {
            before.current_metrics
        },
        current_replicas: plan.current.or(before.current_replicas),
        desired_replicas: match plan.current {
            Some(_) if is_complete => plan.desired,
            _ => before.desired_replicas,
        },
        last_scale_time: if is_rescaled { Some(Time(now)) } else { before.last_scale_time },
        observed_generation: generation,
    }
}

fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
