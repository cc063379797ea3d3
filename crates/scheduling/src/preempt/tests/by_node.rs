//! Preemption where the nodes and pods of a cluster are watched: what counts is what runs where
//! (specification/scheduling.md 15.4).

use ironclad_api::{NodeSelector, eviction::BINDING_PREEMPTED, work::BindingSuspension};
use ironclad_fleet::because::schedule::Unhelpful;

use super::*;
use crate::{
    estimator::{Quota, Scope},
    testkit::{targets, task, weighted},
};

/// Pending binding of this name; each of its pods requests this many cores.
fn newcomer(name: &str, priority: i32, replicas: i32, cores: i64) -> ResourceBinding {
    let mut pending = preemptor(priority, replicas, &[("cpu", &cores.to_string())]);
    pending.metadata.name = Some(name.to_owned());
    pending.spec.resource.name = name.to_owned();
    pending
}

/// With a node selector that no node satisfies.
fn nowhere(mut pending: ResourceBinding) -> ResourceBinding {
    let needs = json!({"resourceRequest": {"cpu": "5"}, "nodeClaim": {"nodeSelector": {"disk": "ssd"}}});
    pending.spec.replica_requirements = Some(serde_json::from_value(needs).unwrap());
    pending
}

/// One node of 10 cores that is full: the example of the proposal.
fn proposal() -> World {
    World::new().watched("m1", &[("n1", 10)]).on_node("m1", "n1", &[("a", 0, 1), ("b", 1, 2), ("c", 2, 5), ("d", 3, 2)])
}

/// Two nodes of 8 cores, each with two workloads of 4.
fn halves() -> World {
    World::new().watched("m1", &[("n1", 8), ("n2", 8)]).on_node("m1", "n1", &[("p0", 0, 4), ("p2", 2, 4)]).on_node(
        "m1",
        "n2",
        &[("p1", 1, 4), ("p3", 3, 4)],
    )
}

#[test]
fn victims_make_room_on_a_node() {
    let fours = || World::new().watched("m1", &[("n1", 4), ("n2", 4)]);
    let fours = || fours().on_node("m1", "n1", &[("a", 0, 4)]).on_node("m1", "n2", &[("b", 1, 4)]);
    let spread_out = || {
        let world = World::new().watched("m1", &[("n1", 8), ("n2", 8)]);
        let world = world.on_node("m1", "n1", &[("x", 0, 4), ("y", 1, 4)]).on_node("m1", "n2", &[("z", 2, 5)]);
        world.pod("m1", "n2", "x", 3)
    };
    let rows: &[(&str, World, ResourceBinding, &[&str])] = &[
        ("A1: one that leaves five cores", proposal(), newcomer("p", 10, 1, 5), &["c"]),
        ("A1: of those that suffice the lowest", proposal(), newcomer("p", 10, 1, 2), &["b"]),
        ("A1: a node of seven free cores takes seven", proposal(), newcomer("p", 10, 1, 7), &["b", "c"]),
        ("A2: halves of one node", halves(), newcomer("p", 10, 1, 8), &["p0", "p2"]),
        ("A2: two pods of half a node each", halves(), newcomer("p", 10, 2, 4), &["p0", "p1"]),
        ("A2: the second half has too high a priority", halves(), newcomer("p", 2, 1, 8), &[]),
        ("A3: a node selector that no node satisfies", proposal(), nowhere(newcomer("p", 10, 1, 5)), &[]),
        ("A3: more than any node has", fours(), newcomer("p", 10, 1, 5), &[]),
        ("A3: the same for two pods", fours(), newcomer("p", 10, 2, 5), &[]),
        ("A3: as much as a node has", fours(), newcomer("p", 10, 1, 4), &["a"]),
        ("a workload of two nodes leaves both", spread_out(), newcomer("p", 10, 2, 4), &["x", "y"]),
        ("what is free beside it counts", spread_out(), newcomer("p", 10, 2, 3), &["x"]),
    ];
    for (name, world, pending, want) in rows {
        let plan = world.plan(pending);
        let victims: Vec<&str> = plan.iter().flat_map(|plan| &plan.victims).map(|victim| &*victim.key.name).collect();
        assert_eq!(victims, *want, "{name}");
        if want.is_empty() {
            let refused = world.decide(pending, 1_000).preemption;
            assert_eq!(refused, Some(Outcome::Refused(Unhelpful::StillTooLittle)), "{name}");
            continue;
        }
        // Without its victims it is placed, and nobody else has to leave.
        let mut after = world.clone();
        for victim in want.iter() {
            after.bindings.retain(|binding| binding.metadata.name.as_deref() != Some(victim));
            after.pods_of(victim).for_each(|pod| pod.has_ended = true);
        }
        let placed = after.decide(pending, 1_000);
        assert_eq!(placed.result(), Some(&targets(&[("m1", pending.spec.replicas)])[..]), "{name}");
    }
}

/// Nodes take what they have room for, whatever grades count for them.
#[test]
fn models_limit_nothing_where_nodes_are_watched() {
    for (name, world, cores) in [
        (
            "three of ten cores are used",
            World::new().watched("m1", &[("n1", 10)]).on_node("m1", "n1", &[("a", 9, 3)]),
            5,
        ),
        ("an empty node", World::new().watched("m1", &[("n1", 6)]), 6),
    ] {
        let decision = world.decide(&newcomer("p", 5, 1, cores), 1_000);
        assert_eq!(decision.result(), Some(&targets(&[("m1", 1)])[..]), "{name}");
        let more = world.decide(&newcomer("p", 5, 2, cores), 1_000);
        assert_eq!(more.result(), None, "{name}: one more");
    }
}

#[test]
fn who_holds_nothing_is_no_victim() {
    let full = || World::new().watched("m1", &[("n1", 4)]).on_node("m1", "n1", &[("low", 0, 4), ("high", 9, 0)]);
    let without_pods = || {
        let mut world = full();
        world.watched.get_mut(&"m1".into()).unwrap().1.clear();
        world.pod("m1", "n1", "high", 4)
    };
    let each = |mut world: World, change: fn(&mut Pod)| {
        world.pods_of("low").for_each(change);
        world.pod("m1", "n1", "high", 4)
    };
    let promised = |of: World| World { promised: vec!["low"], ..of };
    let only_promised = || {
        let mut world = full();
        world.watched.get_mut(&"m1".into()).unwrap().1.clear();
        promised(world)
    };
    let suspended = || {
        let mut world = only_promised();
        let all = BindingSuspension { dispatching: Some(true), ..BindingSuspension::default() };
        world.bindings[0].spec.suspension = Some(all);
        world.pod("m1", "n1", "high", 4)
    };
    let refused = |because| Some(Outcome::Refused(because));
    for (name, world, want) in [
        ("its pod runs", full(), None),
        ("it has no pods", without_pods(), refused(Unhelpful::NoVictims)),
        ("its pod has ended", each(full(), |pod| pod.has_ended = true), refused(Unhelpful::NoVictims)),
        ("its pod waits for a node", each(full(), |pod| pod.node = "".into()), refused(Unhelpful::NoVictims)),
        ("its pod has not come yet", only_promised(), None),
        ("dispatching is suspended", suspended(), refused(Unhelpful::NoVictims)),
    ] {
        let decision = world.decide(&newcomer("p", 5, 1, 4), 1_000);
        let Some(want) = want else {
            let Some(Outcome::Nominated(plan)) = decision.preemption else {
                panic!("{name}: {:?}", decision.preemption)
            };
            assert_eq!(super::super::listed(&plan), ["default/low@m1"], "{name}");
            continue;
        };
        assert_eq!(decision.preemption, Some(want), "{name}");
    }
    // Its pods are leaving already: they are waited for, and nobody is evicted.
    let mut leaving = full();
    leaving.pods_of("low").for_each(|pod| (pod.is_leaving, pod.is_replica) = (true, false));
    assert_eq!(leaving.plan(&newcomer("p", 5, 1, 4)).unwrap().victims, []);
    // Whoever leaves before its pod has come leaves at once.
    let mut evicted = only_promised();
    evicted.preempt(&newcomer("p", 5, 1, 4), 1_000);
    assert_eq!(evicted.decide(evicted.binding("p"), 1_001).result(), Some(&targets(&[("m1", 1)])[..]));
}

/// A plan asks nodes for the same resources as the account does.
#[test]
fn requests_count_as_on_nodes() {
    let offering = |offers: &[(&str, i64)]| {
        let mut world = World::new().watched("m1", &[("n1", 4)]).on_node("m1", "n1", &[("low", 0, 4)]);
        let (nodes, _) = world.watched.get_mut(&"m1".into()).unwrap();
        offers.iter().for_each(|(name, amount)| nodes[0].1.allocatable.insert(*name, *amount));
        world
    };
    let rows: [(&str, &[(&str, i64)], Request<'_>, &[&str]); 10] = [
        ("cpu alone", &[], &[("cpu", "4")], &["low"]),
        ("a native resource that Kubernetes ignores", &[], &[("cpu", "4"), ("magic", "1")], &["low"]),
        ("pods as a resource", &[], &[("cpu", "4"), ("pods", "500")], &["low"]),
        ("an amount of 0 of what no node offers", &[], &[("cpu", "4"), ("example.com/gpu", "0")], &["low"]),
        ("a negative amount", &[], &[("cpu", "4"), ("memory", "-1")], &["low"]),
        ("an extended resource that no node offers", &[], &[("cpu", "4"), ("example.com/gpu", "1")], &[]),
        ("one that is free", &[("example.com/gpu", 1)], &[("cpu", "4"), ("example.com/gpu", "1")], &["low"]),
        ("storage that no node offers", &[], &[("cpu", "4"), ("ephemeral-storage", "1")], &[]),
        ("storage that is free", &[("ephemeral-storage", 9)], &[("cpu", "4"), ("ephemeral-storage", "9")], &["low"]),
        ("huge pages that no node offers", &[], &[("cpu", "4"), ("hugepages-2Mi", "2Mi")], &[]),
    ];
    for (name, offers, request, want) in rows {
        let (world, pending) = (offering(offers), preemptor(5, 1, request));
        let plan = world.plan(&pending);
        let victims: Vec<&str> = plan.iter().flat_map(|plan| &plan.victims).map(|victim| &*victim.key.name).collect();
        assert_eq!(victims, want, "{name}");
        let mut after = world.clone();
        after.bindings.clear();
        after.pods_of("low").for_each(|pod| pod.has_ended = true);
        assert_eq!(after.decide(&pending, 1_000).result().is_some(), !want.is_empty(), "{name}: once it has left");
    }
    // The same for component sets, whose parts are not read alike.
    for (name, request, want) in [
        ("a native resource that Kubernetes ignores", &[("cpu", "2"), ("magic", "1")][..], &["low"][..]),
        ("a negative amount", &[("cpu", "2"), ("memory", "-1")], &["low"]),
        ("an extended resource that no node offers", &[("cpu", "2"), ("example.com/gpu", "1")], &[]),
    ] {
        let pending = set(preemptor(5, 1, &[]), &[("a", 1, &[("cpu", "2")]), ("b", 1, request)]);
        let plan = offering(&[]).plan(&pending);
        let victims: Vec<&str> = plan.iter().flat_map(|plan| &plan.victims).map(|victim| &*victim.key.name).collect();
        assert_eq!(victims, want, "{name}: a set");
    }
}

/// A workload that waits for a node takes what victims leave, unless it leaves as well.
#[test]
fn who_waits_for_a_node_leaves_if_that_helps() {
    let world = |rows: &[(&str, i32, i64)]| World::new().watched("m1", &[("n1", 8)]).on_node("m1", "n1", rows);
    let waits = |world: World, name: &str, priority: i32, cores: i64| {
        world.cores("m1", &[(name, priority, &cores.to_string())]).waits("m1", name, cores)
    };
    let a = || world(&[("a", 0, 4), ("high", 9, 4)]);
    let halves = || world(&[("a", 0, 4), ("b", 3, 4)]);
    let leaving = || {
        let mut world = a();
        world.pods_of("a").for_each(|pod| (pod.is_leaving, pod.is_replica) = (true, false));
        world
    };
    let promised = || {
        let world = a().cores("m1", &[("w", 1, "4")]);
        World { promised: vec!["w"], ..world }
    };
    let changed = |name: &str, change: fn(&mut Pod)| {
        let mut world = waits(a(), name, 1, 4);
        world.pods_of(name).for_each(change);
        world
    };
    let nowhere = |pod: &mut Pod| {
        let claim: ironclad_api::work::NodeClaim =
            serde_json::from_value(json!({"nodeSelector": {"disk": "ssd"}})).unwrap();
        pod.waiting.as_mut().unwrap().1 = Claim::from(Some(&claim));
    };
    let crowd = || (0..150).fold(a(), |world, at| waits(world, &format!("w{at}"), 1, 5));
    let rows: &[(&str, World, &[&str])] = &[
        ("it would take what the victim leaves", waits(a(), "w", 1, 4), &["a", "w"]),
        ("it leaves room beside it", waits(halves(), "w", 4, 2), &["a", "b"]),
        ("it has a lower priority than another victim", waits(halves(), "w", 1, 2), &["a", "w"]),
        ("it is too large for what becomes free", waits(a(), "w", 0, 5), &["a"]),
        ("no node admits it", changed("w", nowhere), &["a"]),
        ("it is being deleted", changed("w", |pod| pod.is_leaving = true), &["a"]),
        ("its pod has ended", changed("w", |pod| pod.has_ended = true), &["a"]),
        ("two of them", waits(waits(a(), "w1", 1, 4), "w2", 2, 4), &["a", "w1", "w2"]),
        ("it would take what is being deleted", waits(leaving(), "w", 1, 4), &["w"]),
        ("its pods have not come", promised(), &["a", "w"]),
        ("its priority is higher", waits(a(), "w", 7, 4), &[]),
        ("many that are too large for what becomes free", crowd(), &["a"]),
        ("many of which one is not", waits(crowd(), "x", 1, 4), &["a", "x"]),
    ];
    let pending = newcomer("p", 5, 1, 4);
    for (name, world, want) in rows {
        let plan = world.plan(&pending);
        let victims: Vec<&str> = plan.iter().flat_map(|plan| &plan.victims).map(|victim| &*victim.key.name).collect();
        assert_eq!(victims, *want, "{name}");
        let mut after = world.clone();
        for victim in want.iter().copied().chain(["a"]) {
            after.bindings.retain(|binding| binding.metadata.name.as_deref() != Some(victim));
            after.pods_of(victim).for_each(|pod| pod.has_ended = true);
        }
        let placed = after.decide(&pending, 1_000);
        assert_eq!(placed.result().is_some(), !want.is_empty(), "{name}: once they have left");
    }
}

/// Their pods run, are being deleted or are gone: what leaves for one is not evicted again for the next.
#[test]
fn preemptors_that_wait_together_evict_as_many_as_needed() {
    let names: Vec<String> = (0..15).map(|at| format!("low{at}")).collect();
    let world = || {
        let rows: Vec<(&str, i32, i64)> = names.iter().map(|name| (name.as_str(), 0, 1)).collect();
        World::new().watched("m1", &[("n1", 15)]).on_node("m1", "n1", &rows)
    };
    type After = fn(&mut World, &str);
    let stages: [(&str, After); 3] = [
        ("pods still run", |_, _| {}),
        ("pods are being deleted", |world, victim| {
            world.pods_of(victim).for_each(|pod| (pod.is_leaving, pod.is_replica) = (true, false));
        }),
        ("pods are gone", |world, victim| world.pods_of(victim).for_each(|pod| pod.has_ended = true)),
    ];
    for (name, after) in stages {
        for preemptors in [2, 5] {
            let mut world = world();
            let mut evicted = Vec::new();
            for at in 0..preemptors {
                let victims = world.preempt(&newcomer(&format!("p{at}"), 10, 1, 1), 1_000 + at);
                assert_eq!(victims.len(), 1, "B1, B2: {name}: preemptor {at}");
                victims.iter().for_each(|victim| after(&mut world, victim));
                evicted.extend(victims);
            }
            evicted.dedup();
            assert_eq!(i64::try_from(evicted.len()).unwrap(), preemptors, "B1, B2: {name}");
        }
        let mut world = world();
        let victims = world.preempt(&newcomer("p", 10, 1, 1), 1_000);
        victims.iter().for_each(|victim| after(&mut world, victim));
        let mut scaled = world.binding("p").clone();
        scaled.spec.replicas = 2;
        scaled.metadata.generation = Some(2);
        assert_eq!(world.preempt(&scaled, 1_001).len(), 1, "B3: {name}");
        assert_eq!(world.binding("p").status.as_ref().unwrap().nominated_clusters, targets(&[("m1", 2)]), "B3: {name}");
    }
}

/// Two preemptors of equal priority: the first one that was nominated gets what becomes free first.
#[test]
fn nominations_of_equal_priority_are_served_in_their_order() {
    let mut world = World::new().watched("m1", &[("n1", 2)]).on_node("m1", "n1", &[("a", 0, 1), ("b", 0, 1)]);
    // By their names the order would be the other one.
    for (at, name) in ["z", "y"].into_iter().enumerate() {
        world.preempt(&newcomer(name, 10, 1, 1), 1_000 + at as i64);
    }
    let placed = |world: &World, name: &str| world.decide(world.binding(name), 1_010).result().is_some();
    assert_eq!((placed(&world, "z"), placed(&world, "y")), (false, false), "nobody has left");
    world.pods_of("a").for_each(|pod| pod.has_ended = true);
    assert_eq!((placed(&world, "z"), placed(&world, "y")), (true, false), "one has");
    let other = newcomer("other", 10, 1, 1);
    assert_eq!(world.decide(&other, 1_010).result(), None, "who is not nominated comes after them");
    assert!(world.decide(&newcomer("other", 11, 1, 1), 1_010).result().is_some(), "unless its priority is higher");
    world.pods_of("b").for_each(|pod| pod.has_ended = true);
    assert_eq!((placed(&world, "z"), placed(&world, "y")), (true, true), "both have");
}

/// A preemptor that was nominated first and is scaled up plans beside those that were nominated after it: their victims
/// have not left for it.
#[test]
fn a_nomination_grows_beside_later_ones() {
    let world = World::new().watched("m1", &[("n1", 4)]).watched("m2", &[("n1", 2)]);
    let mut world = world.on_node("m1", "n1", &[("a", 0, 2), ("b", 1, 2)]).on_node("m2", "n1", &[("c", 2, 2)]);
    assert_eq!(world.preempt(&newcomer("z", 10, 1, 2), 1_000), ["a"]);
    assert_eq!(world.preempt(&newcomer("y", 10, 1, 2), 1_001), ["b"]);
    let mut scaled = world.binding("z").clone();
    (scaled.spec.replicas, scaled.metadata.generation) = (2, Some(2));
    assert_eq!(world.preempt(&scaled, 1_002), ["c"]);
    for name in ["a", "b", "c"] {
        world.pods_of(name).for_each(|pod| pod.has_ended = true);
    }
    let result = |name: &str| world.decide(world.binding(name), 1_010).result().map(<[_]>::to_vec);
    assert_eq!(result("y"), Some(targets(&[("m1", 1)])));
    assert_eq!(result("z"), Some(targets(&[("m1", 1), ("m2", 1)])));
}

#[test]
fn whose_scheduling_is_suspended_holds_nothing() {
    let mut world = World::new().watched("m1", &[("n1", 4)]).on_node("m1", "n1", &[("low", 0, 4)]);
    world.preempt(&newcomer("p", 10, 1, 4), 1_000);
    world.pods_of("low").for_each(|pod| pod.has_ended = true);
    let key = BindingRef::from(world.binding("p")).key();
    let placed = |world: &World| world.decide(&newcomer("other", 0, 1, 4), 1_010).result().is_some();
    let is_held = |world: &World| world.capacity().is_nominated(&key);
    assert_eq!((placed(&world), is_held(&world)), (false, true));
    let mut suspended = world.binding("p").clone();
    suspended.spec.suspension = Some(BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() });
    world.bindings.retain(|binding| binding.metadata.name.as_deref() != Some("p"));
    world.bindings.push(suspended.clone());
    assert_eq!((placed(&world), is_held(&world)), (true, false));
    let decision = world.decide(&suspended, 1_010);
    assert_eq!(decision.preemption, Some(Outcome::Dropped));
    assert_eq!(applied(&suspended, &decision).status.unwrap().nominated_clusters, []);
}

/// Message of the condition while victims leave, and once they have left.
#[test]
fn the_condition_says_the_present() {
    let mut world = World::new().watched("m1", &[("n1", 4)]).on_node("m1", "n1", &[("low", 0, 4)]);
    world.preempt(&newcomer("p", 10, 1, 4), 1_000);
    let says = |world: &World| {
        let waiting = applied(world.binding("p"), &world.decide(world.binding("p"), 1_010));
        waiting.status.unwrap().conditions[0].message.clone()
    };
    assert!(says(&world).ends_with(" Preempting 1 binding(s) on cluster(s) m1 to make room."), "{}", says(&world));
    // Its task is over, and its pod is still there.
    world.bindings[0].spec.graceful_eviction_tasks.clear();
    assert!(says(&world).ends_with(" Waiting for the capacity of preempted bindings."), "{}", says(&world));
    assert!(!says(&world).contains("Preempting"));
}

/// Requirements on nodes are asked of what victims would leave, too.
#[test]
fn victims_leave_nodes_that_admit_the_preemptor() {
    let mut world = World::new().watched("m1", &[("n1", 4), ("n2", 4)]).on_node("m1", "n1", &[("a", 0, 4)]).on_node(
        "m1",
        "n2",
        &[("b", 5, 4)],
    );
    let (nodes, _) = world.watched.get_mut(&"m1".into()).unwrap();
    nodes[1].1.labels.insert("disk".into(), "ssd".into());
    let mut pending = newcomer("p", 10, 1, 4);
    let affinity: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}))
    .unwrap();
    let needs = json!({"resourceRequest": {"cpu": "4"}, "nodeClaim": {"hardNodeAffinity": affinity}});
    pending.spec.replica_requirements = Some(serde_json::from_value(needs).unwrap());
    assert_eq!(world.victims(&pending), ["b@m1"]);
    let (nodes, _) = world.watched.get_mut(&"m1".into()).unwrap();
    nodes[1].1.unschedulable = true;
    assert_eq!(world.victims(&pending), [""; 0], "the node is cordoned");
}

/// Where pods will be that have no node yet is only foreseen, and victims are chosen by nodes.
#[test]
fn a_plan_waits_for_pods_that_get_their_nodes() {
    let two = |waits| {
        let world = World::new().watched("m1", &[("n1", 8), ("n2", 8)]);
        let world = world.on_node("m1", "n1", &[("a", 0, 6)]).on_node("m1", "n2", &[("b", 1, 6)]);
        if waits { world.waits("m1", "c", 1) } else { world }
    };
    let one = World::new().watched("m1", &[("n1", 8)]).on_node("m1", "n1", &[("a", 0, 6)]).waits("m1", "c", 1);
    let pending = newcomer("p", 10, 1, 4);
    let settling = Outcome::Refused(Unhelpful::Settling);
    for (name, world, since, waits) in [
        ("a pod waits for its node", two(true), None, true),
        ("it does for two seconds", two(true), Some(998), true),
        ("it does for longer", two(true), Some(997), false),
        ("every pod has its node", two(false), None, false),
        ("there is one node", one, None, false),
    ] {
        let mut world = world;
        if let Some(since) = since {
            world.preemptors.record(&BindingRef::from(&pending).key(), 1, &settling, at(since));
        }
        let decision = world.decide(&pending, 1_000);
        assert_eq!(decision.preemption == Some(settling.clone()), waits, "{name}: {:?}", decision.preemption);
        let again = at(1_000) + jiff::SignedDuration::from_millis(500);
        assert_eq!(decision.next == crate::Next::At(again), waits, "{name}: {:?}", decision.next);
        assert_eq!(matches!(decision.preemption, Some(Outcome::Nominated(_))), !waits, "{name}");
    }
}

/// The nodes on which a preemptor counts are held for it, from its nomination on: a workload that yields to it gets
/// nothing whose pods would come there.
#[test]
fn nodes_are_held_for_the_preemptor() {
    let world = |second: i64, gone: bool| {
        let world = World::new().watched("m1", &[("n1", 8), ("n2", second)]).on_node("m1", "n1", &[("low", 0, 6)]);
        let mut world = world.on_node("m1", "n2", &[("other", 20, 4)]);
        assert_eq!(world.preempt(&newcomer("p", 10, 1, 8), 1_000), ["low"]);
        if gone {
            world.pods_of("low").for_each(|pod| pod.has_ended = true);
        }
        world
    };
    let rows = [
        ("the victim runs, and leaves a rest on its node", world(4, false), 5, 1, false),
        ("the other node has room and is emptier", world(8, false), 5, 1, true),
        ("it has room for one, and the next would come to the node that is held", world(6, false), 5, 2, false),
        ("the victim is gone", world(4, true), 5, 1, false),
        ("the same, and its node is the emptiest", world(8, true), 5, 1, false),
        ("equal priority", world(8, true), 10, 1, false),
        ("a higher priority does not yield", world(8, true), 11, 1, true),
    ];
    for (name, mut world, priority, replicas, want) in rows {
        let w = newcomer("w", priority, replicas, 2);
        assert_eq!(world.decide(&w, 1_010).result().is_some(), want, "{name}");
        world.pods_of("low").for_each(|pod| pod.has_ended = true);
        let is_placed = world.decide(world.binding("p"), 1_010).result().is_some();
        assert!(is_placed, "{name}: the preemptor is placed once its victim has left");
    }
}

/// A quota of the member gets back the share of victims in the preemptor's namespace.
#[test]
fn victims_free_quota_of_their_namespace() {
    let world = |free: i64, scopes: &[Scope]| {
        let mut world = World::new().watched("m1", &[("n1", 8)]).on_node("m1", "n1", &[("low", 0, 4)]);
        let free = [("cpu".to_owned(), free * 1_000)].into_iter().collect();
        world.quota = Some(Quota { free, scopes: scopes.to_vec() });
        world
    };
    let mut elsewhere = newcomer("p", 5, 1, 8);
    elsewhere.metadata.namespace = Some("shop".into());
    elsewhere.spec.resource.namespace = "shop".into();
    let promised = World::new().watched("m1", &[("n1", 4)]).cores("m1", &[("low", 0, "4")]);
    let only_promised = World { promised: vec!["low"], quota: world(4, &[]).quota, ..promised };
    let waits = || world(0, &[]).cores("m1", &[("w", 0, "4")]).waits("m1", "w", 4);
    let scoped = Scope::PriorityClass { operator: "DoesNotExist".into(), values: vec![] };
    let rows: [(&str, World, ResourceBinding, &[&str]); 7] = [
        ("what it frees is what is missing", world(0, &[]), newcomer("p", 5, 1, 4), &["low@m1"]),
        ("it frees a part of it", world(1, &[]), newcomer("p", 5, 1, 6), &[]),
        ("with what is left it is enough", world(1, &[]), newcomer("p", 5, 1, 5), &["low@m1"]),
        ("who waits for a node uses quota, too", waits(), newcomer("p", 5, 1, 4), &["low@m1"]),
        ("what is promised uses it from now on", only_promised, newcomer("p", 5, 1, 4), &["low@m1"]),
        ("it is not known whom a quota with scopes counts", world(0, &[scoped]), newcomer("p", 5, 1, 4), &[]),
        ("another namespace has no quota", world(0, &[]), elsewhere, &["low@m1"]),
    ];
    for (name, world, pending, want) in rows {
        assert_eq!(world.victims(&pending), want, "{name}");
    }
}

/// Members of an affinity group share their clusters, and those of an anti-affinity group share none: a plan counts the
/// clusters for which other members are nominated, so that none of them is nominated in vain.
#[test]
fn members_of_a_group_are_nominated_for_clusters_that_they_can_share() {
    let member = |name: &str, affinity: &str, anti: &str| {
        let mut member = newcomer(name, 10, 1, 4);
        let groups = json!({"affinityGroup": affinity, "antiAffinityGroup": anti});
        member.spec.workload_affinity_groups = Some(serde_json::from_value(groups).unwrap());
        member
    };
    let world = |c, b| {
        let world = World::new().watched("m1", &[("n1", 8)]).watched("m2", &[("n1", 4)]);
        let world = world.on_node("m1", "n1", &[("a", 0, 4), ("c", c, 4)]).on_node("m2", "n1", &[("b", b, 4)]);
        World { options: Options { workload_affinity: true, ..world.options.clone() }, ..world }
    };
    for (name, first, second, [c, b], want) in [
        ("no group, and the cheapest victim is elsewhere", ["", ""], ["", ""], [2, 1], "b"),
        ("the same affinity group", ["g=1", ""], ["g=1", ""], [2, 1], "c"),
        ("another affinity group", ["g=1", ""], ["g=2", ""], [2, 1], "b"),
        ("no group, and the cheapest victim is there", ["", ""], ["", ""], [1, 2], "c"),
        ("the same anti-affinity group", ["", "g=1"], ["", "g=1"], [1, 2], "b"),
        ("another anti-affinity group", ["", "g=1"], ["", "g=2"], [1, 2], "c"),
    ] {
        let mut world = world(c, b);
        assert_eq!(world.preempt(&member("p", first[0], first[1]), 1_000), ["a"], "{name}");
        assert_eq!(world.preempt(&member("q", second[0], second[1]), 1_000), [want], "{name}");
    }
}

/// A victim whose shares are fixed stays in `m2` with one replica of two cores; it left `m1`. What `m2` has left beside
/// it is held for a preemptor, or not.
#[test]
fn a_victim_with_fixed_shares_does_not_grow_into_what_is_held() {
    let victim = |placement: Placement, replicas: i32| {
        let mut victim = workload("v", 0, replicas, &[("cpu", "2")], &[("m2", 1)]);
        victim.spec.placement = Some(placement.into());
        victim.spec.graceful_eviction_tasks = vec![task("m1", BINDING_PREEMPTED, Some(1))];
        victim
    };
    let even = || weighted(&[("m1", 1), ("m2", 1)]);
    let p = |cores, nominated: &[(&str, i32)]| {
        let mut p = newcomer("p", 10, 1, cores);
        p.status.as_mut().unwrap().nominated_clusters = targets(nominated);
        p
    };
    let held = "Cluster m2 holds its capacity for workloads of higher priority.";
    for (name, victim, p, want) in [
        ("all that is left is held", victim(even(), 2), p(2, &[("m2", 1)]), None),
        ("nothing is held", victim(even(), 2), p(2, &[]), Some(2)),
        ("half of it is held, and a replica needs both", victim(even(), 2), p(1, &[("m2", 1)]), None),
        ("it is scaled where every replica is", victim(Placement::default(), 2), p(2, &[("m2", 1)]), None),
        ("the same, and nothing is held", victim(Placement::default(), 2), p(2, &[]), Some(2)),
    ] {
        let world = World::new().watched("m1", &[("n1", 2)]).watched("m2", &[("n1", 4)]).pod("m2", "n1", "v", 2);
        let world = world.running(victim.clone()).running(p);
        let decision = world.decide(&victim, 1_000);
        let replicas = decision.result().map(|all| all.iter().map(|target| target.replicas).sum::<i32>());
        let says = decision.failure.as_ref().map(ToString::to_string);
        assert_eq!(replicas, want, "{name}: {says:?}");
        assert_eq!(says.is_some_and(|says| says.ends_with(held)), want.is_none(), "{name}");
    }
}
