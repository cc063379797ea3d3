//! Report of a member about its HorizontalPodAutoscaler, from the status of the Work
//! (specification/autoscaling.md 6.5).

use ironclad_api::{
    Time, conditions,
    reasons::federated_hpa::{
        READY_FOR_NEW_SCALE, SCALE_DOWN_STABILIZED, SCALE_UP_STABILIZED, SUCCEEDED_RESCALE, TOO_MANY_REPLICAS,
    },
    work::Work,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reasons of condition `AbleToScale` with which a desired number counts (specification/proposals/001.md S1.5).
pub const ABLE_REASONS: [&str; 4] =
    [SUCCEEDED_RESCALE, SCALE_DOWN_STABILIZED, SCALE_UP_STABILIZED, READY_FOR_NEW_SCALE];

/// Condition of a HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedCondition {
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in one word.
    pub reason: String,
    /// Message for people.
    pub message: String,
}

impl ReportedCondition {
    /// True if its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == conditions::TRUE
    }

    /// Of a kind that does not say whether it wants more: one at its maximum may.
    pub(super) fn at_maximum() -> Self {
        Self {
            type_: conditions::federated_hpa::SCALING_LIMITED.to_owned(),
            status: conditions::TRUE.to_owned(),
            reason: TOO_MANY_REPLICAS.to_owned(),
            message: "it runs as many replicas as it may".to_owned(),
        }
    }
}

/// The report. The versions with conditions share these fields, so one type reads them all.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// Replicas that the member's autoscaler saw.
    #[serde(deserialize_with = "or_default")]
    pub current_replicas: i32,
    /// Replicas that it wants.
    #[serde(deserialize_with = "or_default")]
    pub desired_replicas: i32,
    /// Time at which it last scaled, by the member's clock.
    pub last_scale_time: Option<Time>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<ReportedCondition>,
    /// Metrics, in the shape of the member's version.
    #[serde(deserialize_with = "or_default")]
    pub current_metrics: Vec<Value>,
    /// True if zero is a number that the autoscaler may want.
    #[serde(skip)]
    pub may_rest: bool,
}

/// A field that servers write as null if it is empty.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Report {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&ReportedCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// The number that the member decided; `None` if the report says none that may be acted upon.
    #[must_use]
    pub fn decided(&self) -> Option<i32> {
        let able = self.condition(conditions::federated_hpa::ABLE_TO_SCALE)?;
        let counts = able.is_true() && ABLE_REASONS.contains(&able.reason.as_str());
        let least = if self.may_rest { 0 } else { 1 };
        (counts && self.desired_replicas >= least).then_some(self.desired_replicas)
    }
}

/// Reads the report of an applied Work. `None` if there is none for its present content, or if it cannot be read.
#[must_use]
pub fn read(work: &Work) -> Option<Report> {
    serde_json::from_value(status(work)?).ok()
}

/// The reported status of the object of an applied Work.
pub(crate) fn status(work: &Work) -> Option<Value> {
    if !is_applied(work) {
        return None;
    }
    let status = work.status.as_ref()?.manifest_statuses.first()?.status.as_ref()?;
    serde_json::from_str(status.as_str()).ok()
}

/// Returns true if the member has the present content of the Work.
#[must_use]
pub fn is_applied(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::get(conditions, conditions::work::APPLIED).is_some_and(|applied| {
        let is_current = applied.observed_generation.is_none_or(|seen| Some(seen) == work.metadata.generation);
        applied.status == conditions::TRUE && is_current && work.metadata.deletion_timestamp.is_none()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(status: &Value) -> Work {
        serde_json::from_value(
            json!({"metadata": {"name": "w", "generation": 3}, "spec": {"workload": {}}, "status": status}),
        )
        .unwrap()
    }

    fn applied(status: &str, generation: i64) -> Value {
        json!([{"type": "Applied", "status": status, "reason": "r", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    fn reported(report: &Value) -> Value {
        json!([{"identifier": {"ordinal": 0, "version": "v2", "kind": "HorizontalPodAutoscaler", "resource": "", "name": "h"},
            "status": report}])
    }

    #[test]
    fn desired_numbers_count_with_four_reasons_only() {
        for (name, able, desired, want) in [
            ("rescaled", Some(("True", "SucceededRescale")), 8, Some(8)),
            ("stabilized down", Some(("True", "ScaleDownStabilized")), 8, Some(8)),
            ("stabilized up", Some(("True", "ScaleUpStabilized")), 8, Some(8)),
            ("ready", Some(("True", "ReadyForNewScale")), 8, Some(8)),
            ("metrics failed: what remains of the round", Some(("True", "SucceededGetScale")), 8, None),
            ("the target is missing", Some(("False", "FailedGetScale")), 8, None),
            ("the right reason with the wrong status", Some(("False", "ReadyForNewScale")), 8, None),
            ("unknown", Some(("Unknown", "ReadyForNewScale")), 8, None),
            ("no condition", None, 8, None),
            ("zero", Some(("True", "ReadyForNewScale")), 0, None),
            ("a lie", Some(("True", "ReadyForNewScale")), -4, None),
        ] {
            let condition =
                able.map(|(status, reason)| json!({"type": "AbleToScale", "status": status, "reason": reason}));
            let conditions: Vec<Value> = condition.into_iter().collect();
            let report = json!({"currentReplicas": 3, "desiredReplicas": desired, "conditions": conditions});
            let report = read(&work(&json!({"conditions": applied("True", 3), "manifestStatuses": reported(&report)})));
            assert_eq!(report.unwrap().decided(), want, "{name}");
        }
    }

    #[test]
    fn null_is_an_empty_list() {
        let report: Report =
            serde_json::from_value(json!({"currentMetrics": null, "conditions": null, "desiredReplicas": null}))
                .unwrap();
        assert_eq!(report, Report::default());
    }

    #[test]
    fn reports_of_works_that_are_not_applied_are_not_read() {
        let report = json!({"desiredReplicas": 4, "currentMetrics": [{"type": "Resource"}], "lastScaleTime": "2026-01-01T00:00:00Z"});
        for (name, status, want) in [
            ("applied", json!({"conditions": applied("True", 3), "manifestStatuses": reported(&report)}), true),
            (
                "an older content",
                json!({"conditions": applied("True", 2), "manifestStatuses": reported(&report)}),
                false,
            ),
            ("not applied", json!({"conditions": applied("False", 3), "manifestStatuses": reported(&report)}), false),
            ("no status of the object", json!({"conditions": applied("True", 3)}), false),
            ("nothing", json!({}), false),
            (
                "a report of the wrong shape",
                json!({"conditions": applied("True", 3), "manifestStatuses": reported(&json!({"desiredReplicas": "many"}))}),
                false,
            ),
        ] {
            assert_eq!(read(&work(&status)).is_some(), want, "{name}");
        }
    }
}
