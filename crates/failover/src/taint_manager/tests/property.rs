use super::*;

#[derive(Debug, Clone)]
enum Action {
    Pass(u64),
    Fail(usize, bool),
    Recover(usize),
    Ready(usize, bool),
    Touch(usize),
    Land(usize, usize),
    Delete(usize),
    Restart,
    Pause(bool),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..40u64).prop_map(Action::Pass),
        2 => (0..4usize, any::<bool>()).prop_map(|(n, hard)| Action::Fail(n, hard)),
        2 => (0..4usize).prop_map(Action::Recover),
        1 => (0..4usize, any::<bool>()).prop_map(|(n, ready)| Action::Ready(n, ready)),
        1 => (0..12usize).prop_map(Action::Touch),
        1 => (0..12usize, 0..4usize).prop_map(|(n, m)| Action::Land(n, m)),
        1 => (0..12usize).prop_map(Action::Delete),
        1 => Just(Action::Restart),
        1 => any::<bool>().prop_map(Action::Pause),
    ]
}

fn name(n: usize) -> String {
    format!("w{n:02}")
}

/// Invariants of the world at every step.
fn check(world: &World) {
    let queue = world.evictions.queue();
    // 15: gauges equal the sizes, and each element is counted once.
    assert_eq!(queue.len(), queue.iter().count());
    for (cluster, tally) in queue.tally().clusters() {
        let abandoned: u64 =
            tally.abandoned.iter().filter(|(why, _)| **why != Abandoned::NoTarget).map(|(_, n)| n).sum();
        assert_eq!(tally.pending(), queue.of_cluster(cluster).count());
        assert_eq!(tally.enqueued, tally.evicted + abandoned + tally.pending() as u64, "{cluster}");
        assert_eq!(tally.kinds.values().sum::<usize>(), tally.pending());
    }
    for (cluster, binding, element) in queue.iter() {
        // 12: no element waits for a cluster that is not faulty.
        assert!(is_faulty(&world.clusters[cluster]), "{cluster}");
        // 11 and 14: the binding exists and targets the cluster.
        assert!(world.bindings[binding].spec().target(&cluster.0).is_some());
        // 9: no binding with an unlimited toleration.
        assert!(!binding.name.ends_with('3') || element.request.causes.no_execute.is_none());
    }
    for binding in world.bindings.values() {
        let tasks = &binding.spec().graceful_eviction_tasks;
        let distinct: BTreeSet<_> = tasks.iter().map(|task| &task.from_cluster).collect();
        assert_eq!(distinct.len(), tasks.len(), "11: one task per cluster");
        // 6: PreferNoExecute alone evicts only bindings with cluster failover.
        let opted_in = binding.spec().failover.is_some();
        assert!(opted_in || tasks.iter().all(|task| task.reason != "TaintPreferNoExecute"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_for_any_sequence_of_events(actions in prop::collection::vec(action(), 1..60)) {
        let mut world = World::with(4, flags(|f| f.eviction_warm_up = Some(Duration::from_secs(5))));
        for n in 0..12 {
            let on = format!("m{}", n % 4 + 1);
            let plain = dup(&name(n), &[&on]);
            world.put(match n % 4 {
                0 => plain,
                1 => failing_over(plain, None, Some(20)),
                2 => tolerating(plain, Some(15)),
                _ => tolerating(plain, None),
            });
        }
        let mut second = READY_AT;
        let mut paused = false;
        let mut last: Option<u64> = None;
        for action in actions {
            let before = world.evicted();
            let stopped = world.evictions.allowed(world.now).rate == 0.0;
            match action {
                Action::Pass(seconds) => {
                    second += seconds;
                    world.run(second);
                    // 2: nothing is evicted while evictions are paused.
                    prop_assert!(!paused || world.evicted() == before);
                    prop_assert!(!(stopped && paused) || world.evicted() == before);
                }
                Action::Fail(n, hard) => {
                    let cluster = format!("m{}", n + 1);
                    if !is_faulty(&world.clusters[&ClusterName::from(cluster.as_str())]) {
                        world.fail(&cluster, if hard { NO_EXECUTE } else { PREFER_NO_EXECUTE });
                    }
                }
                Action::Recover(n) => world.recover(&format!("m{}", n + 1)),
                Action::Ready(n, is) => {
                    let since = world.now.wall.as_second();
                    world.change(&format!("m{}", n + 1), |c| ready(c, if is { "True" } else { "False" }, since));
                }
                Action::Touch(n) => {
                    if world.bindings.keys().any(|key| *key.name == name(n)) {
                        world.edit(&name(n), |b| b.metadata.generation = Some(b.metadata.generation.unwrap() + 1));
                    }
                }
                Action::Land(n, m) => {
                    let on = format!("m{}", m + 1);
                    if world.bindings.keys().any(|key| *key.name == name(n)) {
                        world.edit(&name(n), |b| b.spec.clusters = vec![target(&on, 1)]);
                    }
                }
                Action::Delete(n) => world.remove(&name(n)),
                Action::Restart => {
                    world.restart();
                    world.evictions.hold(if paused { Hold::Paused } else { Hold::None });
                }
                Action::Pause(is) => {
                    paused = is;
                    world.evictions.hold(if is { Hold::Paused } else { Hold::None });
                }
            }
            check(&world);
            // 1: at 0.5 per second two evictions are two seconds apart, also after a restart.
            for line in &world.log[before..] {
                let at: u64 = line.split_once(':').unwrap().0.parse().unwrap();
                prop_assert!(last.is_none_or(|last| at >= last + 2), "{:?}", world.log);
                last = Some(at);
            }
        }
    }

    // 13: crashes change the time of evictions and nothing else.
    #[test]
    fn crashes_do_not_change_the_outcome(crashes in prop::collection::vec(1..30u64, 0..6)) {
        let outcome = |crashes: &[u64]| {
            let mut world = World::new(3);
            for n in 0..12 {
                let plain = dup(&name(n), &["m1"]);
                world.put(if n % 2 == 0 { plain } else { tolerating(plain, Some(n as i64 * 7)) });
            }
            world.fail("m1", NO_EXECUTE);
            let mut second = READY_AT;
            for wait in crashes {
                second += wait;
                world.run(second);
                world.restart();
            }
            world.run(9_999);
            world.bindings.keys().map(|key| (key.clone(), world.on(&key.name), world.tasks(&key.name).len())).collect::<Vec<_>>()
        };
        prop_assert_eq!(outcome(&crashes), outcome(&[]));
    }

    // 8 and 36: later edits do not change due times.
    #[test]
    fn edits_do_not_change_due_times(toleration in 0..100i64, edit in prop::option::of(0..100i64), at in 0..90u64) {
        let mut world = World::new(3);
        world.put(tolerating(dup("w", &["m1"]), Some(toleration)));
        world.fail("m1", NO_EXECUTE);
        world.run(READY_AT + at);
        world.edit("w", |b| *b = failing_over(tolerating(b.clone(), edit), Some(PurgeMode::Directly), Some(0)));
        world.run(READY_AT + 200);
        let want = format!("{}: w <- m1", READY_AT + u64::try_from(toleration).unwrap());
        prop_assert_eq!(&world.log, &[want]);
        prop_assert_eq!(world.tasks("w")[0].purge_mode, Some(PurgeMode::Gracefully));
    }

    // 37: a total outage and its recovery change no binding.
    #[test]
    fn total_outage_evicts_nothing(minutes in 1..200u64) {
        let mut world = World::new(12);
        for n in 0..12 {
            world.put(dup(&name(n), &[&format!("m{}", n + 1)]));
        }
        let before: Vec<_> = world.bindings.values().map(|b| b.spec().clone()).collect();
        for n in 1..=12 {
            world.fail(&format!("m{n}"), NO_EXECUTE);
        }
        world.run(READY_AT + 60 * minutes);
        for n in 1..=12 {
            world.recover(&format!("m{n}"));
        }
        world.run(READY_AT + 60 * minutes + 900);
        let after: Vec<_> = world.bindings.values().map(|b| b.spec().clone()).collect();
        prop_assert_eq!((before, world.evicted()), (after, 0));
    }

    // A jump of the wall clock changes neither waits nor the rate, and no eviction seems to be older than its taint.
    #[test]
    fn clock_jumps_do_not_change_eviction_times(jump in -300..300i64) {
        let mut world = World::new(3);
        for n in 0..6 {
            world.put(tolerating(dup(&name(n), &["m1"]), Some(40)));
        }
        world.fail("m1", NO_EXECUTE);
        world.run(READY_AT + 5);
        let taint = world.clusters[&"m1".into()].spec.taints[0].time_added.clone();
        let wall = world.now.wall + jiff::SignedDuration::from_secs(jump);
        let skewed: Timestamp = wall;
        world.now.wall = skewed;
        for second in 0..80u64 {
            let mono = Duration::from_secs(READY_AT + 5 + second);
            world.now = Now { wall: skewed + jiff::SignedDuration::from_secs(i64::try_from(second).unwrap()), mono };
            let bindings = &world.bindings;
            if let Next::Evict(eviction) = world.evictions.next(&world.clusters, |key| bindings.get(key).cloned(), world.now) {
                prop_assert!(eviction.task.creation_timestamp >= taint && eviction.record.evicted_at >= taint);
                world.write(&eviction);
            }
        }
        let seconds: Vec<u64> = world.log.iter().map(|line| line.split_once(':').unwrap().0.parse().unwrap()).collect();
        let want: Vec<u64> = (0..6).map(|n| READY_AT + 40 + 2 * n).collect();
        prop_assert_eq!(seconds, want);
    }
}
