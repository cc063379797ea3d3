//! Status of autoscalers (specification/autoscaling.md 2.8).

use ironclad_quantity::{Amount, Format};
use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::HorizontalPodAutoscalerStatus,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};

use super::Plan;

/// Outcome of writing the replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// There was nothing to write.
    Nothing,
    /// They were written.
    Rescaled,
    /// They were not, for this reason.
    Failed(String),
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

/// Renders thousandths: memory in binary units, everything else in decimal ones.
pub(crate) fn quantity(milli: i64, resource: Option<&str>) -> Quantity {
    let format = if resource == Some("memory") { Format::BinarySi } else { Format::DecimalSi };
    Quantity(Amount::from_milli(milli).with_format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_the_units_of_their_resource() {
        for (milli, resource, want) in [
            (250, Some("cpu"), "250m"),
            (2_000, Some("cpu"), "2"),
            (1_073_741_824_000, Some("memory"), "1Gi"),
            (20_333, None, "20333m"),
            (10_000, None, "10"),
        ] {
            assert_eq!(quantity(milli, resource).0, want);
        }
    }
}
