//! Invariants of every result.

use proptest::prelude::*;

use super::*;

fn placements() -> impl Strategy<Value = Placement> {
    let weights = prop::collection::vec(0_i64..4, 5).prop_map(|weights| {
        let names = ["m0", "m1", "m2", "m3", "m4"];
        let listed: Vec<_> = names.into_iter().zip(weights).filter(|(_, weight)| *weight > 0).collect();
        weighted(&listed)
    });
    let strategy = prop_oneof![Just(duplicated()), Just(dynamic()), Just(aggregated()), weights];
    let groups = Just(vec![group("p", &["m0", "m1"]), group("b", &["m2", "m3", "m4"])]);
    (strategy, prop::option::of(groups), prop::option::of(1_i64..4)).prop_map(|(placement, groups, spreading)| {
        Placement {
            cluster_affinities: groups.unwrap_or_default(),
            spread_constraints: spreading.map(|max| spread(SpreadByField::Cluster, 1, max)).into_iter().collect(),
            ..placement
        }
    })
}

proptest! {
    #[test]
    fn results_add_up_and_a_second_cycle_writes_nothing(
        placement in placements(), replicas in 0_i32..30, capacity in prop::collection::vec(0_i64..12, 5),
        tainted in prop::collection::vec(any::<bool>(), 5), drained in prop::option::of(0_usize..5),
        previous in prop::collection::btree_map(0_usize..5, 0_i32..6, 0..4),
    ) {
        let names = ["m0", "m1", "m2", "m3", "m4"];
        let mut fleet = Clusters::new();
        for (name, tainted) in names.iter().zip(&tainted) {
            let mut cluster = if drained.is_some_and(|i| names[i] == *name) { draining(name) } else { cluster(name) };
            cluster.spec.taints = tainted.then(|| taint("k", "v", NO_SCHEDULE)).into_iter().collect();
            fleet.insert((*name).into(), cluster.into());
        }
        let available: Available = names.iter().zip(&capacity).map(|(name, capacity)| ((*name).into(), *capacity)).collect();
        let previous: Vec<_> = previous.iter().filter(|(i, _)| drained != Some(**i)).map(|(i, n)| (names[*i], *n)).collect();
        let mut before = placed(placement.clone(), replicas);
        before.spec.clusters = targets(&previous);
        before.spec.graceful_eviction_tasks = drained.map(|i| task(names[i], CLUSTER_DRAIN, Some(1))).into_iter().collect();
        let decision = decide_in(&before, &fleet, &available, &Options::default(), 1_000);
        let after = applied(&before, &decision);
        if decision.failure.is_none() {
            let clusters = &after.spec.clusters;
            let sum: i32 = clusters.iter().map(|t| t.replicas).sum();
            match placement.replica_scheduling_type() {
                ironclad_api::policy::ReplicaSchedulingType::Divided => prop_assert_eq!(sum, replicas),
                ironclad_api::policy::ReplicaSchedulingType::Duplicated => prop_assert!(clusters.iter().all(|t| t.replicas == replicas)),
            }
            for target in clusters {
                prop_assert!(after.spec.eviction(&target.name).is_none(), "{} is being drained", target.name);
                let kept = previous.iter().any(|(name, _)| *name == target.name);
                let i = names.iter().position(|name| *name == target.name).unwrap();
                prop_assert!(kept || !tainted[i], "{} repels", target.name);
            }
            let mut sorted = clusters.clone();
            sorted.sort();
            prop_assert_eq!(&sorted, clusters, "by name");
        }
        prop_assert_eq!(&decide_in(&before, &fleet, &available, &Options::default(), 1_000), &decision, "the same twice");
        let again = decide_in(&after, &fleet, &available, &Options::default(), 1_001);
        prop_assert!(again.plan.is_quiet(), "{:?} after {:?}", again.plan, decision.plan);

        let mut shuffled = before.clone();
        shuffled.spec.clusters.reverse();
        let same = applied(&shuffled, &decide_in(&shuffled, &fleet, &available, &Options::default(), 1_000));
        let sorted = |binding: &ResourceBinding| {
            let mut clusters = binding.spec.clusters.clone();
            clusters.sort();
            clusters
        };
        prop_assert_eq!(sorted(&same), sorted(&after), "the order of the previous result does not matter");
    }
}
