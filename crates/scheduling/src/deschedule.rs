//! The descheduler: takes replicas back that a member has found no node for, so that the scheduler places them
//! elsewhere (specification/scheduling.md 12).
//!
//! It only shrinks targets. The clusters that lost replicas are recorded in an annotation of the binding, and the
//! scheduler assigns no further replicas to them for some time (specification/scheduling.md 16.25).

use std::collections::BTreeMap;

use ironclad_api::{
    JsonText,
    annotations::{APPLIED_PLACEMENT, DESCHEDULED},
    events::DESCHEDULE_BINDING_SUCCEED,
    policy::Placement,
    work::{ResourceBinding, TargetCluster},
};
use ironclad_fleet::{Because, BindingRef, ClusterName, Event, Plan, because::schedule::Reason};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{avoided::recorded, cycle::divides_by_capacity};

pub use crate::avoided::{avoided, without_past};

/// Time for which a cluster gets no further replicas after it lost some.
pub const AVOIDED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// Flags of the descheduler (specification/operations.md 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `--descheduling-interval`.
    pub interval: SignedDuration,
    /// `--unschedulable-threshold`: a replica that waits for a node longer is taken back.
    pub threshold: SignedDuration,
}

impl Default for Options {
    fn default() -> Self {
        Self { interval: SignedDuration::from_mins(2), threshold: SignedDuration::from_mins(5) }
    }
}

/// Effects of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Merge patch of the binding.
    Patch(Value),
    /// Events about it, once it is applied.
    Event(Event),
}

/// Component that decides how many replicas a target has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy {
    /// The scheduler: members run what it assigned.
    Scheduler,
    /// An autoscaler in each member (specification/autoscaling.md 6): what is assigned are weights only.
    Members,
    /// None: a person paused evictions, and what is assigned stays.
    Nobody,
}

/// Clusters to ask for unschedulable replicas: targets with fewer ready replicas than assigned ones, or an unknown
/// number. None if the descheduler leaves the binding alone.
#[must_use]
pub fn questions(binding: &ResourceBinding, by: DecidedBy) -> Vec<ClusterName> {
    if by != DecidedBy::Scheduler || !is_descheduled(binding) {
        return Vec::new();
    }
    let undesired = |target: &&TargetCluster| ready(binding, &target.name) < i64::from(target.replicas);
    binding.spec.clusters.iter().filter(undesired).map(|target| target.name.as_str().into()).collect()
}

/// Decides which targets shrink. `unschedulable` has the answers of the estimators; a missing one is no opinion.
pub fn decide(
    binding: &ResourceBinding,
    by: DecidedBy,
    unschedulable: &BTreeMap<ClusterName, i32>,
    now: Timestamp,
) -> Plan<Effect> {
    let mut plan = Plan::default();
    let mut targets = binding.spec.clusters.clone();
    let mut lost: Vec<(String, i32)> = Vec::new();
    for name in questions(binding, by) {
        let Some(target) = targets.iter_mut().find(|target| *target.name == *name.0) else { continue };
        let pending = unschedulable.get(&name).copied().unwrap_or(0);
        let after = shrunk(target.replicas, ready(binding, &name.0), pending);
        if after < target.replicas {
            lost.push((target.name.clone(), target.replicas - after));
            plan.note(Because::from(Reason::TakenBack { cluster: name, replicas: target.replicas - after }));
            target.replicas = after;
        }
    }
    let mut avoided = recorded(BindingRef::from(binding));
    let expired = |until: &Timestamp| *until <= now;
    if lost.is_empty() && !avoided.values().any(expired) {
        return plan;
    }
    avoided.retain(|_, until| !expired(until));
    let until = now.saturating_add(AVOIDED_FOR).unwrap_or(Timestamp::MAX);
    avoided.extend(lost.iter().map(|(cluster, _)| (ClusterName::from(cluster.as_str()), until)));
    let avoided: BTreeMap<&str, String> = avoided.iter().map(|(name, until)| (&*name.0, until.to_string())).collect();
    let annotation = if avoided.is_empty() { Value::Null } else { json!(json!(avoided).to_string()) };
    let mut patch = json!({"metadata": {"annotations": {DESCHEDULED: annotation}}});
    if !lost.is_empty() {
        patch["spec"] = json!({"clusters": targets});
    }
    plan.effects.push(Effect::Patch(patch));
    if !lost.is_empty() {
        let message = message(&lost);
        let view = BindingRef::from(binding);
        for about in [view.reference(), binding.spec.resource.clone()] {
            plan.effects.push(Effect::Event(Event::normal(about, DESCHEDULE_BINDING_SUCCEED, message.as_str())));
        }
    }
    plan
}

/// Returns whether the descheduler considers the binding: a Deployment that was divided by capacity.
fn is_descheduled(binding: &ResourceBinding) -> bool {
    let resource = &binding.spec.resource;
    if (resource.api_version.as_str(), resource.kind.as_str()) != ("apps/v1", "Deployment")
        || binding.metadata.deletion_timestamp.is_some()
    {
        return false;
    }
    let applied = binding.metadata.annotations.as_ref().and_then(|all| all.get(APPLIED_PLACEMENT));
    let placement = applied.and_then(|text| serde_json::from_str::<Placement>(text).ok());
    placement.is_some_and(|placement| divides_by_capacity(&placement))
}

/// Ready replicas that a cluster reports; -1 if unknown.
fn ready(binding: &ResourceBinding, cluster: &str) -> i64 {
    let reports = binding.status.as_ref().map_or(&[][..], |status| &status.aggregated_status);
    let report = reports.iter().find(|report| report.cluster_name == cluster);
    let status = report.and_then(|report| report.status.as_ref()).map(JsonText::value);
    status.and_then(|status| status.get("readyReplicas").and_then(Value::as_i64)).unwrap_or(-1)
}

/// Replicas of a target after the unschedulable ones are taken back: never fewer than are ready.
fn shrunk(replicas: i32, ready: i64, unschedulable: i32) -> i32 {
    if unschedulable <= 0 || unschedulable > replicas {
        return replicas;
    }
    let target = replicas - unschedulable;
    match i32::try_from(ready) {
        Ok(ready) if target < ready && ready <= replicas => ready,
        _ => target,
    }
}

fn message(lost: &[(String, i32)]) -> String {
    let each: Vec<String> =
        lost.iter().map(|(cluster, replicas)| format!("{replicas} replica(s) in cluster({cluster})")).collect();
    let total = lost.iter().fold(0_i64, |sum, (_, replicas)| sum + i64::from(*replicas));
    format!("Binding has been descheduled, {}, {total} total descheduled replica(s)", each.join(", "))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use ironclad_api::{
        conditions::{self, TRUE, cluster::READY},
        work::{AggregatedStatusItem, PreemptionPolicy, ResolvedPriority},
    };
    use ironclad_fleet::Clusters;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        self as scheduling, Available, Capacity, Seen, Since, available_replicas,
        capacity::Modelling,
        estimator::{Claim, Node, Pod, Workload},
        preempt::{Outcome, Placed, Preempting, Preemptors},
        testkit::{applied, at, binding, decide_both, duplicated, dynamic, merge},
    };

    fn placed(clusters: &[(&str, i32)], ready: &[(&str, Value)], placement: &Placement) -> ResourceBinding {
        let mut binding = binding("web", clusters.iter().map(|(_, replicas)| replicas).sum(), clusters);
        binding.spec.resource.api_version = "apps/v1".to_owned();
        binding.spec.resource.kind = "Deployment".to_owned();
        let annotations = binding.metadata.annotations.get_or_insert_default();
        annotations.insert(APPLIED_PLACEMENT.to_owned(), json!(placement).to_string());
        let report = |(name, ready): &(&str, Value)| AggregatedStatusItem {
            cluster_name: (*name).to_owned(),
            status: Some((&json!({"readyReplicas": ready})).into()),
            ..AggregatedStatusItem::default()
        };
        binding.status.get_or_insert_default().aggregated_status = ready.iter().map(report).collect();
        binding
    }

    fn answers(rows: &[(&str, i32)]) -> BTreeMap<ClusterName, i32> {
        rows.iter().map(|(name, count)| ((*name).into(), *count)).collect()
    }

    fn after(binding: &ResourceBinding, plan: &Plan<Effect>) -> Vec<(String, i32)> {
        let patched = plan.effects.iter().find_map(|effect| match effect {
            Effect::Patch(patch) => {
                serde_json::from_value::<Vec<TargetCluster>>(patch.pointer("/spec/clusters")?.clone()).ok()
            }
            Effect::Event(_) => None,
        });
        let targets = patched.unwrap_or_else(|| binding.spec.clusters.clone());
        targets.into_iter().map(|target| (target.name, target.replicas)).collect()
    }

    #[test]
    fn targets_shrink_to_what_is_ready() {
        for (name, spec, ready, unschedulable, want) in [
            ("all ready", 5, json!(5), 0, 5),
            ("one is missing", 5, json!(4), 1, 4),
            ("none is ready", 5, json!(0), 5, 0),
            ("never below what is ready", 5, json!(4), 2, 4),
            ("others are starting", 5, json!(0), 2, 3),
            ("more ready than assigned: not asked", 5, json!(6), 2, 5),
            ("unknown", 5, Value::Null, 1, 4),
            ("a status that is no number", 5, json!("many"), 1, 4),
            ("more unschedulable than assigned", 5, json!(0), 6, 5),
            ("no opinion", 5, json!(0), -1, 5),
            ("an absurd answer", 5, json!(0), i32::MIN, 5),
        ] {
            let binding = placed(&[("m1", spec)], &[("m1", ready)], &dynamic());
            let plan = decide(&binding, DecidedBy::Scheduler, &answers(&[("m1", unschedulable)]), at(0));
            assert_eq!(after(&binding, &plan), [("m1".to_owned(), want)], "{name}");
            assert_eq!(plan.effects.is_empty(), want == spec, "{name}");
        }
    }

    #[test]
    fn only_deployments_divided_by_capacity_are_descheduled() {
        let of = |change: fn(&mut ResourceBinding), placement: &Placement| {
            let mut binding = placed(&[("m1", 5)], &[], placement);
            change(&mut binding);
            questions(&binding, DecidedBy::Scheduler).len()
        };
        let annotate = |binding: &mut ResourceBinding, text: &str| {
            let all = binding.metadata.annotations.get_or_insert_default();
            all.insert(APPLIED_PLACEMENT.to_owned(), text.to_owned());
        };
        assert_eq!(of(|_| {}, &dynamic()), 1);
        assert_eq!(of(|_| {}, &crate::testkit::aggregated()), 1);
        assert_eq!(of(|_| {}, &duplicated()), 0, "every cluster gets all replicas");
        assert_eq!(of(|b| b.spec.resource.kind = "StatefulSet".to_owned(), &dynamic()), 0);
        assert_eq!(of(|b| b.metadata.annotations = None, &dynamic()), 0, "not scheduled yet");
        let mut unreadable = placed(&[("m1", 5)], &[], &dynamic());
        annotate(&mut unreadable, "{");
        assert_eq!(questions(&unreadable, DecidedBy::Scheduler).len(), 0);
    }

    #[test]
    fn replicas_that_members_decide_stay() {
        let mut binding = placed(&[("m1", 5), ("m2", 5)], &[("m1", json!(2)), ("m2", json!(0))], &dynamic());
        for by in [DecidedBy::Members, DecidedBy::Nobody] {
            assert!(questions(&binding, by).is_empty(), "{by:?}");
        }
        let unschedulable = answers(&[("m1", 3), ("m2", 5)]);
        for by in [DecidedBy::Members, DecidedBy::Nobody] {
            assert!(decide(&binding, by, &unschedulable, at(100)).effects.is_empty(), "{by:?}");
        }
        let before = decide(&binding, DecidedBy::Scheduler, &unschedulable, at(100));
        let [Effect::Patch(patch), ..] = before.effects.as_slice() else { panic!("{before:?}") };
        let record = patch["metadata"]["annotations"][DESCHEDULED].as_str().unwrap().to_owned();
        binding.metadata.annotations.get_or_insert_default().insert(DESCHEDULED.to_owned(), record);
        let after = decide(&binding, DecidedBy::Members, &unschedulable, at(700));
        let removed = Effect::Patch(json!({"metadata": {"annotations": {DESCHEDULED: null}}}));
        assert_eq!(after.effects, [removed], "what was recorded before ends all the same");
    }

    /// Account of m1 by its nodes, with this many cores each.
    fn by_node(clusters: &Clusters, nodes: &[(&str, i64)]) -> Capacity {
        let (m1, mut capacity) = ("m1".into(), Capacity::of(clusters, Modelling::On));
        capacity.lists(&m1);
        for (name, cores) in nodes {
            let allocatable = [("cpu".to_owned(), cores * 1_000), ("pods".to_owned(), 110)].into_iter().collect();
            capacity.node(&m1, name, Some(Node { allocatable, ..Node::default() }));
        }
        capacity.listed(&m1);
        capacity
    }

    /// A pod of a Deployment; without a node it waits for one.
    fn pod(of: &str, node: &str, cores: i64) -> Pod {
        Pod {
            node: node.into(),
            request: [("cpu".to_owned(), cores * 1_000)].into_iter().collect(),
            workload: Workload::new("Deployment", "default", of),
            is_replica: true,
            waiting: node.is_empty().then(|| Box::new((format!("default/{of}"), Claim::default()))),
            ..Pod::default()
        }
    }

    /// Adds cores for each replica, and a priority that preempts.
    fn requesting(mut binding: ResourceBinding, cores: &str, priority: i32) -> ResourceBinding {
        let needs = json!({"resourceRequest": {"cpu": cores}});
        binding.spec.replica_requirements = serde_json::from_value(needs).unwrap();
        binding.spec.placement = Some(dynamic().into());
        let preemption_policy = Some(PreemptionPolicy::PreemptLowerPriority);
        binding.spec.schedule_priority = Some(ResolvedPriority { priority, preemption_policy });
        binding
    }

    /// The binding after the descheduler took this many replicas back from m1.
    fn taken_back(binding: &ResourceBinding, unschedulable: i32) -> ResourceBinding {
        let plan = decide(binding, DecidedBy::Scheduler, &answers(&[("m1", unschedulable)]), at(0));
        let mut object = json!(binding);
        for effect in &plan.effects {
            if let Effect::Patch(patch) = effect {
                merge(&mut object, patch);
            }
        }
        serde_json::from_value(object).unwrap()
    }

    /// Row A3: it was placed by sums, taken back, placed again, and each time a victim left for it.
    #[test]
    fn what_no_node_takes_is_taken_back_once_and_evicts_nobody() {
        let mut m1 = crate::testkit::cluster("m1");
        m1.status.as_mut().unwrap().conditions = vec![conditions::condition(READY, TRUE, "ClusterReady", "")];
        let clusters = Clusters::from([("m1".into(), Arc::new(m1))]);
        let low = requesting(binding("low", 1, &[("m1", 1)]), "4", 0);
        let options = scheduling::Options { preempts: true, ..scheduling::Options::default() };
        let later = AVOIDED_FOR.as_secs() + 1;
        for (name, cores, now, victims) in [
            ("no node takes it", "5", 1, 0),
            ("no node takes it, and the cluster is not avoided any more", "5", later, 0),
            ("a victim would make room in a cluster that gets no replicas", "4", 1, 0),
            ("a victim makes room, and the cluster is not avoided any more", "4", later, 1),
        ] {
            let web = requesting(placed(&[("m1", 1)], &[("m1", json!(0))], &dynamic()), cores, 10);
            let web = taken_back(&web, 1);
            assert_eq!(web.spec.clusters.iter().map(|target| target.replicas).sum::<i32>(), 0, "{name}");
            let mut capacity = by_node(&clusters, &[("n1", 4)]);
            capacity.pod(&"m1".into(), None, Some(&pod("low", "n1", 4)), Duration::ZERO);
            let (running, preemptors) = (Placed::of(std::slice::from_ref(&low)), Preemptors::default());
            let seen = Seen {
                binding: (&web).into(),
                clusters: &clusters,
                available: &Available::new(),
                capacity: &capacity,
                options: &options,
                since: Since::default(),
                preempting: Some(Preempting {
                    placed: &running,
                    preemptors: &preemptors,
                    over_quota: None,
                    paused: false,
                }),
                peers: None,
                index: None,
            };
            let decision = decide_both(&seen, now);
            let left = match &decision.preemption {
                Some(Outcome::Nominated(plan)) => plan.victims.len(),
                _ => 0,
            };
            assert_eq!(left, victims, "{name}: {:?}", decision.preemption);
            let placed = applied(&web, &decision).spec.clusters.iter().map(|target| target.replicas).sum::<i32>();
            assert_eq!(placed, 0, "{name}");
        }
    }

    #[test]
    fn what_it_takes_back_is_free_at_once() {
        let (m1, options, now) = (ClusterName::from("m1"), scheduling::Options::default(), Duration::ZERO);
        let clusters = crate::testkit::clusters(&["m1"]);
        let other = requesting(binding("other", 1, &[]), "1", 0);
        let web = requesting(placed(&[("m1", 3)], &[("m1", json!(1))], &dynamic()), "1", 0);
        let room = |capacity: &Capacity| available_replicas(&other.spec, &m1, capacity, &options);
        let mut unplaced = web.clone();
        unplaced.spec.clusters.clear();

        let mut capacity = by_node(&clusters, &[("n1", 3)]);
        capacity.assigned((&unplaced).into(), &web.spec.clusters, &options, now);
        capacity.pod(&m1, None, Some(&pod("web", "n1", 1)), now);
        let _ = capacity.take_grown();
        assert_eq!(room(&capacity), Some(0), "two are promised beside the one that runs");
        capacity.observed((&web).into(), &taken_back(&web, 2).spec, &options, now);
        assert_eq!((room(&capacity), capacity.take_grown().contains(&m1)), (Some(2), true), "the promise ends");

        // A pod that the member places nowhere for a reason that the account does not know holds room until it is gone.
        capacity.pod(&m1, None, Some(&pod("web", "", 1)), now);
        let _ = capacity.take_grown();
        assert_eq!(room(&capacity), Some(1));
        capacity.pod(&m1, Some(&pod("web", "", 1)), None, now);
        assert_eq!((room(&capacity), capacity.take_grown().contains(&m1)), (Some(2), true), "the pod is gone");
        capacity.pod(&m1, None, Some(&pod("web", "", 4)), now);
        assert_eq!(room(&capacity), Some(2), "one that no node takes holds nothing");
    }

    #[test]
    fn plan_names_every_cluster_that_lost_replicas() {
        let ready = [("m1", json!(1)), ("m2", json!(0)), ("m3", json!(3))];
        let mut binding = placed(&[("m1", 3), ("m2", 2), ("m3", 3)], &ready, &dynamic());
        let plan = decide(&binding, DecidedBy::Scheduler, &answers(&[("m1", 1), ("m2", 2), ("m3", 3)]), at(100));
        let want = [("m1", 2), ("m2", 0), ("m3", 3)].map(|(name, replicas)| (name.to_owned(), replicas));
        assert_eq!(after(&binding, &plan), want, "m3 was not asked");
        let [Effect::Patch(patch), Effect::Event(first), Effect::Event(second)] = plan.effects.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!(
            first.message,
            "Binding has been descheduled, 1 replica(s) in cluster(m1), 2 replica(s) in cluster(m2), \
             3 total descheduled replica(s)"
        );
        assert_eq!((first.message.as_str(), &second.about), (second.message.as_str(), &binding.spec.resource));
        let annotation = patch["metadata"]["annotations"][DESCHEDULED].as_str().unwrap();
        binding.metadata.annotations.get_or_insert_default().insert(DESCHEDULED.to_owned(), annotation.to_owned());
        let names =
            |now| avoided((&binding).into(), at(now)).into_keys().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(100), ["m1", "m2"]);
        assert_eq!((names(699).len(), names(700).len()), (2, 0), "for ten minutes");
        assert!(without_past(&binding, at(699)).is_none());
        assert!(avoided((&without_past(&binding, at(700)).unwrap()).into(), Timestamp::MIN).is_empty());
        let removed = decide(&binding, DecidedBy::Scheduler, &answers(&[]), at(700));
        assert_eq!(
            removed.effects,
            [Effect::Patch(json!({"metadata": {"annotations": {DESCHEDULED: null}}}))],
            "then the record is removed, silently"
        );
        assert!(decide(&binding, DecidedBy::Scheduler, &answers(&[]), at(699)).effects.is_empty());
        binding.metadata.annotations.get_or_insert_default().insert(DESCHEDULED.to_owned(), "[]".to_owned());
        assert!(avoided((&binding).into(), at(0)).is_empty(), "an unreadable record names none");
    }

    proptest! {
        #[test]
        fn targets_never_grow_and_never_fall_below_what_is_ready(
            replicas in 0_i32..50, ready in -1_i64..60, unschedulable in -5_i32..60,
        ) {
            let after = shrunk(replicas, ready, unschedulable);
            prop_assert!(after <= replicas && after >= 0);
            prop_assert!(ready > i64::from(replicas) || i64::from(after) >= ready.min(i64::from(replicas)));
            prop_assert_eq!(shrunk(after, ready, 0), after);
        }
    }
}
