//! Bindings that get the capacity that victims leave (specification/scheduling.md 15.7, 15.8).

use proptest::prelude::*;

use super::*;

/// Capacity of a world: what runs is assumed on top of empty clusters.
fn capacity(world: &World) -> Capacity {
    let mut capacity = Capacity::of(&world.clusters, Modelling::On);
    for binding in &world.bindings {
        let mut before = binding.clone();
        before.spec.clusters.clear();
        capacity.assigned((&before).into(), &binding.spec.clusters, &world.options, std::time::Duration::ZERO);
    }
    capacity
}

fn decide_with(world: &World, binding: &ResourceBinding, capacity: &Capacity) -> Decision {
    let placed = Placed::of(&world.bindings);
    decide_both(
        &Seen {
            binding: binding.into(),
            clusters: &world.clusters,
            available: &Available::new(),
            capacity,
            options: &world.options,
            since: Since::default(),
            preempting: Some(Preempting {
                placed: &placed,
                preemptors: &world.preemptors,
                over_quota: None,
                paused: false,
            }),
            peers: None,
            index: None,
        },
        1_000,
    )
}

proptest! {
    /// A preemptor gets the capacity of its victims, whoever of lower or equal priority comes in between: it never
    /// waits for capacity that one of them took. Victims that fit nowhere stay away, and nobody else loses anything.
    #[test]
    fn what_victims_leave_is_the_preemptors(
        cores in prop::collection::vec(1_i64..8, 1..4),
        running in prop::collection::vec((0_usize..4, 0_i32..5, 1_i64..4), 0..9),
        wanted in (1_i32..5, 1_i64..4, 1_i32..6),
        others in prop::collection::vec((0_i32..6, 1_i32..4, 1_i64..4), 0..6),
        single: bool,
    ) {
        let names: Vec<String> = (0..cores.len()).map(|at| format!("c{at}")).collect();
        let mut world = World::new();
        let mut free = cores.clone();
        for (name, cores) in names.iter().zip(&cores) {
            world = world.cluster(name, &[("cpu", &cores.to_string())]);
        }
        for (at, (on, priority, cores)) in running.iter().enumerate() {
            let on = on % names.len();
            if free[on] >= *cores {
                free[on] -= cores;
                world = world.cores(&names[on], &[(&format!("b{at}"), *priority, &cores.to_string())]);
            }
        }
        let (replicas, each, priority) = wanted;
        let mut pending = preemptor(priority, replicas, &[("cpu", &each.to_string())]);
        if single {
            pending.spec.placement = Some(one_cluster().into());
        }
        let mut room = capacity(&world);
        let first = decide_with(&world, &pending, &room);
        let Some(Outcome::Nominated(plan)) = first.preemption.clone() else {
            prop_assert!(first.result().is_some() || first.preemption.is_some());
            return Ok(());
        };
        let waiting = applied(&pending, &first);
        room.nominate(&waiting, &plan.nominated, &world.options);

        // Victims leave, while others arrive.
        let mut left = Vec::new();
        for victim in &plan.victims {
            let at = world.bindings.iter().position(|b| BindingRef::from(b).key() == victim.key).unwrap();
            let before = world.bindings.remove(at);
            prop_assert!(victim.priority < priority, "only lower priorities leave");
            room.assigned((&before).into(), &[], &world.options, std::time::Duration::ZERO);
            left.push(before);
        }
        for (at, (other, replicas, cores)) in others.iter().enumerate() {
            let name = format!("other{at}");
            let binding = workload(&name, (*other).min(priority), *replicas, &[("cpu", &cores.to_string())], &[]);
            if let Some(result) = decide_with(&world, &binding, &room).result() {
                room.assigned((&binding).into(), result, &world.options, std::time::Duration::ZERO);
            }
        }
        for mut victim in left {
            victim.spec.clusters.clear();
            if let Some(result) = decide_with(&world, &victim, &room).result() {
                room.assigned((&victim).into(), result, &world.options, std::time::Duration::ZERO);
            }
        }
        let bound = decide_with(&world, &waiting, &room);
        prop_assert_eq!(&bound.preemption, &Some(Outcome::Bound), "{:?}", bound.failure);
        let placed: i32 = bound.result().unwrap_or_default().iter().map(|target| target.replicas).sum();
        prop_assert_eq!(placed, replicas);
    }

    /// The same by node, where each pod requests one core: whether the victims' pods are gone before or after others
    /// come, the preemptor is placed once they are.
    #[test]
    fn what_victims_leave_on_nodes_is_the_preemptors(
        nodes in prop::collection::vec(1_i64..6, 1..4),
        running in prop::collection::vec((0_usize..3, 0_i32..5), 0..12),
        wanted in (1_i32..5, 1_i32..6),
        others in prop::collection::vec((0_i32..6, 1_i32..4), 0..6),
        gone_first: bool,
    ) {
        let names: Vec<String> = (0..nodes.len()).map(|at| format!("n{at}")).collect();
        let rows: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(nodes.iter().copied()).collect();
        let mut world = World::new().watched("m1", &rows);
        let mut free = nodes.clone();
        for (at, (on, priority)) in running.iter().enumerate() {
            let on = on % nodes.len();
            if free[on] > 0 {
                free[on] -= 1;
                world = world.on_node("m1", &names[on], &[(&format!("b{at}"), *priority, 1)]);
            }
        }
        let (replicas, priority) = wanted;
        let pending = preemptor(priority, replicas, &[("cpu", "1")]);
        let first = world.decide(&pending, 1_000);
        if !matches!(first.preemption, Some(Outcome::Nominated(_))) {
            prop_assert!(first.result().is_some() || first.preemption.is_some());
            return Ok(());
        }
        let victims = world.preempt(&pending, 1_000);
        let missing = i64::from(replicas) - free.iter().sum::<i64>();
        prop_assert_eq!(i64::try_from(victims.len()).unwrap(), missing, "one for each core that is missing");
        let mut room = world.capacity();
        let leave = |room: &mut Capacity, world: &mut World| {
            for victim in &victims {
                for pod in world.pods_of(victim) {
                    room.pod(&"m1".into(), Some(pod), None, Duration::ZERO);
                }
            }
        };
        if gone_first {
            leave(&mut room, &mut world);
        }
        for (at, (other, replicas)) in others.iter().enumerate() {
            let binding = workload(&format!("other{at}"), (*other).min(priority), *replicas, &[("cpu", "1")], &[]);
            if let Some(result) = decide_with(&world, &binding, &room).result() {
                room.assigned((&binding).into(), result, &world.options, Duration::ZERO);
            }
        }
        if !gone_first {
            leave(&mut room, &mut world);
        }
        let waiting = world.binding("p").clone();
        let bound = decide_with(&world, &waiting, &room);
        prop_assert_eq!(&bound.preemption, &Some(Outcome::Bound), "{:?}", bound.failure);
        prop_assert_eq!(bound.result(), Some(&crate::testkit::targets(&[("m1", replicas)])[..]));
    }
}
