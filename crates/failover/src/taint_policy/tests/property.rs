//! Invariants 26 to 28 for generated policies and changes of conditions.

use proptest::prelude::*;

use super::*;

/// Policies that add and remove the same taint.
fn policies() -> impl Strategy<Value = Vec<ClusterTaintPolicy>> {
    let statuses = || prop_oneof![Just(vec!["False"]), Just(vec!["True"]), Just(vec!["False", "Unknown"])];
    let list = move || proptest::collection::vec((prop_oneof![Just(READY), Just("Net")], statuses()), 0..3);
    let conditions =
        |list: Vec<(&str, Vec<&str>)>| list.iter().map(|(type_, s)| when(type_, "In", s)).collect::<Vec<_>>();
    let one = (any::<bool>(), 0..3i64, list(), list(), 0..40i32, 0..40i32).prop_map(
        move |(is_seed, created, add, remove, add_after, remove_after)| {
            if is_seed {
                let mut policy = seed("p");
                policy.spec.match_conditions = conditions(add);
                policy.spec.taints_to_add = vec![item(PREFER_NO_EXECUTE, add_after.max(1), remove_after.max(1))];
                policy.metadata.creation_timestamp = Some(Time(at(created)));
                policy
            } else {
                let mut policy = upstream("p", created, conditions(add), conditions(remove));
                policy.spec.taints[0].add_on_match_seconds = Some(add_after);
                policy.spec.taints[0].remove_on_mismatch_seconds = Some(remove_after);
                policy
            }
        },
    );
    proptest::collection::vec(one, 1..4).prop_map(|mut policies| {
        for (i, policy) in policies.iter_mut().enumerate() {
            policy.metadata.name = Some(format!("p{i}"));
            policy.metadata.uid = Some(format!("uid{i}"));
        }
        policies
    })
}

/// Changes of conditions, with the seconds between them.
fn weather() -> impl Strategy<Value = Vec<(i64, &'static str, &'static str)>> {
    let status = prop_oneof![Just("True"), Just("False"), Just("Unknown")];
    proptest::collection::vec((1..60i64, prop_oneof![Just(READY), Just("Net")], status), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Invariants 26 and 28: `World::reconcile` also fails if a decision is not idempotent.
    #[test]
    fn the_order_of_policies_does_not_matter(policies in policies(), weather in weather(), rotate in 0..4usize) {
        let mut other = policies.clone();
        let by = rotate % policies.len();
        other.rotate_left(by);
        let (mut a, mut b) = (World::new(policies), World::new(other));
        for (wait, type_, status) in &weather {
            let second = a.now + wait;
            a.set(second, type_, status);
            b.set(second, type_, status);
            prop_assert_eq!(a.taints(), b.taints());
            prop_assert_eq!(a.owners(PREFER_NO_EXECUTE), b.owners(PREFER_NO_EXECUTE));
        }
    }

    /// Invariant 26: without changes of conditions, writes end for all policies.
    #[test]
    fn writes_end_when_conditions_stop_changing(policies in policies(), weather in weather()) {
        let mut world = World::new(policies);
        for (wait, type_, status) in &weather {
            world.set(world.now + wait, type_, status);
        }
        world.until(world.now + 200);
        let writes = world.writes;
        world.until(world.now + 100_000);
        prop_assert_eq!(world.writes, writes);
        prop_assert_eq!(world.due, None);
    }

    /// Invariant 27 for one policy, compared with a model that keeps the predicate of each second.
    #[test]
    fn taints_are_added_and_removed_only_after_their_windows(
        weather in weather(),
        add in 1..90i32,
        remove in 1..90i32,
        restart in proptest::option::of(0..300i64),
    ) {
        let mut policy = seed("p");
        policy.spec.taints_to_add = vec![item(PREFER_NO_EXECUTE, add, remove)];
        let mut world = World::new(vec![policy]);
        let mut changes = weather.iter().fold(Vec::new(), |mut all: Vec<(i64, &str, &str)>, (wait, type_, status)| {
            let second = all.last().map_or(1, |last| last.0) + wait;
            all.push((second, type_, status));
            all
        });
        changes.reverse();
        let mut history: Vec<bool> = Vec::new();
        let mut was_there = false;
        for second in 1..800i64 {
            if restart == Some(second) {
                world.edit(second, |w| w.memory = None);
            }
            world.until(second);
            // Result of the predicate during the last second.
            let matched = !world.cluster.is_ready();
            history.push(matched);
            let same = history.iter().rev().take_while(|before| **before == matched).count();
            let there = world.has(PREFER_NO_EXECUTE);
            let window = usize::try_from(if matched { add } else { remove }).unwrap();
            if there != was_there {
                prop_assert_eq!(there, matched, "the taint follows the predicate");
                prop_assert!(same >= window, "after {} s of {}", same, window);
            } else if there != matched && restart.is_none() {
                prop_assert!(same < window, "late: {} s of {}", same, window);
            }
            while changes.last().is_some_and(|change| change.0 == second) {
                let (_, type_, status) = changes.pop().unwrap();
                world.set(second, type_, status);
            }
            was_there = there;
        }
    }

    /// Invariant 28.
    #[test]
    fn time_of_a_kept_taint_does_not_change(policies in policies(), weather in weather()) {
        let mut world = World::new(policies);
        let mut before = world.taints();
        for (wait, type_, status) in &weather {
            let second = world.now + wait;
            while world.now < second {
                world.until(world.now + 1);
                let after = world.taints();
                if let (Some(old), Some(new)) = (before.first(), after.first()) {
                    prop_assert_eq!(old, new);
                }
                before = after;
            }
            world.set(second, type_, status);
            before = world.taints();
        }
    }
}
