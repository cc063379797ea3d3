//! Decision about a PodDisruptionBudget: the number of pods that may be evicted now.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};

use crate::{
    pods::{is_finished, is_terminating, ready_since},
    rounding::{Round, resolve},
};

/// Time for which an allowed eviction counts while its pod still exists.
const DISRUPTED_FOR: SignedDuration = SignedDuration::from_secs(120);
const CONDITION: &str = "DisruptionAllowed";

pub(crate) struct Seen {
    pub(crate) budget: Arc<PodDisruptionBudget>,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Desired replicas of these pods' controllers, by the controller's uid.
    pub(crate) scales: BTreeMap<String, i32>,
}

#[derive(Debug, PartialEq)]
#[must_use]
pub(crate) struct Plan {
    pub(crate) status: PodDisruptionBudgetStatus,
    pub(crate) requeue_at: Option<Timestamp>,
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let pods: Vec<&Arc<Pod>> = seen.pods.iter().filter(|p| !is_finished(p)).collect();
    let (expected, desired) = numbers(seen, &pods);
    let before = seen.budget.status.clone().unwrap_or_default();
    let mut disrupted = before.disrupted_pods.clone().unwrap_or_default();
    disrupted.retain(|name, time| {
        let pod = pods.iter().find(|p| p.metadata.name.as_ref() == Some(name));
        // A pod of the same name that was created since replaces the evicted one.
        let is_evicted = |p: &Pod| p.metadata.creation_timestamp.as_ref().is_none_or(|created| created.0 < time.0);
        pod.is_some_and(|p| !is_terminating(p) && is_evicted(p))
            && time.0.saturating_add(DISRUPTED_FOR).unwrap_or(time.0) > now
    });
    let healthy = pods.iter().filter(|pod| {
        let going = pod.metadata.name.as_ref().is_some_and(|name| disrupted.contains_key(name));
        !is_terminating(pod) && ready_since(pod).is_some() && !going
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let requeue_at = disrupted.values().filter_map(|t| t.0.saturating_add(DISRUPTED_FOR).ok()).min();
    Plan {
        status: PodDisruptionBudgetStatus {
            conditions: Some(conditions(&seen.budget, &before, allowed, now)),
            current_healthy: Some(healthy),
            desired_healthy: Some(desired),
            disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
            disruptions_allowed: Some(allowed),
            expected_pods: Some(expected),
            observed_generation: seen.budget.metadata.generation,
        },
        requeue_at,
    }
}

/// Returns the expected number of pods, and how many of them must stay healthy.
fn numbers(seen: &Seen, pods: &[&Arc<Pod>]) -> (i32, i32) {
    let scale = || seen.scales.values().fold(0i32, |sum, n| sum.saturating_add(*n));
    let spec = seen.budget.spec.as_ref();
    match (spec.and_then(|s| s.max_unavailable.as_ref()), spec.and_then(|s| s.min_available.as_ref())) {
        (Some(unavailable), _) => {
            let expected = scale();
            (expected, expected.saturating_sub(resolve(unavailable, expected, Round::Up)).max(0))
        }
        (None, Some(IntOrString::Int(available))) => {
            (i32::try_from(pods.len()).unwrap_or(i32::MAX), (*available).max(0))
        }
        (None, Some(share)) => {
            let expected = scale();
            (expected, resolve(share, expected, Round::Up))
        }
        (None, None) => (i32::try_from(pods.len()).unwrap_or(i32::MAX), 0),
    }
}

fn conditions(
    budget: &PodDisruptionBudget,
    before: &PodDisruptionBudgetStatus,
    allowed: i32,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all = before.conditions.clone().unwrap_or_default();
    let at = all.iter().position(|c| c.type_ == CONDITION);
    let old = at.map(|at| all.remove(at));
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let since = old.filter(|c| c.status == status).map_or(Time(now), |c| c.last_transition_time);
    all.push(Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: since,
        observed_generation: budget.metadata.generation,
    });
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::{PodMaker, at, pod};

    fn seen(spec: Value, scale: i32, pods: Vec<PodMaker>) -> Seen {
        let budget = json!({"metadata": {"name": "b", "namespace": "d", "generation": 1}, "spec": spec});
        Seen {
            budget: Arc::new(serde_json::from_value(budget).unwrap()),
            pods: pods.into_iter().map(PodMaker::arc).collect(),
            scales: [("rs".to_owned(), scale)].into(),
        }
    }

    fn ready(n: usize) -> Vec<PodMaker> {
        (0..n).map(|i| pod(&format!("p{i}")).ready(1)).collect()
    }

    #[test]
    fn allowed_disruptions() {
        let with = |mut pods: Vec<PodMaker>, more: PodMaker| {
            pods.push(more);
            pods
        };
        for (name, spec, scale, pods, want) in [
            ("minAvailable 2 of 3", json!({"minAvailable": 2}), 3, ready(3), (3, 2, 3, 1)),
            ("minAvailable of all", json!({"minAvailable": 3}), 3, ready(3), (3, 3, 3, 0)),
            (
                "a percentage is of the desired replicas, rounded up",
                json!({"minAvailable": "50%"}),
                5,
                ready(5),
                (5, 3, 5, 2),
            ),
            ("maxUnavailable 1 of 4", json!({"maxUnavailable": 1}), 4, ready(4), (4, 3, 4, 1)),
            ("and one is", json!({"maxUnavailable": 1}), 4, ready(3), (4, 3, 3, 0)),
            (
                "a percentage of maxUnavailable is rounded up",
                json!({"maxUnavailable": "30%"}),
                4,
                ready(4),
                (4, 2, 4, 2),
            ),
            ("an unready pod is not healthy", json!({"minAvailable": 1}), 2, with(ready(1), pod("x")), (2, 1, 1, 0)),
            (
                "a terminating pod is not healthy",
                json!({"minAvailable": 1}),
                2,
                with(ready(1), pod("x").ready(1).terminating()),
                (2, 1, 1, 0),
            ),
            (
                "a finished pod does not count",
                json!({"minAvailable": 1}),
                2,
                with(ready(2), pod("x").phase("Succeeded")),
                (2, 1, 2, 1),
            ),
            ("no pods: no disruption is allowed", json!({"maxUnavailable": 1}), 0, vec![], (0, 0, 0, 0)),
        ] {
            let status = decide(&seen(spec, scale, pods), at(10)).status;
            let got =
                (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed);
            let want = (Some(want.0), Some(want.1), Some(want.2), Some(want.3));
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_pending_eviction_counts_until_its_pod_is_deleted_or_two_minutes() {
        let at_eviction = |now: i64| {
            let mut seen = seen(json!({"minAvailable": 1}), 3, ready(3));
            let mut budget = (*seen.budget).clone();
            budget.status = Some(PodDisruptionBudgetStatus {
                disrupted_pods: Some([("p0".to_owned(), Time(at(100))), ("gone".to_owned(), Time(at(100)))].into()),
                ..PodDisruptionBudgetStatus::default()
            });
            seen.budget = Arc::new(budget);
            decide(&seen, at(now))
        };
        let under_way = at_eviction(219);
        assert_eq!((under_way.status.current_healthy, under_way.status.disruptions_allowed), (Some(2), Some(1)));
        assert_eq!(under_way.status.disrupted_pods.unwrap().len(), 1, "a deleted pod is forgotten");
        assert_eq!(under_way.requeue_at, Some(at(220)));
        let over = at_eviction(220);
        assert_eq!((over.status.current_healthy, over.status.disrupted_pods), (Some(3), None));
        let mut replaced = seen(json!({"minAvailable": 1}), 3, ready(3));
        let mut budget = (*replaced.budget).clone();
        budget.status = Some(PodDisruptionBudgetStatus {
            disrupted_pods: Some([("p0".to_owned(), Time(at(100)))].into()),
            ..PodDisruptionBudgetStatus::default()
        });
        replaced.budget = Arc::new(budget);
        for (created, healthy) in [(99, 2), (100, 3), (101, 3)] {
            Arc::make_mut(&mut replaced.pods[0]).metadata.creation_timestamp = Some(Time(at(created)));
            assert_eq!(decide(&replaced, at(110)).status.current_healthy, Some(healthy), "created at {created}");
        }
    }

    #[test]
    fn an_unchanged_condition_keeps_its_transition_time() {
        let mut seen = seen(json!({"minAvailable": 1}), 2, ready(2));
        let first = decide(&seen, at(10)).status;
        let condition = |s: &PodDisruptionBudgetStatus| s.conditions.clone().unwrap()[0].clone();
        assert_eq!((condition(&first).status.as_str(), condition(&first).reason.as_str()), ("True", "SufficientPods"));
        let mut budget = (*seen.budget).clone();
        budget.status = Some(first.clone());
        seen.budget = Arc::new(budget);
        assert_eq!(decide(&seen, at(50)).status, first, "an unchanged status is kept");
        seen.pods.pop();
        let then = condition(&decide(&seen, at(60)).status);
        assert_eq!((then.status.as_str(), then.last_transition_time), ("False", Time(at(60))));
    }
}
