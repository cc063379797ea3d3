//! Status of a Deployment: counts and the conditions Available, Progressing and ReplicaFailure.

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    decide::{Set, seconds},
    revision::{self, REVISION, REVISION_HISTORY},
    rolling::Sets,
    strategy::Strategy,
};

/// Value of `spec.progressDeadlineSeconds` without a deadline.
const NO_DEADLINE: i32 = i32::MAX;

pub(crate) fn of(deployment: &Deployment, sets: &Sets<'_>, strategy: &Strategy, now: Timestamp) -> DeploymentStatus {
    let all = || sets.old.iter().copied().chain(sets.new);
    let some = |n: i32| (n != 0).then_some(n);
    let before = deployment.status.clone().unwrap_or_default();
    let available: i32 = all().map(|s| s.counts.available).sum();
    let wanted: i32 = all().map(Set::wanted).sum();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(all().map(|s| s.counts.replicas).sum()),
        updated_replicas: some(sets.new.map_or(0, |s| s.counts.replicas)),
        ready_replicas: some(all().map(|s| s.counts.ready).sum()),
        available_replicas: some(available),
        unavailable_replicas: some((wanted - available).max(0)),
        collision_count: before.collision_count,
        terminating_replicas: before.terminating_replicas,
        conditions: before.conditions.clone(),
    };
    let mut conditions = Conditions { list: status.conditions.take().unwrap_or_default(), now };
    if available >= strategy.least_available() {
        conditions.set("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.".into());
    } else {
        let message = "Deployment does not have minimum availability.".into();
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message);
    }
    if deployment.metadata.deletion_timestamp.is_none() {
        progress(&mut conditions, deployment, &before, &status, sets.new, now);
    }
    failure(&mut conditions, sets);
    status.conditions = Some(conditions.list);
    status
}

/// Returns `true` if all pods have the new template and are available.
pub(crate) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
    let is = |n: Option<i32>| n.unwrap_or(0) == wanted;
    is(status.updated_replicas)
        && is(status.replicas)
        && is(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Time at which the progress deadline is exceeded, if a rollout is in progress.
pub(crate) fn deadline(deployment: &Deployment, status: &DeploymentStatus) -> Option<Timestamp> {
    let seconds_max = deadline_seconds(deployment)?;
    let condition = status.conditions.as_ref()?.iter().find(|c| c.type_ == "Progressing")?;
    if matches!(condition.reason.as_deref(), Some("NewReplicaSetAvailable" | "ProgressDeadlineExceeded")) {
        return None;
    }
    // Exactly at the deadline the rollout is still in time.
    condition.last_update_time.as_ref()?.0.checked_add(seconds(seconds_max.saturating_add(1))).ok()
}

fn deadline_seconds(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref().and_then(|s| s.progress_deadline_seconds).filter(|s| *s != NO_DEADLINE)
}

struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|c| c.type_ == type_)
    }

    /// Sets the condition; an existing one with this status and reason is kept.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: String) {
        if self.get(type_).is_none_or(|c| c.status != status || c.reason.as_deref() != Some(reason)) {
            self.renew(type_, status, reason, message);
        }
    }

    fn renew(&mut self, type_: &str, status: &str, reason: &str, message: String) {
        let kept = self.get(type_).filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
        self.list.retain(|c| c.type_ != type_);
        self.list.push(DeploymentCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_update_time: Some(Time(self.now)),
            last_transition_time: kept.or(Some(Time(self.now))),
        });
    }
}

fn progress(
    conditions: &mut Conditions,
    deployment: &Deployment,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    new: Option<&Set>,
    now: Timestamp,
) {
    let Some(seconds_max) = deadline_seconds(deployment) else {
        conditions.list.retain(|c| c.type_ != "Progressing");
        return;
    };
    let reason = conditions.get("Progressing").and_then(|c| c.reason.clone()).unwrap_or_default();
    let paused = deployment.spec.as_ref().and_then(|s| s.paused) == Some(true);
    match (paused, reason.as_str()) {
        (true, "ProgressDeadlineExceeded") => return,
        (true, _) => {
            return conditions.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused".into());
        }
        (false, "DeploymentPaused") => {
            return conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed".into());
        }
        _ => {}
    }
    let start = RolloutStart::of(deployment, new);
    if reason == "NewReplicaSetAvailable" && start.is_none() && status.replicas == status.updated_replicas {
        return;
    }
    let says = |what: &str| match new {
        Some(set) => format!("ReplicaSet {:?} {what}.", set.set.metadata.name.as_deref().unwrap_or("")),
        None => format!("Deployment {:?} {what}.", deployment.metadata.name.as_deref().unwrap_or("")),
    };
    // No pod of the last status has the new template, whatever that status counted.
    let updated_before = if start.is_some() { None } else { before.updated_replicas };
    let before = DeploymentStatus { updated_replicas: updated_before, ..before.clone() };
    if is_complete(deployment, status) {
        conditions.set("Progressing", "True", "NewReplicaSetAvailable", says("has successfully progressed"));
    } else if is_progressing(&before, status) {
        conditions.renew("Progressing", "True", "ReplicaSetUpdated", says("is progressing"));
    } else if let (Some(RolloutStart::Created), Some(new)) = (start, new) {
        // The progress deadline starts when the set is created, even if it never gets a pod.
        let message = format!("Created new replica set {:?}", new.set.metadata.name.as_deref().unwrap_or(""));
        conditions.set("Progressing", "True", "NewReplicaSetCreated", message);
    } else if let (true, Some(new)) = (reason.is_empty(), new) {
        let message = format!("Found new replica set {:?}", new.set.metadata.name.as_deref().unwrap_or(""));
        conditions.set("Progressing", "True", "FoundNewReplicaSet", message);
    } else if has_timed_out(conditions, seconds_max, now) {
        conditions.set("Progressing", "False", "ProgressDeadlineExceeded", says("has timed out progressing"));
    }
}

/// A rollout that began after the last status was written. A status may cover many steps, so that neither its counts
/// nor its conditions need show the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RolloutStart {
    /// The set of the new template does not exist yet.
    Awaited,
    /// The set was created for the rollout.
    Created,
    /// The set was there: of an earlier revision, or an adopted one.
    Found,
}

impl RolloutStart {
    /// Returns the rollout that the Deployment's revision does not show yet: it is written with the status.
    fn of(deployment: &Deployment, new: Option<&Set>) -> Option<Self> {
        let Some(new) = new else { return Some(Self::Awaited) };
        let set = &new.set.metadata;
        if revision::annotation(set, REVISION) == revision::annotation(&deployment.metadata, REVISION) {
            return None;
        }
        let is_older = set.creation_timestamp < deployment.metadata.creation_timestamp;
        let is_earlier = revision::annotation(set, REVISION_HISTORY).is_some();
        Some(if is_older || is_earlier { Self::Found } else { Self::Created })
    }
}

fn is_progressing(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let n = |n: Option<i32>| n.unwrap_or(0);
    let old = |s: &DeploymentStatus| n(s.replicas) - n(s.updated_replicas);
    n(status.updated_replicas) > n(before.updated_replicas)
        || old(status) < old(before)
        || n(status.ready_replicas) > n(before.ready_replicas)
        || n(status.available_replicas) > n(before.available_replicas)
}

fn has_timed_out(conditions: &Conditions, seconds_max: i32, now: Timestamp) -> bool {
    let Some(condition) = conditions.get("Progressing") else { return false };
    match condition.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => {
            let from = condition.last_update_time.as_ref().map_or(now, |t| t.0);
            from.checked_add(seconds(seconds_max)).is_ok_and(|until| until < now)
        }
    }
}

/// Returns the error of the new ReplicaSet, else that of the first old one that has one.
fn failure(conditions: &mut Conditions, sets: &Sets<'_>) {
    let of = |set: &Set| {
        let list = set.set.status.as_ref()?.conditions.as_ref()?;
        list.iter().find(|c| c.type_ == "ReplicaFailure").cloned()
    };
    match sets.new.into_iter().chain(sets.old.iter().copied()).find_map(of) {
        None => conditions.list.retain(|c| c.type_ != "ReplicaFailure"),
        Some(found) => conditions.set(
            "ReplicaFailure",
            &found.status,
            found.reason.as_deref().unwrap_or(""),
            found.message.unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        deployment::{
            decide::{Seen, decide},
            testkit::{DeploymentMaker, deployment, now, seen, set, sized},
        },
        testkit::at,
    };

    fn world(d: DeploymentMaker, sets: Vec<Set>) -> Seen {
        let strategy = Strategy::of(&d.clone().build());
        seen(d, sets.into_iter().map(|s| sized(s, strategy)).collect())
    }

    fn reason(status: &DeploymentStatus, type_: &str) -> String {
        let condition = status.conditions.as_ref().unwrap().iter().find(|c| c.type_ == type_);
        condition.map_or_else(|| "-".into(), |c| format!("{} {}", c.status, c.reason.as_deref().unwrap_or("")))
    }

    #[test]
    fn counts_and_conditions() {
        let d = |n| deployment(n).image("new");
        for (name, d, sets, counts, available, progressing) in [
            ("no pods yet", d(3), vec![], [None, None, None, None, None], "False MinimumReplicasUnavailable", "-"),
            (
                "zero replicas are available",
                d(0),
                vec![set("new", 1, 0, 0)],
                [None, None, None, None, None],
                "True MinimumReplicasAvailable",
                "True NewReplicaSetAvailable",
            ),
            (
                "pods that are starting",
                d(3),
                vec![set("new", 1, 3, 1)],
                [Some(3), Some(3), Some(1), Some(1), Some(2)],
                "False MinimumReplicasUnavailable",
                "True ReplicaSetUpdated",
            ),
            (
                "a quarter may be unavailable",
                d(4),
                vec![set("new", 1, 4, 3)],
                [Some(4), Some(4), Some(3), Some(3), Some(1)],
                "True MinimumReplicasAvailable",
                "True ReplicaSetUpdated",
            ),
            (
                "rolling",
                d(3),
                vec![set("old", 0, 3, 3), set("new", 1, 1, 0)],
                [Some(4), Some(1), Some(3), Some(3), Some(1)],
                "True MinimumReplicasAvailable",
                "True ReplicaSetUpdated",
            ),
            (
                "done",
                d(3),
                vec![set("old", 0, 0, 0), set("new", 1, 3, 3)],
                [Some(3), Some(3), Some(3), Some(3), None],
                "True MinimumReplicasAvailable",
                "True NewReplicaSetAvailable",
            ),
        ] {
            let status = decide(&world(d, sets), now()).status;
            let got = [
                status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas,
                status.unavailable_replicas,
            ];
            assert_eq!(got, counts, "{name}");
            assert_eq!(reason(&status, "Available"), available, "{name}");
            assert_eq!(reason(&status, "Progressing"), progressing, "{name}");
        }
    }

    /// The world after this status was written, with the revision of the newest set beside it.
    fn with_status(mut seen: Seen, status: DeploymentStatus) -> Seen {
        let revision = seen.sets.iter().map(|s| revision::revision_of(&s.set.metadata)).max();
        let deployment = Arc::make_mut(&mut seen.deployment);
        let annotations = deployment.metadata.annotations.get_or_insert_default();
        annotations.extend(revision.map(|revision| (REVISION.to_owned(), revision.to_string())));
        deployment.status = Some(status);
        seen
    }

    #[test]
    fn a_rollout_is_seen_even_if_no_status_shows_its_start() {
        let d = |replicas| deployment(replicas).image("new");
        let done = |replicas| {
            let old = deployment(replicas).image("old");
            decide(&world(old.clone(), vec![set("old", 0, replicas, replicas)]), at(900)).status
        };
        let before = |seen: Seen, replicas| {
            let mut seen = with_status(seen, done(replicas));
            let deployment = Arc::make_mut(&mut seen.deployment);
            deployment.metadata.annotations = Some([(REVISION.to_owned(), "1".to_owned())].into());
            seen
        };
        let bare = || {
            let mut bare = set("new", 1, 3, 0);
            bare.counts.replicas = 0;
            bare
        };
        let earlier = || {
            let mut back = set("new", 1, 3, 0);
            let annotations = Arc::make_mut(&mut back.set).metadata.annotations.get_or_insert_default();
            annotations.insert(REVISION_HISTORY.to_owned(), "1".to_owned());
            back.counts.replicas = 0;
            back
        };
        for (name, d, sets, want) in [
            ("recreated", d(3).recreate(), vec![set("old", 0, 0, 0), set("new", 1, 3, 0)], "True ReplicaSetUpdated"),
            ("stuck", d(3), vec![set("old", 0, 2, 2), set("new", 1, 2, 0)], "True ReplicaSetUpdated"),
            ("no pod yet", d(3), vec![set("old", 0, 3, 3), bare()], "True NewReplicaSetCreated"),
            ("rolled back, no pod yet", d(3), vec![set("old", 0, 3, 3), earlier()], "True NewReplicaSetAvailable"),
            ("already complete", d(3), vec![set("old", 0, 0, 0), set("new", 1, 3, 3)], "True NewReplicaSetAvailable"),
            ("the set is not created yet", d(3), vec![set("old", 0, 3, 3)], "True NewReplicaSetAvailable"),
            ("old pods of a recreation are gone", d(3).recreate(), vec![set("old", 0, 0, 0)], "True ReplicaSetUpdated"),
        ] {
            let status = decide(&before(world(d, sets), 3), at(1_000)).status;
            assert_eq!(reason(&status, "Progressing"), want, "{name}");
        }
    }

    #[test]
    fn a_deadline_that_comes_later_finds_the_set() {
        let none = |s: &mut k8s_openapi::api::apps::v1::DeploymentSpec| s.progress_deadline_seconds = None;
        let sets = || vec![set("new", 1, 3, 1)];
        let first = decide(&world(deployment(3).image("new").spec(none), sets()), at(900)).status;
        assert_eq!(reason(&first, "Progressing"), "-");
        let later = decide(&with_status(world(deployment(3).image("new"), sets()), first), at(1_000));
        assert_eq!(reason(&later.status, "Progressing"), "True FoundNewReplicaSet");
        assert!(later.requeue_at.is_some(), "the deadline runs from now on");
    }

    #[test]
    fn a_rollout_without_progress_times_out_and_recovers() {
        let d = || deployment(1).image("new");
        let start = decide(&world(d(), vec![set("new", 1, 1, 0)]), at(1_000));
        assert_eq!(reason(&start.status, "Progressing"), "True ReplicaSetUpdated");
        assert_eq!(start.requeue_at, Some(at(1_601)));
        let stuck = |now| decide(&with_status(world(d(), vec![set("new", 1, 1, 0)]), start.status.clone()), at(now));
        assert_eq!(stuck(1_600).status, start.status, "exactly at the deadline it is still in time");
        let late = stuck(1_601);
        assert_eq!(reason(&late.status, "Progressing"), "False ProgressDeadlineExceeded");
        let well = decide(&with_status(world(d(), vec![set("new", 1, 1, 1)]), late.status), at(1_700));
        assert_eq!(reason(&well.status, "Progressing"), "True NewReplicaSetAvailable");
    }

    #[test]
    fn the_progress_deadline_starts_with_the_new_set() {
        let mut bare = set("new", 1, 1, 0);
        bare.counts.replicas = 0;
        let plan = decide(&world(deployment(1).image("new"), vec![bare]), now());
        assert_eq!(reason(&plan.status, "Progressing"), "True NewReplicaSetCreated");
        assert!(plan.requeue_at.is_some());
    }

    #[test]
    fn losing_a_pod_after_the_rollout_starts_no_new_rollout() {
        let d = || deployment(3).image("new");
        let done = decide(&world(d(), vec![set("new", 1, 3, 3)]), at(1_000)).status;
        let lost = decide(&with_status(world(d(), vec![set("new", 1, 3, 2)]), done), at(9_000)).status;
        assert_eq!(reason(&lost, "Progressing"), "True NewReplicaSetAvailable");
        assert_eq!(reason(&lost, "Available"), "False MinimumReplicasUnavailable");
    }

    #[test]
    fn pausing_and_resuming_set_the_progressing_condition() {
        let d = |paused| deployment(1).image("new").spec(move |s| s.paused = Some(paused));
        let sets = || vec![set("new", 1, 1, 0)];
        let paused = decide(&world(d(true), sets()), now()).status;
        assert_eq!(reason(&paused, "Progressing"), "Unknown DeploymentPaused");
        let resumed = decide(&with_status(world(d(false), sets()), paused), now()).status;
        assert_eq!(reason(&resumed, "Progressing"), "Unknown DeploymentResumed");
    }

    #[test]
    fn deciding_again_without_changes_keeps_the_status() {
        for sets in [vec![set("new", 1, 3, 3)], vec![set("old", 0, 3, 3), set("new", 1, 1, 0)], vec![]] {
            let world = || world(deployment(3).image("new"), sets.clone());
            let first = decide(&world(), at(1_000)).status;
            let again = decide(&with_status(world(), first.clone()), at(1_010)).status;
            assert_eq!(again, first);
        }
    }
}
