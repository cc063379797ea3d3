//! One policy: windows, conditions, restarts.

use super::*;

#[test]
fn windows() {
    let added = |second| vec![(format!("{KEY}:PreferNoExecute"), Some(second))];
    // Ready by second, and the taints at the end.
    for (name, steps, end, want) in [
        ("one second before the window ends", &[(1_000, "False")][..], 1_299, vec![]),
        ("exactly: timeAdded is the time of the write (B9)", &[(1_000, "False")], 1_300, added(1_300)),
        ("299 s of False, then True: never (B8)", &[(1_000, "False"), (1_299, "True")], 9_000, vec![]),
        ("the worked example: True too early", &[(1_000, "False"), (1_214, "True")], 9_000, vec![]),
        (
            "299 s, a second of True, False again: the 300 s start anew",
            &[(1_000, "False"), (1_299, "True"), (1_300, "False")],
            1_599,
            vec![],
        ),
        ("and then pass", &[(1_000, "False"), (1_299, "True"), (1_300, "False")], 1_600, added(1_600)),
        (
            "False 200 s, Unknown 100 s: equivalent statuses do not reset (B10)",
            &[(1_000, "False"), (1_200, "Unknown")],
            1_300,
            added(1_300),
        ),
        ("Ready True for 179 s: stays", &[(1_000, "False"), (2_000, "True")], 2_179, added(1_300)),
        ("removed exactly at 180 s (B12)", &[(1_000, "False"), (2_000, "True")], 2_180, vec![]),
        (
            "False again before: stays, and its time (B11)",
            &[(1_000, "False"), (2_000, "True"), (2_179, "False")],
            9_000,
            added(1_300),
        ),
        (
            "and the 180 s start anew",
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
fn a_taint_costs_one_write_to_come_and_one_to_go() {
    let mut world = World::new(vec![seed("p"), seed("q")]);
    world.ready(1_000, "False").until(2_000);
    assert_eq!((world.writes, &world.events[..]), (1, &["TaintClusterSucceed".to_owned()][..]));
    assert_eq!(world.owners(PREFER_NO_EXECUTE), ["p", "q"]);
    world.ready(3_000, "True").until(9_000);
    assert_eq!((world.writes, world.taints().len()), (2, 0));
    assert_eq!(world.cluster.metadata.annotations.unwrap_or_default().get(TAINT_OWNERS), None);
}

#[test]
fn a_policy_that_comes_late_counts_from_the_conditions() {
    let mut world = World::new(vec![]);
    world.ready(1_000, "False");
    world.edit(4_600, |w| w.policies = vec![Arc::new(seed("p"))]);
    assert_eq!(world.taints(), [(format!("{KEY}:PreferNoExecute"), Some(4_600))], "down for an hour: tainted at once");
    // The escape hatch: the policy is edited so that it no longer matches.
    world.edit(4_700, |w| {
        let mut policy = (*w.policies[0]).clone();
        policy.spec.match_conditions = vec![when(READY, "In", &["Unknown"])];
        policy.metadata.generation = Some(2);
        w.policies = vec![Arc::new(policy)];
    });
    assert_eq!(world.taints(), [], "Ready has been False for more than the remove window");
}

#[test]
fn a_restart_waits_no_less() {
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").edit(1_200, |w| w.memory = None);
    world.until(1_299);
    assert_eq!(world.taints(), []);
    assert_eq!(world.until(1_300).taints().len(), 1, "one status: nothing is lost by a restart");
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").ready(1_200, "Unknown").edit(1_250, |w| w.memory = None);
    assert_eq!(world.until(1_499).taints(), [], "it does not know of the 200 s of False any more");
    assert_eq!(world.until(1_500).taints().len(), 1);
}

#[test]
fn another_cluster_of_the_same_name_starts_anew() {
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
fn items_have_windows_of_their_own() {
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
fn two_conditions_are_anded() {
    let conditions = vec![when("Net", "In", &["False"]), when("Disk", "In", &["False"])];
    let both_up = vec![when("Net", "In", &["True"]), when("Disk", "In", &["True"])];
    let mut world = World::new(vec![upstream("p", 0, conditions, both_up)]);
    world.set(10, "Net", "False");
    assert!(!world.has(PREFER_NO_EXECUTE), "Disk is absent");
    world.set(20, "Disk", "True");
    assert!(!world.has(PREFER_NO_EXECUTE), "only one fails");
    world.set(30, "Disk", "False");
    assert!(world.has(PREFER_NO_EXECUTE), "both fail: upstream's spelling knows no window");
    world.set(40, "Net", "True");
    assert!(world.has(PREFER_NO_EXECUTE), "removed only when both pass");
    world.set(50, "Disk", "True");
    assert!(!world.has(PREFER_NO_EXECUTE));
}

#[test]
fn two_taints_of_one_key() {
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
fn an_empty_list_means_always_or_never() {
    let mut always = seed("p");
    always.spec.match_conditions = vec![];
    for (name, born, policy_created, at_299, at_300) in
        [("from the creation of the cluster (B69)", 0, 0, 0, 1), ("or of the policy, if that is later", 0, 100, 0, 0)]
    {
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
    assert_eq!(never.taints(), [], "upstream's spelling");
}

#[test]
fn what_is_there_is_left_as_it_is() {
    let mine = Taint { value: Some("mine".into()), ..taint(KEY, PREFER_NO_EXECUTE, Some(5)) };
    let by_hand = || {
        let mut world = World::new(vec![seed("p")]);
        world.cluster.spec.taints = vec![mine.clone()];
        world
    };
    let want = [(format!("{KEY}=mine:PreferNoExecute"), Some(5))];
    let mut world = by_hand();
    world.ready(1_000, "False").until(2_000);
    assert_eq!((&world.taints()[..], world.writes), (&want[..], 0), "neither its time nor its value");
    world.ready(3_000, "True").until(9_000);
    assert_eq!((&world.taints()[..], world.writes), (&want[..], 0), "the policy did not put it (B68)");
    let mut world = by_hand();
    world.policies = vec![Arc::new(upstream("p", 0, down(), up()))];
    world.edit(10, |_| ());
    assert_eq!(world.taints(), [], "upstream's spelling removes whoever put it");
}

#[test]
fn a_person_may_remove_a_taint_but_the_policy_puts_it_again() {
    let mut world = World::new(vec![seed("p")]);
    world.ready(1_000, "False").until(2_000);
    world.edit(2_500, |w| w.cluster.spec.taints.clear());
    assert_eq!(world.taints(), [(format!("{KEY}:PreferNoExecute"), Some(2_500))], "with a new time");
    world.ready(3_000, "True").edit(3_010, |w| w.cluster.spec.taints.clear());
    assert_eq!((world.taints().len(), world.owners(PREFER_NO_EXECUTE).len()), (0, 0), "it was to go anyway");
    assert!(!world.events.iter().any(|event| event == "TaintOrphaned"), "no policy lost a taint");
}
