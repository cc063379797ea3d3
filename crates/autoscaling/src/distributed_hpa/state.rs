//! State of a distributed HorizontalPodAutoscaler between decisions: annotation `federatedhpa.karmada.io/status`
//! (specification/autoscaling.md 6.2).
//!
//! It is for people, too, so it also has what members report. Nothing is kept in memory: a controller that starts
//! goes on where another one stopped.

use std::collections::BTreeMap;

use ironclad_api::{StringMap, annotations};
use ironclad_fleet::ClusterName;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use serde::{Deserialize, Serialize};

use super::moved::Raised;

/// The annotation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The target that all the rest is about. If the spec has another one, this one is handed over first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<CrossVersionObjectReference>,
    /// Replicas of the template that the OverridePolicy is for. Other replicas are a change by a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_replicas: Option<i64>,
    /// By cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<ClusterName, ClusterState>,
    /// Time at which the OverridePolicy was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overridden_at: Option<Timestamp>,
    /// Time since which the OverridePolicy says what the binding says anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal_since: Option<Timestamp>,
    /// Time at which shares of the maximum were last lent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lent_at: Option<Timestamp>,
    /// The end: the number that the template gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<HandOver>,
}

/// Part of the annotation about one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterState {
    /// `minReplicas` of its HorizontalPodAutoscaler.
    pub min: i32,
    /// `maxReplicas` of it.
    pub max: i32,
    /// Its share of the maximum without loans.
    pub share: i32,
    /// Replicas of the maximum that it borrowed; negative if it lent some.
    #[serde(skip_serializing_if = "is_zero")]
    pub loan: i32,
    /// Replicas, as last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<i32>,
    /// Replicas that its autoscaler last decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// Reasons of its conditions, by type; `False: ` before those that are not True.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
    /// apiVersion of its HorizontalPodAutoscaler.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Time at which the report last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_at: Option<Timestamp>,
    /// Time since which there is no report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Timestamp>,
    /// Its reports are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// A larger maximum that it may still have: no report has said that it shrank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_have: Option<i32>,
    /// Time since which it stands at its maximum and wants more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_since: Option<Timestamp>,
    /// Time since which a borrower has needed no more than its own share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// A minimum above its share: it takes over what leaves other clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<Raised>,
    /// True once others take over what it runs.
    #[serde(skip_serializing_if = "is_false")]
    pub taken_over: bool,
    /// True once it left the effective clusters: its autoscaler may not grow, or cannot be reached.
    #[serde(skip_serializing_if = "is_false")]
    pub left: bool,
    /// True while others have its share.
    #[serde(skip_serializing_if = "is_false")]
    pub given_away: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Reports of a cluster are ignored, since they may be from before a change
/// (specification/autoscaling.md 6.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Its begin.
    pub since: Timestamp,
    /// Time at which the change was first seen applied in the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Timestamp>,
    /// `lastScaleTime` of the member when the hold began. It is compared with itself only: clocks of members differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Timestamp>,
}

/// The end of a distributed HorizontalPodAutoscaler: the template takes the replicas over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// Replicas for the template.
    pub replicas: i64,
    /// Its begin.
    pub since: Timestamp,
}

impl State {
    /// Reads the annotation. What cannot be read counts as nothing: the state is found anew from what members report.
    #[must_use]
    pub fn of(annotations: Option<&StringMap>) -> Self {
        let text = annotations.and_then(|all| all.get(annotations::FEDERATED_HPA_STATUS));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The annotation's text.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Time that has passed. A time of the future counts as now: clocks of processes differ, and a wait must end.
#[must_use]
pub fn passed(since: Timestamp, now: Timestamp) -> SignedDuration {
    now.duration_since(since).max(SignedDuration::ZERO)
}

/// Time left until `wait` has passed; `None` if it has. Never longer than `wait`.
#[must_use]
pub fn left(since: Timestamp, wait: SignedDuration, now: Timestamp) -> Option<SignedDuration> {
    let left = wait - passed(since, now);
    left.is_positive().then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_and_garbage_is_nothing() {
        let now = Timestamp::from_second(1000).unwrap();
        let cluster = ClusterState {
            min: 1,
            max: 34,
            share: 33,
            current: Some(4),
            hold: Some(Hold { since: now, applied: None, scaled: Some(now) }),
            left: true,
            ..ClusterState::default()
        };
        let state = State {
            observed_replicas: Some(3),
            clusters: [("m1".into(), cluster)].into(),
            hand_over: Some(HandOver { replicas: 5, since: now }),
            ..State::default()
        };
        let annotated = |text: &str| StringMap::from([(annotations::FEDERATED_HPA_STATUS.to_owned(), text.to_owned())]);
        assert_eq!(State::of(Some(&annotated(&state.text()))), state);
        for garbage in ["", "[]", "{\"clusters\": 3}", "{\"clusters\": {\"m1\": {\"hold\": {\"since\": \"soon\"}}}}"] {
            assert_eq!(State::of(Some(&annotated(garbage))), State::default(), "{garbage}");
        }
    }

    #[test]
    fn waits_end_whatever_clocks_say() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wait = SignedDuration::from_secs(60);
        for (name, since, now, want) in [
            ("a tick before", 0, 59, Some(1)),
            ("exactly", 0, 60, None),
            ("long ago", 0, 6000, None),
            ("a time of the future", 5000, 0, Some(60)),
        ] {
            assert_eq!(left(at(since), wait, at(now)), want.map(SignedDuration::from_secs), "{name}");
        }
    }
}
