use std::sync::Arc;

use ironclad_api::{
    conditions::TRUE,
    policy::{
        ClusterAffinity, DecisionConditions, FailoverBehavior, Placement, SpreadByField, SpreadConstraint,
        StatePreservation, StatePreservationRule,
    },
    work::{
        AggregatedStatusItem, ClusterResourceBinding, ResourceBinding,
        ResourceHealth::{Healthy, Unhealthy, Unknown},
        TargetCluster, WorkloadAffinityGroups,
    },
};
use proptest::prelude::*;

use super::*;
use crate::testkit::{apis, at, cluster, line, owned, ready, spec, task as eviction_task};

/// Binding of a Deployment on these clusters, with application failover after 300 s and `minGroups` 1.
fn binding(result: &[(&str, i32)], status: Vec<AggregatedStatusItem>) -> ResourceBinding {
    let mut spec = spec(result, vec![]);
    (spec.resource.api_version, spec.resource.kind) = ("apps/v1".into(), "Thing".into());
    spec.propagate_deps = true;
    spec.placement = Some(
        Placement {
            spread_constraints: vec![SpreadConstraint {
                spread_by_field: Some(SpreadByField::Cluster),
                min_groups: 1,
                ..SpreadConstraint::default()
            }],
            ..Placement::default()
        }
        .into(),
    );
    let decision_conditions = DecisionConditions { toleration_seconds: Some(300) };
    spec.failover = Some(
        FailoverBehavior {
            application: Some(ApplicationFailoverBehavior { decision_conditions, ..Default::default() }),
            cluster: None,
        }
        .into(),
    );
    let mut binding = ResourceBinding::new("web-deployment", spec);
    binding.metadata.namespace = Some("default".into());
    binding.metadata.uid = Some("uid".into());
    binding.metadata.labels = Some(owned());
    binding.status.get_or_insert_default().aggregated_status = status;
    binding
}

fn application(binding: &mut ResourceBinding) -> &mut ApplicationFailoverBehavior {
    binding.spec.failover.as_mut().unwrap().application.as_mut().unwrap()
}

fn fleet(names: &[&str]) -> Clusters {
    let one = |name: &&str| {
        let mut cluster = cluster(name);
        ready(&mut cluster, TRUE, 0);
        cluster.status.get_or_insert_default().api_enablements = apis(&["apps/v1"]).into();
        (ClusterName::from(*name), Arc::new(cluster))
    };
    names.iter().map(one).collect()
}

fn reconcile(binding: &ResourceBinding, clusters: &Clusters, memory: &Memory, now: Duration) -> Decision {
    reconcile_with(binding, clusters, memory, now, Check::Strict)
}

fn reconcile_with(
    binding: &ResourceBinding,
    clusters: &Clusters,
    memory: &Memory,
    now: Duration,
    check: Check,
) -> Decision {
    let bound = Binding::from(Arc::new(binding.clone()));
    let seen = Seen {
        binding: &bound,
        health_is_judged: true,
        clusters,
        paused: false,
        check,
        scheduler: &Options::default(),
        peers: None,
        state_injection: true,
        memory,
        began: at(0),
        asked: None,
        asked_at: None,
    };
    decide(&seen, moment(now))
}

/// Time after this duration; the process started at second 0 of both clocks.
fn moment(mono: Duration) -> Now {
    Now { wall: at(0).checked_add(mono).unwrap(), mono }
}

/// Eviction tasks that a decision writes, and the clusters that remain in the schedule result.
fn written(decision: &Decision) -> Option<(Vec<GracefulEvictionTask>, Vec<String>)> {
    decision.plan.effects.iter().find_map(|effect| match effect {
        Effect::Depart { patch } => {
            let tasks = serde_json::from_value(patch["spec"]["gracefulEvictionTasks"].clone()).unwrap();
            let left: Option<Vec<TargetCluster>> = serde_json::from_value(patch["spec"]["clusters"].clone()).unwrap();
            Some((tasks, left.unwrap_or_default().into_iter().map(|t| t.name).collect()))
        }
        Effect::Event(_) => None,
    })
}

fn left(decision: &Decision) -> Vec<String> {
    written(decision).map(|(tasks, _)| tasks.into_iter().map(|t| t.from_cluster).collect()).unwrap_or_default()
}

fn events(decision: &Decision) -> Vec<&'static str> {
    let event = |effect: &Effect| match effect {
        Effect::Event(event) => Some(event.reason),
        Effect::Depart { .. } => None,
    };
    decision.plan.effects.iter().filter_map(event).collect()
}

const S: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn copies_unhealthy_for_longer_than_tolerated_are_evicted() {
    let two = fleet(&["m1", "m2"]);
    let ill = || vec![line("m1", Unhealthy, 0)];
    /// Reports of health, with their seconds.
    type Story = &'static [(u64, ResourceHealth)];
    let rows: [(&str, i32, Story, u64, bool); 9] = [
        ("exactly the toleration is not longer than the toleration", 300, &[(0, Unhealthy)], 300, false),
        ("longer than the toleration (B57)", 300, &[(0, Unhealthy)], 301, true),
        (
            "a healthy report restarts the toleration (B58)",
            300,
            &[(0, Unhealthy), (299, Healthy), (300, Unhealthy)],
            599,
            false,
        ),
        ("the restarted toleration ends", 300, &[(0, Unhealthy), (299, Healthy), (300, Unhealthy)], 601, true),
        (
            "an unknown report restarts the toleration",
            300,
            &[(0, Unhealthy), (200, Unknown), (250, Unhealthy)],
            400,
            false,
        ),
        (
            "repeated unhealthy reports do not restart the toleration",
            300,
            &[(0, Unhealthy), (100, Unhealthy), (299, Unhealthy)],
            301,
            true,
        ),
        ("a toleration of 0 s evicts at once", 0, &[], 0, true),
        ("a negative toleration is 0 s", -5, &[], 0, true),
        ("the first unhealthy report starts the toleration", 300, &[], 10_000, false),
    ];
    for (name, seconds, story, now, want) in rows {
        let mut memory = Memory::default();
        for (at, health) in story {
            memory = reconcile(&binding(&[("m1", 1)], vec![line("m1", *health, 0)]), &two, &memory, S(*at)).memory;
        }
        let mut binding = binding(&[("m1", 1)], ill());
        application(&mut binding).decision_conditions.toleration_seconds = Some(seconds);
        let decision = reconcile(&binding, &two, &memory, S(now));
        assert_eq!(left(&decision) == ["m1"], want, "{name}");
    }
    let first = reconcile(&binding(&[("m1", 1)], ill()), &two, &Memory::default(), S(7));
    assert_eq!(first.next, Next::After(S(300) + TICK), "requeued when the toleration is exceeded");
    let later = reconcile(&binding(&[("m1", 1)], ill()), &two, &first.memory, S(107));
    assert_eq!(later.next, Next::After(S(200) + TICK));
    assert_eq!(later.memory, first.memory, "the start is remembered, not the end");
}

#[test]
fn clusters_that_no_longer_count_are_forgotten() {
    let all = fleet(&["m1", "m2", "m3"]);
    let ill = binding(&[("m1", 1), ("m2", 1)], vec![line("m1", Unhealthy, 0), line("m2", Unhealthy, 0)]);
    let memory = reconcile(&ill, &all, &Memory::default(), S(0)).memory;
    let clusters = |memory: &Memory| memory.since.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(clusters(&memory), ["m1", "m2"]);
    let after = |change: &dyn Fn(&mut ResourceBinding)| {
        let mut binding = ill.clone();
        change(&mut binding);
        reconcile(&binding, &all, &memory, S(10)).memory
    };
    for (name, memory, want) in [
        ("the cluster left the schedule result", after(&|b| b.spec.clusters.retain(|t| t.name != "m1")), &["m2"][..]),
        (
            "the copy is healthy",
            after(&|b| b.status.as_mut().unwrap().aggregated_status[0].health = Some(Healthy)),
            &["m2"],
        ),
        (
            "the cluster has an eviction task",
            after(&|b| b.spec.graceful_eviction_tasks = vec![eviction_task("m1")]),
            &["m2"],
        ),
        (
            "a missing status item changes nothing",
            after(&|b| drop(b.status.as_mut().unwrap().aggregated_status.remove(0))),
            &["m1", "m2"],
        ),
        ("the status is removed", after(&|b| b.status = None), &[]),
        ("failover is removed from the spec", after(&|b| b.spec.failover = None), &[]),
        (
            "the binding is being deleted",
            after(&|b| b.metadata.deletion_timestamp = Some(ironclad_api::Time(jiff::Timestamp::UNIX_EPOCH))),
            &[],
        ),
    ] {
        assert_eq!(clusters(&memory), want, "{name}");
    }
    let anew = after(&|b| b.metadata.uid = Some("another".into()));
    assert_eq!(
        anew.since.values().collect::<Vec<_>>(),
        [&SignedDuration::from_secs(10); 2],
        "a recreated binding starts its own toleration"
    );
    let bound = Binding::from(Arc::new(ill));
    let seen = Seen {
        binding: &bound,
        health_is_judged: false,
        clusters: &all,
        paused: false,
        check: Check::Strict,
        scheduler: &Options::default(),
        peers: None,
        state_injection: false,
        memory: &memory,
        began: at(0),
        asked: None,
        asked_at: None,
    };
    assert!(decide(&seen, moment(S(10))).memory.is_empty(), "no interpreter reports health of its kind");
}

#[test]
fn toleration_continues_after_a_restart() {
    let two = fleet(&["m1", "m2"]);
    let ill = |turned: Option<i64>| {
        let line = AggregatedStatusItem {
            health_transition_time: turned.map(|second| ironclad_api::Time(at(second))),
            ..line("m1", Unhealthy, 0)
        };
        binding(&[("m1", 1)], vec![line])
    };
    // The process started at second 0 and reconciles first five seconds later.
    for (name, turned, left_after, wait) in [
        ("unhealthy since long before the restart: evicted at once", Some(-400), true, None),
        ("within the toleration: the remaining time, rounded up", Some(-100), false, Some(196)),
        ("one second too short, because stored times are truncated", Some(-296), false, Some(0)),
        ("with that second", Some(-297), true, None),
        ("no stored time: the toleration starts anew", None, false, Some(300)),
        ("unhealthy after the start: the observed time counts", Some(2), false, Some(300)),
        ("stored time is in the future: the toleration starts anew", Some(9_000), false, Some(300)),
    ] {
        let decision = reconcile(&ill(turned), &two, &Memory::default(), S(5));
        assert_eq!(left(&decision) == ["m1"], left_after, "{name}");
        assert_eq!(decision.next, wait.map_or(Next::OnEvent, |wait| Next::After(S(wait) + TICK)), "{name}");
        let again = reconcile(&ill(turned), &two, &decision.memory, S(6));
        assert_eq!(again.memory, decision.memory, "{name}: the remembered start does not change");
    }
}

#[test]
fn time_before_failover_was_configured_does_not_count() {
    let two = fleet(&["m1", "m2"]);
    let line = |turned: i64| AggregatedStatusItem {
        health_transition_time: Some(ironclad_api::Time(at(turned))),
        ..line("m1", Unhealthy, 0)
    };
    // The process started at second 0; unhealthy since `turned`, failover configured at `asked`, toleration 300 s.
    for (name, turned, asked, now, left_after, wait) in [
        ("unhealthy for long, configured just now: the whole toleration", -9_000, Some(1_000), 1_000, false, Some(300)),
        ("exactly the toleration", -9_000, Some(1_000), 1_300, false, Some(0)),
        ("longer than the toleration", -9_000, Some(1_000), 1_301, true, None),
        ("unhealthy after it was configured: since it became unhealthy", 1_100, Some(1_000), 1_200, false, Some(300)),
        ("configured before the start: since it became unhealthy (IR-15)", -9_000, None, 1_000, true, None),
    ] {
        let bound = Binding::from(Arc::new(binding(&[("m1", 1)], vec![line(turned)])));
        let seen = Seen {
            binding: &bound,
            health_is_judged: true,
            clusters: &two,
            paused: false,
            check: Check::Strict,
            scheduler: &Options::default(),
            peers: None,
            state_injection: true,
            memory: &Memory::default(),
            began: at(0),
            asked: asked.map(S),
            asked_at: None,
        };
        let decision = decide(&seen, moment(S(now)));
        assert_eq!(left(&decision) == ["m1"], left_after, "{name}");
        assert_eq!(decision.next, wait.map_or(Next::OnEvent, |wait| Next::After(S(wait) + TICK)), "{name}");
    }
}

#[test]
fn time_of_configuration_survives_a_restart() {
    let two = fleet(&["m1", "m2"]);
    let line = |turned: i64| AggregatedStatusItem {
        health_transition_time: Some(ironclad_api::Time(at(turned))),
        ..line("m1", Unhealthy, 0)
    };
    // The process started at second 0 and reconciles first at `now`. Stored times are truncated: one second is added.
    for (name, turned, asked_at, now, left_after, wait) in [
        ("unhealthy for long, configured shortly before the restart", -9_000, Some(-100), 0, false, Some(201)),
        ("exactly the toleration", -9_000, Some(-100), 201, false, Some(0)),
        ("longer than the toleration", -9_000, Some(-100), 202, true, None),
        ("unhealthy after it was configured: since it became unhealthy", -50, Some(-100), 0, false, Some(251)),
        ("configured when the binding was created: since it became unhealthy (IR-15)", -9_000, None, 0, true, None),
        ("stored time is in the future: the toleration starts now", -9_000, Some(500), 0, false, Some(300)),
    ] {
        let bound = Binding::from(Arc::new(binding(&[("m1", 1)], vec![line(turned)])));
        let seen = Seen {
            binding: &bound,
            health_is_judged: true,
            clusters: &two,
            paused: false,
            check: Check::Strict,
            scheduler: &Options::default(),
            peers: None,
            state_injection: true,
            memory: &Memory::default(),
            began: at(0),
            asked: None,
            asked_at: asked_at.map(at),
        };
        let decision = decide(&seen, moment(S(now)));
        assert_eq!(left(&decision) == ["m1"], left_after, "{name}");
        assert_eq!(decision.next, wait.map_or(Next::OnEvent, |wait| Next::After(S(wait) + TICK)), "{name}");
    }
}

#[test]
fn each_purge_mode_determines_the_eviction_task() {
    let two = fleet(&["m1", "m2"]);
    for (name, mode, grace, want) in [
        (
            "Gracefully with a grace period",
            Some(PurgeMode::Gracefully),
            Some(60),
            (PurgeMode::Gracefully, Some(60), None),
        ),
        (
            "Gracefully with the default grace period",
            Some(PurgeMode::Gracefully),
            None,
            (PurgeMode::Gracefully, Some(600), None),
        ),
        ("unset is Gracefully (B57)", None, None, (PurgeMode::Gracefully, Some(600), None)),
        ("Directly (B61)", Some(PurgeMode::Directly), None, (PurgeMode::Directly, None, None)),
        ("Never (B60)", Some(PurgeMode::Never), None, (PurgeMode::Never, None, Some(true))),
    ] {
        let mut binding = binding(&[("m1", 2)], vec![line("m1", Unhealthy, 0)]);
        let behaviour = application(&mut binding);
        (behaviour.purge_mode, behaviour.grace_period_seconds) = (mode, grace);
        behaviour.decision_conditions.toleration_seconds = Some(0);
        let decision = reconcile(&binding, &two, &Memory::default(), S(0));
        let (tasks, stay) = written(&decision).unwrap();
        let task = &tasks[0];
        assert_eq!((task.purge_mode.unwrap(), task.grace_period_seconds, task.suppress_deletion), want, "{name}");
        assert_eq!((task.reason.as_str(), task.replicas, stay.len()), ("ApplicationFailure", Some(2), 0), "{name}");
        assert_eq!(task.producer, "resource-binding-application-failover-controller", "{name}");
        assert_eq!(events(&decision), ["EvictWorkloadFromClusterSucceed"; 2], "on the binding and on the template");
        assert!(task.clusters_before_failover.is_empty(), "without preserved state, clustersBeforeFailover is empty");
    }
    let namespaced = binding(&[("m1", 1)], vec![line("m1", Unhealthy, 0)]);
    let mut of_cluster = ClusterResourceBinding::new("role", namespaced.spec.clone());
    of_cluster.status = namespaced.status.clone();
    of_cluster.metadata.labels = Some(owned());
    let behaviour = of_cluster.spec.failover.as_mut().unwrap().application.as_mut().unwrap();
    behaviour.decision_conditions.toleration_seconds = Some(0);
    let bound = Binding::from(Arc::new(of_cluster));
    let seen = Seen {
        binding: &bound,
        health_is_judged: true,
        clusters: &two,
        paused: false,
        check: Check::Strict,
        scheduler: &Options::default(),
        peers: None,
        state_injection: false,
        memory: &Memory::default(),
        began: at(0),
        asked: None,
        asked_at: None,
    };
    let (tasks, _) = written(&decide(&seen, moment(S(0)))).unwrap();
    assert_eq!(tasks[0].producer, "cluster-resource-binding-application-failover-controller");
    let mut old = namespaced;
    (old.spec.propagate_deps, application(&mut old).decision_conditions.toleration_seconds) = (false, Some(0));
    let decision = reconcile(&old, &two, &Memory::default(), S(0));
    assert_eq!(left(&decision), ["m1"], "a binding without propagateDeps is evicted too (IR-14)");
    assert_eq!(events(&decision).last(), Some(&"DependenciesNotPropagated"));
}

#[test]
fn last_copies_are_evicted_only_if_another_cluster_can_replace_them() {
    let ill = |result: &[(&str, i32)], min: i64| {
        let mut binding = binding(result, result.iter().map(|(name, _)| line(name, Unhealthy, 0)).collect());
        application(&mut binding).decision_conditions.toleration_seconds = Some(0);
        binding.spec.placement.as_mut().unwrap().spread_constraints[0].min_groups = min;
        binding
    };
    let only = |names: &[&str]| ClusterAffinity {
        cluster_names: names.iter().map(|n| (*n).to_owned()).collect(),
        ..ClusterAffinity::default()
    };
    let all = fleet(&["m1", "m2", "m3"]);
    for (name, result, min, affinity, want, skipped) in [
        ("another candidate exists", &[("m1", 1)][..], 1, &["m1", "m2"][..], &["m1"][..], 0),
        ("no other candidate: not evicted", &[("m1", 1)], 1, &["m1"], &[], 1),
        (
            "both unhealthy, one candidate replaces both",
            &[("m1", 1), ("m2", 1)],
            1,
            &["m1", "m2", "m3"],
            &["m1", "m2"],
            0,
        ),
        (
            "both unhealthy, two needed: one is evicted, one stays",
            &[("m1", 1), ("m2", 1)],
            2,
            &["m1", "m2", "m3"],
            &["m1"],
            1,
        ),
        ("both unhealthy, no candidate", &[("m1", 1), ("m2", 1)], 1, &["m1", "m2"], &["m1"], 1),
    ] {
        let mut binding = ill(result, min);
        binding.spec.placement.as_mut().unwrap().cluster_affinity = Some(only(affinity));
        let decision = reconcile(&binding, &all, &Memory::default(), S(0));
        assert_eq!(left(&decision), want, "{name}");
        let reported = events(&decision).iter().filter(|reason| **reason == "ApplicationFailoverSkipped").count();
        assert_eq!(reported, 2 * skipped, "on template and binding: {name}");
        assert_eq!(decision.next == Next::After(NO_SUBSTITUTE_RECHECK), skipped > 0, "{name}");
    }
    let mut barred = ill(&[("m1", 1)], 1);
    barred.spec.placement.as_mut().unwrap().cluster_affinity = Some(only(&["m1", "m2"]));
    barred.spec.graceful_eviction_tasks =
        vec![GracefulEvictionTask { reason: APPLICATION_FAILURE.into(), ..eviction_task("m2") }];
    assert!(
        left(&reconcile(&barred, &all, &Memory::default(), S(0))).is_empty(),
        "m2 has a task of application failover: it is no candidate"
    );
    let mut partly = ill(&[("m1", 1), ("m2", 1)], 1);
    partly.spec.placement.as_mut().unwrap().cluster_affinity = Some(only(&["m1", "m2"]));
    partly.status.as_mut().unwrap().aggregated_status[1].health = Some(Healthy);
    assert_eq!(
        left(&reconcile(&partly, &all, &Memory::default(), S(0))),
        ["m1"],
        "a healthy copy remains: no check (5.3)"
    );
}

#[test]
fn last_copies_stay_without_a_replacement_for_every_check() {
    let with = |result: &[(&str, i32)], unhealthy: &[&str], min: i64, change: &dyn Fn(&mut ResourceBinding)| {
        let health = |name: &str| if unhealthy.contains(&name) { Unhealthy } else { Healthy };
        let mut binding = binding(result, result.iter().map(|(name, _)| line(name, health(name), 0)).collect());
        application(&mut binding).decision_conditions.toleration_seconds = Some(0);
        binding.spec.placement.as_mut().unwrap().spread_constraints[0].min_groups = min;
        change(&mut binding);
        binding
    };
    let divided = |binding: &mut ResourceBinding| {
        let placement = binding.spec.placement.as_mut().unwrap();
        placement.spread_constraints.clear();
        placement.replica_scheduling = Some(ironclad_api::policy::ReplicaSchedulingStrategy {
            replica_scheduling_type: Some(ironclad_api::policy::ReplicaSchedulingType::Divided),
            ..Default::default()
        });
    };
    let everywhere = |binding: &mut ResourceBinding| {
        binding.spec.placement.as_mut().unwrap().spread_constraints.clear();
    };
    let unowned = |binding: &mut ResourceBinding| binding.metadata.labels = None;
    let none = |_: &mut ResourceBinding| {};
    let (two, three) = (fleet(&["m2", "m3"]), fleet(&["m1", "m2", "m3"]));
    use Check::{Off, Relaxed, Strict};
    type Row<'a> = (&'a str, ResourceBinding, &'a Clusters, [(Check, &'a [&'a str]); 3]);
    let rows: [Row<'_>; 5] = [
        (
            "divided over all clusters, unhealthy in both: one stays",
            with(&[("m2", 1), ("m3", 1)], &["m2", "m3"], 1, &divided),
            &two,
            [(Strict, &[]), (Relaxed, &["m2"]), (Off, &["m2"])],
        ),
        (
            "two of three unhealthy, minGroups 3: none is evicted (invariant 19)",
            with(&[("m1", 1), ("m2", 1), ("m3", 1)], &["m1", "m2"], 3, &none),
            &three,
            [(Strict, &[]), (Relaxed, &[]), (Off, &["m1", "m2"])],
        ),
        (
            "two of three unhealthy, minGroups 1",
            with(&[("m1", 1), ("m2", 1), ("m3", 1)], &["m1", "m2"], 1, &none),
            &three,
            [(Strict, &["m1", "m2"]), (Relaxed, &["m1", "m2"]), (Off, &["m1", "m2"])],
        ),
        (
            "duplicated to all clusters without a constraint: both are evicted",
            with(&[("m1", 1), ("m2", 1), ("m3", 1)], &["m1"], 1, &everywhere),
            &three,
            [(Strict, &["m1"]), (Relaxed, &["m1"]), (Off, &["m1"])],
        ),
        (
            "its policy was deleted: it would not be scheduled",
            with(&[("m1", 1)], &["m1"], 1, &unowned),
            &three,
            [(Strict, &[]), (Relaxed, &[]), (Off, &[])],
        ),
    ];
    for (name, binding, clusters, wants) in rows {
        for (check, want) in wants {
            let decision = reconcile_with(&binding, clusters, &Memory::default(), S(0), check);
            assert_eq!(left(&decision), want, "{name}, {}", check.as_str());
        }
    }
}

#[test]
fn nothing_is_evicted_if_state_cannot_be_preserved() {
    let two = fleet(&["m1", "m2"]);
    let with = |path: &str| {
        let mut binding = binding(&[("m1", 2)], vec![line("m1", Unhealthy, 7)]);
        let behaviour = application(&mut binding);
        behaviour.decision_conditions.toleration_seconds = Some(0);
        behaviour.purge_mode = Some(PurgeMode::Directly);
        let rule = StatePreservationRule { alias_label_name: "ready".into(), json_path: path.into() };
        behaviour.state_preservation = Some(StatePreservation { rules: vec![rule] });
        binding
    };
    let (tasks, _) = written(&reconcile(&with("{.readyReplicas}"), &two, &Memory::default(), S(0))).unwrap();
    assert_eq!(tasks[0].preserved_label_state, [("ready".to_owned(), "7".to_owned())].into());
    assert_eq!(tasks[0].clusters_before_failover, ["m1"]);
    let lost = reconcile(&with("{.nope}"), &two, &Memory::default(), S(0));
    assert_eq!((written(&lost), lost.next), (None, Next::Backoff), "tried again");
    assert_eq!(events(&lost), ["EvictWorkloadFromClusterFailed"; 2]);
    assert!(!lost.memory.is_empty(), "its toleration continues");
    let bound = Binding::from(Arc::new(with("{.nope}")));
    let seen = Seen {
        binding: &bound,
        health_is_judged: true,
        clusters: &two,
        paused: false,
        check: Check::Strict,
        scheduler: &Options::default(),
        peers: None,
        state_injection: false,
        memory: &Memory::default(),
        began: at(0),
        asked: None,
        asked_at: None,
    };
    let (tasks, _) = written(&decide(&seen, moment(S(0)))).unwrap();
    assert!(tasks[0].preserved_label_state.is_empty(), "with the feature gate off no state is read");
}

/// Two workloads of an affinity group in one cluster.
#[test]
fn members_of_a_group_that_are_unhealthy_together_leave_together() {
    let member = |name: &str, health| {
        let mut member = binding(&[("m1", 1)], vec![line("m1", health, 0)]);
        member.metadata.name = Some(name.into());
        member.spec.workload_affinity_groups =
            Some(WorkloadAffinityGroups { affinity_group: "g".into(), ..WorkloadAffinityGroups::default() });
        application(&mut member).decision_conditions.toleration_seconds = Some(60);
        member
    };
    let two = fleet(&["m1", "m2"]);
    let memory = Memory { uid: "uid".into(), since: [("m1".into(), SignedDuration::ZERO)].into() };
    for (name, other, seconds, want) in [
        ("both are due", Unhealthy, 61, vec!["m1"]),
        ("neither is due", Unhealthy, 59, vec![]),
        ("the other one is healthy", Healthy, 61, vec![]),
    ] {
        let (one, other) = (member("one", Unhealthy), member("other", other));
        let peers = Peers::of([&one, &other]);
        let (one, other) = (Binding::from(Arc::new(one)), Binding::from(Arc::new(other)));
        let options = Options::default();
        let seen = |binding, peers| Seen {
            binding,
            health_is_judged: true,
            clusters: &two,
            paused: false,
            check: Check::Strict,
            scheduler: &options,
            peers,
            state_injection: false,
            memory: &memory,
            began: at(0),
            asked: None,
            asked_at: None,
        };
        let now = moment(S(seconds));
        let gone = leaving(&seen(&other, Some(&peers)), now);
        let staying = peers.without(&one.key(), |_| gone.iter().map(|cluster| cluster.0.clone()).collect());
        assert_eq!(left(&decide(&seen(&one, Some(&staying)), now)), want, "{name}");
    }
}

proptest! {
    /// No eviction happens before its toleration, evicts a healthy copy, or is written twice.
    #[test]
    fn only_unhealthy_copies_are_evicted_after_their_toleration(
        story in prop::collection::vec((1_u64..200, prop::collection::vec(prop::sample::select(vec![Healthy, Unhealthy, Unhealthy, Unknown]), 3)), 1..12),
        seconds in 0_i32..400,
    ) {
        let (names, all) = (["m1", "m2", "m3"], fleet(&["m1", "m2", "m3", "m4"]));
        let mut binding = binding(&[("m1", 1), ("m2", 1), ("m3", 1)], vec![]);
        application(&mut binding).decision_conditions.toleration_seconds = Some(seconds);
        let (mut memory, mut now) = (Memory::default(), Duration::ZERO);
        let mut since: BTreeMap<&str, Duration> = BTreeMap::new();
        for (step, healths) in story {
            now += S(step);
            binding.status.as_mut().unwrap().aggregated_status =
                names.iter().zip(&healths).map(|(name, health)| line(name, *health, 0)).collect();
            for (name, health) in names.iter().zip(&healths) {
                if *health == Unhealthy { since.entry(name).or_insert(now); } else { since.remove(name); }
            }
            let decision = reconcile(&binding, &all, &memory, now);
            for name in left(&decision).iter().filter(|name| binding.spec.eviction(name).is_none()) {
                let lasted = since.get(name.as_str()).map(|at| now - *at);
                prop_assert!(lasted.is_some_and(|lasted| lasted > S(seconds as u64) || seconds == 0), "{name} was evicted after {lasted:?}");
            }
            if let Some((tasks, stay)) = written(&decision) {
                binding.spec.graceful_eviction_tasks = tasks;
                binding.spec.clusters.retain(|t| stay.contains(&t.name));
                let again = reconcile(&binding, &all, &decision.memory, now);
                prop_assert!(written(&again).is_none(), "{again:?}");
            }
            memory = decision.memory;
        }
    }
}

/// A pause holds what is due; with its end it leaves at once.
#[test]
fn a_pause_of_evictions_holds_unhealthy_workloads() {
    let two = fleet(&["m1", "m2"]);
    let ill = binding(&[("m1", 1)], vec![line("m1", Unhealthy, 0)]);
    let bound = Binding::from(Arc::new(ill.clone()));
    let memory = reconcile(&ill, &two, &Memory::default(), S(0)).memory;
    let seen = Seen {
        binding: &bound,
        health_is_judged: true,
        clusters: &two,
        paused: true,
        check: Check::Strict,
        scheduler: &Options::default(),
        peers: None,
        state_injection: true,
        memory: &memory,
        began: at(0),
        asked: None,
        asked_at: None,
    };
    let early = decide(&seen, moment(S(299)));
    assert_eq!((events(&early), early.memory), (vec![], memory.clone()), "it is not due");
    let held = decide(&seen, moment(S(400)));
    assert_eq!((left(&held), held.next, held.memory), (vec![], Next::OnEvent, memory.clone()));
    assert_eq!(held.plan.because.len(), 1);
    let resumed = decide(&Seen { paused: false, memory: &memory, ..seen }, moment(S(401)));
    assert_eq!(left(&resumed), ["m1"]);
}

/// Events about what stays and about what leaves are recorded on the binding and on its template.
#[test]
fn every_event_is_told_on_template_and_binding() {
    let two = fleet(&["m1", "m2"]);
    let ill = binding(&[("m1", 1)], vec![line("m1", Unhealthy, 0)]);
    let mut without_state = ill.clone();
    application(&mut without_state).state_preservation = Some(StatePreservation {
        rules: vec![StatePreservationRule { alias_label_name: "a".into(), json_path: "{.none}".into() }],
    });
    let mut without_deps = ill.clone();
    without_deps.spec.propagate_deps = false;
    for (name, binding, clusters, paused, reasons) in [
        ("it leaves", &ill, &two, false, &[EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED][..]),
        ("no substitute", &ill, &fleet(&["m1"]), false, &[APPLICATION_FAILOVER_SKIPPED]),
        ("paused", &ill, &two, true, &[APPLICATION_FAILOVER_SKIPPED]),
        ("unreadable state", &without_state, &two, false, &[EVICT_WORKLOAD_FROM_CLUSTER_FAILED]),
        (
            "dependencies stay",
            &without_deps,
            &two,
            false,
            &[EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, DEPENDENCIES_NOT_PROPAGATED],
        ),
    ] {
        let bound = Binding::from(Arc::new(binding.clone()));
        let memory = reconcile(binding, clusters, &Memory::default(), S(0)).memory;
        let seen = Seen {
            binding: &bound,
            health_is_judged: true,
            clusters,
            paused,
            check: Check::Strict,
            scheduler: &Options::default(),
            peers: None,
            state_injection: true,
            memory: &memory,
            began: at(0),
            asked: None,
            asked_at: None,
        };
        let decision = decide(&seen, moment(S(400)));
        let told = |about: &ironclad_api::work::ObjectReference| -> Vec<&'static str> {
            let event = |effect: &Effect| match effect {
                Effect::Event(event) if event.about == *about => Some(event.reason),
                _ => None,
            };
            decision.plan.effects.iter().filter_map(event).collect()
        };
        for about in [bound.reference(), bound.spec().resource.clone()] {
            assert_eq!(told(&about), reasons, "{name}: {about:?}");
        }
    }
}
