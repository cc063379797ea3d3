//! Decision about a Deployment: ReplicaSets to create, scale and delete, and its status.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};

use super::{
    revision::{self, REVISION},
    rolling::{self, Sets},
    status,
    strategy::Strategy,
};
use crate::{owner::Claims, replicaset::Counts};

pub(crate) struct Seen {
    pub(crate) deployment: Arc<Deployment>,
    /// The ReplicaSets that it controls.
    pub(crate) sets: Vec<Set>,
    /// ReplicaSets to adopt or release; `mine` is empty, see `sets`.
    pub(crate) claims: Claims<ReplicaSet>,
}

/// A ReplicaSet with its pods counted. The Deployment counts pods itself, so it need not wait for the set's status.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) set: Arc<ReplicaSet>,
    pub(crate) counts: Counts,
    /// Pods that have not ended, terminating ones included.
    pub(crate) unfinished: i32,
}

impl Set {
    pub(crate) fn wanted(&self) -> i32 {
        crate::replicaset::wanted(&self.set)
    }

    fn name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or("")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    pub(crate) set: Arc<ReplicaSet>,
    pub(crate) replicas: Option<i32>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) min_ready_seconds: Option<i32>,
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Plan {
    pub(crate) adopt: Vec<Arc<ReplicaSet>>,
    pub(crate) release: Vec<Arc<ReplicaSet>>,
    pub(crate) create: Option<ReplicaSet>,
    pub(crate) update: Vec<Update>,
    pub(crate) delete: Vec<Arc<ReplicaSet>>,
    pub(crate) status: DeploymentStatus,
    /// New revision annotation of the Deployment; it is written with the status.
    pub(crate) revision: Option<String>,
    /// Nothing is in progress: the status is final.
    pub(crate) idle: bool,
    /// Time of the next reconcile without an event.
    pub(crate) requeue_at: Option<Timestamp>,
}

impl Plan {
    fn change(&mut self, set: &Set) -> &mut Update {
        let place = self.update.iter().position(|u| Arc::ptr_eq(&u.set, &set.set)).unwrap_or_else(|| {
            self.update.push(Update {
                set: set.set.clone(),
                replicas: None,
                annotations: BTreeMap::new(),
                min_ready_seconds: None,
            });
            self.update.len() - 1
        });
        &mut self.update[place]
    }

    fn resize(&mut self, set: &Set, size: i32, strategy: &Strategy) {
        let mut annotations = revision::size_annotations(strategy);
        annotations.retain(|k, v| revision::annotation(&set.set.metadata, k) != Some(v));
        let resized = set.wanted() != size;
        if resized || !annotations.is_empty() {
            let update = self.change(set);
            update.annotations.extend(annotations);
            if resized {
                update.replicas = Some(size);
            }
        }
    }
}

/// Decides one step of the Deployment; the changes that it causes trigger the next.
pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let deployment = &*seen.deployment;
    let strategy = Strategy::of(deployment);
    let new_name =
        revision::new_set_among(deployment, seen.sets.iter().map(|s| &*s.set)).map(|s| s.metadata.name.clone());
    let (mut old, mut new): (Vec<&Set>, Option<&Set>) = (Vec::new(), None);
    for set in &seen.sets {
        if new_name.as_ref() == Some(&set.set.metadata.name) { new = Some(set) } else { old.push(set) }
    }
    old.sort_by(|a, b| revision::age_key(&a.set).cmp(&revision::age_key(&b.set)));
    let sets = Sets { new, old: &old };

    let status = status::of(deployment, &sets, &strategy, now);
    let mut plan = Plan {
        adopt: seen.claims.adopt.clone(),
        release: seen.claims.release.clone(),
        create: None,
        update: Vec::new(),
        delete: Vec::new(),
        requeue_at: status::deadline(deployment, &status).into_iter().chain(next_available(&seen.sets)).min(),
        status,
        revision: None,
        idle: false,
    };
    if deployment.metadata.deletion_timestamp.is_none() && plan.adopt.is_empty() && plan.release.is_empty() {
        step(&mut plan, deployment, &sets, &strategy);
    }
    let still = plan.create.is_none() && plan.update.is_empty() && plan.delete.is_empty() && plan.adopt.is_empty();
    plan.idle = still && seen.sets.iter().all(|s| s.counts.available == s.wanted() && s.counts.replicas == s.wanted());
    plan
}

fn next_available(sets: &[Set]) -> Option<Timestamp> {
    sets.iter().filter_map(|s| s.counts.next).min()
}

fn step(plan: &mut Plan, deployment: &Deployment, sets: &Sets<'_>, strategy: &Strategy) {
    let spec = deployment.spec.as_ref();
    let next_revision = sets.old.iter().map(|s| revision::revision_of(&s.set.metadata)).max().unwrap_or(0) + 1;
    if let Some(new) = sets.new {
        let annotations = revision::new_set_annotations(deployment, Some(&new.set.metadata), next_revision);
        if !annotations.is_empty() {
            plan.change(new).annotations.extend(annotations);
        }
        let min_ready = spec.and_then(|s| s.min_ready_seconds).unwrap_or(0);
        if new.set.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or(0) != min_ready {
            plan.change(new).min_ready_seconds = Some(min_ready);
        }
        let revision = revision::revision_of(&new.set.metadata).max(next_revision).to_string();
        if revision::annotation(&deployment.metadata, REVISION) != Some(&revision) {
            plan.revision = Some(revision);
        }
    }
    let paused = spec.and_then(|s| s.paused) == Some(true);
    if paused || is_scaled(sets, strategy) {
        let before = deployment.status.as_ref().and_then(|s| s.replicas).unwrap_or(0);
        for (set, size) in rolling::scale(sets, strategy, before) {
            plan.resize(set, size, strategy);
        }
        if paused && plan.update.is_empty() {
            clean_up(plan, deployment, sets);
        }
        return;
    }
    if strategy.recreate {
        recreate(plan, deployment, sets, strategy)
    } else {
        roll(plan, deployment, sets, strategy)
    }
    if plan.create.is_none() && plan.update.is_empty() && status::is_complete(deployment, &plan.status) {
        clean_up(plan, deployment, sets);
    }
    // The Deployment's revision is written with the first status that counts the new set.
    if let Some(set) = &mut plan.create {
        set.metadata.annotations.get_or_insert_default().insert(REVISION.to_owned(), next_revision.to_string());
    }
}

/// `spec.replicas` changed since the sets were last resized.
fn is_scaled(sets: &Sets<'_>, strategy: &Strategy) -> bool {
    sets.old
        .iter()
        .copied()
        .chain(sets.new)
        .filter(|s| s.wanted() > 0)
        .any(|s| revision::number(&s.set.metadata, revision::DESIRED_REPLICAS).is_some_and(|n| n != strategy.replicas))
}

fn roll(plan: &mut Plan, deployment: &Deployment, sets: &Sets<'_>, strategy: &Strategy) {
    let size = rolling::new_size(sets, strategy);
    let Some(new) = sets.new else {
        plan.create = Some(revision::new_set(deployment, strategy, 1, size));
        return;
    };
    if size != new.wanted() {
        plan.resize(new, size, strategy);
        return;
    }
    for (place, size) in rolling::shrink_old(sets, strategy) {
        plan.resize(sets.old[place], size, strategy);
    }
}

fn recreate(plan: &mut Plan, deployment: &Deployment, sets: &Sets<'_>, strategy: &Strategy) {
    for (place, size) in rolling::drop_old(sets) {
        plan.resize(sets.old[place], size, strategy);
    }
    if sets.old.iter().any(|s| s.wanted() > 0 || s.unfinished > 0) {
        return;
    }
    match sets.new {
        None => plan.create = Some(revision::new_set(deployment, strategy, 1, strategy.replicas)),
        Some(new) if new.wanted() != strategy.replicas => plan.resize(new, strategy.replicas, strategy),
        Some(_) => {}
    }
}

/// Deletes old ReplicaSets beyond `revisionHistoryLimit`, the lowest revision first.
fn clean_up(plan: &mut Plan, deployment: &Deployment, sets: &Sets<'_>) {
    let Some(keep) = deployment.spec.as_ref().and_then(|s| s.revision_history_limit) else { return };
    let mut old: Vec<&Set> = sets.old.iter().copied().filter(|s| s.set.metadata.deletion_timestamp.is_none()).collect();
    let surplus = old.len().saturating_sub(usize::try_from(keep).unwrap_or(0));
    old.sort_by_key(|s| (revision::revision_of(&s.set.metadata), s.name().to_owned()));
    let idle = |s: &&Set| s.wanted() == 0 && s.counts.replicas == 0 && s.unfinished == 0;
    plan.delete = old.into_iter().take(surplus).filter(idle).map(|s| s.set.clone()).collect();
}

/// Compares an existing ReplicaSet of the new name: `true` if it has the wanted template, `false` if another template
/// has the same hash.
pub(crate) fn has_wanted_template(deployment: &Deployment, found: &ReplicaSet) -> bool {
    let ours =
        crate::owner::controller_of(&found.metadata).is_some_and(|r| Some(&r.uid) == deployment.metadata.uid.as_ref());
    ours && revision::new_set_among(deployment, [found].into_iter()).is_some()
}

pub(crate) fn seconds(n: i32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::testkit::{DeploymentMaker, deployment, now, seen, set, sized};

    fn sizes(plan: &Plan) -> Vec<(String, i32)> {
        let name = |u: &Update| u.set.metadata.uid.clone().unwrap().trim_start_matches("uid-").to_owned();
        plan.update.iter().filter_map(|u| u.replicas.map(|n| (name(u), n))).collect()
    }

    fn plan(d: DeploymentMaker, sets: Vec<Set>) -> Plan {
        let strategy = Strategy::of(&d.clone().build());
        let sets = sets.into_iter().map(|s| sized(s, strategy)).collect();
        decide(&seen(d, sets), now())
    }

    #[test]
    fn rollout_steps() {
        let d = |n| deployment(n).image("new");
        for (name, d, sets, create, resize) in [
            ("no set: the first one is created in full size", d(3), vec![], Some(3), vec![]),
            ("complete: nothing to do", d(3), vec![set("new", 1, 3, 3)], None, vec![]),
            ("a new template starts with the surge", d(3), vec![set("old", 0, 3, 3)], Some(1), vec![]),
            (
                "a new pod is available: an old one is removed",
                d(3),
                vec![set("old", 0, 3, 3), set("new", 1, 1, 1)],
                None,
                vec![("old", 2)],
            ),
            (
                "an old pod was removed: the next new one is created",
                d(3),
                vec![set("old", 0, 2, 2), set("new", 1, 1, 1)],
                None,
                vec![("new", 2)],
            ),
            (
                "Recreate: old pods are removed first",
                d(3).recreate(),
                vec![set("old", 0, 3, 3)],
                None,
                vec![("old", 0)],
            ),
            ("paused: no rollout", d(3).spec(|s| s.paused = Some(true)), vec![set("old", 0, 3, 3)], None, vec![]),
        ] {
            let plan = plan(d, sets);
            assert_eq!(plan.create.as_ref().map(crate::replicaset::wanted), create, "{name}");
            let resize: Vec<_> = resize.into_iter().map(|(n, s): (&str, i32)| (n.to_owned(), s)).collect();
            assert_eq!(sizes(&plan), resize, "{name}");
        }
    }

    #[test]
    fn recreate_waits_for_the_last_old_pod() {
        let mut old = set("old", 0, 0, 0);
        old.unfinished = 1;
        assert!(plan(deployment(3).image("new").recreate(), vec![old.clone()]).create.is_none());
        old.unfinished = 0;
        assert!(plan(deployment(3).image("new").recreate(), vec![old]).create.is_some());
    }

    #[test]
    fn scaling_resizes_in_one_write_with_its_annotations() {
        let was = Strategy::of(&deployment(3).build());
        let seen = seen(deployment(5).image("new"), vec![sized(set("new", 1, 3, 3), was)]);
        let plan = decide(&seen, now());
        assert_eq!(sizes(&plan), [("new".to_owned(), 5)]);
        assert_eq!(plan.update[0].annotations["deployment.kubernetes.io/desired-replicas"], "5");
        assert_eq!(plan.update[0].annotations["deployment.kubernetes.io/max-replicas"], "7");
    }

    #[test]
    fn scaling_while_paused_works() {
        let was = Strategy::of(&deployment(3).build());
        let d = deployment(5).image("new").spec(|s| s.paused = Some(true));
        let plan = decide(&seen(d, vec![sized(set("old", 0, 3, 3), was)]), now());
        assert_eq!(sizes(&plan), [("old".to_owned(), 5)]);
    }

    #[test]
    fn each_rollout_and_rollback_gets_the_next_revision() {
        let first = plan(deployment(1).image("a"), vec![]);
        assert_eq!(revision::revision_of(&first.create.unwrap().metadata), 1);
        // `set` gives the revision created + 1.
        let second = plan(deployment(1).image("b"), vec![set("a", 0, 1, 1)]);
        assert_eq!(revision::revision_of(&second.create.unwrap().metadata), 2);
        let back = plan(deployment(1).image("a"), vec![set("a", 0, 0, 0), set("b", 1, 1, 1)]);
        assert_eq!(back.update[0].annotations[REVISION], "3");
        assert_eq!(back.revision.as_deref(), Some("3"));
    }

    #[test]
    fn old_revisions_beyond_the_limit_are_deleted_first() {
        let d = deployment(1).image("new").spec(|s| s.revision_history_limit = Some(1));
        let sets = vec![set("a", 0, 0, 0), set("b", 1, 0, 0), set("c", 2, 0, 0), set("new", 3, 1, 1)];
        let names: Vec<_> = plan(d.clone(), sets).delete.iter().map(|s| s.metadata.uid.clone().unwrap()).collect();
        assert_eq!(names, ["uid-a", "uid-b"]);
        let mut busy = set("a", 0, 0, 0);
        busy.unfinished = 1;
        let kept = plan(d, vec![busy, set("b", 1, 0, 0), set("new", 3, 1, 1)]);
        assert!(kept.delete.is_empty(), "a set with terminating pods is kept");
    }

    #[test]
    fn changed_min_ready_seconds_are_copied_to_the_new_set() {
        let plan = plan(deployment(1).image("new").spec(|s| s.min_ready_seconds = Some(5)), vec![set("new", 1, 1, 1)]);
        assert_eq!(plan.update[0].min_ready_seconds, Some(5));
    }

    #[test]
    fn a_deployment_is_idle_when_nothing_is_in_progress() {
        assert!(plan(deployment(3).image("new"), vec![set("new", 1, 3, 3)]).idle);
        assert!(!plan(deployment(3).image("new"), vec![set("new", 1, 3, 2)]).idle);
        assert!(!plan(deployment(3).image("new"), vec![]).idle);
    }
}
