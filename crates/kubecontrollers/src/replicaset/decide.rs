//! Decision about a ReplicaSet: pods to create or delete, and its status.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::{
    owner::Claims,
    pod_control::{FAILED_CREATE, PodError},
    pods::{self, Availability, is_active, labels},
};

/// Maximum number of pods that one reconcile creates or deletes.
pub(crate) const BURST: usize = 500;

pub(crate) struct Seen {
    pub(crate) set: Arc<ReplicaSet>,
    pub(crate) pods: Claims<Pod>,
    /// Number of active pods of the Deployment's ReplicaSets by node.
    pub(crate) on_node: BTreeMap<String, usize>,
    /// Error of the last reconcile's pod requests.
    pub(crate) last_error: Option<PodError>,
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Plan {
    pub(crate) create: usize,
    pub(crate) delete: Vec<Arc<Pod>>,
    pub(crate) status: ReplicaSetStatus,
    /// The last error no longer matters: nothing is wanted of what failed.
    pub(crate) error_is_over: bool,
    /// Nothing is in progress: the status is final.
    pub(crate) idle: bool,
    /// Time at which a pod becomes available without an event.
    pub(crate) requeue_at: Option<Timestamp>,
}

/// The pods of a set, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) replicas: i32,
    pub(crate) labelled: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    /// Time at which the next ready pod becomes available.
    pub(crate) next: Option<Timestamp>,
}

/// Counts the pods of the set that are active.
pub(crate) fn count<'a>(set: &ReplicaSet, pods: impl Iterator<Item = &'a Arc<Pod>>, now: Timestamp) -> Counts {
    let spec = set.spec.as_ref();
    let min_ready = spec.and_then(|s| s.min_ready_seconds).unwrap_or(0);
    let template = spec.and_then(|s| s.template.as_ref()).and_then(|t| t.metadata.as_ref());
    let mut counts = Counts::default();
    for pod in pods.filter(|p| is_active(p)) {
        counts.replicas += 1;
        let of_pod = labels(&pod.metadata);
        if template.is_none_or(|t| labels(t).iter().all(|(k, v)| of_pod.get(k) == Some(v))) {
            counts.labelled += 1;
        }
        match pods::availability(pod, min_ready, now) {
            Availability::No => {}
            Availability::Yes => {
                counts.ready += 1;
                counts.available += 1;
            }
            Availability::From(at) => {
                counts.ready += 1;
                counts.next = Some(counts.next.map_or(at, |next| next.min(at)));
            }
        }
    }
    counts
}

/// The number of pods that the set should have.
pub(crate) fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1).max(0)
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let set = &seen.set;
    let active: Vec<&Arc<Pod>> = seen.pods.mine.iter().filter(|p| is_active(p)).collect();
    let have = active.len() + seen.pods.adopt.len();
    let want = usize::try_from(wanted(set)).unwrap_or(0);
    let counts = count(set, seen.pods.mine.iter(), now);
    let mut plan = Plan {
        create: 0,
        delete: Vec::new(),
        status: ReplicaSetStatus::default(),
        error_is_over: false,
        idle: false,
        requeue_at: counts.next,
    };
    if set.metadata.deletion_timestamp.is_none() {
        plan.create = want.saturating_sub(have).min(BURST);
        // Pods to adopt count once they are owned: do not delete them before.
        let surplus = active.len().saturating_sub(want).min(BURST);
        if surplus > 0 {
            plan.delete = victims(&active, &seen.on_node, now).into_iter().take(surplus).collect();
        }
    }
    // An error counts as long as the request that failed is still wanted.
    let last_error = seen.last_error.as_ref().filter(|error| match error.reason {
        FAILED_CREATE => plan.create > 0,
        _ => !plan.delete.is_empty(),
    });
    plan.status = status(set, &counts, last_error, now);
    plan.error_is_over = seen.last_error.is_some() && last_error.is_none();
    let still =
        plan.create == 0 && plan.delete.is_empty() && seen.pods.adopt.is_empty() && seen.pods.release.is_empty();
    plan.idle = still && (counts.ready == counts.replicas || last_error.is_some()) && counts.next.is_none();
    plan
}

/// Deletion order of pods, lowest first (Kubernetes' `ActivePodsWithRanks`).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    /// Pods without a node first.
    assigned: bool,
    /// Pending before unknown before running.
    phase: u8,
    /// Unready pods first.
    ready: bool,
    /// Deletion cost, from the user's annotation.
    cost: i32,
    /// Pods on nodes with more pods of the workload first.
    crowd: Reverse<usize>,
    /// Ready for less time first, in powers of two.
    ready_for: Option<u32>,
    /// Restarted more often first.
    restarts: Reverse<i32>,
    /// Younger first, in powers of two.
    age: u32,
    name: &'a str,
}

fn victims(active: &[&Arc<Pod>], on_node: &BTreeMap<String, usize>, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut ranked: Vec<_> = active.iter().map(|pod| (rank(pod, on_node, now), *pod)).collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0));
    ranked.into_iter().map(|(_, pod)| pod.clone()).collect()
}

fn rank<'a>(pod: &'a Pod, on_node: &BTreeMap<String, usize>, now: Timestamp) -> Rank<'a> {
    let node = pods::node_of(pod);
    let ready = pods::ready_since(pod);
    let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    Rank {
        assigned: !node.is_empty(),
        phase: match pods::phase(pod) {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        },
        ready: ready.is_some(),
        cost: pods::deletion_cost(pod),
        crowd: Reverse(on_node.get(node).copied().unwrap_or(0)),
        ready_for: ready.map(|since| power_of_two(now, since)),
        restarts: Reverse(pods::restarts(pod)),
        age: power_of_two(now, created),
        name: pod.metadata.name.as_deref().unwrap_or(""),
    }
}

/// Returns the age in powers of two seconds: pods of similar age are equal, so that deletions spread over nodes.
fn power_of_two(now: Timestamp, since: Timestamp) -> u32 {
    let seconds = u64::try_from(now.duration_since(since).as_secs()).unwrap_or(0);
    u64::BITS - seconds.leading_zeros()
}

fn status(set: &ReplicaSet, counts: &Counts, last_error: Option<&PodError>, now: Timestamp) -> ReplicaSetStatus {
    let some = |n: i32| (n > 0).then_some(n);
    let before = set.status.as_ref();
    let mut conditions = before.and_then(|s| s.conditions.clone()).unwrap_or_default();
    let failure = conditions.iter().position(|c| c.type_ == "ReplicaFailure");
    match (last_error, failure) {
        (None, Some(at)) => {
            conditions.remove(at);
        }
        (Some(last_error), at) if at.is_none_or(|at| conditions[at].reason.as_deref() != Some(last_error.reason)) => {
            conditions.retain(|c| c.type_ != "ReplicaFailure");
            conditions.push(ReplicaSetCondition {
                type_: "ReplicaFailure".into(),
                status: "True".into(),
                reason: Some(last_error.reason.into()),
                message: Some(last_error.message.clone()),
                last_transition_time: Some(Time(now)),
            });
        }
        _ => {}
    }
    ReplicaSetStatus {
        replicas: counts.replicas,
        fully_labeled_replicas: some(counts.labelled),
        ready_replicas: some(counts.ready),
        available_replicas: some(counts.available),
        observed_generation: set.metadata.generation,
        conditions: (!conditions.is_empty()).then_some(conditions),
        terminating_replicas: before.and_then(|s| s.terminating_replicas),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSetSpec;

    use super::*;
    use crate::{
        pod_control::FAILED_DELETE,
        testkit::{PodMaker, at, meta, pod, template},
    };

    fn set(replicas: i32) -> ReplicaSet {
        ReplicaSet {
            metadata: meta("web"),
            spec: Some(ReplicaSetSpec {
                replicas: Some(replicas),
                template: Some(template("a", "i:1")),
                ..ReplicaSetSpec::default()
            }),
            status: None,
        }
    }

    fn seen(replicas: i32, pods: Vec<PodMaker>) -> Seen {
        let mine: Vec<_> = pods.into_iter().map(|p| p.label("app", "a").arc()).collect();
        let mut on_node = BTreeMap::new();
        for pod in &mine {
            *on_node.entry(pods::node_of(pod).to_owned()).or_insert(0) += 1;
        }
        Seen {
            set: Arc::new(set(replicas)),
            pods: Claims { mine, adopt: vec![], release: vec![] },
            on_node,
            last_error: None,
        }
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|p| p.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn pods_are_created_and_deleted_to_match_replicas() {
        for (name, replicas, pods, create, delete) in [
            ("no pods yet: all are created", 3, vec![], 3, 0),
            ("enough pods: nothing to do", 1, vec![pod("a")], 0, 0),
            ("one too many", 1, vec![pod("a"), pod("b")], 0, 1),
            ("a finished pod is replaced", 1, vec![pod("a").phase("Failed")], 1, 0),
            ("a terminating pod is replaced at once", 1, vec![pod("a").terminating()], 1, 0),
            ("terminating pods are not deleted again", 0, vec![pod("a").terminating(), pod("b")], 0, 1),
            ("at most a burst at a time", 501, vec![], 500, 0),
        ] {
            let plan = decide(&seen(replicas, pods), at(10));
            assert_eq!((plan.create, plan.delete.len()), (create, delete), "{name}");
        }
    }

    #[test]
    fn a_set_that_is_being_deleted_makes_and_deletes_nothing() {
        let mut going = seen(3, vec![]);
        let mut set = set(3);
        set.metadata.deletion_timestamp = Some(Time(at(1)));
        going.set = Arc::new(set);
        let plan = decide(&going, at(10));
        assert_eq!((plan.create, plan.delete.len()), (0, 0));
    }

    #[test]
    fn deletion_order() {
        let n = |name: &str| pod(name).node("n1");
        for (name, first, second) in [
            ("without a node before with one", pod("z"), n("a").ready(0)),
            ("pending before running", n("z"), n("a").phase("Running")),
            ("unknown before running", n("z").phase("Unknown"), n("a").phase("Running")),
            ("not ready before ready", n("z").phase("Running"), n("a").ready(0)),
            (
                "lower deletion cost before higher",
                n("z").ready(0).annotation("controller.kubernetes.io/pod-deletion-cost", "-1"),
                n("a").ready(0),
            ),
            ("ready for less time", n("z").ready(900), n("a").ready(0)),
            ("restarted more often", n("z").ready(0).restarts(2), n("a").ready(0).restarts(1)),
            ("younger", n("z").ready(0).created(990), n("a").ready(0)),
            ("of the same age in order of names", n("a").ready(0).created(1), n("b").ready(0).created(2)),
        ] {
            let seen = seen(1, vec![second, first]);
            let want = names(&seen.pods.mine)[1].to_owned();
            let plan = decide(&seen, at(1_000));
            assert_eq!(names(&plan.delete), [want.as_str()], "{name}");
        }
    }

    #[test]
    fn pods_on_the_fuller_node_are_deleted_first() {
        let seen =
            seen(2, vec![pod("a").node("n1").ready(0), pod("b").node("n2").ready(0), pod("c").node("n2").ready(0)]);
        assert_eq!(names(&decide(&seen, at(10)).delete), ["b"]);
    }

    #[test]
    fn status_counts_pods() {
        let mut seen = seen(3, vec![pod("a").ready(95), pod("b").ready(0), pod("c"), pod("d").terminating()]);
        let mut s = set(3);
        s.spec.as_mut().unwrap().min_ready_seconds = Some(10);
        seen.set = Arc::new(s);
        let plan = decide(&seen, at(100));
        assert_eq!(plan.status.replicas, 3);
        assert_eq!(plan.status.fully_labeled_replicas, Some(3));
        assert_eq!(plan.status.ready_replicas, Some(2));
        assert_eq!(plan.status.available_replicas, Some(1));
        assert_eq!(plan.status.observed_generation, Some(1));
        assert_eq!(plan.requeue_at, Some(at(105)));
        assert!(!plan.idle);
    }

    #[test]
    fn an_error_is_a_condition_until_it_is_resolved() {
        let mut seen = seen(1, vec![]);
        seen.last_error = Some(PodError { reason: "FailedCreate", message: "forbidden".into() });
        let status = decide(&seen, at(5)).status;
        assert_eq!(status.conditions.as_ref().unwrap()[0].message.as_deref(), Some("forbidden"));
        let mut s = set(1);
        s.status = Some(status.clone());
        seen.set = Arc::new(s);
        assert_eq!(decide(&seen, at(9)).status, status, "the same error keeps its transition time");
        seen.last_error = None;
        assert_eq!(decide(&seen, at(9)).status.conditions, None);
    }

    #[test]
    fn an_error_is_over_when_nothing_is_wanted_of_what_failed() {
        let error = |reason| Some(PodError { reason, message: "forbidden".into() });
        for (name, replicas, pods, error, over) in [
            ("pods are still missing", 2, vec![pod("a")], error(FAILED_CREATE), false),
            ("scaled down to what exists", 1, vec![pod("a")], error(FAILED_CREATE), true),
            ("scaled down further", 0, vec![pod("a")], error(FAILED_CREATE), true),
            ("pods are still too many", 0, vec![pod("a")], error(FAILED_DELETE), false),
            ("scaled up to what exists", 1, vec![pod("a")], error(FAILED_DELETE), true),
            ("no error", 1, vec![pod("a")], None, false),
        ] {
            let mut seen = seen(replicas, pods);
            let fails = error.is_some() && !over;
            seen.last_error = error;
            let plan = decide(&seen, at(5));
            assert_eq!((plan.error_is_over, plan.status.conditions.is_some()), (over, fails), "{name}");
        }
    }

    #[test]
    fn deciding_again_after_the_plan_is_empty() {
        let pods = (0..7).map(|i| pod(&format!("p{i}")).node("n").ready(i)).collect();
        let mut seen = seen(4, pods);
        let plan = decide(&seen, at(10));
        seen.pods.mine.retain(|p| !plan.delete.iter().any(|d| d.metadata.name == p.metadata.name));
        let again = decide(&seen, at(10));
        assert!(again.idle && again.delete.is_empty() && again.create == 0);
    }
}
