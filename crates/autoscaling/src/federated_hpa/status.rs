//! Status of autoscalers (specification/autoscaling.md 2.8).

use jiff::Timestamp;
use k8s_openapi::{api::autoscaling::v2::HorizontalPodAutoscalerStatus, apimachinery::pkg::apis::meta::v1::Time};

use super::plan::{Plan, Written};

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
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut conditions = plan.conditions.clone();
    conditions.able = plan.able_after(written).or(conditions.able);
    let is_rescaled = *written == Written::Rescaled;
    let is_complete = plan.is_complete && !matches!(written, Written::Failed(_));
    HorizontalPodAutoscalerStatus {
        conditions: Some(conditions.after(before.conditions.as_deref().unwrap_or_default(), now)),
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
