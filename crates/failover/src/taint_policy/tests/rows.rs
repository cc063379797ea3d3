//! One policy: windows, conditions, restarts.

use super::*;

#[test]
fn add_and_remove_windows() {
    let added = |second| vec![(format!("{KEY}:PreferNoExecute"), Some(second))];
    // Status of Ready by second, and taints at the end.
    for (name, steps, end, want) in [
        ("one second before the window ends", &[(1_000, "False")][..], 1_299, vec![]),
        ("exactly at its end: timeAdded is the time of the write (B9)", &[(1_000, "False")], 1_300, added(1_300)),
        ("299 s of False, then True: not added (B8)", &[(1_000, "False"), (1_299, "True")], 9_000, vec![]),
        ("True before the window ends: not added", &[(1_000, "False"), (1_214, "True")], 9_000, vec![]),
        ("True for a second restarts the 300 s", &[(1_000, "False"), (1_299, "True"), (1_300, "False")], 1_599, vec![]),
        ("the restarted window ends", &[(1_000, "False"), (1_299, "True"), (1_300, "False")], 1_600, added(1_600)),
        (
            "False to Unknown does not restart the window (B10)",
            &[(1_000, "False"), (1_200, "Unknown")],
            1_300,
            added(1_300),
        ),
        ("Ready True for 179 s: not removed", &[(1_000, "False"), (2_000, "True")], 2_179, added(1_300)),
        ("removed exactly at 180 s (B12)", &[(1_000, "False"), (2_000, "True")], 2_180, vec![]),
        (
            "False within the remove window: kept with its time (B11)",
            &[(1_000, "False"), (2_000, "True"), (2_179, "False")],
            9_000,
            added(1_300),
        ),
        (
            "the remove window restarts",
            &[(1_000, "False"), (2_000, "True"), (2_179, "False"), (2_200, "True")],
            2_379,
            added(1_300),
        ),
    ] {
        let mut world = World::new(vec![seed("p")]);
        for (second, status) in steps {
            world.ready(*second, status);
        }
        world.until(end);
        assert_eq!(world.taints(), want, "{name}");
    }
}

#[test]
fn adding_and_removing_a_taint_cost_one_write_each() {
    let mut world = World::new(vec![seed("p"), seed("q")]);
    world.ready(1_000, "False").until(2_000);
    assert_eq!((world.writes, &world.events[..]), (1, &["TaintClusterSucceed".to_owned()][..]));
    assert_eq!(world.owners(PREFER_NO_EXECUTE), ["p", "q"]);
    world.ready(3_000, "True").until(9_000);
    assert_eq!((world.writes, world.taints().len()), (2, 0));
    assert_eq!(world.cluster.metadata.annotations.unwrap_or_default().get(TAINT_OWNERS), None);
}

#[test]
fn window_of_a_new_policy_starts_with_the_condition() {
    let mut world = World::new(vec![]);
    world.ready(1_000, "False");
    world.edit(4_600, |w| w.policies = vec![Arc::new(seed("p"))]);
    assert_eq!(
        world.taints(),
        [(format!("{KEY}:PreferNoExecute"), Some(4_600))],
        "not ready for an hour: tainted at once"
    );
    // The policy is edited so that it no longer matches.
    world.edit(4_700, |w| {
        let mut policy = (*w.policies[0]).clone();
        policy.spec.match_conditions = vec![when(READY, "In", &["Unknown"])];
        policy.metadata.generation = Some(2);
        w.policies = vec![Arc::new(policy)];
    });
    assert_eq!(world.taints(), [], "Ready has been False for more than the remove window");
}

#[test]
fn restart_does_not_shorten_windows() {
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").edit(1_200, |w| w.memory = None);
    world.until(1_299);
    assert_eq!(world.taints(), []);
    assert_eq!(world.until(1_300).taints().len(), 1, "one status: the restart does not change the window");
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").ready(1_200, "Unknown").edit(1_250, |w| w.memory = None);
    assert_eq!(world.until(1_499).taints(), [], "the 200 s of False were only in memory");
    assert_eq!(world.until(1_500).taints().len(), 1);
}

#[test]
fn recreated_cluster_starts_its_windows_anew() {
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").edit(1_200, |w| {
        w.cluster.metadata.uid = Some("another".into());
        w.cluster.status = None;
        ready(&mut w.cluster, "False", 1_200);
    });
    assert_eq!(world.until(1_499).taints(), []);
    assert_eq!(world.until(1_500).taints().len(), 1);
}

#[test]
fn each_taint_has_its_own_windows() {
    let mut policy = seed("p");
    policy.spec.taints_to_add = vec![item(NO_SCHEDULE, 30, 1), item(PREFER_NO_EXECUTE, 300, 180)];
    let mut world = World::new(vec![policy]);
    world.ready(1_000, "False").until(1_030);
    assert_eq!((world.has(NO_SCHEDULE), world.has(PREFER_NO_EXECUTE)), (true, false));
    world.until(1_300);
    assert_eq!((world.has(NO_SCHEDULE), world.has(PREFER_NO_EXECUTE)), (true, true));
    world.ready(2_000, "True").until(2_001);
    assert_eq!((world.has(NO_SCHEDULE), world.has(PREFER_NO_EXECUTE)), (false, true));
}

#[test]
fn all_conditions_must_match() {
    let conditions = vec![when("Net", "In", &["False"]), when("Disk", "In", &["False"])];
    let both_up = vec![when("Net", "In", &["True"]), when("Disk", "In", &["True"])];
    let mut world = World::new(vec![upstream("p", 0, conditions, both_up)]);
    world.set(10, "Net", "False");
    assert!(!world.has(PREFER_NO_EXECUTE), "Disk is absent");
    world.set(20, "Disk", "True");
    assert!(!world.has(PREFER_NO_EXECUTE), "only one matches");
    world.set(30, "Disk", "False");
    assert!(world.has(PREFER_NO_EXECUTE), "both match: no window is configured");
    world.set(40, "Net", "True");
    assert!(world.has(PREFER_NO_EXECUTE), "removed only when both removal conditions match");
    world.set(50, "Disk", "True");
    assert!(!world.has(PREFER_NO_EXECUTE));
}

#[test]
fn taints_with_one_key_and_two_effects_are_written_together() {
    let mut policy = upstream("p", 0, down(), up());
    let taint = |effect: &str| PolicyTaint { key: KEY.into(), effect: effect.into(), ..PolicyTaint::default() };
    policy.spec.taints = vec![taint(NO_SCHEDULE), taint(NO_EXECUTE)];
    let mut world = World::new(vec![policy]);
    world.ready(10, "False");
    assert_eq!((world.taints().len(), world.writes), (2, 1));
    world.ready(20, "True");
    assert_eq!((world.taints().len(), world.writes), (0, 2));
}

#[test]
fn empty_condition_list_matches_always_or_never() {
    let mut always = seed("p");
    always.spec.match_conditions = vec![];
    for (name, born, policy_created, at_299, at_300) in [
        ("since the creation of the cluster (B69)", 0, 0, 0, 1),
        ("since the creation of the policy if that is later", 0, 100, 0, 0),
    ] {
        let mut policy = always.clone();
        policy.metadata.creation_timestamp = Some(Time(at(policy_created)));
        let mut world = World::new(vec![policy]);
        world.cluster.metadata.creation_timestamp = Some(Time(at(born)));
        assert_eq!(world.until(299).taints().len(), at_299, "{name}");
        assert_eq!(world.until(300).taints().len(), at_300, "{name}");
        assert_eq!(world.until(400).taints().len(), 1, "{name}");
    }
    let mut never = World::new(vec![upstream("p", 0, vec![], vec![])]);
    never.ready(10, "False").until(90_000);
    assert_eq!(never.taints(), [], "an empty addOnConditions never matches");
}

#[test]
fn existing_taints_keep_value_and_time() {
    let mine = Taint { value: Some("mine".into()), ..taint(KEY, PREFER_NO_EXECUTE, Some(5)) };
    let by_hand = || {
        let mut world = World::new(vec![seed("p")]);
        world.cluster.spec.taints = vec![mine.clone()];
        world
    };
    let want = [(format!("{KEY}=mine:PreferNoExecute"), Some(5))];
    let mut world = by_hand();
    world.ready(1_000, "False").until(2_000);
    assert_eq!((&world.taints()[..], world.writes), (&want[..], 0), "neither time nor value changes");
    world.ready(3_000, "True").until(9_000);
    assert_eq!((&world.taints()[..], world.writes), (&want[..], 0), "not removed: the policy does not own it (B68)");
    let mut world = by_hand();
    world.policies = vec![Arc::new(upstream("p", 0, down(), up()))];
    world.edit(10, |_| ());
    assert_eq!(world.taints(), [], "removeOnConditions removes taints of any owner");
}

#[test]
fn policy_adds_a_manually_removed_taint_again() {
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").until(2_000);
    world.edit(2_500, |w| w.cluster.spec.taints.clear());
    assert_eq!(world.taints(), [(format!("{KEY}:PreferNoExecute"), Some(2_500))], "with a new time");
    world.ready(3_000, "True").edit(3_010, |w| w.cluster.spec.taints.clear());
    assert_eq!(
        (world.taints().len(), world.owners(PREFER_NO_EXECUTE).len()),
        (0, 0),
        "removed manually within the remove window"
    );
    assert!(!world.events.iter().any(|event| event == "TaintOrphaned"), "no policy lost a taint");
}
