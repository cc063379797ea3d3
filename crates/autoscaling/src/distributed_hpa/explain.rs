//! State of a distributed HorizontalPodAutoscaler as people read it: bounds, loans and holds of its members, and what
//! they decided. It is what the last decision stored; nothing is decided here.

use std::collections::BTreeMap;

use ironclad_api::policy::OverridePolicy;
use ironclad_fleet::{ClusterName, ObjectKey};
use ironclad_propagation::overrides;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{
    lend, members, policy_name,
    scaler::Scaler,
    state::{self, ClusterState, State},
    target_key,
};

/// One object, with its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub autoscaler: ObjectKey,
    /// The target whose replicas members decide.
    pub target: ObjectKey,
    /// Minimum of all members together.
    pub min: i32,
    /// Maximum of all members together.
    pub max: i32,
    /// Its conditions: type, status, reason and message.
    pub conditions: Vec<String>,
    /// Name of the OverridePolicy that records what members decided, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// Notes about the whole.
    pub notes: Vec<String>,
    pub members: BTreeMap<ClusterName, Member>,
}

/// One member as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub min: i32,
    pub max: i32,
    /// Its share of the maximum without loans.
    pub share: i32,
    /// Replicas of the maximum that it borrowed; negative if it lent some.
    pub loan: i32,
    /// Replicas that it reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<i32>,
    /// Replicas that its autoscaler decided for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// Replicas in the OverridePolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<i32>,
    /// Reasons for which it gets no more, or its reports do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Explains an object by its annotation and the OverridePolicy under its name.
#[must_use]
pub fn explain(scaler: &Scaler, policy: Option<&OverridePolicy>, now: Timestamp) -> Explanation {
    let hpa = &scaler.hpa;
    let state = State::of(hpa.metadata.annotations.as_ref());
    let policy = policy.filter(|policy| overrides::is_of_autoscaler(policy));
    let recorded = policy.map(overrides::recorded).unwrap_or_default();
    let conditions = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions = conditions.map(|condition| {
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}={} {}: {}", condition.type_, condition.status, of(&condition.reason), of(&condition.message))
    });
    let mut notes = Vec::new();
    if let Some(end) = &state.hand_over {
        notes.push(format!("it ends: the target takes over {} replicas", end.replicas));
    }
    if let Some(left) = state.lent_at.and_then(|at| state::left(at, lend::LEND_EVERY, now)) {
        notes.push(format!("the next loan is given in {} at the earliest", seconds(left)));
    }
    let member = |(cluster, of): (&ClusterName, &ClusterState)| {
        let member = Member {
            min: of.min,
            max: of.max,
            share: of.share,
            loan: of.loan,
            current: of.current,
            desired: of.desired,
            recorded: recorded.get(cluster).copied(),
            notes: notes_of(of, now),
        };
        (cluster.clone(), member)
    };
    Explanation {
        autoscaler: scaler.key(),
        target: target_key(hpa),
        min: hpa.spec.min_replicas.unwrap_or(1),
        max: hpa.spec.max_replicas,
        conditions: conditions.collect(),
        record: policy.map(|_| policy_name(scaler)),
        members: state.clusters.iter().map(member).collect(),
        notes,
    }
}

fn notes_of(of: &ClusterState, now: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    if of.max < 1 {
        notes.push("it has no autoscaler yet".to_owned());
    }
    if of.given_away {
        notes.push("others have its share".to_owned());
    } else if of.left {
        notes.push("it has no share any more".to_owned());
    }
    if let Some(hold) = &of.hold {
        let ends = match hold.applied.map(|applied| state::left(applied, members::HOLD_MAX, now)) {
            None => "until its copy has the replicas that were set".to_owned(),
            Some(Some(left)) => format!("until it confirms the replicas that were set, {} at most", seconds(left)),
            Some(None) => "until the next decision".to_owned(),
        };
        notes.push(format!("held since {}: its reports do not count {ends}", hold.since));
    }
    if let Some(since) = of.silent_since {
        notes.push(format!("silent since {since}"));
    }
    if let Some(since) = of.limited_since {
        notes.push(match state::left(since, lend::LIMITED_FOR, now) {
            Some(left) => format!("wants more than its maximum since {since}: may borrow in {}", seconds(left)),
            None => format!("wants more than its maximum since {since}"),
        });
    }
    if let Some(since) = of.idle_since {
        notes.push(match state::left(since, lend::RETURN_AFTER, now) {
            Some(left) => format!("needs no loan since {since}: gives it back in {}", seconds(left)),
            None => format!("needs no loan since {since}: gives it back"),
        });
    }
    if let Some(raised) = &of.raised {
        notes.push(format!("its minimum is {} while it takes over what leaves other clusters", raised.to));
    }
    if let Some(most) = of.may_have {
        notes.push(format!("may still run up to {most}: no report says that it shrank"));
    }
    let failing = of.conditions.iter().filter(|(type_, text)| {
        *type_ != ironclad_api::conditions::federated_hpa::SCALING_LIMITED && text.contains(": ")
    });
    notes.extend(failing.map(|(type_, text)| format!("{type_} {text}")));
    notes
}

fn seconds(left: SignedDuration) -> String {
    format!("{} s", left.as_secs())
}

#[cfg(test)]
mod tests {
    use ironclad_api::{StringMap, annotations};
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use serde_json::json;

    use super::{super::state::Hold, *};

    #[test]
    fn members_are_explained_by_what_was_decided() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let now = at(1000);
        let base = ClusterState { min: 1, max: 30, share: 34, ..ClusterState::default() };
        for (name, state, want) in [
            ("nothing to say", base.clone(), vec![]),
            ("no Work yet", ClusterState::default(), vec!["it has no autoscaler yet"]),
            (
                "a user scaled, and the copy is not there yet",
                ClusterState { hold: Some(Hold { since: at(990), applied: None, scaled: None }), ..base.clone() },
                vec![
                    "held since 1970-01-01T00:16:30Z: its reports do not count until its copy has the replicas that were set",
                ],
            ),
            (
                "it is there",
                ClusterState { hold: Some(Hold { since: at(990), applied: Some(now), scaled: None }), ..base.clone() },
                vec![
                    "held since 1970-01-01T00:16:30Z: its reports do not count until it confirms the replicas that were set, 90 s at most",
                ],
            ),
            (
                "dead",
                ClusterState { left: true, given_away: true, silent_since: Some(at(900)), ..base.clone() },
                vec!["others have its share", "silent since 1970-01-01T00:15:00Z"],
            ),
            (
                "limited, for a while",
                ClusterState { limited_since: Some(at(980)), ..base.clone() },
                vec!["wants more than its maximum since 1970-01-01T00:16:20Z: may borrow in 10 s"],
            ),
            (
                "idle with a loan",
                ClusterState { idle_since: Some(at(980)), may_have: Some(40), ..base.clone() },
                vec![
                    "needs no loan since 1970-01-01T00:16:20Z: gives it back in 280 s",
                    "may still run up to 40: no report says that it shrank",
                ],
            ),
            (
                "it cannot scale",
                ClusterState {
                    conditions: [
                        ("AbleToScale".to_owned(), "False: FailedGetScale".to_owned()),
                        ("ScalingLimited".to_owned(), "False: DesiredWithinRange".to_owned()),
                    ]
                    .into(),
                    ..base.clone()
                },
                vec!["AbleToScale False: FailedGetScale"],
            ),
        ] {
            assert_eq!(notes_of(&state, now), want, "{name}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_record_and_of_the_state() {
        let now = Timestamp::from_second(1000).unwrap();
        let clusters = [("m1".into(), ClusterState { max: 5, current: Some(4), ..ClusterState::default() })];
        let state = State { clusters: clusters.into(), lent_at: Some(now), ..State::default() };
        let mut hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9},
            "status": {"desiredReplicas": 4, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale",
                "message": "1 of 1 members"}]}}))
        .unwrap();
        hpa.metadata.annotations =
            Some(StringMap::from([(annotations::FEDERATED_HPA_STATUS.to_owned(), state.text())]));
        let record: OverridePolicy = serde_json::from_value(json!({
            "metadata": {"name": "federatedhpa-web", "labels": {"federatedhpa.karmada.io/managed": "true"}},
            "spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]},
                "overriders": {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 3}]}}]}}))
        .unwrap();
        let hpa = Scaler::from(hpa);
        let explained = explain(&hpa, Some(&record), now);
        let member = &explained.members[&ClusterName::from("m1")];
        assert_eq!((member.max, member.current, member.recorded), (5, Some(4), Some(3)));
        assert_eq!((explained.min, explained.max, explained.record.as_deref()), (1, 9, Some("federatedhpa-web")));
        assert_eq!(explained.conditions, ["AbleToScale=True ReadyForNewScale: 1 of 1 members"]);
        assert_eq!(explained.notes, ["the next loan is given in 60 s at the earliest"]);
        let of_a_user: OverridePolicy =
            serde_json::from_value(json!({"metadata": {"name": "federatedhpa-web"}, "spec": {"overrideRules": []}}))
                .unwrap();
        assert_eq!(explain(&hpa, Some(&of_a_user), now).record, None);
    }
}
