//! The search against slow ones that try everything, and properties of plans on small fleets.

use std::collections::BTreeSet;

use ironclad_fleet::BindingKey;
use jiff::Timestamp;
use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::preempt::victims::{Cost, Member, Unit, Wanted, cheapest, freed};

/// Where sums tell what fits.
fn by_sums(missing: &[i64]) -> Wanted<'_> {
    Wanted { missing, suffices: None }
}

fn key(name: &str) -> BindingKey {
    BindingKey { namespace: "default".into(), name: name.into() }
}

/// Cheapest of all subsets.
fn exhaustive<'a>(units: &[Unit<'a>], missing: &[i64]) -> Option<Cost<'a>> {
    let subset =
        |mask: u32| units.iter().enumerate().filter(move |(at, _)| mask & (1 << at) != 0).map(|(_, unit)| unit);
    (0..1_u32 << units.len())
        .filter(|mask| freed(missing.len(), subset(*mask)).iter().zip(missing).all(|(freed, missing)| freed >= missing))
        .map(|mask| Cost::of(subset(mask)))
        .min()
}

proptest! {
    #[test]
    fn the_cheapest_victims_are_those_of_the_exhaustive_search(
        rows in prop::collection::vec((0_i32..4, 0_i64..6, 0_i64..6, 1_usize..3, 0_i64..3), 0..9),
        missing in (0_i64..15, 0_i64..15),
    ) {
        let keys: Vec<Vec<BindingKey>> = rows
            .iter()
            .enumerate()
            .map(|(at, (_, _, _, members, _))| (0..*members).map(|n| key(&format!("b{at}-{n}"))).collect())
            .collect();
        let units: Vec<Unit<'_>> = rows
            .iter()
            .zip(&keys)
            .map(|((priority, cpu, memory, _, at), keys)| Unit {
                members: keys
                    .iter()
                    .map(|key| {
                        let scheduled = Timestamp::from_second(*at).ok();
                        Member { key, priority: *priority, replicas: 1, scheduled, is_spared: false }
                    })
                    .collect(),
                freed: smallvec![*cpu, *memory],
                share: u128::try_from(*cpu + *memory).unwrap(),
                leaving: Vec::new(),
            })
            .collect();
        let missing = [missing.0, missing.1.max(1)];
        let found = cheapest(&units, by_sums(&missing));
        let cost = found.as_ref().map(|chosen| Cost::of(chosen.iter().map(|at| &units[*at])));
        prop_assert_eq!(cost, exhaustive(&units, &missing));
    }

    #[test]
    fn many_units_give_a_set_that_suffices_and_from_which_nothing_can_be_left_out(
        rows in prop::collection::vec((0_i32..9, 0_i64..9, 0_i64..9), 30..80), share in 1_i64..10,
    ) {
        let keys: Vec<BindingKey> = (0..rows.len()).map(|at| key(&format!("b{at}"))).collect();
        let units: Vec<Unit<'_>> = rows
            .iter()
            .zip(&keys)
            .map(|((priority, cpu, memory), key)| Unit {
                members: smallvec![Member { key, priority: *priority, replicas: 1, scheduled: None, is_spared: false }],
                freed: smallvec![*cpu, *memory],
                share: u128::try_from(*cpu + *memory).unwrap(),
                leaving: Vec::new(),
            })
            .collect();
        let all = freed(2, &units);
        let missing = [all[0] * share / 10, all[1] * share / 10];
        prop_assume!(missing.iter().any(|amount| *amount > 0));
        let chosen = cheapest(&units, by_sums(&missing)).unwrap();
        let suffices = |left_out: Option<usize>| {
            let rest = chosen.iter().filter(|at| Some(**at) != left_out).map(|at| &units[*at]);
            freed(2, rest).iter().zip(missing).all(|(freed, missing)| *freed >= missing)
        };
        prop_assert!(suffices(None));
        for at in &chosen {
            prop_assert!(!suffices(Some(*at)), "{at} is not needed");
        }
    }

    /// On a random fleet: nobody of equal or higher priority leaves, nothing is preempted for a binding that fits or
    /// that would not fit, everything fits afterwards, and a single cluster is freed by the cheapest set there is.
    #[test]
    fn plans_on_small_fleets(
        free in prop::collection::vec(0_i64..4, 1..4),
        rows in prop::collection::vec((0_usize..4, 0_i32..6, 1_i64..5), 0..9),
        wanted in (1_i32..6, 1_i64..4, 0_i32..6),
        single: bool,
    ) {
        let (replicas, each, priority) = wanted;
        let names: Vec<String> = (0..free.len()).map(|at| format!("c{at}")).collect();
        let mut world = World::new();
        for (name, cores) in names.iter().zip(&free) {
            world = world.cluster(name, &[("cpu", &cores.to_string())]);
        }
        for (at, (on, priority, cores)) in rows.iter().enumerate() {
            let (name, on) = (format!("b{at}"), &names[on % names.len()]);
            world = world.cores(on, &[(&name, *priority, &cores.to_string())]);
        }
        let mut pending = preemptor(priority, replicas, &[("cpu", &each.to_string())]);
        if single {
            pending.spec.placement = Some(one_cluster().into());
        }
        // What fits on each cluster once these bindings have left.
        let fits = |gone: &BTreeSet<String>| -> Vec<i64> {
            let of = |(at, cores): (usize, &i64)| {
                let left = rows.iter().enumerate().filter(|(b, (on, ..))| on % names.len() == at && gone.contains(&format!("b{b}")));
                (cores + left.map(|(_, (_, _, cores))| cores).sum::<i64>()) / each
            };
            free.iter().enumerate().map(of).collect()
        };
        let has_room = |gone: &BTreeSet<String>| {
            let fits = fits(gone);
            let replicas = i64::from(replicas);
            if single { fits.into_iter().max().unwrap_or(0) >= replicas } else { fits.iter().sum::<i64>() >= replicas }
        };
        let lower: Vec<String> =
            rows.iter().enumerate().filter(|(_, row)| row.1 < priority).map(|(at, _)| format!("b{at}")).collect();
        let decision = world.decide(&pending, 1_000);
        let Some(Outcome::Nominated(plan)) = decision.preemption else {
            let all: BTreeSet<String> = lower.iter().cloned().collect();
            prop_assert!(has_room(&BTreeSet::new()) || !has_room(&all), "preemption would have helped");
            return Ok(());
        };
        prop_assert!(!has_room(&BTreeSet::new()), "it fits without preemption");
        let gone: BTreeSet<String> = plan.victims.iter().map(|victim| victim.key.name.to_string()).collect();
        prop_assert!(gone.iter().all(|name| lower.contains(name)), "{gone:?} are not all of lower priority");
        prop_assert!(has_room(&gone), "{gone:?} do not make room");
        let held: i64 = plan.nominated.iter().map(|target| i64::from(target.replicas)).sum();
        prop_assert_eq!(held, i64::from(replicas), "all replicas are nominated");
        let priorities = |names: &BTreeSet<String>| {
            let mut all: Vec<i32> = names.iter().map(|name| rows[name[1..].parse::<usize>().unwrap()].1).collect();
            all.sort_unstable_by_key(|priority| std::cmp::Reverse(*priority));
            (all.len(), all)
        };
        let cheapest_of = |names: &[String]| {
            (0..1_u32 << names.len())
                .map(|mask| -> BTreeSet<String> {
                    names.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0).map(|(_, name)| name.clone()).collect()
                })
                .filter(has_room)
                .map(|names| priorities(&names))
                .min()
        };
        if single {
            prop_assert_eq!(Some(priorities(&gone)), cheapest_of(&lower), "fewer or lower victims exist");
        } else {
            // Several clusters give up capacity only where no one of them closes the gap.
            let on = |cluster: usize| {
                let is_there = |name: &&String| rows[name[1..].parse::<usize>().unwrap()].0 % names.len() == cluster;
                lower.iter().filter(is_there).cloned().collect::<Vec<_>>()
            };
            if let Some(best) = (0..names.len()).filter_map(|cluster| cheapest_of(&on(cluster))).min() {
                prop_assert_eq!(priorities(&gone), best, "fewer or lower victims on one cluster exist");
            }
        }
    }

    /// Where nodes are watched: the victims make room on the nodes of one cluster, and no other set is better by
    /// number, priorities, part of the cluster, cluster and names. Nobody leaves for a binding that fits, that fits
    /// once those are gone that are leaving, or that fits nowhere. Who waits for a node takes what becomes free before
    /// the binding does, unless it is a victim, too.
    #[test]
    fn victims_by_node_are_those_of_the_exhaustive_search(
        nodes in prop::collection::vec(prop::collection::vec(1_i64..9, 1..4), 1..3),
        rows in prop::collection::vec(by_node_row(), 0..8),
        wanted in (1_i32..4, 1_i64..7, 0_i32..6),
    ) {
        let (replicas, each, priority) = wanted;
        let mut world = World::new();
        let mut left = nodes.clone();
        for (c, cores) in nodes.iter().enumerate() {
            let names: Vec<String> = (0..cores.len()).map(|n| format!("n{n}")).collect();
            let cores: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(cores.iter().copied()).collect();
            world = world.watched(&format!("c{c}"), &cores);
        }
        let mut runs: Vec<ByNode> = Vec::new();
        for (at, (cluster, priority, cores, pods, life, waits)) in rows.iter().enumerate() {
            let (name, c) = (format!("b{at}"), cluster % nodes.len());
            let cluster = format!("c{c}");
            let mut on = Vec::new();
            for n in pods {
                let n = n % nodes[c].len();
                if left[c][n] >= *cores {
                    left[c][n] -= cores;
                    on.push(n);
                    world = world.pod(&cluster, &format!("n{n}"), &name, *cores);
                }
            }
            match life {
                Life::Runs => {}
                Life::Leaves => world.pods_of(&name).for_each(|pod| (pod.is_leaving, pod.is_replica) = (true, false)),
                Life::HasEnded => world.pods_of(&name).for_each(|pod| pod.has_ended = true),
            }
            let waits = if *life == Life::Runs { *waits } else { 0 };
            let count = i32::try_from(pods.len() + waits).unwrap();
            world = world.running(workload(&name, *priority, count, &[("cpu", &cores.to_string())], &[(&cluster, count)]));
            runs.push(ByNode { name, cluster: c, priority: *priority, cores: *cores, on, life: *life, waits });
        }
        let mut left = nodes.clone();
        for one in runs.iter().filter(|one| one.life != Life::HasEnded) {
            one.on.iter().for_each(|n| left[one.cluster][*n] -= one.cores);
        }
        // What waits is placed on the emptiest node, and holds its place.
        for one in &mut runs {
            for _ in 0..one.waits {
                world = world.waits(&format!("c{}", one.cluster), &one.name, one.cores);
                let (here, all) = (&left[one.cluster], &nodes[one.cluster]);
                let share = |n: &usize| ((here[*n] - one.cores) * 1_000 / all[*n], std::cmp::Reverse(*n));
                let room = (0..here.len()).filter(|n| here[*n] >= one.cores);
                if let Some(n) = room.max_by_key(share) {
                    left[one.cluster][n] -= one.cores;
                    one.on.push(n);
                    one.waits -= 1;
                }
            }
        }
        let mut pending = preemptor(priority, replicas, &[("cpu", &each.to_string())]);
        pending.spec.placement = Some(one_cluster().into());
        // Whether all replicas fit on one cluster once those have left that do not stay.
        let has_room = |cluster: usize, stays: &dyn Fn(&ByNode) -> bool| {
            let (mut left, mut freed) = (left[cluster].clone(), BTreeSet::new());
            for one in runs.iter().filter(|one| one.cluster == cluster && one.life != Life::HasEnded && !stays(one)) {
                for n in &one.on {
                    left[*n] += one.cores;
                    freed.insert(*n);
                }
            }
            for one in runs.iter().filter(|one| one.cluster == cluster && stays(one)) {
                for _ in 0..one.waits {
                    if let Some(n) = freed.iter().find(|n| left[**n] >= one.cores) {
                        left[*n] -= one.cores;
                    }
                }
            }
            left.iter().map(|left| left / each).sum::<i64>() >= i64::from(replicas)
        };
        let (now, later) = (|one: &ByNode| one.life != Life::HasEnded, |one: &ByNode| one.life == Life::Runs);
        let clusters = 0..nodes.len();
        // Pods that wait had the time to get their nodes.
        let settling = Outcome::Refused(ironclad_fleet::because::schedule::Unhelpful::Settling);
        world.preemptors.record(&BindingRef::from(&pending).key(), 1, &settling, at(990));
        let decision = world.decide(&pending, 1_000);
        if clusters.clone().any(|cluster| has_room(cluster, &now)) {
            prop_assert!(decision.result().is_some(), "it fits: {:?}", decision.preemption);
            return Ok(());
        }
        prop_assert!(decision.result().is_none(), "it does not fit");
        if clusters.clone().any(|cluster| has_room(cluster, &later)) {
            let Some(Outcome::Nominated(plan)) = decision.preemption else { panic!("{:?}", decision.preemption) };
            prop_assert_eq!(plan.victims, []);
            return Ok(());
        }
        let best = clusters.flat_map(|cluster| {
            let is_there = |one: &ByNode| one.cluster == cluster && one.on.len() + one.waits > 0;
            let may_leave = |one: &&ByNode| is_there(one) && later(one) && one.priority < priority;
            let may_leave: Vec<&ByNode> = runs.iter().filter(may_leave).collect();
            let count = may_leave.len();
            let subset = move |mask: u32| {
                let chosen = may_leave.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
                chosen.map(|(_, one)| *one).collect::<Vec<&ByNode>>()
            };
            let makes_room = |gone: &Vec<&ByNode>| {
                has_room(cluster, &|one| later(one) && gone.iter().all(|other| other.name != one.name))
            };
            let offered: i64 = nodes[cluster].iter().sum();
            let slots = 110 * i64::try_from(nodes[cluster].len()).unwrap();
            let cost = |gone: Vec<&ByNode>| {
                let mut priorities: Vec<i32> = gone.iter().map(|one| one.priority).collect();
                priorities.sort_unstable_by_key(|priority| std::cmp::Reverse(*priority));
                let share = |one: &&ByNode| {
                    let pods = i64::try_from(one.on.len()).unwrap();
                    1_000_000_000 * pods * one.cores / offered + 1_000_000_000 * pods / slots
                };
                let share: i64 = gone.iter().map(share).sum();
                let names: Vec<String> = gone.iter().map(|one| format!("{}@c{cluster}", one.name)).collect();
                (gone.len(), priorities, share, cluster, names)
            };
            // With all of them: a plan does not rest on somebody who stays and keeps others out.
            let all = makes_room(&subset((1 << count) - 1));
            (0..1_u32 << count).map(subset).filter(|gone| all && makes_room(gone)).map(cost).min()
        }).min();
        match (best, decision.preemption) {
            (Some((.., names)), Some(Outcome::Nominated(plan))) => {
                let mut victims: Vec<String> =
                    plan.victims.iter().map(|victim| format!("{}@{}", victim.key.name, victim.cluster)).collect();
                victims.sort();
                prop_assert_eq!(victims, names);
            }
            (best, found) => prop_assert!(best.is_none() && matches!(found, Some(Outcome::Refused(_))), "{:?} is best, and not {:?}", best, found),
        }
    }
}

/// Quantities of nodes and pods that make no sense, and some that do.
fn absurd_amount() -> impl Strategy<Value = i64> {
    let absurd = prop::sample::select(vec![i64::MAX, i64::MAX / 2, i64::MIN, -5_000, 0]);
    prop_oneof![1 => absurd, 2 => 0_i64..9_000]
}

proptest! {
    /// Whatever members report: nobody of equal or higher priority leaves, and where no pod waits, the binding is
    /// placed once its victims have left, and not if one of them stays.
    #[test]
    fn absurd_reports_evict_nobody_in_vain(
        nodes in prop::collection::vec((absurd_amount(), absurd_amount(), absurd_amount()), 1..4),
        pods in prop::collection::vec(
            (0_usize..5, 0_usize..5, absurd_amount(), absurd_amount(), any::<bool>(), prop::bool::weighted(0.2)), 0..12,
        ),
        priorities in prop::collection::vec(0_i32..5, 5),
        wanted in (1_i32..4, 1_i64..5, 0_i32..5),
    ) {
        let (replicas, cores, priority) = wanted;
        let mut world = World::new().watched("m1", &[]);
        for (at, priority) in priorities.iter().enumerate() {
            world = world.cores("m1", &[(&format!("b{at}"), *priority, "1")]);
        }
        let of = |cpu: i64, memory: i64| [("cpu".to_owned(), cpu), ("memory".to_owned(), memory)];
        let (on, there) = world.watched.get_mut(&"m1".into()).unwrap();
        for (at, (cpu, memory, slots)) in nodes.iter().enumerate() {
            let allocatable = of(*cpu, *memory).into_iter().chain([("pods".to_owned(), *slots)]).collect();
            on.push((format!("n{at}"), Node { allocatable, ..Node::default() }));
        }
        for (at, (workload, node, cpu, memory, waits, is_leaving)) in pods.iter().enumerate() {
            // A fourth node is not known, and the last pods have none.
            let node = if *node < 4 { format!("n{node}") } else { String::new() };
            let waiting = (*waits && node.is_empty()).then(|| Box::new((format!("default/p{at}"), Claim::default())));
            there.push(Pod {
                node: node.as_str().into(),
                request: of(*cpu, *memory).into_iter().collect(),
                workload: Workload::new("Deployment", "default", &format!("b{workload}")),
                is_leaving: *is_leaving,
                is_replica: !is_leaving,
                waiting,
                ..Pod::default()
            });
        }
        let pending = preemptor(priority, replicas, &[("cpu", &cores.to_string()), ("memory", "5")]);
        let Some(plan) = world.plan(&pending) else { return Ok(()) };
        prop_assert!(plan.victims.iter().all(|victim| victim.priority < priority));
        if world.watched.values().any(|(_, pods)| pods.iter().any(|pod| pod.waiting.is_some())) {
            return Ok(());
        }
        let is_placed = |stays: Option<&BindingKey>| {
            let mut after = world.clone();
            let gone = plan.victims.iter().filter(|victim| Some(&victim.key) != stays);
            let gone: Vec<Workload> =
                gone.map(|victim| Workload::new("Deployment", "default", &victim.key.name)).collect();
            let (_, pods) = after.watched.get_mut(&"m1".into()).unwrap();
            pods.retain(|pod| !pod.is_leaving && !gone.contains(&pod.workload));
            after.decide(&pending, 1_000).result().is_some()
        };
        prop_assert!(is_placed(None), "{:?} make no room", plan.victims);
        for victim in &plan.victims {
            prop_assert!(!is_placed(Some(&victim.key)), "{:?} need not leave", victim);
        }
    }
}

/// State of the pods of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Leaves,
    HasEnded,
}

/// A workload with the nodes of its pods.
#[derive(Debug)]
struct ByNode {
    name: String,
    cluster: usize,
    priority: i32,
    cores: i64,
    /// Nodes of its pods, and of those that wait for one and fit there.
    on: Vec<usize>,
    life: Life,
    /// Pods that wait and have no place.
    waits: usize,
}

/// A workload: its cluster, priority, cores of a pod, nodes of its pods, what these do, and further pods that wait.
fn by_node_row() -> impl Strategy<Value = (usize, i32, i64, Vec<usize>, Life, usize)> {
    let life = prop_oneof![8 => Just(Life::Runs), 1 => Just(Life::Leaves), 1 => Just(Life::HasEnded)];
    let waits = prop_oneof![3 => Just(0_usize), 2 => 1_usize..3];
    (0_usize..2, 0_i32..5, 1_i64..5, prop::collection::vec(0_usize..3, 0..3), life, waits)
}
