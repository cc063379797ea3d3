//! Scheduling during a migration: specification/failover.md 7.6, 8, 11.

use ironclad_api::{
    Taint,
    conditions::cluster::READY,
    eviction::{APPLICATION_FAILURE, BINDING_PREEMPTED, CLUSTER_DRAIN, TAINT_PREFER_NO_EXECUTE, TAINT_UNTOLERATED},
    policy::{Placement, PurgeMode, SpreadByField},
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
    work::{AggregatedStatusItem, ResourceBinding, ResourceBindingSpec},
};
use proptest::prelude::*;

use super::*;
use crate::{
    Available, Options,
    testkit::{
        affinity, aggregated, applied, binding, cluster, decide_in, draining, duplicated, dynamic, failover, spread,
        taint, task, weighted,
    },
    wakes::cluster::{Wakes, is_unsettled, wakes},
};
use ironclad_fleet::Clusters;

/// Fleet of clusters with these taints.
fn fleet(clusters: &[(&str, Option<&str>)]) -> Clusters {
    let tainted = |(name, effect): &(&str, Option<&str>)| {
        let mut cluster = cluster(name);
        cluster.spec.taints = effect.map(|effect| taint("k", "", effect)).into_iter().collect::<Vec<Taint>>();
        ((*name).into(), cluster.into())
    };
    clusters.iter().map(tainted).collect()
}

fn healthy(names: &[&str]) -> Clusters {
    fleet(&names.iter().map(|name| (*name, None)).collect::<Vec<_>>())
}

/// Placement on exactly one of these clusters.
fn on_one(names: &[&str]) -> Placement {
    let spread_constraints = vec![spread(SpreadByField::Cluster, 1, 1)];
    Placement { cluster_affinity: Some(affinity(names)), spread_constraints, ..duplicated() }
}

fn among(placement: Placement, names: &[&str]) -> Placement {
    Placement { cluster_affinity: Some(affinity(names)), ..placement }
}

/// Binding that is scheduled on its present clusters.
fn placed(placement: Placement, replicas: i32, fleet: &Clusters) -> ResourceBinding {
    let mut binding = binding("web", replicas, &[]);
    binding.spec.placement = Some(placement.into());
    let scheduled = applied(&binding, &decide_on(&binding, fleet, 1));
    assert!(!scheduled.spec.clusters.is_empty(), "it must begin somewhere");
    scheduled
}

fn decide_on(binding: &ResourceBinding, fleet: &Clusters, now: i64) -> Decision {
    decide_in(binding, fleet, &Available::new(), &Options::default(), now)
}

/// Applies an eviction: removes the cluster from the result and adds a task.
fn evict(binding: &mut ResourceBinding, from: &str, reason: &str) {
    let spec: &mut ResourceBindingSpec = &mut binding.spec;
    let replicas = spec.target(from).map(|t| t.replicas).filter(|n| *n > 0);
    spec.clusters.retain(|target| target.name != from);
    spec.graceful_eviction_tasks.push(task(from, reason, replicas));
    binding.metadata.generation = binding.metadata.generation.map(|g| g + 1);
}

fn result(binding: &ResourceBinding) -> Vec<(&str, i32)> {
    binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect()
}

fn reason(binding: &ResourceBinding) -> &str {
    let status = binding.status.as_ref().unwrap();
    &conditions::get(&status.conditions, SCHEDULED).unwrap().reason
}

#[test]
fn evicted_workload_is_placed_elsewhere() {
    let three = ["m1", "m2", "m3"];
    let rows: Vec<(&str, Placement, i32, &[(&str, i32)])> = vec![
        ("one cluster (B15, B20)", on_one(&three), 2, &[("m2", 2)]),
        (
            "at least and at most two (B37)",
            Placement { spread_constraints: vec![spread(SpreadByField::Cluster, 2, 2)], ..among(duplicated(), &three) },
            2,
            &[("m2", 2), ("m3", 2)],
        ),
        ("divided by weights (B40)", among(weighted(&[]), &three), 3, &[("m2", 2), ("m3", 1)]),
        ("divided by capacity", among(dynamic(), &three), 3, &[("m2", 2), ("m3", 1)]),
    ];
    for (name, placement, replicas, want) in rows {
        for effect in [NO_EXECUTE, PREFER_NO_EXECUTE] {
            let mut binding = placed(placement.clone(), replicas, &healthy(&three));
            binding.spec.failover = (effect == PREFER_NO_EXECUTE).then(|| failover().into());
            evict(&mut binding, "m1", if effect == NO_EXECUTE { TAINT_UNTOLERATED } else { TAINT_PREFER_NO_EXECUTE });
            let faulty = fleet(&[("m1", Some(effect)), ("m2", None), ("m3", None)]);
            let moved = applied(&binding, &decide_on(&binding, &faulty, 2));
            let sum = |binding: &ResourceBinding| result(binding).iter().map(|(_, n)| n).sum::<i32>();
            assert_eq!(sum(&moved), want.iter().map(|(_, n)| n).sum::<i32>(), "{name}, {effect}");
            let names = |list: &[(&str, i32)]| list.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
            assert_eq!(names(&result(&moved)), names(want), "{name}, {effect}");
            assert_eq!(moved.spec.graceful_eviction_tasks.len(), 1, "the task is not the scheduler's to end");

            let recovered = applied(&moved, &decide_on(&moved, &healthy(&three), 3));
            assert_eq!(result(&recovered), result(&moved), "{name}, {effect}: nothing moves back by itself (8.3)");
        }
    }
}

#[test]
fn eviction_without_target_is_undone_when_the_cluster_recovers() {
    let rows: Vec<(&str, Placement, i32, &[&str])> = vec![
        ("one cluster (B31, B32)", on_one(&["m1"]), 2, &["m1"]),
        ("no workload", among(duplicated(), &["m1"]), 0, &["m1"]),
        ("divided by weights", among(weighted(&[("m1", 2), ("m2", 1)]), &["m1", "m2"]), 3, &["m1", "m2"]),
        ("divided by capacity", among(dynamic(), &["m1", "m2"]), 3, &["m1", "m2"]),
        ("aggregated", among(aggregated(), &["m1", "m2"]), 3, &["m1"]),
    ];
    for (name, placement, replicas, from) in rows {
        let both = healthy(&["m1", "m2"]);
        let before = placed(placement, replicas, &both);
        let mut binding = before.clone();
        for cluster in from {
            evict(&mut binding, cluster, TAINT_UNTOLERATED);
        }
        let down = fleet(&[("m1", Some(NO_EXECUTE)), ("m2", Some(NO_EXECUTE))]);
        let failed = decide_on(&binding, &down, 2);
        let stuck = applied(&binding, &failed);
        assert_eq!((result(&stuck), reason(&stuck)), (vec![], "NoClusterFit"), "{name}");
        assert_eq!(failed.next, Next::Recheck, "{name}: no backoff");
        assert!(is_unsettled((&stuck).into()), "{name}: it is woken by a recovery");
        let status = stuck.status.as_ref().unwrap();
        assert_ne!(Some(status.scheduler_observed_generation), stuck.metadata.generation, "{name}: so its tasks stay");

        let back = applied(&stuck, &decide_on(&stuck, &both, 3));
        assert_eq!(result(&back), result(&before), "{name}: the former result, with the former replicas");
        assert_eq!(reason(&back), "Success", "{name}");
    }
}

#[test]
fn former_replicas_return_only_where_they_still_fit() {
    let before = placed(among(dynamic(), &["m1", "m2"]), 4, &healthy(&["m1", "m2"]));
    assert_eq!(result(&before), [("m1", 2), ("m2", 2)]);
    let mut binding = before;
    evict(&mut binding, "m1", TAINT_UNTOLERATED);
    evict(&mut binding, "m2", TAINT_UNTOLERATED);
    let tainted = fleet(&[("m1", None), ("m2", Some(NO_SCHEDULE))]);
    let one = applied(&binding, &decide_on(&binding, &tainted, 2));
    assert_eq!(result(&one), [("m1", 4)], "m2 can't be used: m1 takes all");
    let capacity: Available = [("m1".into(), 0), ("m2".into(), 0)].into();
    let none = decide_in(&binding, &tainted, &capacity, &Options::default(), 2);
    assert_eq!(none.next, Next::WhenCapacity, "no cluster has the capacity");
}

/// A workload of six replicas, which leaves m1 with four of them directly and may run in m2, too.
fn leaving_directly(placement: Placement, ready: &str) -> (ResourceBinding, Clusters) {
    let mut binding = binding("web", 6, &[("m1", 4), ("m2", 2)]);
    binding.spec.placement = Some(among(placement, &["m1", "m2"]).into());
    evict(&mut binding, "m1", TAINT_UNTOLERATED);
    binding.spec.graceful_eviction_tasks[0].purge_mode = Some(PurgeMode::Directly);
    let copy = AggregatedStatusItem { cluster_name: "m1".into(), ..AggregatedStatusItem::default() };
    binding.status.get_or_insert_default().aggregated_status = vec![copy];
    let mut clusters = fleet(&[("m1", Some(NO_EXECUTE)), ("m2", None)]);
    let mut m1 = (*clusters[&"m1".into()]).clone();
    m1.status.as_mut().unwrap().conditions = vec![conditions::condition(READY, ready, "R", "")];
    clusters.insert("m1".into(), m1.into());
    (binding, clusters)
}

#[test]
fn what_fits_moves_and_the_rest_stays_if_the_copy_is_left_directly() {
    type Change = fn(&mut ResourceBinding);
    let as_it_is: Change = |_| {};
    let rows: [(&str, Placement, i64, &str, Change, &[(&str, i32)], &str); 9] = [
        ("none fits", dynamic(), 0, "True", as_it_is, &[("m2", 2)], "4 in m1"),
        ("one fits", dynamic(), 1, "True", as_it_is, &[("m2", 3)], "3 in m1"),
        ("three fit", aggregated(), 3, "True", as_it_is, &[("m2", 5)], "1 in m1"),
        ("all fit", dynamic(), 4, "True", as_it_is, &[("m2", 6)], ""),
        ("a cluster that is not ready may run nothing", dynamic(), 1, "Unknown", as_it_is, &[("m2", 2)], ""),
        (
            "gracefully the whole copy stays until all run elsewhere",
            dynamic(),
            1,
            "True",
            |b| b.spec.graceful_eviction_tasks[0].purge_mode = Some(PurgeMode::Gracefully),
            &[("m2", 2)],
            "",
        ),
        (
            "a victim makes room for its preemptor",
            dynamic(),
            1,
            "True",
            |b| b.spec.graceful_eviction_tasks[0].reason = BINDING_PREEMPTED.into(),
            &[("m2", 2)],
            "",
        ),
        (
            "the copy is gone",
            dynamic(),
            1,
            "True",
            |b| b.status.as_mut().unwrap().aggregated_status.clear(),
            &[("m2", 2)],
            "",
        ),
        (
            "more replicas were requested meanwhile",
            dynamic(),
            1,
            "True",
            |b| b.spec.replicas = 8,
            &[("m2", 3)],
            "4 in m1",
        ),
    ];
    for (name, placement, fits, ready, change, want, stay) in rows {
        let (mut binding, clusters) = leaving_directly(placement, ready);
        change(&mut binding);
        let available = |fits| Available::from([("m2".into(), fits)]);
        let decision = decide_in(&binding, &clusters, &available(fits), &Options::default(), 2);
        let after = applied(&binding, &decision);
        assert_eq!(result(&after), want, "{name}");
        let condition = conditions::get(&after.status.as_ref().unwrap().conditions, SCHEDULED).unwrap();
        let all = after.spec.clusters.iter().map(|target| target.replicas).sum::<i32>() == after.spec.replicas;
        assert_eq!(condition.status == TRUE, all, "{name}: it waits for room while replicas stay");
        assert_eq!(decision.next, if all { Next::OnEvent } else { Next::WhenCapacity }, "{name}");
        let mut first = binding.clone();
        first.spec.clusters.clear();
        let successes = success((&first).into(), &decision.plan.effects);
        assert_eq!(!successes.is_empty(), all, "{name}: no success is told of a part");
        let told = condition.message.split_once("until others have room: ").map_or("", |(_, stay)| stay);
        assert_eq!(told.trim_end_matches('.'), stay, "{name}: {}", condition.message);
        let again = decide_in(&after, &clusters, &available(0), &Options::default(), 3);
        assert_eq!(again.result(), None, "{name}: the room is used up");
        let again = applied(&after, &again);
        let settled = decide_in(&again, &clusters, &available(0), &Options::default(), 4);
        assert!(settled.plan.is_quiet(), "{name}: settled");
    }
}

/// A workload is scaled up while a part of it stays in the cluster that it leaves: what stays does not grow again.
#[test]
fn what_stays_does_not_grow() {
    let (mut binding, clusters) = leaving_directly(dynamic(), TRUE);
    for (at, (name, replicas, fits, want, stays)) in [
        ("two of four fit elsewhere", 6, 2, 4, 2),
        ("it is scaled up, and nothing fits", 10, 0, 4, 2),
        ("there is room for less than is new", 10, 3, 7, 2),
        ("there is room for what is new and a part of what stays", 10, 2, 9, 1),
        ("it is scaled up again", 12, 0, 9, 1),
        ("it is scaled down", 9, 0, 9, 0),
    ]
    .into_iter()
    .enumerate()
    {
        binding.spec.replicas = replicas;
        binding.metadata.generation = binding.metadata.generation.map(|generation| generation + 1);
        let available = Available::from([("m2".into(), fits)]);
        let decision = decide_in(&binding, &clusters, &available, &Options::default(), 2 + i64::try_from(at).unwrap());
        binding = applied(&binding, &decision);
        assert_eq!(result(&binding), [("m2", want)], "{name}");
        let staying: i32 = ironclad_fleet::targets::staying(&binding.spec).iter().map(|copy| copy.replicas).sum();
        assert_eq!(staying, stays, "{name}");
    }
}

#[test]
fn remaining_targets_are_kept_when_no_cluster_fits() {
    let two = || Placement {
        spread_constraints: vec![spread(SpreadByField::Cluster, 2, 2)],
        ..among(duplicated(), &["m1", "m2"])
    };
    for (name, placement, want) in [
        ("too few for the spread", two(), &[("m2", 3)][..]),
        ("divided, no other cluster (B39 relaxed)", among(dynamic(), &["m1", "m2"]), &[("m2", 3)]),
    ] {
        let mut binding = placed(placement, 3, &healthy(&["m1", "m2"]));
        evict(&mut binding, "m1", TAINT_UNTOLERATED);
        let faulty = fleet(&[("m1", Some(NO_EXECUTE)), ("m2", None)]);
        let after = applied(&binding, &decide_on(&binding, &faulty, 2));
        assert_eq!(result(&after), want, "{name}");
    }
    let mut binding = placed(among(dynamic(), &["m1", "m2"]), 3, &healthy(&["m1", "m2"]));
    evict(&mut binding, "m1", TAINT_UNTOLERATED);
    let left = result(&binding).iter().map(|(n, r)| ((*n).to_owned(), *r)).collect::<Vec<_>>();
    binding.spec.placement = Some(among(dynamic(), &["m1"]).into());
    let after = applied(&binding, &decide_on(&binding, &fleet(&[("m1", Some(NO_EXECUTE)), ("m2", None)]), 2));
    assert_eq!(reason(&after), "NoClusterFit");
    let kept = result(&after).iter().map(|(n, r)| ((*n).to_owned(), *r)).collect::<Vec<_>>();
    assert_eq!(kept, left, "no cluster fits, and an eviction is under way: the survivors stay (IR-31)");
}

/// A cluster that somebody removes is no survivor: an eviction task may never end.
#[test]
fn targets_that_leave_the_fleet_are_removed_during_evictions_too() {
    let moved = |affinity: &[&str]| among(duplicated(), affinity);
    for (name, placement, targets, want) in [
        ("the only target", on_one(&["m1", "m2"]), &["m1"][..], &[][..]),
        ("one of two, which no longer match", moved(&["m1"]), &["m1", "m3"], &["m3"]),
        ("all", moved(&["m1", "m4"]), &["m1", "m4"], &[]),
    ] {
        for reason_of_task in [APPLICATION_FAILURE, TAINT_UNTOLERATED] {
            let mut binding =
                placed(among(duplicated(), &["m1", "m2", "m3", "m4"]), 2, &healthy(&["m1", "m2", "m3", "m4"]));
            binding.spec.clusters.retain(|target| targets.contains(&&*target.name) || target.name == "m2");
            evict(&mut binding, "m2", reason_of_task);
            binding.spec.placement = Some(placement.clone().into());
            let mut clusters = fleet(&[("m2", Some(NO_EXECUTE)), ("m3", None)]);
            for leaving in ["m1", "m4"] {
                let mut cluster = cluster(leaving);
                cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
                clusters.insert(leaving.into(), cluster.into());
            }
            let decision = decide_on(&binding, &clusters, 2);
            let after = applied(&binding, &decision);
            assert_eq!(reason(&after), "NoClusterFit", "{name}, {reason_of_task}");
            let left: Vec<&str> = result(&after).into_iter().map(|(name, _)| name).collect();
            assert_eq!(left, want, "{name}, {reason_of_task}");
            assert_eq!(after.spec.graceful_eviction_tasks.len(), 1, "{name}: the old copy stays");
            assert!(decide_on(&after, &clusters, 3).plan.is_quiet(), "{name}: settled");
        }
    }
}

#[test]
fn prefer_no_execute_rejects_for_opted_in_workloads_and_scores_for_others() {
    let faulty = fleet(&[("m1", Some(PREFER_NO_EXECUTE)), ("m2", None)]);
    let only = fleet(&[("m1", Some(PREFER_NO_EXECUTE))]);
    for (name, opted_in, clusters, want) in [
        ("not opted in, another one is there: steered away", false, &faulty, Some("m2")),
        ("not opted in, the only one (B14)", false, &only, Some("m1")),
        ("opted in", true, &faulty, Some("m2")),
        ("opted in, the only one: never (B14)", true, &only, None),
    ] {
        let mut binding = binding("web", 1, &[]);
        binding.spec.placement = Some(on_one(&["m1", "m2"]).into());
        binding.spec.failover = opted_in.then(|| failover().into());
        let placed = applied(&binding, &decide_on(&binding, clusters, 1));
        assert_eq!(result(&placed).first().map(|(name, _)| *name), want, "{name}");
    }
    let mut there = placed(on_one(&["m1", "m2"]), 1, &healthy(&["m1", "m2"]));
    there.spec.failover = Some(failover().into());
    let stays = applied(&there, &decide_on(&there, &faulty, 2));
    assert_eq!(result(&stays), [("m1", 1)], "targets remain until evicted");
    there.spec.replicas = 3;
    let scaled = applied(&there, &decide_on(&there, &faulty, 3));
    assert_eq!(result(&scaled), [("m1", 3)], "and is scaled there (#6951)");
}

#[test]
fn workload_returns_during_its_eviction_only_after_a_taint_or_a_drain() {
    for (task_reason, drains, want) in [
        (APPLICATION_FAILURE, false, None),
        (CLUSTER_DRAIN, true, None),
        (CLUSTER_DRAIN, false, Some("m1")),
        (BINDING_PREEMPTED, false, None),
        (TAINT_UNTOLERATED, false, Some("m1")),
        (TAINT_PREFER_NO_EXECUTE, false, Some("m1")),
    ] {
        let mut binding = placed(on_one(&["m1"]), 1, &healthy(&["m1"]));
        evict(&mut binding, "m1", task_reason);
        let mut clusters = healthy(&["m1"]);
        if drains {
            clusters.insert("m1".into(), draining("m1").into());
        }
        let after = applied(&binding, &decide_on(&binding, &clusters, 2));
        assert_eq!(result(&after).first().map(|(name, _)| *name), want, "{task_reason} (IR-20), drains: {drains}");
        after.spec.eviction("m1").unwrap();
    }
}

#[test]
fn recovered_cluster_enqueues_waiting_bindings() {
    let ready = |status: &str| {
        let mut cluster = cluster("m1");
        let condition = conditions::condition(ironclad_api::conditions::cluster::READY, status, "R", "");
        cluster.status.as_mut().unwrap().conditions = vec![condition];
        cluster
    };
    assert_eq!(wakes(Some(&ready("Unknown")), Some(&ready("True"))), Wakes::Unsettled);
    assert_eq!(wakes(Some(&ready("True")), Some(&ready("False"))), Wakes::Nobody, "a failure moves nothing by itself");
    let settled = placed(on_one(&["m1"]), 1, &healthy(&["m1"]));
    assert!(!is_unsettled((&settled).into()));
    let mut leaving = settled.clone();
    leaving.spec.graceful_eviction_tasks = vec![task("m2", TAINT_UNTOLERATED, None)];
    assert!(is_unsettled((&leaving).into()), "a task");
    let mut empty = settled;
    empty.spec.clusters.clear();
    assert!(is_unsettled((&empty).into()), "an empty result");
}

proptest! {
    /// A fault that ends leaves no trace; evicted workloads are placed on healthy clusters or wait.
    #[test]
    fn fault_that_ends_leaves_no_trace(
        strategy in prop::sample::select(vec![0, 1, 2, 3]), replicas in 1_i32..12, evicted in prop::collection::btree_set(0_usize..4, 1..4),
        reasons in prop::collection::vec(prop::sample::select(vec![TAINT_UNTOLERATED, APPLICATION_FAILURE]), 4),
    ) {
        let names = ["m0", "m1", "m2", "m3"];
        let placement = match strategy {
            0 => on_one(&names),
            1 => among(dynamic(), &names),
            2 => among(aggregated(), &names),
            _ => among(weighted(&[]), &names),
        };
        let all = healthy(&names);
        let mut binding = placed(placement.clone(), replicas, &all);
        for i in &evicted {
            if binding.spec.target(names[*i]).is_some() {
                evict(&mut binding, names[*i], reasons[*i]);
            }
        }
        let down: Vec<(&str, Option<&str>)> = names.iter().enumerate().map(|(i, name)| {
            let tainted = evicted.contains(&i) && reasons[i] == TAINT_UNTOLERATED;
            (*name, tainted.then_some(NO_EXECUTE))
        }).collect();
        for fleet in [fleet(&down), all] {
            let decision = decide_on(&binding, &fleet, 2);
            binding = applied(&binding, &decision);
            for target in &binding.spec.clusters {
                let task = binding.spec.eviction(&target.name);
                prop_assert!(task.is_none_or(|t| t.reason == TAINT_UNTOLERATED), "{} was chosen again", target.name);
            }
            let sum: i32 = binding.spec.clusters.iter().map(|t| t.replicas).sum();
            if decision.failure.is_none() {
                prop_assert_eq!(sum, replicas, "tasks are not counted");
            }
            prop_assert!(sum <= replicas);
            prop_assert!(decide_on(&binding, &fleet, 3).plan.is_quiet(), "settled");
        }
    }
}
