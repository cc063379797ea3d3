use ironclad_api::work::WorkloadAffinityGroups;

use super::*;
use crate::flags::eviction::{Check, Mode};

/// Evictions of one binding on m1 of three clusters: seconds after the taint, purge mode and reason.
#[test]
fn eviction_of_one_binding_by_one_taint() {
    use PurgeMode::{Directly, Gracefully};
    let no_execute_off = || flags(|f| f.enable_no_execute_taint_eviction = false);
    let directly = || flags(|f| f.no_execute_taint_eviction_purge_mode = PurgeMode::Directly);
    let plain = Flags::default;
    let w = || dup("w", &["m1"]);
    type Row = (&'static str, Flags, ResourceBinding, &'static [&'static str], Option<(u64, PurgeMode, &'static str)>);
    let rows: Vec<Row> = vec![
        ("B14: PreferNoExecute without cluster failover", plain(), w(), &[PREFER_NO_EXECUTE], None),
        (
            "B15: PreferNoExecute with default failover",
            plain(),
            failing_over(w(), None, None),
            &[PREFER_NO_EXECUTE],
            Some((300, Gracefully, "TaintPreferNoExecute")),
        ),
        (
            "B16: PreferNoExecute, Directly after 100 s",
            plain(),
            failing_over(w(), Some(Directly), Some(100)),
            &[PREFER_NO_EXECUTE],
            Some((100, Directly, "TaintPreferNoExecute")),
        ),
        (
            "B19: tolerations do not apply to PreferNoExecute",
            plain(),
            failing_over(tolerating(w(), None), None, Some(10)),
            &[PREFER_NO_EXECUTE],
            Some((10, Gracefully, "TaintPreferNoExecute")),
        ),
        ("B20: NoExecute", plain(), w(), &[NO_EXECUTE], Some((0, Gracefully, "TaintUntolerated"))),
        (
            "B21: NoExecute with purge mode Directly of the flag",
            directly(),
            w(),
            &[NO_EXECUTE],
            Some((0, Directly, "TaintUntolerated")),
        ),
        (
            "B22: failover seconds do not apply to NoExecute",
            plain(),
            failing_over(w(), Some(Directly), Some(100)),
            &[NO_EXECUTE],
            Some((0, Directly, "TaintUntolerated")),
        ),
        ("B25: NoExecute that is tolerated", plain(), tolerating(w(), None), &[NO_EXECUTE], None),
        (
            "B27: NoExecute eviction is off, PreferNoExecute applies",
            no_execute_off(),
            failing_over(w(), None, Some(0)),
            &[NO_EXECUTE, PREFER_NO_EXECUTE],
            Some((0, Gracefully, "TaintPreferNoExecute")),
        ),
        (
            "B27: NoExecute eviction is off, no cluster failover",
            no_execute_off(),
            w(),
            &[NO_EXECUTE, PREFER_NO_EXECUTE],
            None,
        ),
        ("B34: no other candidate", plain(), only(w(), &["m1"]), &[NO_EXECUTE], None),
        (
            "B36: duplicated to all candidates",
            plain(),
            only(
                with(dup("w", &["m1", "m2"]), |s| s.placement.as_mut().unwrap().spread_constraints.clear()),
                &["m1", "m2"],
            ),
            &[NO_EXECUTE],
            None,
        ),
        (
            "B37: a candidate keeps minGroups",
            plain(),
            with(dup("w", &["m1", "m2"]), |s| s.placement.as_mut().unwrap().spread_constraints[0].min_groups = 2),
            &[NO_EXECUTE],
            Some((0, Gracefully, "TaintUntolerated")),
        ),
        (
            "B38: no candidate for minGroups",
            plain(),
            only(
                with(dup("w", &["m1", "m2"]), |s| s.placement.as_mut().unwrap().spread_constraints[0].min_groups = 2),
                &["m1", "m2"],
            ),
            &[NO_EXECUTE],
            None,
        ),
        (
            "B39: strict check, all candidates are in use",
            flags(|f| f.pre_scheduling_check = Check::Strict),
            only(div("w", &[("m1", 2), ("m2", 1)]), &["m1", "m2"]),
            &[NO_EXECUTE],
            None,
        ),
        (
            "B39: relaxed check, all candidates are in use",
            plain(),
            only(div("w", &[("m1", 2), ("m2", 1)]), &["m1", "m2"]),
            &[NO_EXECUTE],
            Some((0, Gracefully, "TaintUntolerated")),
        ),
        (
            "B40: divided, another candidate",
            plain(),
            div("w", &[("m1", 2), ("m2", 1)]),
            &[NO_EXECUTE],
            Some((0, Gracefully, "TaintUntolerated")),
        ),
        (
            "B41: no replicas, no other candidate",
            plain(),
            only(
                with(dup("w", &["m1"]), |s| {
                    s.replicas = 0;
                    s.placement.as_mut().unwrap().spread_constraints.clear();
                }),
                &["m1"],
            ),
            &[NO_EXECUTE],
            None,
        ),
        ("B70: rate 0", flags(|f| f.resource_eviction_rate = 0.0), w(), &[NO_EXECUTE], None),
    ];
    for (name, flags, binding, effects, want) in rows {
        let mut world = World::with(3, flags);
        world.put(binding);
        for effect in effects {
            world.fail("m1", effect);
        }
        if let Some((after, _, _)) = want
            && after > 0
        {
            world.run(READY_AT + after - 1);
            assert_eq!(world.evicted(), 0, "{name}: not before its due time");
        }
        world.run(READY_AT + 3_600);
        let log: Vec<_> = want.iter().map(|(after, _, _)| format!("{}: w <- m1", READY_AT + after)).collect();
        assert_eq!(world.log, log, "{name}");
        if let Some((_, mode, reason)) = want {
            let task = world.tasks("w").pop().unwrap();
            assert_eq!(
                (task.purge_mode, task.reason.as_str(), task.producer.as_str()),
                (Some(mode), reason, "TaintManager"),
                "{name}"
            );
            let created = task.creation_timestamp.map(|time| time.0);
            let written = want.map(|(after, _, _)| now(READY_AT + after).wall);
            assert_eq!(created, written, "{name}: the task has its creationTimestamp");
        }
    }
}

#[test]
fn task_records_replicas_clusters_and_message() {
    let mut world = World::new(3);
    world.put(div("w", &[("m1", 2), ("m2", 1)]));
    world.fail("m1", NO_EXECUTE);
    world.run(200);
    let task = world.tasks("w").pop().unwrap();
    assert_eq!((task.from_cluster.as_str(), task.replicas), ("m1", Some(2)), "B40");
    assert_eq!(task.clusters_before_failover, ["m1", "m2"]);
    assert_eq!(task.message, "taints k:NoExecute; due 1970-01-12T13:48:20Z; waited 0s in the queue");
    assert_eq!(world.on("w"), ["m2"]);
    let config = with(dup("c", &["m1"]), |spec| (spec.replicas, spec.clusters) = (0, vec![target("m1", 0)]));
    world.put(config);
    world.run(300);
    assert_eq!(world.tasks("c").pop().unwrap().replicas, None, "not a workload");
    assert_eq!(world.on("c"), Vec::<String>::new());
}

#[test]
fn taint_removed_within_the_toleration_evicts_nothing() {
    for (name, removed_after, evicted) in [("B23", 59, 0), ("B24", 61, 1)] {
        let mut world = World::new(3);
        world.put(tolerating(dup("w", &["m1"]), Some(60)));
        world.fail("m1", NO_EXECUTE);
        world.run(READY_AT + removed_after).recover("m1");
        world.run(READY_AT + 900);
        assert_eq!(world.evicted(), evicted, "{name}");
        assert!(world.evictions.queue().is_empty(), "{name}");
    }
}

#[test]
fn one_untolerated_taint_of_several_evicts() {
    let mut world = World::new(3);
    world.put(tolerating(dup("w", &["m1"]), None));
    world.fail("m1", NO_EXECUTE);
    world.run(150);
    assert_eq!((world.evicted(), world.evictions.queue().len()), (0, 0), "B25: gauges stay 0");
    world.change("m1", |c| c.spec.taints.push(taint("other", NO_EXECUTE, Some(EPOCH + 150))));
    world.run(150);
    assert_eq!(world.log, ["150: w <- m1"], "B26");
}

#[test]
fn parked_eviction_proceeds_when_a_candidate_joins() {
    let mut world = World::new(3);
    world.put(only(dup("w", &["m1"]), &["m1", "m4"]));
    world.fail("m1", NO_EXECUTE);
    world.run(200);
    assert_eq!(world.evicted(), 0, "B34");
    let tally = world.evictions.queue().tally();
    assert_eq!(tally.queue(QueueName::ResourceBinding).failed, 1);
    assert_eq!(tally.cluster(&"m1".into()).unwrap().abandoned[&Abandoned::NoTarget], 1);
    let events = world.reasons();
    assert!(events.contains(&("w".into(), "EvictWorkloadFromClusterFailed")), "{events:?}");
    world.run(2_000);
    assert!(world.reasons().is_empty(), "checked again every five minutes, and reported once");
    let condition = world.evictions.pending_condition(&world.get("w").key(), world.now).unwrap();
    assert_eq!(condition.reason, "Parked");
    world.join("m4");
    world.run(2_001);
    assert_eq!(world.log, ["2000: w <- m1"], "B35");
}

#[test]
fn parked_eviction_proceeds_when_a_cluster_is_labelled() {
    let mut world = World::new(3);
    world.put(with(dup("w", &["m1"]), |spec| {
        let labels = [("tier".to_owned(), "gold".to_owned())].into();
        let selector = ironclad_api::LabelSelector { match_labels: Some(labels), ..Default::default() };
        let affinity = ClusterAffinity { label_selector: Some(selector), ..ClusterAffinity::default() };
        spec.placement.as_mut().unwrap().cluster_affinity = Some(affinity);
    }));
    world.fail("m1", NO_EXECUTE);
    world.run(150);
    assert_eq!(world.evicted(), 0);
    world.change("m2", |c| c.metadata.labels = Some([("tier".to_owned(), "gold".to_owned())].into()));
    world.run(151);
    assert_eq!(world.evicted(), 1);
}

#[test]
fn too_many_faulty_clusters_halt_evictions_until_one_recovers() {
    let mut world = World::new(3);
    world.put(dup("a", &["m1"]));
    world.put(dup("b", &["m2"]));
    world.fail("m1", NO_EXECUTE);
    world.fail("m2", NO_EXECUTE);
    world.run(1_000);
    assert_eq!(world.evicted(), 0, "B42");
    assert!(world.reasons().contains(&("m1".into(), "EvictionPaused")));
    world.recover("m2");
    world.run(1_001);
    assert_eq!(world.log, ["1000: a <- m1"], "B43: at once");
    assert!(world.reasons().contains(&("m1".into(), "EvictionResumed")));
}

#[test]
fn the_rate_follows_the_share_of_unhealthy_clusters() {
    for (name, faulty, evicted) in
        [("B44: one per ten seconds", 7, 31), ("B45: one per two", 6, 151), ("B46: none", 12, 0)]
    {
        let mut world = World::with(12, flags(|f| f.mass_failure_hold = Duration::ZERO));
        for n in 0..400 {
            world.put(only(dup(&format!("w{n:03}"), &["m1"]), &["m1", "m12"]));
        }
        for n in (1..=faulty).rev() {
            world.fail(&format!("m{n}"), NO_EXECUTE);
        }
        world.run(READY_AT + 300);
        assert_eq!(world.evicted(), evicted, "{name}");
    }
}

#[test]
fn recovery_abandons_queued_evictions() {
    let mut world = World::new(3);
    for n in 0..100 {
        world.put(dup(&format!("w{n:03}"), &["m1"]));
    }
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 60).recover("m1");
    world.run(READY_AT + 600);
    assert_eq!(world.evicted(), 31, "B47: t = 0, 2, .. 60");
    assert!(world.evictions.queue().is_empty());
    assert!(
        world.log.iter().enumerate().all(|(n, line)| *line == format!("{}: w{n:03} <- m1", READY_AT + 2 * n as u64)),
        "{:?}",
        world.log
    );
    let tally = world.evictions.queue().tally().cluster(&"m1".into()).unwrap();
    assert_eq!((tally.evicted, tally.abandoned[&Abandoned::Recovered], tally.pending()), (31, 69, 0));
    let reported = world.evictions.take_events();
    let of = |reason: &str| reported.iter().find(|event| event.reason == reason).unwrap();
    let (began, ended) = (of("FailoverEpisodeStarted"), of("FailoverEpisodeEnded"));
    let want = format!("failover episode m1-{} began: k:NoExecute; 100 bindings to evict", EPOCH + 100);
    assert_eq!(
        (began.message.as_str(), &began.about),
        (want.as_str(), &ended.about),
        "the event is on the cluster and names the total"
    );
    assert_eq!(
        ended.message,
        format!("failover episode m1-{} ended after 1m0s: 31 bindings evicted, 69 evictions abandoned", EPOCH + 100)
    );
}

#[test]
fn edited_parked_binding_is_checked_again_at_once() {
    let mut world = World::new(3);
    let only = |names: &[&str]| {
        Some(ClusterAffinity {
            cluster_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..ClusterAffinity::default()
        })
    };
    let mut pinned = dup("w", &["m1"]);
    pinned.spec.placement.as_mut().unwrap().cluster_affinity = only(&["m1"]);
    world.put(pinned.clone());
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 20);
    assert_eq!((world.evicted(), world.evictions.queue().tally().ready()), (0, 0), "parked");
    pinned.spec.placement.as_mut().unwrap().cluster_affinity = only(&["m1", "m2"]);
    pinned.metadata.generation = Some(2);
    world.put(pinned);
    world.run(READY_AT + 22);
    assert_eq!(world.evicted(), 1, "{:?}", world.log);
}

#[test]
fn messages_about_one_binding_or_cluster_are_singular() {
    let mut world = World::with(2, flags(|f| f.max_evictions_per_episode = 1));
    world.put(dup("w", &["m1"]));
    world.put(dup("x", &["m1"]));
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 60).recover("m1");
    world.run(READY_AT + 600);
    let messages: Vec<String> = world.evictions.take_events().into_iter().map(|event| event.message).collect();
    assert!(messages.iter().any(|message| message.contains("1 binding evicted, 1 eviction abandoned")), "{messages:?}");
    let wrong: Vec<&str> = messages.iter().filter_map(|message| ironclad_fleet::count::wrong_plural(message)).collect();
    assert_eq!(wrong, Vec::<&str>::new(), "{messages:?}");
}

#[test]
fn removed_taint_empties_the_queue() {
    let mut world = World::new(3);
    world.put(tolerating(dup("w", &["m1"]), Some(30)));
    world.fail("m1", NO_EXECUTE);
    world.run(120);
    assert_eq!(world.evictions.queue().len(), 1);
    world.change("m1", |c| c.spec.taints.clear());
    assert!(world.evictions.queue().is_empty(), "B51");
    assert_eq!(world.run(999).evicted(), 0);
}

#[test]
fn restart_loses_and_repeats_no_eviction() {
    let mut world = World::new(3);
    for n in 0..100 {
        world.put(dup(&format!("w{n:03}"), &["m1"]));
    }
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 58);
    assert_eq!(world.evicted(), 30);
    world.restart();
    assert_eq!(world.evictions.queue().len(), 70, "B48");
    world.run(READY_AT + 58 + 39);
    assert_eq!(world.evicted(), 30, "warm-up");
    world.run(READY_AT + 58 + 40);
    assert_eq!(world.evicted(), 31);
    world.run(9_999);
    let distinct: BTreeSet<_> = world.log.iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
    assert_eq!((world.evicted(), distinct.len()), (100, 100));
}

#[test]
fn crash_loop_does_not_raise_the_rate() {
    let mut world = World::with(3, flags(|f| f.eviction_warm_up = Some(Duration::ZERO)));
    for n in 0..50 {
        world.put(dup(&format!("w{n:03}"), &["m1"]));
    }
    world.fail("m1", NO_EXECUTE);
    for second in 0..20 {
        world.run(READY_AT + second);
        world.restart();
    }
    assert_eq!(world.evicted(), 1, "after the first eviction each start counts as one");
}

#[test]
fn failover_settings_are_fixed_at_the_start_of_an_episode() {
    let mut world = World::new(3);
    world.put(tolerating(dup("w", &["m1"]), Some(60)));
    world.put(dup("late", &["m1"]));
    world.fail("m1", NO_EXECUTE);
    world.run(110);
    world.edit("w", |b| *b = tolerating(b.clone(), None));
    world.run(200);
    assert_eq!(world.log, ["100: late <- m1", "160: w <- m1"], "B49");

    let mut world = World::new(3);
    world.put(tolerating(dup("w", &["m1"]), Some(60)));
    world.fail("m1", NO_EXECUTE);
    world.run(110);
    world.edit("w", |b| *b = tolerating(b.clone(), None));
    world.restart();
    assert_eq!(world.run(999).evicted(), 0, "B49: a restart reads the settings again");

    let mut world = World::new(3);
    world.put(dup("w", &["m1"]));
    world.fail("m1", PREFER_NO_EXECUTE);
    world.run(110);
    world.edit("w", |b| *b = failing_over(b.clone(), None, Some(0)));
    world.run(500);
    assert_eq!(world.evicted(), 0, "B50");
    world.recover("m1");
    world.fail("m1", PREFER_NO_EXECUTE);
    assert_eq!(world.run(501).evicted(), 1, "the next episode reads the settings again");
}

#[test]
fn settings_of_a_binding_that_returns_to_a_faulty_cluster_are_read_again() {
    let mut world = World::new(3);
    world.put(failing_over(dup("w", &["m1"]), None, Some(0)));
    world.fail("m1", PREFER_NO_EXECUTE);
    assert_eq!(world.run(110).evicted(), 1);
    // Without cluster failover the scheduler may choose the tainted cluster.
    world.edit("w", |b| {
        b.spec.failover = None;
        b.spec.clusters = dup("w", &["m1"]).spec.clusters;
    });
    assert_eq!(world.run(500).evicted(), 1, "the settings before the eviction no longer apply");

    // Rescheduled by an edit of its placement, not evicted; then back again without cluster failover.
    let mut world = World::new(3);
    world.put(failing_over(dup("w", &["m1"]), None, Some(300)));
    world.fail("m1", PREFER_NO_EXECUTE);
    world.run(110);
    let (here, away) = (world.get("w"), Binding::from(Arc::new(dup("w", &["m2"]))));
    world.evictions.moved(&here.key(), &here, &away);
    world.edit("w", |b| b.spec.failover = None);
    assert_eq!(world.run(900).evicted(), 0, "the settings of a rescheduled binding are read again");
}

#[test]
fn evictions_of_all_clusters_share_one_order() {
    let mut world = World::new(5);
    for (name, on) in [("a", "m1"), ("b", "m2"), ("c", "m1"), ("d", "m2")] {
        world.put(dup(name, &[on]));
    }
    world.put(tolerating(dup("e", &["m1"]), Some(3)));
    world.fail("m1", NO_EXECUTE);
    world.at(READY_AT + 1);
    world.fail("m2", NO_EXECUTE);
    world.run(200);
    let order: Vec<_> = world.log.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(order, ["a <- m1", "c <- m1", "b <- m2", "d <- m2", "e <- m1"], "B52");
}

#[test]
fn binding_is_evicted_from_two_faulty_clusters_one_after_the_other() {
    let mut world = World::with(5, flags(|f| f.mass_failure_hold = Duration::ZERO));
    world.put(with(dup("w", &["m1", "m2"]), |s| s.placement.as_mut().unwrap().spread_constraints[0].max_groups = 2));
    world.fail("m1", NO_EXECUTE);
    world.fail("m2", NO_EXECUTE);
    world.run(160);
    assert_eq!(world.on("w"), ["m2"], "B53: the second eviction waits for a new schedule result");
    world.edit("w", |b| {
        b.spec.clusters.push(target("m3", 1));
        let generation = b.metadata.generation.unwrap() + 1;
        b.metadata.generation = Some(generation);
        b.status.get_or_insert_default().scheduler_observed_generation = generation;
    });
    world.run(170);
    assert_eq!(world.on("w"), ["m3"]);
    assert_eq!(world.tasks("w").len(), 2);
}

#[test]
fn second_eviction_needs_a_candidate_too() {
    let mut world = World::with(5, flags(|f| f.mass_failure_hold = Duration::ZERO));
    world.put(only(
        with(dup("w", &["m1", "m2"]), |s| s.placement.as_mut().unwrap().spread_constraints[0].max_groups = 2),
        &["m1", "m2", "m3"],
    ));
    world.fail("m1", NO_EXECUTE);
    world.fail("m2", NO_EXECUTE);
    world.run(101);
    assert_eq!(world.on("w"), ["m2"]);
    world.change("m3", |c| ready(c, "False", EPOCH + 101));
    world.edit("w", |b| b.status.get_or_insert_default().scheduler_observed_generation = 9);
    world.run(300);
    assert_eq!(world.on("w"), ["m2"], "IR-33: no replacement and no candidate");
}

#[test]
fn deleted_bindings_and_clusters_are_not_evicted() {
    let mut world = World::new(3);
    for name in ["a", "b", "c", "d"] {
        world.put(dup(name, &["m1"]));
    }
    world.fail("m1", NO_EXECUTE);
    world.remove("a");
    world.edit("b", |b| b.metadata.uid = Some("recreated".into()));
    world.run(READY_AT);
    assert_eq!(world.log, ["100: c <- m1"], "B54: a deleted binding uses no rate; a recreated one is queued anew");
    // The cluster is deleted and joins again with the same name.
    world.clusters.remove(&ClusterName::from("m1"));
    world.notify_cluster("m1");
    assert!(world.evictions.queue().is_empty());
    world.join("m1");
    assert_eq!(world.run(300).evicted(), 1, "the recreated cluster is not faulty");
    world.change("m1", |c| c.metadata.uid = Some("third".into()));
    world.fail("m1", NO_EXECUTE);
    world.change("m1", |c| c.metadata.uid = Some("fourth".into()));
    assert_eq!(world.evictions.episodes().len(), 1, "a recreated cluster starts another episode");
    assert_eq!(world.run(400).evicted(), 3);
}

#[test]
fn conflict_is_retried_without_using_the_rate() {
    let mut world = World::new(3);
    world.put(dup("a", &["m1"]));
    world.put(dup("b", &["m1"]));
    world.writes = |_, attempt| if attempt <= 3 { Outcome::Conflict } else { Outcome::Written };
    world.fail("m1", NO_EXECUTE);
    world.run(200);
    assert_eq!(world.log, ["100: a <- m1", "102: b <- m1"], "B55");
    assert_eq!(world.tasks("a").len(), 1);
    assert_eq!(world.evictions.queue().tally().queue(QueueName::ResourceBinding).failed, 0);
}

#[test]
fn binding_that_always_fails_does_not_block_the_others() {
    let mut world = World::new(3);
    world.put(dup("a-failing", &["m1"]));
    for n in 0..20 {
        world.put(dup(&format!("w{n:02}"), &["m1"]));
    }
    world.writes = |eviction, _| {
        if &*eviction.key.binding.name == "a-failing" { Outcome::Failed("no".into()) } else { Outcome::Written }
    };
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 120);
    assert_eq!(world.evicted(), 20);
    // Invariant 33: each attempt of the failing binding delays the others by one interval. Its backoff doubles, so
    // retries are rare.
    let attempts = world.attempts - 20;
    assert!((6..30).contains(&attempts), "{attempts} attempts of the failing binding");
    let element = world.evictions.queue().iter().next().unwrap().2.clone();
    assert_eq!(usize::try_from(element.attempts), Ok(attempts), "{element:?}");
    assert!(matches!(element.place, Place::Backoff | Place::Ready), "{element:?}");
}

#[test]
fn repeated_conflicts_end_in_backoff() {
    let mut world = World::new(3);
    world.put(dup("a", &["m1"]));
    world.writes = |_, _| Outcome::Conflict;
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT);
    assert!(world.attempts <= 200, "{} attempts at one moment", world.attempts);
}

#[test]
fn retries_of_all_elements_stay_below_the_rate_limit() {
    // 6.4: a server that rejects all writes gets at most --rate-limiter-qps requests, at any eviction rate.
    for (name, outcome) in [("conflicts", Outcome::Conflict), ("failures", Outcome::Failed("no".into()))] {
        let limits = |f: &mut EvictionFlags| {
            (f.resource_eviction_rate, f.rate_limiter_qps, f.rate_limiter_bucket_size) = (1_000.0, 10.0, 20);
            f.rate_limiter_max_delay = Duration::from_millis(50);
        };
        let mut world = World::with(3, flags(limits));
        for n in 0..30 {
            world.put(dup(&format!("w{n:02}"), &["m1"]));
        }
        world.writes =
            if outcome == Outcome::Conflict { |_, _| Outcome::Conflict } else { |_, _| Outcome::Failed("no".into()) };
        world.fail("m1", NO_EXECUTE);
        world.run(READY_AT + 60);
        // 30 first attempts, a burst of 20 retries, then ten per second.
        let most = 30 + 20 + 60 * 10;
        assert!(world.attempts <= most, "{name}: {} attempts", world.attempts);
        assert!(world.attempts > most / 2, "{name}: only {} attempts", world.attempts);
    }
}

#[test]
fn cluster_has_one_task_per_binding() {
    let mut world = World::new(3);
    world.put(dup("w", &["m1"]));
    world.fail("m1", NO_EXECUTE);
    world.run(110);
    assert_eq!((world.on("w").len(), world.tasks("w").len()), (0, 1));
    let before = world.tasks("w");
    world.edit("w", |b| b.spec.clusters = vec![target("m1", 1)]);
    world.run(120);
    assert_eq!((world.on("w").len(), world.tasks("w")), (0, before), "B56");
}

#[test]
fn evictions_from_a_recovering_cluster_are_held() {
    let mut world = World::new(3);
    for n in 0..40 {
        world.put(failing_over(dup(&format!("w{n:02}"), &["m1"]), None, Some(10)));
    }
    world.change("m1", |c| {
        c.metadata.annotations = Some([(TAINT_OWNERS.to_owned(), r#"{"k:PreferNoExecute":["p"]}"#.to_owned())].into());
    });
    world.fail("m1", PREFER_NO_EXECUTE);
    world.run(105);
    world.change("m1", |c| ready(c, "True", EPOCH + 105));
    world.run(284);
    assert_eq!((world.evicted(), world.evictions.queue().len()), (0, 40), "B66: held");
    world.recover("m1");
    assert_eq!((world.run(999).evicted(), world.evictions.queue().len()), (0, 0), "B66: abandoned");
}

#[test]
fn evictions_continue_when_a_recovering_cluster_fails_again() {
    let mut world = World::new(3);
    world.put(dup("w", &["m1"]));
    world.change("m1", |c| {
        c.metadata.annotations = Some([(TAINT_OWNERS.to_owned(), r#"{"k:NoExecute":["p"]}"#.to_owned())].into());
        c.spec.taints = vec![taint("k", NO_EXECUTE, Some(EPOCH + 100))];
    });
    assert_eq!(world.run(200).evicted(), 0, "ready: the policy is about to remove the taint");
    world.change("m1", |c| ready(c, "False", EPOCH + 200));
    assert_eq!(world.run(201).evicted(), 1);
}

#[test]
fn paused_fleet_evicts_nothing_and_reports_it() {
    let mut world = World::new(3);
    world.put(dup("w", &["m1"]));
    world.evictions.hold(Hold::Paused);
    world.fail("m1", NO_EXECUTE);
    assert_eq!(world.run(500).evicted(), 0);
    assert!(world.reasons().contains(&("m1".into(), "EvictionPaused")));
    let allowed = world.evictions.allowed(world.now);
    assert_eq!(
        (allowed.rate, allowed.state, allowed.why),
        (0.0, State::Held, crate::taint_manager::guards::Why::Paused)
    );
    world.evictions.hold(Hold::None);
    assert_eq!(world.run(501).evicted(), 1);
}

#[test]
fn limit_per_episode_pauses_evictions() {
    let mut world = World::with(3, flags(|f| f.max_evictions_per_episode = 3));
    for n in 0..10 {
        world.put(dup(&format!("w{n}"), &["m1"]));
    }
    world.put(dup("other", &["m2"]));
    world.fail("m1", NO_EXECUTE);
    world.run(500);
    assert_eq!((world.evicted(), world.evictions.queue().len()), (3, 7));
    let paused: Vec<_> = world.evictions.take_events().into_iter().filter(|e| e.reason == "EvictionPaused").collect();
    assert_eq!(paused.len(), 1);
    // The next episode starts a new count.
    world.recover("m1");
    world.fail("m1", NO_EXECUTE);
    world.run(999);
    assert_eq!(world.evicted(), 6);
}

#[test]
fn observe_mode_writes_nothing_and_reports_once() {
    let mut world = World::with(3, flags(|f| f.failover_mode = Mode::Observe));
    for n in 0..5 {
        world.put(dup(&format!("w{n}"), &["m1"]));
    }
    world.fail("m1", NO_EXECUTE);
    world.run(500);
    world.edit("w0", |b| b.metadata.generation = Some(7));
    world.notify_cluster("m1");
    world.run(900);
    assert_eq!((world.evicted(), world.attempts, world.on("w0").len()), (0, 0, 1));
    let would = world.reasons().iter().filter(|(_, reason)| *reason == "WouldEvict").count();
    assert_eq!(would, 10, "on five bindings and on their templates");
}

#[test]
fn unreadable_placement_evicts_nothing() {
    let mut world = World::new(3);
    let mut binding = dup("w", &["m1"]);
    binding.metadata.annotations = Some([(APPLIED_PLACEMENT.to_owned(), "{".to_owned())].into());
    world.put(binding);
    world.fail("m1", NO_EXECUTE);
    world.run(500);
    assert_eq!((world.evicted(), world.evictions.queue().len()), (0, 0));
    assert!(world.reasons().contains(&("w".into(), "PlacementUnreadable")), "IR-9");
    world.edit("w", |b| *b = tolerating(b.clone(), Some(0)));
    assert_eq!(world.run(501).evicted(), 1, "the binding is evaluated again when it changes");
}

#[test]
fn pending_conditions_are_written_late_and_at_a_limited_rate() {
    let mut world = World::new(3);
    for n in 0..100 {
        world.put(tolerating(dup(&format!("w{n:03}"), &["m1"]), Some(60)));
    }
    world.fail("m1", NO_EXECUTE);
    assert!(world.evictions.next_notice(world.now).is_none(), "no condition within the first second");
    world.now.mono += Duration::from_secs(1);
    let first = world.evictions.next_notice(world.now).unwrap();
    let condition = first.condition.unwrap();
    assert_eq!((condition.type_.as_str(), condition.reason.as_str()), ("EvictionPending", "Delayed"));
    assert_eq!(condition.message, "m1: delayed until 1970-01-12T13:49:20Z (k:NoExecute)");
    assert!(world.evictions.next_notice(world.now).is_none(), "one condition at a time");
    let mut reported = 1;
    for tenth in 0..10 {
        let moment = Now { mono: world.now.mono + Duration::from_millis(100 * (tenth + 1)), ..world.now };
        reported += usize::from(world.evictions.next_notice(moment).is_some());
    }
    assert_eq!(reported, 11);
    assert!(world.reasons().contains(&("w000".into(), "EvictionQueued")));
    world.recover("m1");
    let mut removed = Vec::new();
    for second in 102..200 {
        let mut moment = now(second);
        while let Some(notice) = world.evictions.next_notice(moment) {
            assert_eq!(notice.condition, None);
            removed.push(notice.binding);
            moment.mono += Duration::from_millis(100);
        }
    }
    assert_eq!(removed.len(), 11, "only written conditions are removed");
    let events = world.evictions.take_events();
    let abandoned: Vec<_> = events.iter().filter(|event| event.reason == "EvictionAbandoned").collect();
    let bindings: std::collections::BTreeSet<_> = abandoned
        .iter()
        .filter(|event| event.about.kind == "ResourceBinding")
        .map(|event| (event.about.name.clone(), event.about.uid.clone()))
        .collect();
    assert_eq!((abandoned.len(), bindings.len()), (22, 11), "one on each binding and one on its template");
    assert!(
        bindings.iter().all(|(_, uid)| !uid.is_empty()),
        "events without a uid would count as repeated: {bindings:?}"
    );
}

/// The end of an eviction that people know of is told on template and binding, and soon.
#[test]
fn abandoned_evictions_are_told_on_template_and_binding() {
    let effect = |world: &mut World, effect: &str| {
        world.change("m1", |cluster| cluster.spec.taints[0].effect = effect.to_owned());
    };
    let delayed = |world: &mut World| world.put(tolerating(dup("w", &["m1"]), Some(60)));
    let nowhere = |world: &mut World| {
        let mut binding = dup("w", &["m1"]);
        let only = ironclad_api::policy::ClusterAffinity { cluster_names: vec!["m1".into()], ..Default::default() };
        binding.spec.placement.as_mut().unwrap().cluster_affinity = Some(only);
        world.put(binding);
    };
    let twice = |world: &mut World| {
        world.put(tolerating(dup("w", &["m1", "m2"]), Some(60)));
        world.fail("m2", NO_EXECUTE);
    };
    /// A step of the story.
    type Step<'a> = &'a dyn Fn(&mut World);
    let ends: [(&str, Step<'_>); 5] = [
        ("the taint is removed", &|world| world.recover("m1")),
        ("its effect becomes NoSchedule", &|world| effect(world, "NoSchedule")),
        ("its effect becomes PreferNoExecute", &|world| effect(world, PREFER_NO_EXECUTE)),
        ("it is moved by others", &|world| world.edit("w", |w| w.spec.clusters.retain(|on| on.name != "m1"))),
        ("the cluster is deleted", &|world| {
            world.clusters.remove(&ClusterName::from("m1"));
            world.notify_cluster("m1");
        }),
    ];
    let begins: [(&str, Step<'_>); 3] =
        [("delayed", &delayed), ("without a target", &nowhere), ("also on another faulty cluster", &twice)];
    for (begin, put) in begins {
        for (end, change) in &ends {
            for waited in [1, 5, 40] {
                let mut world = World::new(3);
                world.run(200);
                put(&mut world);
                world.fail("m1", NO_EXECUTE);
                let told = |world: &mut World, until: u64| {
                    let mut told = Vec::new();
                    while world.now.mono < now(until).mono {
                        let next = world.now.mono.as_millis() as u64 / 100 + 1;
                        world.run(next / 10);
                        world.now.mono = Duration::from_millis(next * 100);
                        let _ = world.evictions.next_notice(world.now);
                        told.extend(world.evictions.take_events());
                    }
                    told
                };
                told(&mut world, 200 + waited + 1);
                change(&mut world);
                let events = told(&mut world, 200 + waited + 4);
                let about = |kind: &str| {
                    let of = |event: &&Event| event.about.kind == kind && event.message.contains("from m1");
                    events.iter().filter(of).filter(|event| event.reason == "EvictionAbandoned").count()
                };
                let name = format!("{begin}, {end} after {waited} s: {events:?}");
                assert_eq!((about("ResourceBinding"), about("Thing")), (1, 1), "{name}");
            }
        }
    }
}

#[test]
fn binding_that_is_evicted_at_once_gets_no_pending_condition() {
    let mut world = World::new(3);
    world.put(dup("w", &["m1"]));
    world.run(200).fail("m1", NO_EXECUTE);
    world.run(205);
    assert_eq!(world.evicted(), 1);
    let later = Now { mono: world.now.mono + Duration::from_secs(60), ..world.now };
    assert_eq!(world.evictions.next_notice(later), None);
    let queued = world.reasons().iter().filter(|(_, reason)| *reason == "EvictionQueued").count();
    assert_eq!(queued, 0);
}

#[test]
fn condition_of_a_former_leader_is_removed() {
    let mut world = World::new(3);
    let mut binding = dup("w", &["m1"]);
    let condition = ironclad_api::conditions::condition("EvictionPending", "True", "Queued", "m1: queued");
    binding.status.get_or_insert_default().conditions = vec![condition];
    world.put(binding);
    let notice = world.evictions.next_notice(world.now).unwrap();
    assert_eq!((&*notice.binding.name, notice.condition), ("w", None));
}

#[test]
fn rows_in_order_with_expected_times() {
    let mut world = World::new(4);
    for name in ["a", "b", "c"] {
        world.put(dup(name, &["m1"]));
    }
    world.put(tolerating(dup("later", &["m1"]), Some(50)));
    world.put(only(dup("parked", &["m1"]), &["m1"]));
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 1);
    let rows = world.evictions.rows(world.now);
    let got: Vec<_> = rows
        .iter()
        .map(|row| (&*row.binding.name, row.state, row.position, row.expected.map(|at| at.as_second() - EPOCH)))
        .collect();
    assert_eq!(
        got,
        [
            ("b", Waiting::Queued, Some(1), Some(102)),
            ("c", Waiting::Queued, Some(2), Some(104)),
            ("parked", Waiting::Queued, Some(3), Some(106)),
            ("later", Waiting::Delayed, Some(4), Some(150)),
        ]
    );
    assert_eq!(world.evictions.drains_in(world.now), Some(Duration::from_secs(5)));
    world.run(READY_AT + 10);
    assert_eq!(world.evictions.rows(world.now).last().map(|row| row.state), Some(Waiting::Parked));
    world.evictions.hold(Hold::Paused);
    assert!(world.evictions.rows(world.now).iter().all(|row| row.expected.is_none()), "no expected times while paused");
}

/// The scheduler leaves the replicas that do not fit where they are.
#[test]
fn a_divided_workload_leaves_directly_as_soon_as_a_replica_fits() {
    let by_capacity = |binding| {
        with(binding, |spec| {
            let strategy = spec.placement.get_or_insert_default().replica_scheduling.get_or_insert_default();
            strategy.replica_division_preference = Some(ReplicaDivisionPreference::Aggregated);
        })
    };
    let weighted = |binding| {
        with(binding, |spec| {
            let strategy = spec.placement.get_or_insert_default().replica_scheduling.get_or_insert_default();
            strategy.replica_division_preference = Some(ReplicaDivisionPreference::Weighted);
        })
    };
    let not_everywhere = |binding| {
        with(binding, |spec| {
            let on = SuspendClusters { cluster_names: vec!["m9".to_owned()] };
            spec.suspension.get_or_insert_default().dispatching_on_clusters = Some(on);
        })
    };
    let w = || div("w", &[("m1", 4)]);
    for (name, binding, room, leaves) in [
        ("none fits", by_capacity(w()), 0, false),
        ("one fits", by_capacity(w()), 1, true),
        ("all fit", by_capacity(w()), 4, true),
        ("to a cluster nothing is dispatched", not_everywhere(by_capacity(w())), 3, false),
        ("fixed shares need room for all", weighted(w()), 3, false),
        ("fixed shares with room for all", weighted(w()), 4, true),
        ("each copy is whole", dup("w", &["m1"]), 0, false),
    ] {
        let mut world = World::with(2, flags(|f| f.no_execute_taint_eviction_purge_mode = PurgeMode::Directly));
        world.room = [("m2", room)].into();
        world.put(with(binding, |spec| spec.replicas = 4));
        world.change("m1", |cluster| cluster.spec.taints.push(taint("k", NO_EXECUTE, Some(EPOCH + 100))));
        world.run(READY_AT + 60);
        assert_eq!(world.evicted() > 0, leaves, "{name}");
        world.room = [("m2", 4)].into();
        world.evictions.capacity_appeared();
        world.run(READY_AT + 70);
        assert_eq!(world.evicted(), 1, "{name}: once there is room");
    }
}

#[test]
fn nothing_is_evicted_if_state_cannot_be_collected() {
    use ironclad_api::{
        policy::{StatePreservation, StatePreservationRule},
        work::AggregatedStatusItem,
    };
    let preserving = || {
        let rule = StatePreservationRule { alias_label_name: "seen".into(), json_path: "{.ready}".into() };
        let mut binding = failing_over(dup("w", &["m1"]), Some(PurgeMode::Directly), Some(0));
        let failover = binding.spec.failover.as_mut().unwrap().cluster.as_mut().unwrap();
        failover.state_preservation = Some(StatePreservation { rules: vec![rule] });
        binding
    };
    let mut world = World::with(3, flags(|f| f.state_preservation = true));
    world.put(preserving());
    world.fail("m1", NO_EXECUTE);
    world.run(120);
    assert_eq!(world.evicted(), 0, "the status was never collected");
    let reported =
        world.evictions.take_events().into_iter().find(|e| e.reason == "EvictWorkloadFromClusterFailed").unwrap();
    assert!(reported.message.contains("has not yet been collected from Cluster(m1)"), "{}", reported.message);
    world.edit("w", |b| {
        let status = Some((&serde_json::json!({ "ready": 2 })).into());
        let line = AggregatedStatusItem { cluster_name: "m1".into(), status, ..AggregatedStatusItem::default() };
        b.status.get_or_insert_default().aggregated_status = vec![line];
    });
    world.run(2_000);
    assert_eq!(world.tasks("w")[0].preserved_label_state["seen"], "2");
    let mut world = World::new(3);
    world.put(preserving());
    world.fail("m1", NO_EXECUTE);
    world.run(120);
    assert!(world.tasks("w")[0].preserved_label_state.is_empty(), "the feature gate is off");
}

#[test]
fn rows_from_objects_ask_groups_of_workloads() {
    let grouped = |name: &str, on: &str| {
        let mut binding = dup(name, &[on]);
        binding.spec.workload_affinity_groups =
            Some(WorkloadAffinityGroups { anti_affinity_group: "g".into(), ..WorkloadAffinityGroups::default() });
        binding
    };
    for (name, gate, want) in [("on", true, Waiting::Parked), ("off", false, Waiting::Queued)] {
        let mut world = World::new(2);
        world.put(grouped("here", "m1"));
        world.put(grouped("there", "m2"));
        world.change("m1", |cluster| cluster.spec.taints.push(taint("k", NO_EXECUTE, Some(EPOCH + 100))));
        let mut flags = Flags::default();
        flags.scheduler.workload_affinity = gate;
        let mut fresh = Evictions::new(flags, now(100));
        let faulty: ClusterName = "m1".into();
        fresh.cluster(&faulty, Some(&world.clusters[&faulty]), Recovering::No, now(100));
        let here = world.bindings.values().filter(|binding| binding.spec().target("m1").is_some());
        fresh.evaluate(here.map(|binding| (faulty.clone(), binding.clone())), now(100));
        let states: Vec<Waiting> =
            fresh.rows_from_objects(&world.bindings, &world.clusters, now(100)).iter().map(|row| row.state).collect();
        assert_eq!(states, [want], "gate WorkloadAffinity is {name}");
    }
}

/// Rows that are rebuilt from objects, without a report of the leader.
#[test]
fn rows_from_objects() {
    let pending = |mut binding: ResourceBinding, since: i64| {
        let status = binding.status.get_or_insert_default();
        let condition = ironclad_api::conditions::condition("EvictionPending", "True", "Queued", "");
        ironclad_api::conditions::set(&mut status.conditions, condition, &Time(at(since)));
        binding
    };
    let mut world = World::new(3);
    world.put(pending(dup("a", &["m1"]), EPOCH + 50));
    world.put(dup("b", &["m1"]));
    world.put(only(dup("nowhere", &["m1"]), &["m1"]));
    world.put(failing_over(dup("later", &["m1"]), None, Some(60)));
    world.change("m1", |cluster| {
        ready(cluster, "False", EPOCH + 100);
        cluster.spec.taints.push(taint("k", NO_EXECUTE, Some(EPOCH + 100)));
    });
    // Evictions that are only evaluated, as in the CLI.
    let mut fresh = Evictions::new(Flags::default(), now(100));
    for (name, cluster) in &world.clusters {
        if fresh.cluster(name, Some(cluster), Recovering::No, now(100)) {
            fresh.evaluate(world.bindings.values().map(|bound| (name.clone(), bound.clone())), now(100));
        }
    }
    let rows = fresh.rows_from_objects(&world.bindings, &world.clusters, now(100));
    let reported = |row: &Row| {
        let relative = |time: Option<Timestamp>| time.map(|t| t.as_second() - EPOCH);
        (row.binding.name.to_string(), row.state, row.position, relative(row.since), relative(row.expected))
    };
    // A new leader warms up for 40 s, then evicts one binding every two seconds.
    let want = [
        ("a".to_owned(), Waiting::Queued, Some(1), Some(50), Some(140)),
        ("b".to_owned(), Waiting::Queued, Some(2), None, Some(142)),
        ("later".to_owned(), Waiting::Queued, Some(3), None, Some(144)),
        ("nowhere".to_owned(), Waiting::Parked, None, None, None),
    ];
    assert_eq!(rows.iter().map(reported).collect::<Vec<_>>(), want);
    assert!(rows.iter().all(|row| row.rebuilt) && fresh.rows(now(100)).iter().all(|row| !row.rebuilt));
}
