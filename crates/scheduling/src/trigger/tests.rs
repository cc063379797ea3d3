use ironclad_api::{
    Time,
    policy::{Placement, WorkloadAffinity},
    work::{BindingSuspension, Component, ResourceBinding},
};

use super::*;
use crate::{
    Available, Capacity,
    testkit::{
        affinity, at, binding, cluster, clusters, duplicated, dynamic, group, overflow, scheduled, toleration, weighted,
    },
};
use ironclad_fleet::Clusters;

fn applied(binding: &mut ResourceBinding, placement: &Placement) {
    let text = serde_json::to_string(placement).unwrap();
    binding.metadata.annotations = Some([(APPLIED_PLACEMENT.to_owned(), text)].into());
}

/// Binding whose result was made for its placement.
fn settled(placement: Placement, replicas: i32, result: &[(&str, i32)]) -> ResourceBinding {
    let mut binding = binding("web", replicas, result);
    applied(&mut binding, &placement);
    binding.spec.placement = Some(placement.into());
    let status = binding.status.get_or_insert_default();
    status.conditions = vec![scheduled("True", "Success", 1)];
    status.last_scheduled_time = Some(Time(at(10)));
    binding
}

fn decision_of(binding: &ResourceBinding, clusters: &Clusters, options: &Options) -> ScheduleDecision {
    schedule_decision(&Seen {
        binding: binding.into(),
        clusters,
        available: &Available::new(),
        capacity: &Capacity::default(),
        options,
        since: Since::default(),
        preempting: None,
        peers: None,
        index: None,
    })
}

#[test]
fn first_applicable_row_decides() {
    let options = Options::default();
    let fleet = clusters(&["m1", "m2"]);
    let even = || settled(weighted(&[]), 4, &[("m1", 2), ("m2", 2)]);
    let rows: Vec<(&str, ResourceBinding, ScheduleDecision)> = vec![
        ("a divided result that adds up is up to date", even(), ScheduleDecision::UpToDate),
        (
            "being deleted",
            {
                let mut b = even();
                b.metadata.deletion_timestamp = Some(Time(at(1)));
                b
            },
            ScheduleDecision::Skip(Reason::BeingDeleted),
        ),
        (
            "no placement",
            {
                let mut b = even();
                b.spec.placement = None;
                b
            },
            ScheduleDecision::Skip(Reason::NoPlacement),
        ),
        (
            "the placement changed",
            {
                let mut b = even();
                b.spec.placement = Some(dynamic().into());
                b
            },
            ScheduleDecision::Schedule(Reason::PlacementChanged),
        ),
        (
            "the sum does not fit the replicas",
            settled(weighted(&[]), 5, &[("m1", 2), ("m2", 2)]),
            ScheduleDecision::Schedule(Reason::ReplicasChanged),
        ),
        (
            "fresh, asked for after the last scheduling",
            {
                let mut b = even();
                b.spec.reschedule_triggered_at = Some(Time(at(11)));
                b
            },
            ScheduleDecision::Schedule(Reason::RescheduleRequested),
        ),
        (
            "fresh, asked for within the second of the last scheduling",
            {
                let mut b = even();
                b.spec.reschedule_triggered_at = Some(Time(at(10)));
                b
            },
            ScheduleDecision::Schedule(Reason::RescheduleRequested),
        ),
        (
            "fresh, but scheduled since",
            {
                let mut b = even();
                b.spec.reschedule_triggered_at = Some(Time(at(9)));
                b
            },
            ScheduleDecision::UpToDate,
        ),
        (
            "fresh, but never scheduled",
            {
                let mut b = even();
                b.spec.reschedule_triggered_at = Some(Time(at(9)));
                b.status.as_mut().unwrap().last_scheduled_time = None;
                b
            },
            ScheduleDecision::UpToDate,
        ),
        (
            "no workload follows the fleet",
            settled(weighted(&[]), 0, &[("m1", 0)]),
            ScheduleDecision::Schedule(Reason::FollowsFleet),
        ),
        (
            "Duplicated follows the fleet",
            settled(duplicated(), 2, &[("m1", 2)]),
            ScheduleDecision::Schedule(Reason::FollowsFleet),
        ),
        (
            "a target is deleted",
            settled(weighted(&[]), 4, &[("m1", 2), ("m9", 2)]),
            ScheduleDecision::Schedule(Reason::TargetLeaving { cluster: "m9".into() }),
        ),
        (
            "suspended",
            {
                let mut b = settled(duplicated(), 2, &[]);
                b.spec.suspension = Some(BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() });
                b
            },
            ScheduleDecision::Skip(Reason::Suspended),
        ),
        (
            "another scheduler",
            {
                let mut b = even();
                b.spec.scheduler_name = "theirs".into();
                b
            },
            ScheduleDecision::Skip(Reason::NotResponsible { scheduler: "theirs".into() }),
        ),
        (
            "it has no owner",
            {
                let mut b = even();
                b.metadata.labels = None;
                b
            },
            ScheduleDecision::Skip(Reason::Unmanaged),
        ),
    ];
    for (name, binding, want) in rows {
        assert_eq!(decision_of(&binding, &fleet, &options), want, "{name}");
    }
    let mut leaving = clusters(&["m1", "m2"]);
    Arc::make_mut(leaving.get_mut(&"m2".into()).unwrap()).metadata.deletion_timestamp = Some(Time(at(1)));
    let want = ScheduleDecision::Schedule(Reason::TargetLeaving { cluster: "m2".into() });
    assert_eq!(decision_of(&even(), &leaving, &options), want, "a target is being deleted");
}

#[test]
fn failed_attempt_without_result_is_scheduled_again() {
    let mut binding = settled(weighted(&[]), 0, &[]);
    binding.spec.replica_requirements = Some(ironclad_api::work::ReplicaRequirements::default().into());
    let fleet = clusters(&["m1"]);
    assert_eq!(decision_of(&binding, &fleet, &Options::default()), ScheduleDecision::UpToDate);
    binding.status.as_mut().unwrap().conditions = vec![scheduled("False", "NoClusterFit", 1)];
    assert_eq!(
        decision_of(&binding, &fleet, &Options::default()),
        ScheduleDecision::Schedule(Reason::LastAttemptFailed)
    );
}

#[test]
fn drifted_targets_are_followed_only_with_the_option() {
    let mut placement = weighted(&[]);
    placement.cluster_affinity = Some(affinity(&["m1"]));
    let binding = settled(placement, 4, &[("m1", 2), ("m2", 2)]);
    let fleet = clusters(&["m1", "m2"]);
    let on = Options { follow_drift: true, ..Options::default() };
    assert_eq!(decision_of(&binding, &fleet, &Options::default()), ScheduleDecision::UpToDate);
    assert_eq!(
        decision_of(&binding, &fleet, &on),
        ScheduleDecision::Schedule(Reason::TargetDrifted { cluster: "m2".into() })
    );
}

#[test]
fn placement_changes() {
    let text = |placement: &Placement| serde_json::to_string(placement).unwrap();
    let of = |names: &[(&str, &str)]| Placement {
        cluster_affinities: names.iter().map(|(name, cluster)| group(name, &[cluster])).collect(),
        ..Placement::default()
    };
    for (name, old, new, observed, want) in [
        ("the observed group was edited", of(&[("a", "1")]), of(&[("a", "2")]), "a", true),
        ("the observed group is deleted", of(&[("a", "1")]), of(&[("b", "1")]), "a", true),
        ("all groups are deleted", of(&[("a", "1")]), of(&[]), "a", true),
        ("one was put before it", of(&[("a", "1")]), of(&[("b", "1"), ("a", "1")]), "a", false),
        ("another one was edited", of(&[("a", "1"), ("b", "1")]), of(&[("a", "1"), ("b", "2")]), "a", false),
        ("another one is deleted", of(&[("a", "1"), ("b", "1")]), of(&[("a", "1")]), "a", false),
        ("none was observed yet", of(&[("a", "1")]), of(&[("a", "1"), ("b", "1")]), "", true),
        ("equal", of(&[("a", "1")]), of(&[("a", "1")]), "", false),
        ("strategy", duplicated(), weighted(&[]), "", true),
        (
            "tolerations",
            duplicated(),
            Placement { cluster_tolerations: vec![toleration("k", "Exists", "")], ..Placement::default() },
            "",
            true,
        ),
        (
            "affinity",
            duplicated(),
            Placement { cluster_affinity: Some(affinity(&["m1"])), ..Placement::default() },
            "",
            true,
        ),
        (
            "the workload affinity alone moves nothing of an observed group",
            of(&[("a", "1")]),
            Placement { workload_affinity: Some(WorkloadAffinity::default()), ..of(&[("a", "1")]) },
            "a",
            false,
        ),
    ] {
        assert_eq!(placement_changed(&new, &text(&old), observed), want, "{name}");
    }
    assert!(placement_changed(&duplicated(), "", ""), "never scheduled");
    assert!(placement_changed(&duplicated(), "{", ""), "unreadable");
}

#[test]
fn replica_changes() {
    let fleet = clusters(&["m1", "m2"]);
    let explicit = |kind| {
        let mut placement = weighted(&[]);
        placement.replica_scheduling.as_mut().unwrap().replica_scheduling_type = Some(kind);
        placement
    };
    let (copied, shared) = (explicit(ReplicaSchedulingType::Duplicated), explicit(ReplicaSchedulingType::Divided));
    for (name, placement, replicas, result, want) in [
        ("no strategy", duplicated(), 3, &[("m1", 2)][..], false),
        ("Duplicated: one differs", copied.clone(), 3, &[("m1", 3), ("m2", 2)], true),
        ("Duplicated: all equal", copied.clone(), 3, &[("m1", 3), ("m2", 3)], false),
        ("Duplicated: no target", copied, 3, &[], false),
        ("Divided: the sum differs", shared.clone(), 3, &[("m1", 1), ("m2", 1)], true),
        ("Divided: the sum is right", shared.clone(), 3, &[("m1", 1), ("m2", 2)], false),
        ("Divided: no target", shared, 3, &[], true),
    ] {
        let binding = settled(placement.clone(), replicas, result);
        let options = Options::default();
        let seen = Seen {
            binding: (&binding).into(),
            clusters: &fleet,
            available: &Available::new(),
            capacity: &Capacity::default(),
            options: &options,
            since: Since::default(),
            preempting: None,
            peers: None,
            index: None,
        };
        assert_eq!(replicas_changed(&seen, &placement), want, "{name}");
    }
}

#[test]
fn changes_of_components() {
    let fleet = clusters(&["m1"]);
    let mut placement = duplicated();
    placement.spread_constraints = vec![crate::testkit::spread(ironclad_api::policy::SpreadByField::Cluster, 1, 1)];
    let mut binding = settled(placement.clone(), 0, &[("m1", 0)]);
    let component = |name: &str, replicas| Component { name: name.into(), replicas, replica_requirements: None };
    binding.spec.components = vec![component("jobmanager", 1), component("taskmanager", 4)];
    let changed = |binding: &ResourceBinding, gate| {
        let options = Options { component_scheduling: gate, ..Options::default() };
        let seen = Seen {
            binding: binding.into(),
            clusters: &fleet,
            available: &Available::new(),
            capacity: &Capacity::default(),
            options: &options,
            since: Since::default(),
            preempting: None,
            peers: None,
            index: None,
        };
        replicas_changed(&seen, &placement)
    };
    assert!(!changed(&binding, false), "the gate is off");
    assert!(changed(&binding, true), "the target has no components yet");
    binding.spec.clusters[0].components = component_targets(&binding.spec);
    assert!(!changed(&binding, true));
    binding.spec.components[1].replicas = 5;
    assert!(changed(&binding, true), "a component was scaled");
    binding.spec.clusters.clear();
    assert!(changed(&binding, true), "no target");
}

#[test]
fn cluster_changes_enqueue_bindings() {
    let old = cluster("m1");
    let with = |change: &dyn Fn(&mut Cluster)| {
        let mut new = old.clone();
        change(&mut new);
        wakes(Some(&old), Some(&new))
    };
    let condition = |type_: &str| conditions::condition(type_, "True", "R", "");
    assert_eq!(wakes(None, Some(&old)), Wakes::Concerned, "it joined");
    assert_eq!(wakes(Some(&old), None), Wakes::Concerned, "it is deleted");
    assert_eq!(with(&|_| {}), Wakes::Nobody);
    assert_eq!(with(&|c| c.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into())), Wakes::Concerned);
    assert_eq!(with(&|c| c.metadata.generation = Some(2)), Wakes::Concerned, "taints are in the spec");
    assert_eq!(with(&|c| c.metadata.deletion_timestamp = Some(Time(at(1)))), Wakes::Concerned);
    assert_eq!(
        with(&|c| c.metadata.annotations = Some([(DRAINING.to_owned(), "now".to_owned())].into())),
        Wakes::Nobody
    );
    let mut drained = old.clone();
    drained.metadata.annotations = Some([(DRAINING.to_owned(), "now".to_owned())].into());
    assert_eq!(wakes(Some(&drained), Some(&old)), Wakes::Concerned, "what was drained may come back");
    assert_eq!(with(&|c| c.metadata.resource_version = Some("9".into())), Wakes::Nobody);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().api_enablements.clear()), Wakes::Concerned);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().conditions.push(condition(READY))), Wakes::Unsettled);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().conditions.push(condition("Other"))), Wakes::Nobody);
    assert_eq!(with(&|c| c.status.as_mut().unwrap().kubernetes_version = "v1".into()), Wakes::Nobody);
}

#[test]
fn api_that_a_member_gets_counts_for_bindings_that_do_not_run_there() {
    let with = |kinds: &[&str], complete: &str| -> Cluster {
        let mut cluster = cluster("m2");
        let status = cluster.status.as_mut().unwrap();
        let resources: Vec<_> = kinds.iter().map(|kind| serde_json::json!({"name": "x", "kind": kind})).collect();
        let groups = serde_json::json!([{"groupVersion": "apps/v1", "resources": resources}]);
        status.api_enablements = serde_json::from_value(groups).unwrap();
        status.conditions = vec![conditions::condition(COMPLETE_API_ENABLEMENTS, complete, "R", "")];
        cluster
    };
    let without = with(&["StatefulSet"], "True");
    let (serves, unknown) = (with(&["StatefulSet", "Deployment"], "True"), with(&["StatefulSet"], "False"));
    let elsewhere = settled(weighted(&[]), 4, &[("m1", 4)]);
    let there = settled(weighted(&[]), 4, &[("m1", 2), ("m2", 2)]);
    for (name, binding, old, new, want) in [
        ("it got the kind", &elsewhere, Some(&without), Some(&serves), true),
        ("it had the kind", &elsewhere, Some(&serves), Some(&serves), false),
        ("another kind", &elsewhere, Some(&with(&[], "True")), Some(&without), false),
        ("its kinds were not known", &elsewhere, Some(&unknown), Some(&serves), false),
        ("it joined", &elsewhere, None, Some(&serves), false),
        ("it is a target", &there, Some(&without), Some(&serves), false),
    ] {
        let found = since(binding.into(), old, new);
        assert_eq!(found, Since { api_appeared: want, relabelled: false }, "{name}");
    }
}

#[test]
fn changed_labels_count_for_bindings_in_a_later_group() {
    let labelled = |value: &str| {
        let mut cluster = cluster("m1");
        cluster.metadata.labels = Some([("tier".to_owned(), value.to_owned())].into());
        cluster
    };
    let in_group = |name: &str| {
        let groups = vec![group("p", &["m1"]), group("b", &["m2"])];
        let mut binding = settled(Placement { cluster_affinities: groups, ..duplicated() }, 2, &[("m2", 2)]);
        binding.status.get_or_insert_default().scheduler_observed_affinity_name = name.to_owned();
        binding
    };
    let (gold, iron) = (labelled("gold"), labelled("iron"));
    for (name, binding, old, new, want) in [
        ("other labels", in_group("b"), Some(&gold), Some(&iron), true),
        ("the same labels", in_group("b"), Some(&gold), Some(&gold), false),
        ("it joined", in_group("b"), None, Some(&gold), false),
        ("in the first group", in_group("p"), Some(&gold), Some(&iron), false),
        ("without groups", settled(duplicated(), 2, &[("m2", 2)]), Some(&gold), Some(&iron), false),
    ] {
        let found = since((&binding).into(), old, new);
        assert_eq!(found, Since { api_appeared: false, relabelled: want }, "{name}");
    }
    let both = Since { api_appeared: true, relabelled: true };
    let (one, other) = (Since { relabelled: false, ..both }, Since { api_appeared: false, ..both });
    assert_eq!((one.and(other), one.and(Since::default())), (both, one));
}

#[test]
fn cluster_concerns_its_targets_and_selected_bindings() {
    let options = Options::default();
    let of = |placement: Placement, observed: &str| {
        let mut binding = settled(placement, 1, &[]);
        binding.status.as_mut().unwrap().scheduler_observed_affinity_name = observed.into();
        binding.status.as_mut().unwrap().scheduler_observed_generation = 1;
        binding
    };
    let affine = |names: &[&str]| Placement { cluster_affinity: Some(affinity(names)), ..Placement::default() };
    let mut tiered = group("a", &["m1"]);
    tiered.overflow_affinities = vec![overflow("o", &["m3"])];
    let groups = Placement { cluster_affinities: vec![tiered, group("b", &["m2"])], ..Placement::default() };
    for (name, binding, cluster_name, want) in [
        ("no affinity", of(duplicated(), ""), "m1", true),
        ("chosen", of(affine(&["m1"]), ""), "m1", true),
        ("not chosen", of(affine(&["m1"]), ""), "m2", false),
        ("the first group where none is observed", of(groups.clone(), ""), "m1", true),
        ("a group that is not in use", of(groups.clone(), "b"), "m1", false),
        ("the group in use", of(groups.clone(), "b"), "m2", true),
        ("an overflow tier of the group in use", of(groups.clone(), "a"), "m3", true),
    ] {
        assert_eq!(concerns((&binding).into(), &cluster(cluster_name), &options), want, "{name}");
    }
    let mut lagging = of(groups, "b");
    lagging.metadata.generation = Some(2);
    assert!(concerns((&lagging).into(), &cluster("m1"), &options), "the status may lag");
    let mut target = of(affine(&["m1"]), "");
    target.spec.clusters = crate::testkit::targets(&[("m2", 1)]);
    assert!(concerns((&target).into(), &cluster("m2"), &options), "a target, chosen or not");
    target.spec.placement = None;
    assert!(!concerns((&target).into(), &cluster("m2"), &options), "no placement");
}

#[test]
fn changes_of_a_cluster_that_may_help_who_waits() {
    let with = |change: &dyn Fn(&mut ironclad_api::cluster::Cluster)| {
        let mut cluster = cluster("m1");
        change(&mut cluster);
        cluster
    };
    let plain = || with(&|_| {});
    let labelled = |key: &str| {
        let labels = Some([(key.to_owned(), "yes".to_owned())].into());
        with(&move |cluster| cluster.metadata.labels.clone_from(&labels))
    };
    let tainted = || with(&|cluster| cluster.spec.taints = vec![crate::testkit::taint("down", "", "NoSchedule")]);
    let in_region = |region: &str| {
        let region = region.to_owned();
        with(&move |cluster| cluster.spec.region.clone_from(&region))
    };
    let leaving = || with(&|cluster| cluster.metadata.deletion_timestamp = Some(Time(at(1))));
    let without_api = || with(&|cluster| cluster.status.as_mut().unwrap().api_enablements.clear());
    let selects = |key: &str| {
        let labels = serde_json::json!({"labelSelector": {"matchLabels": {key: "yes"}}});
        Placement { cluster_affinity: serde_json::from_value(labels).unwrap(), ..dynamic() }
    };
    let groups = Placement { cluster_affinities: vec![group("a", &["m9"]), group("b", &["m1"])], ..dynamic() };
    for (name, placement, old, new, want) in [
        ("a label that nobody asks for", dynamic(), plain(), labelled("x"), false),
        ("a label that is asked for", selects("x"), plain(), labelled("x"), true),
        ("another label while it fits", selects("x"), labelled("x"), labelled("x"), false),
        ("the label is gone", selects("x"), labelled("x"), plain(), false),
        ("a taint is removed", dynamic(), tainted(), plain(), true),
        ("a taint is added", dynamic(), plain(), tainted(), false),
        ("its API appears", dynamic(), without_api(), plain(), true),
        ("it moves to another region", dynamic(), in_region("a"), in_region("b"), true),
        ("it leaves", dynamic(), plain(), leaving(), false),
        ("a later affinity group", groups, tainted(), plain(), true),
    ] {
        let mut waiting = binding("web", 2, &[]);
        waiting.spec.placement = Some(placement.into());
        let help = |old, new| may_help((&waiting).into(), old, new, &Options::default(), at(0));
        assert_eq!(help(Some(&old), Some(&new)), want, "{name}");
        assert!(!help(Some(&new), None), "{name}: a cluster that is gone helps nobody");
    }
    let mut waiting = binding("web", 2, &[]);
    waiting.spec.placement = Some(dynamic().into());
    assert!(may_help((&waiting).into(), None, Some(&plain()), &Options::default(), at(0)), "a new cluster");
}
