//! Several policies, policies that end or change, their status, and clusters that recover.

use super::*;

#[test]
fn several_policies() {
    // Two of the seed's spelling assert one taint; it goes with the last (B67).
    let mut other = seed("q");
    other.spec.match_conditions = vec![when("Net", "In", &["False"])];
    let mut world = World::new(vec![seed("p"), other]);
    world.ready(1_000, "False").set(1_000, "Net", "False").until(1_300);
    assert_eq!(world.owners(PREFER_NO_EXECUTE), ["p", "q"]);
    world.ready(2_000, "True").until(2_500);
    assert_eq!((world.taints().len(), world.owners(PREFER_NO_EXECUTE)), (1, vec!["q".to_owned()]));
    world.set(3_000, "Net", "True").until(3_179);
    assert!(world.has(PREFER_NO_EXECUTE), "its own remove window runs");
    assert_eq!(world.until(3_180).taints(), []);

    // A asserts, B mismatches the same taint: B does not own it.
    let mut bystander = seed("q");
    bystander.spec.match_conditions = vec![when("Net", "In", &["False"])];
    let mut world = World::new(vec![seed("p"), bystander]);
    world.ready(1_000, "False").set(1_000, "Net", "True").until(9_000);
    assert_eq!(world.taints().len(), 1);
}

#[test]
fn values_of_several_policies() {
    let valued = |name: &str, created, value: &str| {
        let mut policy = seed(name);
        policy.metadata.creation_timestamp = Some(Time(at(created)));
        policy.spec.taints_to_add[0].value = value.into();
        policy
    };
    for (name, policies, want) in [
        ("the oldest", [valued("b", 1, "old"), valued("a", 2, "new")], "old"),
        ("whatever the order of the list", [valued("a", 2, "new"), valued("b", 1, "old")], "old"),
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
fn both_spellings_on_one_taint() {
    // Upstream's removes what the seed's asserts: only after that.
    let always_off = || upstream("u", 5, vec![], vec![when("Net", "NotIn", &["True"])]);
    let mut world = World::new(vec![seed("p"), always_off()]);
    world.set(10, "Net", "False").ready(1_000, "False").until(1_300);
    assert_eq!((world.taints().len(), world.writes), (1, 1), "no cycle");
    world.until(9_000);
    assert_eq!((world.taints().len(), world.writes), (1, 1));
    world.ready(9_000, "True").until(9_179);
    assert_eq!(world.taints().len(), 1, "the remove window of its owner still runs");
    assert_eq!(world.until(9_180).taints(), []);

    // Both of upstream's: the later wins within one pass, and nothing is written again and again.
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
        assert_eq!((world.taints(), world.writes), (before, want), "{name}: a fixed point");
    }

    // One policy with both: add, then remove.
    let mut world = World::new(vec![upstream("p", 0, down(), down())]);
    world.ready(10, "False");
    assert_eq!((world.taints().len(), world.writes), (0, 0));
}

#[test]
fn policies_that_end_or_change() {
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
        assert_eq!((world.taints().len(), world.owners(PREFER_NO_EXECUTE).len()), (1, 0), "{name}: stays, not owned");
        assert_eq!(world.events.iter().filter(|event| *event == "TaintOrphaned").count(), 1, "{name}");
    }
    let mut world = tainted();
    world.edit(2_100, |w| edited(w, |spec| spec.taints_to_add[0].key = "other".into()));
    assert_eq!(world.taints().len(), 2, "another key: the old taint stays, the new one comes");
    assert_eq!(world.owners(PREFER_NO_EXECUTE).len(), 0);
    let mut world = tainted();
    world.edit(2_100, |w| edited(w, |spec| spec.taints_to_add.clear()));
    assert_eq!(world.taints().len(), 1, "only the list in force is acted on");
}

#[test]
fn odd_policies_and_clusters() {
    let mut mixed = seed("p");
    mixed.spec.taints = upstream("u", 0, vec![], vec![]).spec.taints;
    let mut world = World::new(vec![mixed]);
    world.ready(10, "False").until(9_000);
    assert_eq!(world.taints(), [], "one that mixes the spellings does nothing");

    let mut odd = seed("p");
    odd.spec.match_conditions[0].operator = "Is".into();
    let mut world = World::new(vec![odd]);
    world.ready(10, "False").until(9_000);
    assert_eq!((world.taints().len(), &world.events[..]), (0, &["TaintClusterFailed".to_owned()][..]), "reported once");

    let mut world = World::new(vec![seed("p")]);
    world.ready(10, "False").edit(20, |w| w.cluster.metadata.deletion_timestamp = Some(Time(at(20))));
    assert_eq!(world.until(9_000).taints(), [], "a cluster that leaves is left alone");

    let everything = ClusterTaintPolicySpec {
        match_conditions: vec![],
        taints_to_add: vec![item(NO_EXECUTE, 1, 1)],
        ..ClusterTaintPolicySpec::default()
    };
    let mut world = World::new(vec![named("all", 0, everything)]);
    assert!(world.until(10).has(NO_EXECUTE), "a policy may taint every cluster: the queue's guards are elsewhere");
}

#[test]
fn statuses() {
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
fn recovering() {
    let mut world = World::new(vec![seed("p")]);
    let now = |world: &World| is_recovering(&world.cluster, &world.policies);
    assert!(!now(&world), "nothing to recover from");
    world.ready(1_000, "False").until(2_000);
    assert!(!now(&world), "down");
    world.ready(3_000, "True");
    assert!(now(&world), "Ready, and only the remove window is waited for (B66)");
    let mut by_hand = World::new(vec![seed("p")]);
    by_hand.cluster.spec.taints = vec![taint(KEY, NO_EXECUTE, Some(1))];
    assert!(!now(&by_hand), "a taint by hand waits for nothing");
    let mut both = World::new(vec![seed("p")]);
    both.ready(1_000, "False").until(2_000).ready(3_000, "True");
    both.cluster.spec.taints.push(taint("mine", NO_EXECUTE, Some(1)));
    assert!(!now(&both), "nor does one beside it");
    let mut orphan = World::new(vec![seed("p")]);
    orphan.ready(1_000, "False").until(2_000).ready(3_000, "True");
    assert!(!is_recovering(&orphan.cluster, &[]), "without its policy nobody will remove it");
    let mut other = seed("q");
    other.spec.match_conditions = vec![when("Net", "In", &["False"])];
    let mut two = World::new(vec![seed("p"), other]);
    two.ready(1_000, "False").set(1_000, "Net", "False").until(2_000).ready(3_000, "True");
    assert!(!now(&two), "another policy still wants it");
}
