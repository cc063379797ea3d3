use proptest::prelude::*;

use super::*;
use crate::{
    Candidate,
    spread::{self, Spread, Topology},
    testkit::candidate,
};

const REGION: Topology = Topology::Region;
const ZONE: Topology = Topology::Zone;
const PROVIDER: Topology = Topology::Provider;

/// Cluster: name, capacity, groups for each constraint.
type Row<'a> = (&'a str, i64, &'a [&'a [&'a str]]);

fn cluster(name: &str, score: i64, available: i64, groups: &[&[&str]]) -> Candidate {
    let groups = groups.iter().map(|values| values.iter().map(|value| (*value).into()).collect()).collect();
    Candidate { groups, ..candidate(name, score, available) }
}

fn by(constraints: &[(Topology, (usize, usize))]) -> Vec<Grouping> {
    let grouping = |(topology, (min, max)): &(Topology, (usize, usize))| {
        let bounds = Bounds { min: *min, max: *max };
        Grouping { topology: topology.clone(), bounds }
    };
    constraints.iter().map(grouping).collect()
}

/// Names of the selected clusters; the rows are in the order of preference.
fn selected(
    rows: &[Row<'_>],
    constraints: &[(Topology, (usize, usize))],
    clusters: (usize, usize),
    need: Need,
) -> Result<Vec<String>, SelectError> {
    let all: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(i, (name, available, groups))| cluster(name, 100 - i as i64, *available, groups))
        .collect();
    let clusters = Bounds { min: clusters.0, max: clusters.1 };
    let found = spread::select(all, &Spread::Groups { by: by(constraints), clusters, replicas: 30 }, need)?;
    Ok(found.selected.iter().map(|c| c.name.to_string()).collect())
}

#[test]
fn zones_providers_and_labels_are_selected_like_regions() {
    let two: &[Row<'_>] = &[
        ("m1", 40, &[&["A"]]),
        ("m2", 40, &[&["A"]]),
        ("m3", 40, &[&["B"]]),
        ("m4", 40, &[&["B"]]),
        ("m5", 40, &[&["B"]]),
    ];
    let label = Topology::Label("rack".into());
    for topology in [REGION, ZONE, PROVIDER, label] {
        let few = || Err(SelectError::TooFewGroups(topology.clone()));
        for (name, groups, clusters, want) in [
            ("the group with more clusters is best", (1, 1), (2, 2), Ok(vec!["m3", "m4"])),
            ("only the second has three", (1, 1), (3, 3), Ok(vec!["m3", "m4", "m5"])),
            ("one of each", (2, 2), (2, 2), Ok(vec!["m3", "m1"])),
            ("more groups than clusters: one cluster in each", (2, 2), (1, 1), Ok(vec!["m3", "m1"])),
            ("too few groups", (3, 3), (3, 3), few()),
            ("no group has four", (1, 1), (4, 4), Err(SelectError::TooFewClustersInGroups)),
        ] {
            let got = selected(two, &[(topology.clone(), groups)], clusters, Need::DontCare);
            let want = want.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(got, want, "{topology}: {name}");
        }
    }
}

#[test]
fn several_constraints_hold_together() {
    let both = |region, zone| [(REGION, region), (ZONE, zone)];
    let fleet: &[Row<'_>] = &[
        ("a1", 5, &[&["A"], &["a-1"]]),
        ("a2", 5, &[&["A"], &["a-1"]]),
        ("a3", 5, &[&["A"], &["a-2"]]),
        ("b1", 5, &[&["B"], &["b-1"]]),
        ("b2", 20, &[&["B"], &["b-2"]]),
    ];
    let none = usize::MAX;
    let together = || Err(SelectError::Together(vec![REGION, ZONE]));
    let short = |clusters| Err(SelectError::InsufficientCapacity { clusters });
    for (name, constraints, clusters, need, want) in [
        ("two zones of one region", both((1, 1), (2, 2)), (1, 2), None, Ok(vec!["a1", "a3"])),
        ("as many clusters as permitted", both((1, 1), (2, 2)), (1, 3), None, Ok(vec!["a1", "a3", "a2"])),
        ("one zone of each region", both((2, 2), (2, 2)), (1, 2), None, Ok(vec!["a1", "b1"])),
        ("three zones need both regions", both((1, none), (3, 3)), (1, 3), None, Ok(vec!["a1", "a3", "b1"])),
        ("three zones of one region", both((1, 1), (3, 3)), (1, none), None, together()),
        ("two regions in one zone", both((2, 2), (1, 1)), (1, none), None, together()),
        ("no more than one zone", both((1, 1), (1, 1)), (2, none), None, Ok(vec!["a1", "a2"])),
        ("three clusters in one zone", both((1, 1), (1, 1)), (3, none), None, together()),
        ("four regions", both((4, 4), (1, none)), (1, none), None, Err(SelectError::TooFewGroups(REGION))),
        ("five zones", both((1, none), (5, 5)), (1, none), None, Err(SelectError::TooFewGroups(ZONE))),
        ("six clusters", both((1, none), (1, none)), (6, 6), None, Err(SelectError::TooFewClustersInGroups)),
        ("capacity decides on the region", both((1, 1), (2, 2)), (2, 2), Some(25), Ok(vec!["b1", "b2"])),
        ("capacity decides on the zone", both((2, 2), (2, 2)), (2, 2), Some(25), Ok(vec!["b2", "a1"])),
        ("too little in one region", both((1, 1), (2, 2)), (2, 2), Some(30), short(2)),
        ("fewer clusters than zones", both((1, 2), (4, 4)), (1, 2), None, Ok(vec!["a1", "a3", "b1", "b2"])),
    ] {
        let need = need.map_or(Need::DontCare, Need::Replicas);
        let sorted = |names: Vec<String>| names.into_iter().collect::<BTreeSet<_>>();
        let got = selected(fleet, &constraints, clusters, need).map(sorted);
        let want = want.map(|names| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_cluster_of_several_zones_counts_for_each() {
    let fleet: &[Row<'_>] =
        &[("wide", 10, &[&["1", "2", "3"]]), ("m1", 10, &[&["1"]]), ("m2", 10, &[&["2"]]), ("m4", 10, &[&["4"]])];
    for (name, zones, clusters, want) in [
        ("it exceeds a maximum by itself", (1, 2), (2, 2), Ok(vec!["m1", "m4"])),
        ("it reaches a minimum by itself", (3, 3), (1, 1), Ok(vec!["wide"])),
        ("others in its zones add none", (3, 3), (1, 3), Ok(vec!["m1", "m2", "wide"])),
        ("all zones", (4, 4), (2, 2), Ok(vec!["m4", "wide"])),
        ("no five zones", (5, 5), (1, 4), Err(SelectError::TooFewGroups(ZONE))),
        ("no four clusters in three zones", (1, 3), (4, 4), Err(SelectError::Together(vec![ZONE]))),
    ] {
        let got = selected(fleet, &[(ZONE, zones)], clusters, Need::DontCare);
        let got = got.map(|names| names.into_iter().collect::<BTreeSet<_>>());
        let want = want.map(|names| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn errors_name_the_fields() {
    for (error, want) in [
        (SelectError::TooFewGroups(REGION), "the number of feasible region is less than spreadConstraint.MinGroups"),
        (
            SelectError::TooFewGroups(Topology::Label("example.com/rack".into())),
            "the number of feasible label example.com/rack is less than spreadConstraint.MinGroups",
        ),
        (
            SelectError::Together(vec![PROVIDER, ZONE]),
            "no clusters satisfy the spread constraints by provider, zone and cluster together",
        ),
    ] {
        assert_eq!(error.to_string(), want);
    }
}

/// A fleet that no search satisfies: the budget ends it.
#[test]
fn a_large_fleet_stays_within_the_budget() {
    let all: Vec<_> = (0..300)
        .map(|i| {
            let (region, zone) = (format!("r{}", i % 30), format!("z{}", (i * 7) % 41));
            cluster(&format!("m{i:03}"), 0, 1 + i % 5, &[&[&region], &[&zone]])
        })
        .collect();
    let bounds = |min, max| Bounds { min, max };
    let by = by(&[(REGION, (10, 12)), (ZONE, (20, 25))]);
    let clusters = bounds(20, 40);
    let select = |need| {
        let rule = Spread::Groups { by: by.clone(), clusters, replicas: 10 };
        Ok(spread::select(all.clone(), &rule, need)?.selected)
    };
    let found = select(Need::DontCare).unwrap();
    assert!(keeps(&found, &by, clusters, Need::DontCare), "{found:?}");
    assert!(matches!(select(Need::Replicas(201)), Err(SelectError::InsufficientCapacity { .. })));
}

/// Returns whether all bounds hold.
fn keeps(chosen: &[Candidate], by: &[Grouping], clusters: Bounds, need: Need) -> bool {
    let within = |n: usize, bounds: Bounds| bounds.min <= n && n <= bounds.max;
    let groups = |i: usize| chosen.iter().flat_map(|c| &c.groups[i]).collect::<BTreeSet<_>>().len();
    let available: i64 = chosen.iter().map(Candidate::available).sum();
    within(chosen.len(), clusters)
        && by.iter().enumerate().all(|(i, grouping)| within(groups(i), grouping.bounds))
        && match need {
            Need::DontCare => true,
            Need::Replicas(need) => available >= need,
        }
}

fn subsets(all: &[Candidate]) -> impl Iterator<Item = Vec<Candidate>> {
    (0..1_usize << all.len()).map(|set| {
        all.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0).map(|(_, candidate)| candidate.clone()).collect()
    })
}

fn bounds(most: usize) -> impl Strategy<Value = Bounds> {
    (1..=most, 0..=most)
        .prop_map(move |(min, more)| Bounds { min, max: if more == most { usize::MAX } else { min + more } })
}

fn fleet() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0_i64..3, 0_i64..6, 0..3_usize, prop::collection::btree_set(0..4_usize, 1..3), 0..2_usize);
    prop::collection::vec(one, 1..8).prop_map(|rows| {
        let row = |(i, (score, available, region, zones, label)): (usize, (_, _, usize, BTreeSet<usize>, usize))| {
            let zones = zones.iter().map(|zone| zone.to_string().as_str().into()).collect();
            let single = |value: usize| vec![value.to_string().as_str().into()];
            let groups = vec![single(region), zones, single(label)];
            Candidate { groups, ..candidate(&format!("m{i}"), score * 100, available) }
        };
        let mut all: Vec<_> = rows.into_iter().enumerate().map(row).collect();
        Candidate::sort(&mut all);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A selection is found exactly if there is one, and it keeps the bounds of everything that is named.
    #[test]
    fn bounds_of_all_fields_hold(
        all in fleet(), region in bounds(3), zone in bounds(4), label in bounds(2), named in 1_usize..8,
        clusters in bounds(5), need in prop::option::of(0_i64..20),
    ) {
        let fields = [(REGION, region), (ZONE, zone), (Topology::Label("l".into()), label)];
        let is_named = |i: &usize| named & (1 << i) != 0;
        let by: Vec<_> = (0..3).filter(is_named)
            .map(|i| Grouping { topology: fields[i].0.clone(), bounds: fields[i].1 }).collect();
        let all: Vec<_> = all.into_iter().map(|c| {
            let groups = (0..3).filter(is_named).map(|i| c.groups[i].clone()).collect();
            Candidate { groups, ..c }
        }).collect();
        let need = need.map_or(Need::DontCare, Need::Replicas);
        let required = by.iter().map(|grouping| grouping.bounds.min).max().unwrap_or(0);
        let wider = Bounds { max: clusters.max.max(required), ..clusters };
        let possible = |clusters, need| subsets(&all).any(|set| keeps(&set, &by, clusters, need));
        let rule = Spread::Groups { by: by.clone(), clusters, replicas: 10 };
        let fits = possible(clusters, Need::DontCare);
        let exact = if fits { clusters } else { wider };
        let exists = possible(exact, need);
        let lacks_capacity = !exists && possible(exact, Need::DontCare);
        match spread::select(all, &rule, need) {
            Ok(found) => prop_assert!(exists && keeps(&found.selected, &by, exact, need), "{:?}", found.selected),
            Err(SelectError::InsufficientCapacity { .. }) => prop_assert!(lacks_capacity),
            Err(error) => prop_assert!(!exists && !lacks_capacity, "{error}"),
        }
    }

    /// Where the search among combinations decides on regions alone, it selects as many clusters within the same
    /// bounds as the selection by region does, and fails where that fails.
    #[test]
    fn regions_alone_agree_with_the_search(all in fleet(), region in bounds(3), clusters in bounds(5)) {
        let all: Vec<_> = all.into_iter().map(|c| Candidate { groups: vec![c.groups[0].clone()], ..c }).collect();
        let by = [Grouping { topology: REGION, bounds: region }];
        let fleet = Fleet::of(&all, 1);
        let alone = crate::topology::select(&fleet, &by, clusters, 10, Need::DontCare);
        let searched = select(&fleet, &by, clusters, Need::DontCare, &[]);
        prop_assert_eq!(alone.is_ok(), searched.is_ok(), "{:?} {:?}", alone, searched);
    }
}
