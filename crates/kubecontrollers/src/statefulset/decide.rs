//! Decision about a StatefulSet: pods to create, delete and update, one by one or in parallel.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetStatus},
    core::v1::Pod,
};

use crate::{
    history::REVISION_LABEL,
    pods::{self, Availability, is_finished, is_terminating, labels},
};

pub(crate) struct Seen {
    pub(crate) set: Arc<StatefulSet>,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Name of the revision of the template.
    pub(crate) update: String,
    /// Name of the revision that all pods last had.
    pub(crate) current: String,
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Plan {
    /// Ordinals of the pods to create, each with its revision.
    pub(crate) create: Vec<(i32, String)>,
    pub(crate) delete: Vec<Arc<Pod>>,
    pub(crate) status: StatefulSetStatus,
    pub(crate) idle: bool,
    pub(crate) requeue_at: Option<Timestamp>,
}

/// Parses the ordinal in the name of a pod of this set.
pub(crate) fn ordinal(set: &str, pod: &Pod) -> Option<i32> {
    let digits = pod.metadata.name.as_deref()?.strip_prefix(set)?.strip_prefix('-')?;
    digits.parse().ok().filter(|n: &i32| *n >= 0 && n.to_string() == digits)
}

/// Returns `true` if a pod of this ordinal is not among the set's replicas.
pub(crate) fn is_condemned(set: &StatefulSet, ordinal: i32) -> bool {
    !Rules::of(set).includes(ordinal)
}

struct Rules {
    first: i32,
    replicas: i32,
    one_by_one: bool,
    rolls: bool,
    partition: i32,
    min_ready: i32,
}

impl Rules {
    fn of(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let strategy = spec.and_then(|s| s.update_strategy.as_ref());
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        Self {
            first: spec.and_then(|s| s.ordinals.as_ref()).and_then(|o| o.start).unwrap_or(0).max(0),
            replicas: spec.and_then(|s| s.replicas).unwrap_or(1).max(0),
            one_by_one: spec.and_then(|s| s.pod_management_policy.as_deref()) != Some("Parallel"),
            rolls: strategy.and_then(|s| s.type_.as_deref()) != Some("OnDelete"),
            partition: rolling.and_then(|r| r.partition).unwrap_or(0).max(0),
            min_ready: spec.and_then(|s| s.min_ready_seconds).unwrap_or(0),
        }
    }

    fn includes(&self, ordinal: i32) -> bool {
        ordinal >= self.first && ordinal - self.first < self.replicas
    }

    /// Returns the first ordinal to update: those below keep the current revision.
    fn updates_from(&self) -> i32 {
        self.first.saturating_add(self.partition)
    }
}

fn revision(pod: &Pod) -> &str {
    labels(&pod.metadata).get(REVISION_LABEL).map_or("", String::as_str)
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let set = &*seen.set;
    let rules = Rules::of(set);
    let name = set.metadata.name.as_deref().unwrap_or("");
    let by_ordinal: BTreeMap<i32, &Arc<Pod>> = seen.pods.iter().filter_map(|p| Some((ordinal(name, p)?, p))).collect();
    let mut plan = Plan {
        create: Vec::new(),
        delete: Vec::new(),
        status: status(seen, &rules, &by_ordinal, now),
        idle: false,
        requeue_at: None,
    };
    for pod in by_ordinal.values() {
        if let Availability::From(at) = pods::availability(pod, rules.min_ready, now) {
            plan.requeue_at = Some(plan.requeue_at.map_or(at, |next| next.min(at)));
        }
    }
    if set.metadata.deletion_timestamp.is_none() {
        let _ = step(&mut plan, seen, &rules, &by_ordinal, now);
    }
    let whole = |n: Option<i32>| n.unwrap_or(0) == rules.replicas;
    plan.idle = plan.create.is_empty()
        && plan.delete.is_empty()
        && plan.status.replicas == rules.replicas
        && whole(plan.status.ready_replicas)
        && whole(plan.status.available_replicas);
    plan
}

/// Adds pods to create or delete to the plan; returns `None` if it must wait.
fn step(plan: &mut Plan, seen: &Seen, rules: &Rules, pods: &BTreeMap<i32, &Arc<Pod>>, now: Timestamp) -> Option<()> {
    let well = |pod: &Pod| !is_terminating(pod) && pods::availability(pod, rules.min_ready, now) == Availability::Yes;
    for ordinal in (0..rules.replicas).map(|n| rules.first.saturating_add(n)) {
        match pods.get(&ordinal) {
            None => {
                let old = rules.rolls && ordinal < rules.updates_from();
                let revision = if old { &seen.current } else { &seen.update };
                plan.create.push((ordinal, revision.clone()));
            }
            Some(pod) if is_finished(pod) && !is_terminating(pod) => plan.delete.push((*pod).clone()),
            Some(pod) if well(pod) => continue,
            Some(_) => {}
        }
        if rules.one_by_one {
            return None;
        }
    }
    for (_, pod) in pods.iter().rev().filter(|(ordinal, _)| !rules.includes(**ordinal)) {
        if !is_terminating(pod) {
            plan.delete.push((*pod).clone());
        }
        if rules.one_by_one {
            return None;
        }
    }
    if !rules.rolls || !plan.create.is_empty() || !plan.delete.is_empty() {
        return None;
    }
    // Update from the highest ordinal down; each pod must be healthy before the next is updated.
    for (_, pod) in pods.range(rules.updates_from()..).rev().filter(|(ordinal, _)| rules.includes(**ordinal)) {
        if revision(pod) != seen.update && !is_terminating(pod) {
            plan.delete.push((*pod).clone());
            return None;
        }
        if !well(pod) {
            return None;
        }
    }
    Some(())
}

fn status(seen: &Seen, rules: &Rules, pods: &BTreeMap<i32, &Arc<Pod>>, now: Timestamp) -> StatefulSetStatus {
    let before = seen.set.status.clone().unwrap_or_default();
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let count = |is: &dyn Fn(&Pod) -> bool| number(pods.values().filter(|p| is(p)).count());
    let lives = |p: &Pod| !is_terminating(p) && !is_finished(p);
    let some = |n: i32| (n > 0).then_some(n);
    let replicas = number(pods.len());
    let ready = count(&|p| lives(p) && pods::ready_since(p).is_some());
    let available = count(&|p| lives(p) && pods::availability(p, rules.min_ready, now) == Availability::Yes);
    let updated = count(&|p| lives(p) && revision(p) == seen.update);
    let mut current_revision = seen.current.clone();
    let mut current = count(&|p| lives(p) && revision(p) == seen.current);
    if rules.rolls && updated == replicas && ready == replicas && replicas == rules.replicas {
        current_revision.clone_from(&seen.update);
        current = updated;
    }
    StatefulSetStatus {
        replicas,
        ready_replicas: some(ready),
        available_replicas: some(available),
        updated_replicas: some(updated),
        current_replicas: some(current),
        current_revision: Some(current_revision),
        update_revision: Some(seen.update.clone()),
        observed_generation: seen.set.metadata.generation,
        collision_count: before.collision_count.or(Some(0)),
        conditions: before.conditions,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{
        RollingUpdateStatefulSetStrategy, StatefulSetOrdinals, StatefulSetSpec, StatefulSetUpdateStrategy,
    };
    use kube::ResourceExt as _;

    use super::*;
    use crate::testkit::{PodMaker, at, meta, pod};

    fn set(replicas: i32, change: impl FnOnce(&mut StatefulSetSpec)) -> StatefulSet {
        let mut spec = StatefulSetSpec { replicas: Some(replicas), ..StatefulSetSpec::default() };
        change(&mut spec);
        StatefulSet { metadata: meta("s"), spec: Some(spec), status: None }
    }

    fn plan(set: StatefulSet, pods: Vec<PodMaker>) -> Plan {
        let pods = pods.into_iter().map(PodMaker::arc).collect();
        decide(&Seen { set: Arc::new(set), pods, update: "new".into(), current: "old".into() }, at(100))
    }

    fn p(name: &str, revision: &str) -> PodMaker {
        pod(name).label(REVISION_LABEL, revision)
    }

    fn parallel(spec: &mut StatefulSetSpec) {
        spec.pod_management_policy = Some("Parallel".into());
    }

    fn partition(n: i32) -> impl FnOnce(&mut StatefulSetSpec) {
        move |spec| {
            spec.update_strategy = Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy { partition: Some(n), max_unavailable: None }),
            });
        }
    }

    fn on_delete(spec: &mut StatefulSetSpec) {
        spec.update_strategy = Some(StatefulSetUpdateStrategy { type_: Some("OnDelete".into()), rolling_update: None });
    }

    #[test]
    fn pods_are_created_scaled_and_updated_in_order() {
        let r = |name: &str, revision: &str| p(name, revision).ready(0);
        let from = |n: i32| move |s: &mut StatefulSetSpec| s.ordinals = Some(StatefulSetOrdinals { start: Some(n) });
        for (name, set, pods, create, delete) in [
            ("only the first pod is created", set(3, |_| {}), vec![], vec!["0 new"], vec![]),
            ("the second waits until the first is ready", set(3, |_| {}), vec![p("s-0", "new")], vec![], vec![]),
            (
                "the second is created when the first is ready",
                set(3, |_| {}),
                vec![r("s-0", "new")],
                vec!["1 new"],
                vec![],
            ),
            ("policy Parallel creates all at once", set(3, parallel), vec![], vec!["0 new", "1 new", "2 new"], vec![]),
            ("ordinals start at spec.ordinals.start", set(2, from(5)), vec![], vec!["5 new"], vec![]),
            (
                "a missing ordinal is created first",
                set(3, |_| {}),
                vec![r("s-0", "new"), r("s-2", "new")],
                vec!["1 new"],
                vec![],
            ),
            (
                "a failed pod is deleted before it is replaced",
                set(1, |_| {}),
                vec![p("s-0", "new").phase("Failed")],
                vec![],
                vec!["s-0"],
            ),
            (
                "scaling down deletes only the highest ordinal",
                set(1, |_| {}),
                vec![r("s-0", "new"), r("s-1", "new"), r("s-2", "new")],
                vec![],
                vec!["s-2"],
            ),
            (
                "the next one waits until it is deleted",
                set(1, |_| {}),
                vec![r("s-0", "new"), r("s-1", "new"), r("s-2", "new").terminating()],
                vec![],
                vec![],
            ),
            (
                "an update begins with the highest ordinal",
                set(2, |_| {}),
                vec![r("s-0", "old"), r("s-1", "old")],
                vec![],
                vec!["s-1"],
            ),
            (
                "an update waits until that pod is ready",
                set(2, |_| {}),
                vec![r("s-0", "old"), p("s-1", "new")],
                vec![],
                vec![],
            ),
            (
                "then the next lower ordinal is updated",
                set(2, |_| {}),
                vec![r("s-0", "old"), r("s-1", "new")],
                vec![],
                vec!["s-0"],
            ),
            (
                "ordinals below the partition are not updated",
                set(2, partition(1)),
                vec![r("s-0", "old"), r("s-1", "new")],
                vec![],
                vec![],
            ),
            (
                "pods below the partition are recreated with the old revision",
                set(2, partition(1)),
                vec![],
                vec!["0 old"],
                vec![],
            ),
            (
                "OnDelete: pods are not updated",
                set(2, on_delete),
                vec![r("s-0", "old"), r("s-1", "old")],
                vec![],
                vec![],
            ),
            (
                "OnDelete: a new pod has the new revision",
                set(2, on_delete),
                vec![r("s-0", "old")],
                vec!["1 new"],
                vec![],
            ),
            (
                "pods with other names are left alone",
                set(0, |_| {}),
                vec![r("s-x", "new"), r("s-01", "new")],
                vec![],
                vec![],
            ),
        ] {
            let plan = plan(set, pods);
            let got: Vec<_> = plan.create.iter().map(|(n, r)| format!("{n} {r}")).collect();
            assert_eq!(got, create, "{name}");
            assert_eq!(plan.delete.iter().map(|p| p.name_any()).collect::<Vec<_>>(), delete, "{name}");
        }
    }

    #[test]
    fn status_counts_pods_by_revision() {
        let pods = || vec![p("s-0", "old").ready(0), p("s-1", "new").ready(0)];
        let status = plan(set(2, |_| {}), pods()).status;
        assert_eq!((status.replicas, status.ready_replicas), (2, Some(2)));
        assert_eq!((status.updated_replicas, status.current_replicas), (Some(1), Some(1)));
        assert_eq!(status.current_revision.as_deref(), Some("old"));
        let done = plan(set(2, |_| {}), vec![p("s-0", "new").ready(0), p("s-1", "new").ready(0)]);
        assert_eq!(done.status.current_revision.as_deref(), Some("new"), "all pods have the new revision");
        assert_eq!(done.status.current_replicas, Some(2));
        assert!(done.idle);
    }
}
