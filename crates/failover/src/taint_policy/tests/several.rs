//! Several policies, policies that end or change, their status, and clusters that recover.

use super::*;

#[test]
fn taint_is_removed_with_its_last_owner() {
    // Two policies own one taint; it is removed when the last one mismatches (B67).
    let mut other = seed("q");
    other.spec.match_conditions = vec![when("Net", "In", &["False"])];
    let mut world = World::new(vec![seed("p"), other]);
    world.ready(1_000, "False").set(1_000, "Net", "False").until(1_300);
    assert_eq!(world.owners(PREFER_NO_EXECUTE), ["p", "q"]);
    world.ready(2_000, "True").until(2_500);
    assert_eq!((world.taints().len(), world.owners(PREFER_NO_EXECUTE)), (1, vec!["q".to_owned()]));
    world.set(3_000, "Net", "True").until(3_179);
    assert!(world.has(PREFER_NO_EXECUTE), "its own remove window has not ended");
    assert_eq!(world.until(3_180).taints(), []);

    // p matches and q mismatches: q does not own the taint and does not remove it.
    let mut mismatching = seed("q");
    mismatching.spec.match_conditions = vec![when("Net", "In", &["False"])];
    let mut world = World::new(vec![seed("p"), mismatching]);
    world.ready(1_000, "False").set(1_000, "Net", "True").until(9_000);
    assert_eq!(world.taints().len(), 1);
}

#[test]
fn oldest_policy_determines_the_value() {
    let valued = |name: &str, created, value: &str| {
        let mut policy = seed(name);
        policy.metadata.creation_timestamp = Some(Time(at(created)));
        policy.spec.taints_to_add[0].value = value.into();
        policy
    };
    for (name, policies, want) in [
        ("the oldest policy", [valued("b", 1, "old"), valued("a", 2, "new")], "old"),
        ("in any order of the list", [valued("a", 2, "new"), valued("b", 1, "old")], "old"),
        ("ties break by name", [valued("b", 1, "of-b"), valued("a", 1, "of-a")], "of-a"),
    ] {
        let mut world = World::new(policies.to_vec());
        world.ready(1_000, "False").until(5_000);
        assert_eq!(world.taints(), [(format!("{KEY}={want}:PreferNoExecute"), Some(1_300))], "{name}");
        let reported = world.events.iter().filter(|event| *event == "TaintConflict").count();
        assert_eq!(reported, 1, "{name}: reported once");
    }
}

#[test]
fn taints_of_policies_with_different_fields() {
    // u removes the taint that p owns, but only after p's remove window.
    let removes = || upstream("u", 5, vec![], vec![when("Net", "NotIn", &["True"])]);
    let mut world = World::new(vec![seed("p"), removes()]);
    world.set(10, "Net", "False").ready(1_000, "False").until(1_300);
    assert_eq!((world.taints().len(), world.writes), (1, 1), "not removed and added in turn");
    world.until(9_000);
    assert_eq!((world.taints().len(), world.writes), (1, 1));
    world.ready(9_000, "True").until(9_179);
    assert_eq!(world.taints().len(), 1, "the remove window of its owner still runs");
    assert_eq!(world.until(9_180).taints(), []);

    // The policy that is applied later wins within one reconcile, and writes do not repeat.
    for (name, adder, remover, want) in
        [("older adds, younger removes", 1, 2, 0), ("older removes, younger adds", 2, 1, 1)]
    {
        let adds = upstream("adds", adder, down(), vec![]);
        let removes = upstream("removes", remover, vec![], down());
        let mut world = World::new(vec![adds, removes]);
        world.ready(10, "False");
        assert_eq!((world.taints().len(), world.writes), (want, want), "{name}");
        let before = world.taints();
        world.edit(20, |w| w.memory = None).until(100);
        assert_eq!((world.taints(), world.writes), (before, want), "{name}: no further writes");
    }

    // One policy with both: add, then remove.
    let mut world = World::new(vec![upstream("p", 0, down(), down())]);
    world.ready(10, "False");
    assert_eq!((world.taints().len(), world.writes), (0, 0));
}

#[test]
fn taints_of_deleted_or_changed_policies_stay() {
    let tainted = || {
        let mut world = World::new(vec![seed("p")]);
        world.ready(1_000, "False").until(2_000);
        assert_eq!(world.owners(PREFER_NO_EXECUTE), ["p"]);
        world
    };
    let edited = |w: &mut World, edit: fn(&mut ClusterTaintPolicySpec)| {
        let mut policy = (*w.policies[0]).clone();
        edit(&mut policy.spec);
        policy.metadata.generation = Some(2);
        w.policies = vec![Arc::new(policy)];
    };
    for (name, edit) in [
        ("deleted (B13)", (|w: &mut World| w.policies.clear()) as fn(&mut World)),
        ("being deleted", |w| {
            let mut policy = (*w.policies[0]).clone();
            policy.metadata.deletion_timestamp = Some(Time(at(2_100)));
            w.policies = vec![Arc::new(policy)];
        }),
        ("the cluster's labels no longer match", |w| {
            let mut policy = (*w.policies[0]).clone();
            policy.spec.target_cluster =
                Some(ClusterAffinity { cluster_names: vec!["m2".into()], ..ClusterAffinity::default() });
            w.policies = vec![Arc::new(policy)];
        }),
    ] {
        let mut world = tainted();
        world.edit(2_100, edit).ready(3_000, "True").until(9_000);
        assert_eq!((world.taints().len(), world.owners(PREFER_NO_EXECUTE).len()), (1, 0), "{name}: kept without owner");
        assert_eq!(world.events.iter().filter(|event| *event == "TaintOrphaned").count(), 1, "{name}");
    }
    let mut world = tainted();
    world.edit(2_100, |w| edited(w, |spec| spec.taints_to_add[0].key = "other".into()));
    assert_eq!(world.taints().len(), 2, "another key: the old taint is kept and the new one added");
    assert_eq!(world.owners(PREFER_NO_EXECUTE).len(), 0);
    let mut world = tainted();
    world.edit(2_100, |w| edited(w, |spec| spec.taints_to_add.clear()));
    assert_eq!(world.taints().len(), 1, "a removed item leaves its taint");
}

#[test]
fn invalid_policies_and_terminating_clusters_are_skipped() {
    let mut mixed = seed("p");
    mixed.spec.taints = upstream("u", 0, vec![], vec![]).spec.taints;
    let mut world = World::new(vec![mixed]);
    world.ready(10, "False").until(9_000);
    assert_eq!(world.taints(), [], "a policy that mixes both kinds of fields does nothing");

    let mut odd = seed("p");
    odd.spec.match_conditions[0].operator = "Is".into();
    let mut world = World::new(vec![odd]);
    world.ready(10, "False").until(9_000);
    assert_eq!((world.taints().len(), &world.events[..]), (0, &["TaintClusterFailed".to_owned()][..]), "reported once");

    let mut world = World::new(vec![seed("p")]);
    world.ready(10, "False").edit(20, |w| w.cluster.metadata.deletion_timestamp = Some(Time(at(20))));
    assert_eq!(world.until(9_000).taints(), [], "a cluster that is being deleted gets no taints");

    let everything = ClusterTaintPolicySpec {
        match_conditions: vec![],
        taints_to_add: vec![item(NO_EXECUTE, 1, 1)],
        ..ClusterTaintPolicySpec::default()
    };
    let mut world = World::new(vec![named("all", 0, everything)]);
    assert!(world.until(10).has(NO_EXECUTE), "a policy may taint every cluster: limits are in the eviction queue");
}

#[test]
fn status_shows_state_and_time_of_each_taint() {
    let mut world = World::new(vec![seed("p")]);
    let shown = |world: &World| {
        let cluster = world.status[0].clone();
        let second = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
        let taint = &cluster.taints[0];
        (cluster.matched, second(&cluster.since), taint.state.unwrap(), second(&taint.at))
    };
    assert_eq!(shown(&world), (false, Some(0), TaintState::NotAdded, None));
    world.ready(1_000, "False");
    assert_eq!(shown(&world), (true, Some(1_000), TaintState::Pending, Some(1_300)));
    world.until(1_300);
    assert_eq!(shown(&world), (true, Some(1_000), TaintState::Added, Some(1_300)));
    world.ready(2_000, "True");
    assert_eq!(shown(&world), (false, Some(2_000), TaintState::Removing, Some(2_180)));
    world.until(2_180);
    assert_eq!(shown(&world), (false, Some(2_000), TaintState::NotAdded, None));
}

#[test]
fn cluster_recovers_while_remove_windows_of_policies_run() {
    let mut world = World::new(vec![seed("p")]);
    let now = |world: &World| is_recovering(&world.cluster, &world.policies);
    assert!(!now(&world), "no taints");
    world.ready(1_000, "False").until(2_000);
    assert!(!now(&world), "not ready");
    world.ready(3_000, "True");
    assert!(now(&world), "ready, and only remove windows run (B66)");
    let mut by_hand = World::new(vec![seed("p")]);
    by_hand.cluster.spec.taints = vec![taint(KEY, NO_EXECUTE, Some(1))];
    assert!(!now(&by_hand), "a manual taint has no remove window");
    let mut both = World::new(vec![seed("p")]);
    both.ready(1_000, "False").until(2_000).ready(3_000, "True");
    both.cluster.spec.taints.push(taint("mine", NO_EXECUTE, Some(1)));
    assert!(!now(&both), "a manual taint beside the policy's");
    let mut orphan = World::new(vec![seed("p")]);
    orphan.ready(1_000, "False").until(2_000).ready(3_000, "True");
    assert!(!is_recovering(&orphan.cluster, &[]), "without its policy the taint is not removed");
    let mut other = seed("q");
    other.spec.match_conditions = vec![when("Net", "In", &["False"])];
    let mut two = World::new(vec![seed("p"), other]);
    two.ready(1_000, "False").set(1_000, "Net", "False").until(2_000).ready(3_000, "True");
    assert!(!now(&two), "another policy still matches");
}
