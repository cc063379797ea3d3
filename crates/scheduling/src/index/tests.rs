//! Decisions with and without the index, on random fleets and placements.

use ironclad_api::{
    LabelSelector, LabelSelectorRequirement, NodeSelectorRequirement, Time,
    policy::{ClusterAffinityTerm, FieldSelector, OverflowClusterAffinity, Placement, SpreadByField, SpreadConstraint},
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Available, Capacity, Decision, Options, Seen, Since,
    capacity::Modelling,
    decide,
    testkit::{
        aggregated, applied, at, binding, duplicated, dynamic, failover, taint, targets, task, toleration, weighted,
        without_clusters,
    },
};
use ironclad_api::{
    eviction::{BINDING_PREEMPTED, TAINT_UNTOLERATED},
    work::ResourceBinding,
};
use ironclad_fleet::{Because, because::schedule::Reason};

const NAMES: [&str; 9] = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"];

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(values).prop_map(str::to_owned)
}

fn few(values: &'static [&'static str], at_most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(one_of(values), 0..=at_most)
}

/// A cluster with random properties; many lack some of them.
fn clusters() -> impl Strategy<Value = Cluster> {
    let labels = prop::collection::btree_map(one_of(&["tier", "disk"]), one_of(&["a", "b", ""]), 0..3);
    let fields = (one_of(&["", "eu", "us"]), one_of(&["", "acme"]), few(&["z1", "z2", "z3"], 2), one_of(&["", "z1"]));
    let taints = prop::collection::vec(
        (one_of(&["k", "l"]), one_of(&["", "v"]), one_of(&[NO_SCHEDULE, NO_EXECUTE, PREFER_NO_EXECUTE]), 0_i64..200),
        0..2,
    );
    let rest = (prop::bool::weighted(0.1), prop::bool::weighted(0.85), 0_i64..6, any::<bool>());
    (labels, fields, taints, rest).prop_map(|(labels, (region, provider, zones, zone), taints, rest)| {
        let (is_leaving, serves, cpu, models) = rest;
        let mut cluster = crate::testkit::cluster("");
        cluster.metadata.labels = Some(labels);
        cluster.metadata.deletion_timestamp = is_leaving.then(|| Time(at(5)));
        let spec = &mut cluster.spec;
        (spec.region, spec.provider, spec.zones, spec.zone) = (region, provider, zones, zone);
        let taint = |(key, value, effect, added): (String, String, String, i64)| Taint {
            time_added: (added > 50).then(|| Time(at(added))),
            ..taint(&key, &value, &effect)
        };
        spec.taints = taints.into_iter().map(taint).collect();
        if models {
            spec.resource_models =
                serde_json::from_value(json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]}]))
                    .unwrap();
        }
        let status = cluster.status.as_mut().unwrap();
        if !serves {
            status.api_enablements.clear();
        }
        let summary = json!({"allocatable": {"cpu": cpu.to_string(), "pods": "9"},
            "allocatableModelings": [{"grade": 0, "count": cpu}]});
        status.resource_summary = serde_json::from_value(summary).unwrap();
        cluster
    })
}

fn affinities() -> impl Strategy<Value = ClusterAffinity> {
    let operator = || one_of(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Near"]);
    let by_label = (
        prop::collection::btree_map(one_of(&["tier", "disk", "none"]), one_of(&["a", "b"]), 0..2),
        prop::collection::vec((one_of(&["tier", "disk", "none"]), operator(), few(&["a", "b", ""], 2)), 0..2),
    );
    let by_field = prop::collection::vec(
        (one_of(&["zone", "region", "provider", "flavour"]), operator(), few(&["z1", "z2", "eu", "us", "acme", ""], 2)),
        0..2,
    );
    let labels = prop::option::weighted(0.4, by_label);
    let fields = prop::option::weighted(0.3, by_field);
    (few(&["m0", "m1", "m2", "m3", "m4", "gone"], 4), few(&["m1", "m5"], 1), labels, fields).prop_map(
        |(names, exclude, labels, fields)| ClusterAffinity {
            cluster_names: if names.len() > 2 { names } else { Vec::new() },
            exclude,
            label_selector: labels.map(|(equal, expressions)| {
                let requirement = |(key, operator, values): (String, String, Vec<String>)| {
                    let values = if ["Exists", "DoesNotExist"].contains(&&*operator) { Vec::new() } else { values };
                    LabelSelectorRequirement { key, operator, values: Some(values) }
                };
                let expressions = expressions.into_iter().map(requirement).collect();
                LabelSelector { match_labels: Some(equal), match_expressions: Some(expressions) }
            }),
            field_selector: fields.map(|fields| {
                let requirement =
                    |(key, operator, values)| NodeSelectorRequirement { key, operator, values: Some(values) };
                FieldSelector { match_expressions: fields.into_iter().map(requirement).collect() }
            }),
        },
    )
}

fn placements() -> impl Strategy<Value = Placement> {
    let strategy = prop_oneof![
        Just(duplicated()),
        Just(dynamic()),
        Just(aggregated()),
        Just(weighted(&[("m1", 2), ("m3", 1)])),
        Just(weighted(&[("m1", 0), ("m3", 0)])),
    ];
    let tier = || affinities().prop_map(|affinity| OverflowClusterAffinity { affinity_name: "t".into(), affinity });
    let group = (affinities(), prop::collection::vec(tier(), 0..2));
    let groups = prop::collection::vec(group, 0..3);
    let fields = [SpreadByField::Cluster, SpreadByField::Region, SpreadByField::Zone, SpreadByField::Provider];
    let field = prop::option::weighted(0.9, prop::sample::select(fields.to_vec()));
    let spreads = prop::collection::vec((field, 0_i64..3, 0_i64..4), 0..3);
    let tolerated = prop::collection::vec((one_of(&["k", "l", ""]), one_of(&["", NO_EXECUTE, NO_SCHEDULE])), 0..2);
    (strategy, prop::option::of(affinities()), groups, spreads, tolerated).prop_map(
        |(placement, own, groups, spreads, tolerated)| {
            let group = |(at, (affinity, overflow_affinities)): (usize, (_, _))| ClusterAffinityTerm {
                affinity_name: format!("g{at}"),
                affinity,
                overflow_affinities,
            };
            let spread = |(field, min_groups, max_groups): (Option<SpreadByField>, _, _)| SpreadConstraint {
                spread_by_label: if field.is_none() { "tier".into() } else { String::new() },
                spread_by_field: field,
                min_groups,
                max_groups,
            };
            Placement {
                cluster_affinity: own,
                cluster_affinities: groups.into_iter().enumerate().map(group).collect(),
                spread_constraints: spreads.into_iter().map(spread).collect(),
                cluster_tolerations: tolerated.iter().map(|(key, effect)| toleration(key, "Exists", effect)).collect(),
                ..placement
            }
        },
    )
}

fn bindings() -> impl Strategy<Value = ResourceBinding> {
    let previous = prop::collection::btree_map(0..NAMES.len(), 0_i32..4, 0..4);
    let tasks =
        prop::collection::vec((0..NAMES.len(), prop::sample::select(vec![BINDING_PREEMPTED, TAINT_UNTOLERATED])), 0..2);
    (placements(), 0_i32..12, previous, tasks, any::<bool>(), prop::option::of(0_i64..3)).prop_map(
        |(placement, replicas, previous, tasks, opted_in, cpu)| {
            let mut binding = binding("web", replicas, &[]);
            let previous: Vec<_> = previous.into_iter().map(|(at, n)| (NAMES[at], n)).collect();
            let spec = &mut binding.spec;
            spec.placement = Some(placement.into());
            spec.clusters = targets(&previous);
            spec.graceful_eviction_tasks = tasks.iter().map(|(at, reason)| task(NAMES[*at], reason, Some(2))).collect();
            spec.graceful_eviction_tasks.retain(|task| !previous.iter().any(|(name, _)| *name == task.from_cluster));
            spec.failover = opted_in.then(|| failover().into());
            let request = |cpu| serde_json::from_value(json!({"resourceRequest": {"cpu": cpu}})).unwrap();
            spec.replica_requirements = cpu.map(|cpu| request(cpu.to_string()));
            binding
        },
    )
}

/// Decides with the index, or without it.
fn decision(
    binding: &ResourceBinding,
    fleet: &Clusters,
    capacity: &Capacity,
    index: Option<&Index>,
    options: &Options,
) -> Decision {
    let available = Available::new();
    decide(
        &Seen {
            binding: binding.into(),
            clusters: fleet,
            available: &available,
            capacity,
            options,
            since: Since::default(),
            preempting: None,
            peers: None,
            index,
        },
        at(100),
    )
}

fn named(mut cluster: Cluster, name: &str) -> Arc<Cluster> {
    cluster.metadata.name = Some(name.to_owned());
    Arc::new(cluster)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 256 } else { 2_000 }))]

    /// The fleet changes between decisions, so that the index and the remembered estimates have a past.
    #[test]
    fn decisions_with_the_index_are_those_without_it(
        steps in prop::collection::vec((0..NAMES.len(), prop::option::weighted(0.9, clusters())), 1..24),
        pending in prop::collection::vec(bindings(), 1..4),
        protected: bool,
    ) {
        let options = Options { overcommit_protection: protected, ..Options::default() };
        let (mut fleet, mut index) = (Clusters::new(), Index::default());
        let mut capacity = Capacity::of(&fleet, Modelling::On);
        for (turn, (on, new)) in steps.into_iter().enumerate() {
            let name = ClusterName::from(NAMES[on]);
            let new = new.map(|cluster| named(cluster, NAMES[on]));
            let old = match &new {
                Some(new) => fleet.insert(name.clone(), new.clone()),
                None => fleet.remove(&name),
            };
            index.update(&name, new.as_ref());
            capacity.cluster(&name, old.as_deref(), new.as_deref());
            let binding = &pending[turn % pending.len()];
            let slow = decision(binding, &fleet, &capacity, None, &options);
            let fast = decision(binding, &fleet, &capacity, Some(&index), &options);
            prop_assert_eq!(without_clusters(&slow), fast);
            if let Some(result) = slow.result() {
                capacity.assigned(binding.into(), result, &options, std::time::Duration::ZERO);
            }
        }
    }

    #[test]
    fn the_index_chooses_what_the_affinity_chooses(
        fleet in prop::collection::vec(clusters(), NAMES.len()), affinity in affinities(),
    ) {
        let fleet: Clusters =
            fleet.into_iter().zip(NAMES).map(|(cluster, name)| (name.into(), named(cluster, name))).collect();
        let index = Index::of(&fleet);
        let mut chosen = Numbers::default();
        index.add_chosen(&affinity, &mut chosen);
        let chosen: Vec<&str> = chosen.iter().filter_map(|n| index.entry(n)).map(|entry| &*entry.name.0).collect();
        let want: Vec<&str> = fleet
            .iter()
            .filter(|(_, cluster)| ironclad_fleet::affinity::chooses(&affinity, cluster))
            .map(|(name, _)| &*name.0)
            .collect();
        prop_assert_eq!(chosen, want);
    }

    /// The trace of a decision: each cluster is refused or fits, and the targets are those of the result.
    #[test]
    fn traces_tell_what_was_decided(fleet in prop::collection::vec(clusters(), NAMES.len()), pending in bindings()) {
        let mut pending = pending;
        // One group, so that no cluster is tried twice.
        let placement = pending.spec.placement.as_mut().unwrap();
        placement.cluster_affinities.truncate(1);
        let fleet: Clusters =
            fleet.into_iter().zip(NAMES).map(|(cluster, name)| (name.into(), named(cluster, name))).collect();
        let capacity = Capacity::of(&fleet, Modelling::On);
        let decision = decision(&pending, &fleet, &capacity, None, &Options::default());
        prop_assume!(decision.schedule_type.is_some());
        let mut reasons: Vec<&Reason> = Vec::new();
        for because in &decision.plan.because {
            if let Because::Schedule(reason) = because {
                reasons.push(reason);
            }
        }
        let mut tried: Vec<&ClusterName> = reasons
            .iter()
            .filter_map(|reason| match reason {
                Reason::ClusterLeaving { cluster } | Reason::Refused { cluster, .. } | Reason::Fits { cluster, .. } => Some(cluster),
                _ => None,
            })
            .collect();
        tried.sort();
        prop_assert_eq!(tried, fleet.keys().collect::<Vec<_>>(), "each cluster once");
        let targets: Vec<(&str, i32)> = reasons
            .iter()
            .filter_map(|reason| match reason {
                Reason::Target { cluster, replicas, .. } => Some((&*cluster.0, *replicas)),
                _ => None,
            })
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect();
        let after = applied(&pending, &decision);
        if decision.failure.is_none() {
            let result: Vec<(&str, i32)> = after.spec.clusters.iter().map(|t| (t.name.as_str(), t.replicas)).collect();
            prop_assert_eq!(targets, result);
        } else {
            prop_assert!(targets.is_empty(), "nothing is placed by an attempt that failed");
        }
    }
}

#[test]
fn an_index_of_a_fleet_that_left_holds_nothing() {
    let mut cluster = crate::testkit::cluster("m1");
    cluster.metadata.labels = Some([("tier".to_owned(), "gold".to_owned())].into());
    cluster.spec.region = "eu".into();
    cluster.spec.zones = vec!["z1".into(), "z1".into()];
    cluster.spec.taints = vec![taint("k", "v", NO_SCHEDULE)];
    let (name, cluster) = (ClusterName::from("m1"), Arc::new(cluster));
    let mut index = Index::default();
    index.update(&name, Some(&cluster));
    index.update(&ClusterName::from("m2"), Some(&named((*cluster).clone(), "m2")));
    index.update(&name, None);
    index.update(&ClusterName::from("m2"), None);
    assert!(index.labels.is_empty() && index.kinds.is_empty() && index.taints.is_empty() && index.numbers.is_empty());
    assert!(index.zones.by_value.is_empty() && index.zones.any.is_empty() && index.tainted.is_empty());
    index.update(&name, Some(&cluster));
    assert_eq!(index.entries.len(), 2, "numbers are used again");
}
