//! FederatedHPAs: their bounds, what they want, and what keeps them from it.

use std::cmp::Reverse;

use ironclad_api::{
    autoscaling::FederatedHPA,
    conditions::{FALSE, TRUE},
};
use ironclad_fleet::tree::LinkState;
use jiff::Timestamp;
use serde::Serialize;

/// A FederatedHPA of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerRow {
    pub namespace: String,
    pub name: String,
    /// `Kind name` of what it scales.
    pub target: String,
    pub min: i32,
    pub max: i32,
    /// Replicas before and after the last round.
    pub current: Option<i32>,
    pub desired: Option<i32>,
    pub state: LinkState,
    /// Reason for which it does not scale, or is limited.
    pub reason: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The last change of the replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Timestamp>,
}

/// The rows of these autoscalers, with what is bad first.
#[must_use]
pub fn autoscalers(all: &[FederatedHPA]) -> Vec<AutoscalerRow> {
    let mut rows: Vec<AutoscalerRow> = all.iter().map(row).collect();
    rows.sort_by(|a, b| (Reverse(a.state), &a.namespace, &a.name).cmp(&(Reverse(b.state), &b.namespace, &b.name)));
    rows
}

fn row(autoscaler: &FederatedHPA) -> AutoscalerRow {
    let (spec, status) = (&autoscaler.spec, autoscaler.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let find = |kind: &str, status: &str| conditions.iter().find(|one| one.type_ == kind && one.status == status);
    let failing = find("AbleToScale", FALSE).or_else(|| find("ScalingActive", FALSE));
    let (state, found) = match (failing, find("ScalingLimited", TRUE)) {
        (Some(failing), _) => (LinkState::Broken, Some(failing)),
        (None, Some(limited)) => (LinkState::Waiting, Some(limited)),
        (None, None) if conditions.is_empty() => (LinkState::Waiting, None),
        (None, None) => (LinkState::Ok, None),
    };
    let reason = found.map(|one| {
        let (reason, message) = (one.reason.as_deref().unwrap_or_default(), one.message.as_deref().unwrap_or_default());
        if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
    });
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    AutoscalerRow {
        namespace: text(&autoscaler.metadata.namespace),
        name: text(&autoscaler.metadata.name),
        target: format!("{} {}", spec.scale_target_ref.kind, spec.scale_target_ref.name),
        min: spec.min_replicas.unwrap_or(1),
        max: spec.max_replicas,
        current: status.and_then(|status| status.current_replicas),
        desired: status.map(|status| status.desired_replicas),
        state,
        reason: reason.unwrap_or_else(|| {
            if state == LinkState::Waiting { "is not evaluated yet".to_owned() } else { String::new() }
        }),
        since: found.and_then(|one| one.last_transition_time.as_ref()).map(|time| time.0),
        scaled: status.and_then(|status| status.last_scale_time.as_ref()).map(|time| time.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_keeps_an_autoscaler_from_scaling_is_told() {
        let autoscaler = |name: &str, status: Value| -> FederatedHPA {
            serde_json::from_value(json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
                "metadata": {"namespace": "shop", "name": name},
                "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9},
                "status": status}))
            .unwrap()
        };
        let condition =
            |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "m"});
        let status =
            |conditions: Vec<Value>| json!({"currentReplicas": 2, "desiredReplicas": 3, "conditions": conditions});
        let all = [
            autoscaler("a-new", Value::Null),
            autoscaler("b-fine", status(vec![condition("AbleToScale", "True"), condition("ScalingLimited", "False")])),
            autoscaler(
                "c-limited",
                status(vec![condition("ScalingActive", "True"), condition("ScalingLimited", "True")]),
            ),
            autoscaler(
                "d-blind",
                status(vec![condition("ScalingActive", "False"), condition("ScalingLimited", "True")]),
            ),
        ];
        let rows = autoscalers(&all);
        let told: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {:?} {:?}>{:?} {}", row.name, row.state, row.current, row.desired, row.reason))
            .collect();
        assert_eq!(
            told,
            [
                "d-blind Broken Some(2)>Some(3) R: m",
                "a-new Waiting None>None is not evaluated yet",
                "c-limited Waiting Some(2)>Some(3) R: m",
                "b-fine Ok Some(2)>Some(3) ",
            ]
        );
        assert_eq!((rows[0].min, rows[0].max, rows[0].target.as_str()), (1, 9, "Deployment web"));
    }
}
