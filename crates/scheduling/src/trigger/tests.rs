use ironclad_api::{
    Time,
    policy::{Placement, WorkloadAffinity},
    work::{BindingSuspension, Component, ResourceBinding},
};

use super::*;
use crate::{
    Available, Capacity, Since,
    testkit::{affinity, at, clusters, duplicated, dynamic, group, scheduled, settled, toleration, weighted},
};
use ironclad_fleet::Clusters;

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
