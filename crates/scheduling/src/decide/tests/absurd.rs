//! Input that admission refuses, or that a member reports by mistake: a decision ends with a result or a reason.

use ironclad_api::policy::{SpreadConstraint, StaticClusterWeight};
use proptest::prelude::*;

use super::*;
use crate::{Class, testkit::decide_both};

fn decide_absurd(binding: &ResourceBinding, clusters: &Clusters, available: &Available) -> Decision {
    let capacity = Capacity::of(clusters, Modelling::On);
    let options = Options { overcommit_protection: true, component_scheduling: true, ..Options::default() };
    decide_both(
        &Seen {
            binding: binding.into(),
            clusters,
            available,
            capacity: &capacity,
            options: &options,
            since: Since::default(),
            preempting: None,
            peers: None,
            index: None,
        },
        1,
    )
}

fn with_bounds(placement: Placement, bounds: &[(Option<SpreadByField>, i64, i64)]) -> Placement {
    let constraint = |(field, min_groups, max_groups): &(Option<SpreadByField>, i64, i64)| SpreadConstraint {
        spread_by_field: *field,
        spread_by_label: String::new(),
        min_groups: *min_groups,
        max_groups: *max_groups,
    };
    Placement { spread_constraints: bounds.iter().map(constraint).collect(), ..placement }
}

#[test]
fn contradictory_placements_end_with_a_result_or_a_reason() {
    use SpreadByField::{Cluster, Region};
    let fleet: Clusters = [("m1", "eu"), ("m2", "eu"), ("m3", "us")]
        .into_iter()
        .map(|(name, region)| {
            let mut cluster = cluster(name);
            cluster.spec.region = region.into();
            (name.into(), cluster.into())
        })
        .collect();
    let excluded = || {
        let mut placement = duplicated();
        let own = affinity(&["m1"]);
        placement.cluster_affinity = Some(ironclad_api::policy::ClusterAffinity { exclude: vec!["m1".into()], ..own });
        placement
    };
    let rows: Vec<(&str, Placement, Result<&[(&str, i32)], Class>)> = vec![
        ("named and excluded", excluded(), Err(Class::NoFit)),
        (
            "weights of zero: all weigh the same",
            weighted(&[("m1", 0), ("m2", 0)]),
            Ok(&[("m1", 2), ("m2", 1), ("m3", 1)]),
        ),
        ("a negative weight: no part", weighted(&[("m1", -5), ("m2", 1)]), Ok(&[("m2", 4)])),
        ("the largest weights", weighted(&[("m1", i64::MAX), ("m2", i64::MAX)]), Ok(&[("m1", 2), ("m2", 2)])),
        ("weights of clusters that do not exist", weighted(&[("gone", 3)]), Ok(&[("m1", 2), ("m2", 1), ("m3", 1)])),
        (
            "more clusters than there are",
            with_bounds(duplicated(), &[(Some(Cluster), i64::MAX, 0)]),
            Err(Class::TooFew),
        ),
        ("bounds below zero: none", with_bounds(dynamic(), &[(Some(Cluster), -3, -1)]), Ok(&[("m1", 4)])),
        (
            "a minimum above the maximum",
            with_bounds(duplicated(), &[(Some(Region), 2, 1)]),
            Ok(&[("m1", 4), ("m2", 4), ("m3", 4)]),
        ),
        ("constraints that name nothing", with_bounds(duplicated(), &[(None, 1, 1)]), Err(Class::Other)),
        (
            "the same field twice: the first one counts",
            with_bounds(duplicated(), &[(Some(Cluster), 1, 1), (Some(Cluster), 3, 3)]),
            Ok(&[("m1", 4)]),
        ),
    ];
    let available = estimates(&[("m1", 9), ("m2", 0), ("m3", 0)]);
    for (name, placement, want) in rows {
        let decision = decide_in(&placed(placement.clone(), 4), &fleet, &available, &Options::default(), 1);
        let got = applied(&placed(placement, 4), &decision);
        match want {
            Ok(want) => assert_eq!(result(&got), want, "{name}: {:?}", decision.failure),
            Err(class) => {
                assert_eq!(decision.failure.as_ref().map(crate::Failure::class), Some(class), "{name}");
                assert!(!condition(&got).1.is_empty(), "{name}: it says why");
            }
        }
    }
}

#[test]
fn absurd_estimates_are_bounded_or_ignored() {
    let fleet = clusters(&["m1", "m2"]);
    for (name, m1, m2, want) in [
        ("a negative one is no opinion", -1, 1, Ok(&[("m1", 3), ("m2", 1)][..])),
        ("the smallest number, too", i64::MIN, 1, Ok(&[("m1", 3), ("m2", 1)])),
        ("the largest one counts as two billion", i64::MAX, 0, Ok(&[("m1", 4)])),
        ("zero is an answer", 0, 0, Err(Class::InsufficientCapacity)),
    ] {
        let available = estimates(&[("m1", m1), ("m2", m2)]);
        let decision = decide_in(&placed(dynamic(), 4), &fleet, &available, &Options::default(), 1);
        let got = applied(&placed(dynamic(), 4), &decision);
        match want {
            Ok(want) => assert_eq!(result(&got), want, "{name}: {:?}", decision.failure),
            Err(class) => assert_eq!(decision.failure.as_ref().map(crate::Failure::class), Some(class), "{name}"),
        }
    }
}

fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(-1), Just(0), 1_i64..5, Just(i64::from(i32::MAX)), Just(i64::MAX)]
}

fn any_count() -> impl Strategy<Value = i32> {
    prop_oneof![Just(i32::MIN), Just(-1), Just(0), 1_i32..9, Just(i32::MAX)]
}

fn any_quantity() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "0", "-3", "1", "500m", "9E", "-9E", "1e99", "many", "8388607Ti"])
}

proptest! {
    #[test]
    fn no_number_makes_a_decision_fail(
        replicas in any_count(), previous in prop::collection::vec(any_count(), 0..3), task_replicas in any_count(),
        bounds in prop::collection::vec((0_usize..4, any_number(), any_number()), 0..3),
        weights in prop::collection::vec(any_number(), 3), strategy in 0_usize..4,
        answers in prop::collection::vec(prop::option::of(any_number()), 3),
        amounts in prop::collection::vec((any_quantity(), any_quantity(), any_quantity(), any_number()), 3),
        request in any_quantity(), components in prop::collection::vec(any_count(), 0..3),
    ) {
        let names = ["m0", "m1", "m2"];
        let mut fleet = Clusters::new();
        for (name, (cpu, taken, pods, count)) in names.into_iter().zip(&amounts) {
            let mut cluster = cluster(name);
            cluster.spec.region = "eu".into();
            cluster.spec.resource_models = serde_json::from_value(json!([
                {"grade": 0, "ranges": [{"name": "cpu", "min": cpu, "max": pods}]},
                {"grade": 1, "ranges": [{"name": "cpu", "min": cpu, "max": pods}]},
            ])).unwrap();
            cluster.status.as_mut().unwrap().resource_summary = serde_json::from_value(json!({
                "allocatable": {"cpu": cpu, "pods": pods}, "allocated": {"cpu": taken, "pods": taken},
                "allocatableModelings": [{"grade": 0, "count": count}, {"grade": 1, "count": count}],
            })).unwrap();
            fleet.insert(name.into(), cluster.into());
        }
        let mut placement = match strategy {
            0 => duplicated(),
            1 => dynamic(),
            2 => aggregated(),
            _ => weighted(&[("m0", 1)]),
        };
        if let Some(preference) = placement.replica_scheduling.as_mut().and_then(|all| all.weight_preference.as_mut()) {
            let weight = |(name, weight): (&str, &i64)| StaticClusterWeight { target_cluster: affinity(&[name]), weight: *weight };
            if preference.dynamic_weight.is_none() {
                preference.static_weight_list = names.into_iter().zip(&weights).map(weight).collect();
            }
        }
        let fields = [Some(SpreadByField::Cluster), Some(SpreadByField::Region), Some(SpreadByField::Zone), None];
        let bounds: Vec<_> = bounds.iter().map(|(field, min, max)| (fields[*field], *min, *max)).collect();
        let mut binding = asking(placed(with_bounds(placement, &bounds), replicas), request);
        binding.spec.clusters = targets(&names.into_iter().zip(previous).collect::<Vec<_>>());
        binding.spec.graceful_eviction_tasks = vec![task("m2", TAINT_UNTOLERATED, Some(task_replicas))];
        binding.spec.clusters.retain(|target| target.name != "m2");
        let needs = binding.spec.replica_requirements.as_ref().map(|needs| json!({"resourceRequest": needs.resource_request}));
        let component = |(at, replicas): (usize, i32)| json!({"name": at.to_string(), "replicas": replicas, "replicaRequirements": needs});
        binding.spec.components =
            serde_json::from_value(components.into_iter().enumerate().map(component).collect()).unwrap();
        let available: Available =
            names.iter().zip(answers).filter_map(|(name, answer)| Some(((*name).into(), answer?))).collect();
        let decision = decide_absurd(&binding, &fleet, &available);
        for target in decision.result().unwrap_or_default() {
            prop_assert!(target.replicas >= 0, "{:?}", target);
            prop_assert!(names.contains(&&*target.name));
        }
    }
}
