mod absurd;
mod bounds;
mod property;

use ironclad_api::{
    Shared,
    eviction::{CLUSTER_DRAIN, TAINT_UNTOLERATED},
    labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    policy::{Placement, SpreadByField},
    taints::NO_SCHEDULE,
    work::{AggregatedStatusItem, ClusterResourceBinding, Component, ReplicaRequirements, ResourceBinding},
};

use super::*;
use crate::{
    Available, Capacity, Options, Since,
    capacity::Modelling,
    testkit::{
        affinity, aggregated, applied, at, binding, cluster, clusters, decide_both, decide_in, draining, duplicated,
        dynamic, group, lines, spread, taint, targets, task, weighted,
    },
};
use ironclad_fleet::Clusters;

fn placed(placement: Placement, replicas: i32) -> ResourceBinding {
    let mut binding = binding("web", replicas, &[]);
    binding.spec.placement = Some(placement.into());
    binding
}

fn plain(binding: &ResourceBinding, clusters: &Clusters, now: i64) -> Decision {
    decide_in(binding, clusters, &Available::new(), &Options::default(), now)
}

fn estimates(rows: &[(&str, i64)]) -> Available {
    rows.iter().map(|(name, replicas)| ((*name).into(), *replicas)).collect()
}

/// Clusters with these cores and 110 pods each, and their capacity.
fn with_cores(rows: &[(&str, &str)]) -> (Clusters, Capacity) {
    let mut fleet = Clusters::new();
    for (name, cpu) in rows {
        let mut cluster = cluster(name);
        let summary = serde_json::from_value(json!({"allocatable": {"cpu": cpu, "pods": "110"}})).unwrap();
        cluster.status.as_mut().unwrap().resource_summary = Some(summary);
        fleet.insert((*name).into(), cluster.into());
    }
    let capacity = Capacity::of(&fleet, Modelling::On);
    (fleet, capacity)
}

/// Sets the cpu request of each replica.
fn asking(mut binding: ResourceBinding, cpu: &str) -> ResourceBinding {
    let needs = serde_json::from_value(json!({"resourceRequest": {"cpu": cpu}})).unwrap();
    binding.spec.replica_requirements = Some(needs);
    binding
}

fn by_summary(binding: &ResourceBinding, fleet: &(Clusters, Capacity), available: &Available) -> Decision {
    let options = Options::default();
    let (clusters, capacity) = (&fleet.0, &fleet.1);
    decide(
        &Seen {
            binding: binding.into(),
            clusters,
            available,
            capacity,
            options: &options,
            since: Since::default(),
            preempting: None,
            peers: None,
            index: None,
        },
        at(1),
    )
}

fn result(binding: &ResourceBinding) -> Vec<(&str, i32)> {
    binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect()
}

fn condition(binding: &ResourceBinding) -> (&str, &str) {
    let condition = conditions::get(&binding.status.as_ref().unwrap().conditions, SCHEDULED).unwrap();
    (condition.reason.as_str(), condition.message.as_str())
}

/// Kind and message of the events that are written with `--success-events` only.
fn successes(binding: &ResourceBinding, decision: &Decision) -> Vec<(String, String)> {
    let events = success(binding.into(), &decision.plan.effects);
    events.into_iter().map(|event| (event.about.kind, event.message)).collect()
}

fn events(decision: &Decision) -> Vec<(&str, &str, &str)> {
    let mut events = Vec::new();
    for effect in &decision.plan.effects {
        if let Effect::Event(event) = effect {
            events.push((event.about.kind.as_str(), event.reason, event.message.as_str()));
        }
    }
    events
}

#[test]
fn cycle_writes_result_and_status_once() {
    let fleet = clusters(&["m1", "m2", "m3"]);
    let mut placement = duplicated();
    placement.cluster_affinity = Some(affinity(&["m1", "m3"]));
    let before = placed(placement, 2);
    let decision = plain(&before, &fleet, 100);
    assert_eq!(decision.schedule_type, Some(ScheduleType::Reconcile));
    assert_eq!(decision.next, Next::OnEvent);
    assert_eq!(decision.plan.effects.len(), 2, "result and status: {:?}", decision.plan.effects);
    assert_eq!(
        lines(&decision),
        [
            "the placement changed",
            "m2: cluster(s) did not match the placement cluster affinity constraint",
            "m1: passes the filters, score 0",
            "m3: passes the filters, score 0",
            "m1: chosen, replicas 2",
            "m3: chosen, replicas 2",
            "Binding has been scheduled successfully.",
        ]
    );
    let text = "Binding has been scheduled successfully. Result: {m1:2, m3:2}";
    let both = ["ResourceBinding", "Deployment"].map(|kind| (kind.to_owned(), text.to_owned()));
    assert_eq!(successes(&before, &decision), both, "with --success-events only");

    let after = applied(&before, &decision);
    assert_eq!(result(&after), [("m1", 2), ("m3", 2)]);
    assert_eq!(after.metadata.generation, Some(2));
    let status = after.status.clone().unwrap();
    assert_eq!(status.scheduler_observed_generation, 2, "the generation of our own patch");
    assert_eq!(status.last_scheduled_time, Some(Time(at(100))));
    assert_eq!(condition(&after), ("Success", SUCCEEDED));
    let annotation = after.metadata.annotations.clone().unwrap().remove(APPLIED_PLACEMENT).unwrap();
    assert_eq!(serde_json::from_str::<Shared<Placement>>(&annotation).ok(), after.spec.placement);

    let again = plain(&after, &fleet, 200);
    assert!(again.plan.is_quiet(), "{:?}", again.plan.effects);
    assert!(successes(&after, &again).is_empty());
}

#[test]
fn time_of_a_cycle_that_changed_nothing() {
    let fleet = clusters(&["m1"]);
    let before = placed(duplicated(), 2);
    let before = applied(&before, &plain(&before, &fleet, 100));
    for (name, relabelled, now, want) in [
        ("nothing happened", false, 200, None),
        ("labels changed", true, 200, Some(200)),
        ("in the same second", true, 100, None),
        ("before the last one, which answered a request", true, 99, None),
    ] {
        let (available, capacity, options) = (Available::new(), Capacity::default(), Options::default());
        let seen = Seen {
            binding: (&before).into(),
            clusters: &fleet,
            available: &available,
            capacity: &capacity,
            options: &options,
            since: Since { relabelled, ..Since::default() },
            preempting: None,
            peers: None,
            index: None,
        };
        let decision = decide_both(&seen, now);
        assert_eq!(decision.schedule_type, Some(ScheduleType::Reconcile), "{name}: a cycle");
        assert_eq!(decision.plan.is_quiet(), want.is_none(), "{name}: {:?}", decision.plan.effects);
        let status = applied(&before, &decision).status.unwrap();
        assert_eq!(status.last_scheduled_time, Some(Time(at(want.unwrap_or(100)))), "{name}");
    }
}

#[test]
fn changed_result_is_an_event_on_the_template() {
    let fleet = clusters(&["m1", "m2", "m3"]);
    let first = placed(duplicated(), 2);
    let mut moved = applied(&first, &plain(&first, &fleet, 100));
    let mut placement = duplicated();
    placement.cluster_affinity = Some(affinity(&["m3"]));
    moved.spec.placement = Some(placement.into());
    let decision = plain(&moved, &fleet, 200);
    let text = "Binding has been scheduled successfully. Result: {m3:2}";
    assert_eq!(events(&decision), [("Deployment", "ScheduleBindingSucceed", text)]);
    assert_eq!(successes(&moved, &decision), [("ResourceBinding".to_owned(), text.to_owned())]);
}

#[test]
fn observed_generation_follows_only_own_writes() {
    for (name, read, returned, want) in [
        ("our own patch alone", 3, 4, 4),
        ("a patch that changed no spec", 3, 3, 3),
        ("somebody else wrote in between", 3, 5, 3),
    ] {
        assert_eq!(observed_generation(read, returned), want, "{name}");
    }
}

#[test]
fn crash_between_writes_is_repaired_without_a_cycle() {
    let fleet = clusters(&["m1", "m2"]);
    let before = placed(weighted(&[]), 4);
    let mut decision = plain(&before, &fleet, 100);
    decision.plan.effects.truncate(1);
    let torn = applied(&before, &decision);
    assert_eq!((torn.metadata.generation, torn.status.as_ref()), (Some(2), None));
    let healing = plain(&torn, &fleet, 101);
    assert_eq!(healing.schedule_type, None, "no cycle");
    let after = applied(&torn, &healing);
    assert_eq!(after.status.as_ref().unwrap().scheduler_observed_generation, 2);
    assert_eq!(after.status.as_ref().unwrap().last_scheduled_time, Some(Time(at(101))));
    assert_eq!(condition(&after).0, "Success");
    assert!(plain(&after, &fleet, 102).plan.is_quiet());
}

#[test]
fn foreign_write_updates_only_the_observed_generation() {
    let fleet = clusters(&["m1", "m2"]);
    let before = placed(weighted(&[]), 4);
    let mut after = applied(&before, &plain(&before, &fleet, 100));
    after.metadata.generation = Some(9);
    let decision = plain(&after, &fleet, 300);
    let later = applied(&after, &decision);
    let status = later.status.unwrap();
    assert_eq!((status.scheduler_observed_generation, status.last_scheduled_time), (9, Some(Time(at(100)))));
    assert!(events(&decision).is_empty());
}

#[test]
fn divided_and_duplicated_results() {
    let fleet = clusters(&["m1", "m2", "m3"]);
    let named =
        |placement: Placement, names: &[&str]| Placement { cluster_affinity: Some(affinity(names)), ..placement };
    let rows: &[(&str, Placement, i32, &[(&str, i64)], &[(&str, i32)])] = &[
        ("Duplicated", duplicated(), 3, &[], &[("m1", 3), ("m2", 3), ("m3", 3)]),
        ("static weights", weighted(&[("m1", 3), ("m2", 2), ("m3", 1)]), 12, &[], &[("m1", 6), ("m2", 4), ("m3", 2)]),
        (
            "the largest weight of a cluster counts",
            weighted(&[("m1", 1), ("m1", 2), ("m2", 1)]),
            3,
            &[],
            &[("m1", 2), ("m2", 1)],
        ),
        ("a cluster without a weight gets nothing", weighted(&[("m1", 1)]), 2, &[], &[("m1", 2)]),
        ("nobody chosen has a weight", named(weighted(&[("m9", 1)]), &["m1", "m2"]), 2, &[], &[("m1", 1), ("m2", 1)]),
        ("no weights at all", weighted(&[]), 6, &[], &[("m1", 2), ("m2", 2), ("m3", 2)]),
        ("by capacity", dynamic(), 12, &[("m1", 6), ("m2", 12), ("m3", 18)], &[("m1", 2), ("m2", 4), ("m3", 6)]),
        ("aggregated", aggregated(), 12, &[("m1", 6), ("m2", 8), ("m3", 10)], &[("m2", 5), ("m3", 7)]),
        (
            "configuration goes everywhere, whatever the strategy",
            dynamic(),
            0,
            &[("m1", 0)],
            &[("m1", 0), ("m2", 0), ("m3", 0)],
        ),
    ];
    for (name, placement, replicas, available, want) in rows {
        let before = placed(placement.clone(), *replicas);
        let decision = decide_in(&before, &fleet, &estimates(available), &Options::default(), 1);
        assert_eq!(result(&applied(&before, &decision)), *want, "{name}");
    }
}

#[test]
fn summaries_limit_available_replicas() {
    let fleet = with_cores(&[("m1", "3"), ("m2", "6"), ("m3", "9")]);
    let spread_two = |placement: Placement| Placement {
        spread_constraints: vec![spread(SpreadByField::Cluster, 1, 2)],
        ..placement
    };
    let none = Available::new();
    let rows: &[(&str, Placement, i32, &[(&str, i64)], &[(&str, i32)])] = &[
        ("by capacity", dynamic(), 6, &[], &[("m1", 1), ("m2", 2), ("m3", 3)]),
        ("aggregated", aggregated(), 12, &[], &[("m2", 5), ("m3", 7)]),
        ("selected by capacity", spread_two(dynamic()), 15, &[], &[("m2", 6), ("m3", 9)]),
        ("the least of all estimates counts", dynamic(), 6, &[("m3", 0), ("m2", 100)], &[("m1", 2), ("m2", 4)]),
        ("fixed weights don't ask", weighted(&[]), 30, &[], &[("m1", 10), ("m2", 10), ("m3", 10)]),
        ("not even where they are spread", spread_two(weighted(&[])), 30, &[], &[("m1", 10), ("m2", 10), ("m3", 10)]),
        ("capacity for a whole copy is not needed", spread_two(duplicated()), 9, &[], &[("m2", 9), ("m3", 9)]),
        ("Duplicated doesn't ask", duplicated(), 7, &[], &[("m1", 7), ("m2", 7), ("m3", 7)]),
    ];
    for (name, placement, replicas, available, want) in rows {
        let before = asking(placed(placement.clone(), *replicas), "1");
        let decision = by_summary(&before, &fleet, &estimates(available));
        assert_eq!(result(&applied(&before, &decision)), *want, "{name}");
    }
    let full = asking(placed(dynamic(), 19), "1");
    let decision = by_summary(&full, &fleet, &none);
    assert_eq!(decision.next, Next::WhenCapacity);
    let text =
        "failed to assign replicas: failed to scale up: Clusters available replicas 18 are not enough to schedule.";
    assert_eq!(decision.failure.unwrap().to_string(), text);
}

#[test]
fn strategies_that_ignore_capacity_get_a_warning() {
    let fleet = with_cores(&[("m1", "3"), ("m2", "6")]);
    for (name, placement, replicas, had, want) in [
        ("Duplicated", duplicated(), 5, &[][..], Some("cluster m1 may not have capacity")),
        ("fixed weights", weighted(&[]), 14, &[], Some("clusters m1, m2 may not have capacity")),
        ("it fits", duplicated(), 3, &[], None),
        ("only what is new must fit", duplicated(), 5, &[("m1", 2), ("m2", 2)], None),
        ("by capacity it would not have been scheduled", dynamic(), 9, &[], None),
    ] {
        let mut before = asking(placed(placement, replicas), "1");
        before.spec.clusters = targets(had);
        let decision = by_summary(&before, &fleet, &Available::new());
        let warnings = events(&decision);
        let warnings: Vec<_> = warnings.iter().filter(|(_, reason, _)| *reason == "InsufficientCapacity").collect();
        assert_eq!(warnings.len(), usize::from(want.is_some()), "{name}: {warnings:?}");
        assert!(
            want.is_none_or(|want| warnings[0].0 == "ResourceBinding" && warnings[0].2.starts_with(want)),
            "{name}: {warnings:?}"
        );
    }
    let silent = (clusters(&["m1"]), Capacity::of(&clusters(&["m1"]), Modelling::On));
    let before = asking(placed(duplicated(), 5), "1");
    assert!(events(&by_summary(&before, &silent, &Available::new())).is_empty(), "its capacity is unknown");
}

#[test]
fn attempts_as_metrics_count_them() {
    let fleet = clusters(&["m1"]);
    let attempt = |binding: &ResourceBinding| plain(binding, &fleet, 1).attempt();
    let scheduled = placed(duplicated(), 1);
    assert_eq!(attempt(&scheduled), Some((ScheduleType::Reconcile, Attempt::Scheduled)));
    let unfit = placed(Placement { cluster_affinity: Some(affinity(&["m9"])), ..duplicated() }, 1);
    assert_eq!(attempt(&unfit), Some((ScheduleType::Reconcile, Attempt::Unschedulable)));
    let nothing = ironclad_api::policy::SpreadConstraint::default();
    let unsupported = placed(Placement { spread_constraints: vec![nothing], ..dynamic() }, 1);
    assert_eq!(plain(&unsupported, &fleet, 1).attempt(), Some((ScheduleType::Reconcile, Attempt::Error)));
    let mut steps = Vec::new();
    let (available, capacity, options) = (Available::new(), Capacity::default(), Options::default());
    let seen = Seen {
        binding: (&scheduled).into(),
        clusters: &fleet,
        available: &available,
        capacity: &capacity,
        options: &options,
        since: Since::default(),
        preempting: None,
        peers: None,
        index: None,
    };
    let _ = decide_timed(&seen, at(1), &mut |on_event| match on_event {
        CycleEvent::Step(step) => steps.push(step.as_str()),
        CycleEvent::Cluster => steps.push("a cluster"),
        CycleEvent::Plugin { plugin, passed } => steps.push(if passed { plugin.name } else { "refused" }),
    });
    let filters = ["a cluster", "ClusterAffinity", "TaintToleration", "APIEnablement", "SpreadConstraint", "Filter"];
    assert_eq!(steps[..6], filters);
    assert_eq!(steps[6..], ["a cluster", "ClusterLocality", "Score", "Select", "AssignReplicas"]);
    let unchanged = applied(&placed(weighted(&[]), 1), &plain(&placed(weighted(&[]), 1), &fleet, 1));
    assert_eq!(attempt(&unchanged), None, "no cycle, no attempt");
}

#[test]
fn zero_replicas_of_a_workload() {
    let fleet = clusters(&["m1", "m2"]);
    let mut before = placed(duplicated(), 0);
    before.spec.replica_requirements = Some(ReplicaRequirements::default().into());
    let withdrawn = applied(&before, &plain(&before, &fleet, 1));
    assert_eq!(result(&withdrawn), []);
    assert_eq!(condition(&withdrawn).0, "Success");
    let options = Options { enable_empty_workload_propagation: true, ..Options::default() };
    let kept = applied(&before, &decide_in(&before, &fleet, &Available::new(), &options, 1));
    assert_eq!(result(&kept), [("m1", 0), ("m2", 0)], "with --enable-empty-workload-propagation");
}

#[test]
fn spread_by_cluster_depends_on_capacity() {
    let fleet = clusters(&["m1", "m2", "m3"]);
    let mut placement = dynamic();
    placement.spread_constraints = vec![spread(SpreadByField::Cluster, 1, 2)];
    let available = estimates(&[("m1", 5), ("m2", 1), ("m3", 9)]);
    let before = placed(placement, 14);
    let decision = decide_in(&before, &fleet, &available, &Options::default(), 1);
    assert_eq!(result(&applied(&before, &decision)), [("m1", 5), ("m3", 9)]);
    assert!(lines(&decision).contains(&"m2: the spread constraints are satisfied by others".to_owned()));

    let mut short = before.clone();
    short.spec.replicas = 15;
    let decision = decide_in(&short, &fleet, &available, &Options::default(), 1);
    assert_eq!(decision.next, Next::WhenCapacity, "capacity may appear");
    let after = applied(&short, &decision);
    assert_eq!(
        condition(&after),
        ("Unschedulable", "failed to select clusters: no enough resource when selecting 2 clusters")
    );
}

#[test]
fn binding_waits_for_capacity_if_any_of_its_groups_lacks_it() {
    let fleet = clusters(&["m1", "m2", "m3"]);
    let placement = Placement {
        cluster_affinities: vec![group("p", &["m1"]), group("b", &["m2", "m3"])],
        spread_constraints: vec![spread(SpreadByField::Cluster, 2, 2)],
        ..dynamic()
    };
    let before = placed(placement, 9);
    let decision = decide_in(&before, &fleet, &estimates(&[("m2", 1), ("m3", 1)]), &Options::default(), 1);
    assert_eq!(condition(&applied(&before, &decision)).0, "NoClusterFit", "the failure of the first group");
    assert_eq!(decision.next, Next::WhenCapacity);
}

#[test]
fn insufficient_capacity_keeps_the_result_and_reports_it_once() {
    let fleet = clusters(&["m1", "m2"]);
    let available = estimates(&[("m1", 1), ("m2", 2)]);
    let mut before = placed(dynamic(), 2);
    before = applied(&before, &decide_in(&before, &fleet, &available, &Options::default(), 1));
    before.spec.replicas = 24;
    before.metadata.generation = Some(3);
    let decision = decide_in(&before, &fleet, &available, &Options::default(), 2);
    let after = applied(&before, &decision);
    assert_eq!(result(&after), result(&before));
    let text =
        "failed to assign replicas: failed to scale up: Clusters available replicas 3 are not enough to schedule.";
    assert_eq!(condition(&after), ("Unschedulable", text));
    let both = ["ResourceBinding", "Deployment"].map(|kind| (kind, "ScheduleBindingFailed", text));
    assert_eq!(events(&decision), both);
    assert_eq!(after.status.as_ref().unwrap().scheduler_observed_generation, 2, "never advanced on failure");
    assert_eq!(decision.next, Next::WhenCapacity);
    let again = decide_in(&after, &fleet, &available, &Options::default(), 3);
    assert!(again.plan.is_quiet(), "reported once: {:?}", again.plan.effects);
    assert_eq!(again.next, Next::WhenCapacity);

    let mut back = after.clone();
    back.spec.replicas = 2;
    back.metadata.generation = Some(4);
    let healed = applied(&back, &decide_in(&back, &fleet, &available, &Options::default(), 4));
    assert_eq!(condition(&healed).0, "Success", "the result adds up again");
}

#[test]
fn result_after_no_cluster_fits() {
    let running = |placement: Placement| {
        let before = placed(placement, 2);
        applied(&before, &plain(&before, &clusters(&["m1"]), 1))
    };
    let mut tainted = clusters(&["m2"]);
    std::sync::Arc::make_mut(tainted.get_mut(&"m2".into()).unwrap()).spec.taints = vec![taint("k", "v", NO_SCHEDULE)];
    let mut unlabelled = clusters(&["m1"]);
    std::sync::Arc::make_mut(unlabelled.get_mut(&"m1".into()).unwrap()).metadata.labels = None;
    let on_m1 = || Placement { cluster_affinity: Some(affinity(&["m1"])), ..duplicated() };
    // Selector that m1 satisfied when it was scheduled.
    let by_label = || {
        let mut placement = on_m1();
        placement.cluster_affinity.as_mut().unwrap().label_selector = Some(ironclad_api::LabelSelector {
            match_labels: Some([("tier".to_owned(), "gold".to_owned())].into()),
            match_expressions: None,
        });
        placement
    };
    let mut labelled = clusters(&["m1"]);
    std::sync::Arc::make_mut(labelled.get_mut(&"m1".into()).unwrap()).metadata.labels =
        Some([("tier".to_owned(), "gold".to_owned())].into());
    let before = placed(by_label(), 2);
    let gold = applied(&before, &plain(&before, &labelled, 1));
    assert_eq!(result(&gold), [("m1", 2)]);

    let lost = plain(&gold, &unlabelled, 10);
    assert_eq!(lost.next, Next::At(at(310)), "a label that is lost for a moment withdraws nothing");
    let waiting = applied(&gold, &lost);
    assert_eq!(result(&waiting), [("m1", 2)]);
    let text = "0/1 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint.";
    assert_eq!(condition(&waiting), ("NoClusterFit", text));
    let still = plain(&waiting, &unlabelled, 309);
    assert!(still.plan.is_quiet() && still.next == Next::At(at(310)), "one second before");
    let over = plain(&waiting, &unlabelled, 310);
    let withdrawn = applied(&waiting, &over);
    assert_eq!(result(&withdrawn), [], "after five minutes");
    assert!(plain(&withdrawn, &unlabelled, 311).plan.is_quiet());
    let back = applied(&withdrawn, &plain(&withdrawn, &labelled, 400));
    assert_eq!((result(&back), condition(&back).0), (vec![("m1", 2)], "Success"));

    let at_once = Options { clear_unfit_result_after: SignedDuration::ZERO, ..Options::default() };
    let cleared = applied(&gold, &decide_in(&gold, &unlabelled, &Available::new(), &at_once, 10));
    assert_eq!(result(&cleared), [], "as upstream does");

    let mut evicting = gold.clone();
    evicting.spec.graceful_eviction_tasks = vec![task("m0", TAINT_UNTOLERATED, None)];
    let kept = applied(&evicting, &decide_in(&evicting, &unlabelled, &Available::new(), &at_once, 10_000));
    assert_eq!(result(&kept), [("m1", 2)], "evictions are under way: it may be the only copy");

    let mut edited = gold.clone();
    edited.spec.placement = Some(Placement { cluster_affinity: Some(affinity(&["m7"])), ..duplicated() }.into());
    let moved = applied(&edited, &plain(&edited, &labelled, 10));
    assert_eq!(result(&moved), [], "the user wants it elsewhere");

    let left = running(on_m1());
    let decision = plain(&left, &tainted, 10);
    assert_eq!(result(&applied(&left, &decision)), [], "the only target is removed");
    assert!(
        lines(&decision).contains(&"m2: cluster(s) did not match the placement cluster affinity constraint".to_owned())
    );
}

#[test]
fn ordered_groups() {
    let fleet = clusters(&["m1", "m2"]);
    let groups = || Placement { cluster_affinities: vec![group("p", &["m1"]), group("b", &["m2"])], ..dynamic() };
    let (full, free) = (estimates(&[("m1", 0), ("m2", 5)]), estimates(&[("m1", 5), ("m2", 0)]));
    let before = placed(groups(), 3);
    let decision = decide_in(&before, &fleet, &full, &Options::default(), 1);
    let in_backup = applied(&before, &decision);
    assert_eq!(result(&in_backup), [("m2", 3)]);
    assert_eq!(in_backup.status.as_ref().unwrap().scheduler_observed_affinity_name, "b");
    let text = "failed to schedule ResourceBinding(default/web-deployment) with clusterAffiliates index(0): failed to \
                assign replicas: failed to scale up: Clusters available replicas 0 are not enough to schedule.";
    assert_eq!(events(&decision)[0], ("ResourceBinding", "ScheduleBindingFailed", text));

    let mut grown = in_backup.clone();
    grown.spec.replicas = 4;
    let stop = Options { wrap_around_groups: false, ..Options::default() };
    let stuck = applied(&grown, &decide_in(&grown, &fleet, &free, &stop, 2));
    assert_eq!((result(&stuck), condition(&stuck).0), (vec![("m2", 3)], "Unschedulable"), "as upstream does");
    assert_eq!(stuck.status.as_ref().unwrap().scheduler_observed_affinity_name, "b");
    let wrapped = applied(&grown, &decide_in(&grown, &fleet, &free, &Options::default(), 2));
    assert_eq!(result(&wrapped), [("m1", 4)], "the earlier group is tried before giving up");
    assert_eq!(wrapped.status.as_ref().unwrap().scheduler_observed_affinity_name, "p");

    let mut fresh = in_backup;
    fresh.spec.reschedule_triggered_at = Some(Time(at(50)));
    let returned = applied(&fresh, &decide_in(&fresh, &fleet, &free, &stop, 60));
    assert_eq!(result(&returned), [("m1", 3)], "a fresh search begins at the first group");
    assert_eq!(returned.status.as_ref().unwrap().last_scheduled_time, Some(Time(at(60))));
}

#[test]
fn reschedule_request_is_answered_once_even_in_the_second_of_the_last_scheduling() {
    let fleet = clusters(&["m1", "m2"]);
    let free = |m1, m2| estimates(&[("m1", m1), ("m2", m2)]);
    let before = placed(aggregated(), 6);
    let mut binding = applied(&before, &decide_in(&before, &fleet, &free(10, 2), &Options::default(), 100));
    assert_eq!(result(&binding), [("m1", 6)]);
    for (name, requested, now) in [("in the same second", 100, 100), ("by a clock that is ahead", 109, 105)] {
        binding.spec.reschedule_triggered_at = Some(Time(at(requested)));
        binding = applied(&binding, &decide_in(&binding, &fleet, &free(10, 2), &Options::default(), now));
        assert!(!BindingRef::from(&binding).reschedule_required(), "{name}");
        let later = decide_in(&binding, &fleet, &free(0, 20), &Options::default(), now + 1);
        assert!(later.plan.is_quiet(), "{name}, capacity changed: {:?}", later.plan);
    }
    binding.spec.replicas = 7;
    binding = applied(&binding, &decide_in(&binding, &fleet, &free(0, 20), &Options::default(), 200));
    assert_eq!(result(&binding), [("m1", 6), ("m2", 1)], "one replica is added, none is moved");
}

#[test]
fn divided_binding_is_scheduled_again_when_a_member_gets_its_api() {
    let fleet = clusters(&["m1", "m2"]);
    let only_m1 = clusters(&["m1"]);
    let before = placed(weighted(&[("m1", 1), ("m2", 1)]), 4);
    let settled = applied(&before, &plain(&before, &only_m1, 100));
    assert_eq!(result(&settled), [("m1", 4)]);
    assert!(plain(&settled, &fleet, 101).plan.is_quiet(), "another event");
    let (capacity, options) = (Capacity::default(), Options::default());
    let seen = Seen {
        binding: (&settled).into(),
        clusters: &fleet,
        available: &Available::new(),
        capacity: &capacity,
        options: &options,
        since: Since { api_appeared: true, ..Since::default() },
        preempting: None,
        peers: None,
        index: None,
    };
    let moved = applied(&settled, &decide(&seen, at(102)));
    assert_eq!(result(&moved), [("m1", 2), ("m2", 2)]);
}

#[test]
fn overflow_tiers_open_and_close() {
    let fleet = clusters(&["m1", "m2"]);
    let mut main = group("main", &["m1"]);
    main.overflow_affinities = vec![crate::testkit::overflow("more", &["m2"])];
    let placement = Placement { cluster_affinities: vec![main], ..dynamic() };
    let mut binding = placed(placement, 5);
    binding =
        applied(&binding, &decide_in(&binding, &fleet, &estimates(&[("m1", 2), ("m2", 10)]), &Options::default(), 1));
    assert_eq!(result(&binding), [("m1", 2), ("m2", 3)]);
    binding.spec.replicas = 2;
    binding =
        applied(&binding, &decide_in(&binding, &fleet, &estimates(&[("m1", 0), ("m2", 7)]), &Options::default(), 2));
    assert_eq!(result(&binding), [("m1", 2)]);
}

#[test]
fn components_are_placed_on_one_cluster() {
    let fleet = clusters(&["m1", "m2"]);
    let component = |name: &str, replicas| Component { name: name.into(), replicas, replica_requirements: None };
    let single = Placement { spread_constraints: vec![spread(SpreadByField::Cluster, 1, 1)], ..duplicated() };
    let mut before = placed(single, 0);
    before.spec.components = vec![component("jobmanager", 1), component("taskmanager", 4)];
    let on = Options { component_scheduling: true, ..Options::default() };
    let after = applied(&before, &decide_in(&before, &fleet, &estimates(&[("m1", 0), ("m2", 2)]), &on, 1));
    assert_eq!(result(&after), [("m2", 0)], "m1 does not hold a set");
    let shares: Vec<_> = after.spec.clusters[0].components.iter().map(|c| (c.name.as_str(), c.replicas)).collect();
    assert_eq!(shares, [("jobmanager", 1), ("taskmanager", 4)]);
    assert!(
        decide_in(&after, &fleet, &estimates(&[("m1", 9), ("m2", 0)]), &on, 2).plan.is_quiet(),
        "its own capacity counts"
    );
    let off =
        applied(&before, &decide_in(&before, &fleet, &estimates(&[("m1", 0), ("m2", 2)]), &Options::default(), 1));
    assert_eq!((result(&off), off.spec.clusters[0].components.len()), (vec![("m2", 0)], 0), "with the gate off");
    let mut anywhere = before.clone();
    anywhere.spec.placement = Some(duplicated().into());
    let everywhere = applied(&anywhere, &decide_in(&anywhere, &fleet, &estimates(&[("m1", 0), ("m2", 0)]), &on, 1));
    let listed = everywhere.spec.clusters.iter().map(|target| target.components.len()).sum::<usize>();
    assert_eq!(
        (result(&everywhere), listed),
        (vec![("m1", 0), ("m2", 0)], 0),
        "not to one cluster: everywhere, unasked"
    );
}

#[test]
fn evicted_share_returns_where_it_still_fits() {
    let fleet = clusters(&["m1", "m2"]);
    let mut before = placed(dynamic(), 5);
    let tasks = vec![task("m1", TAINT_UNTOLERATED, Some(3)), task("m2", TAINT_UNTOLERATED, Some(2))];
    before.spec.graceful_eviction_tasks = tasks;
    let none = estimates(&[("m1", 0), ("m2", 0)]);
    let never_ran = decide_in(&before, &fleet, &none, &Options::default(), 1);
    assert_eq!(never_ran.next, Next::WhenCapacity, "what never ran there has no capacity to return to");
    let running = |cluster: &str, replicas: i32| {
        let status = Some((&serde_json::json!({"replicas": replicas})).into());
        AggregatedStatusItem { cluster_name: cluster.to_owned(), status, ..AggregatedStatusItem::default() }
    };
    before.status.get_or_insert_default().aggregated_status = vec![running("m1", 3), running("m2", 2)];
    let after = applied(&before, &decide_in(&before, &fleet, &none, &Options::default(), 1));
    assert_eq!(result(&after), [("m1", 3), ("m2", 2)], "no other cluster has capacity, but the old copies still run");
    before.spec.graceful_eviction_tasks[0].reason = CLUSTER_DRAIN.into();
    let over = applied(&before, &decide_in(&before, &fleet, &none, &Options::default(), 1));
    assert_eq!(result(&over), [("m1", 3), ("m2", 2)], "a drain that ended bars nothing");
    let mut fleet = fleet;
    fleet.insert("m1".into(), draining("m1").into());
    let drained = decide_in(&before, &fleet, &none, &Options::default(), 1);
    assert!(lines(&drained).contains(&"m1: cluster(s) is in the process of eviction".to_owned()));
    assert_eq!(drained.next, Next::WhenCapacity);
}

#[test]
fn cluster_resource_binding_reports_with_its_own_text() {
    let source = placed(duplicated(), 0);
    let mut binding = ClusterResourceBinding::new("role-clusterrole", source.spec.clone());
    binding.metadata.labels = Some([(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "id".to_owned())].into());
    let (fleet, available, options) = (clusters(&["m1"]), Available::new(), Options::default());
    let seen = Seen {
        binding: (&binding).into(),
        clusters: &fleet,
        available: &available,
        capacity: &Capacity::default(),
        options: &options,
        since: Since::default(),
        preempting: None,
        peers: None,
        index: None,
    };
    let decision = decide(&seen, at(1));
    let found = success(seen.binding, &decision.plan.effects);
    assert_eq!(found[0].message, "Binding has been scheduled successfully. Result {m1:0}");
    let none = Clusters::new();
    let seen = Seen { clusters: &none, ..seen };
    let text = "0/0 clusters are available: no cluster exists.";
    let both = ["ClusterResourceBinding", "Deployment"].map(|kind| (kind, "ScheduleBindingFailed", text));
    assert_eq!(events(&decide(&seen, at(1))), both, "on the template, too, where people look first");
}

#[test]
fn missing_named_cluster_is_reported() {
    let named = |names: &[&str]| Placement { cluster_affinity: Some(affinity(names)), ..duplicated() };
    let fleet = clusters(&["m1"]);
    let histogram = "0/1 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint.";
    for (names, want) in [
        (&["m8"][..], " cluster m8 named by the placement does not exist"),
        (&["m8", "m9"], " clusters m8, m9 named by the placement do not exist"),
    ] {
        let before = placed(named(names), 1);
        let decision = plain(&before, &fleet, 1);
        assert_eq!(condition(&applied(&before, &decision)), ("NoClusterFit", format!("{histogram}{want}").as_str()));
    }
    let many: Vec<String> = (0..9).map(|i| format!("x{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let text = plain(&placed(named(&many), 1), &fleet, 1).failure.unwrap().to_string();
    assert!(text.ends_with(" clusters x0, x1, x2, x3, x4 and 4 more named by the placement do not exist"), "{text}");
    let half = plain(&placed(named(&["m1", "m9"]), 1), &fleet, 1);
    assert_eq!(half.failure, None, "the others are used");
    assert!(lines(&half).contains(&"m9: named by the placement, but it does not exist".to_owned()));
    let mut barred = named(&["m9"]);
    barred.cluster_affinity.as_mut().unwrap().exclude = vec!["m9".into()];
    assert_eq!(
        plain(&placed(barred, 1), &fleet, 1).failure.unwrap().to_string(),
        histogram,
        "excluded, so nobody misses it"
    );
}

#[test]
fn long_texts_are_cut_to_the_api_limit() {
    assert_eq!(cut("short", 10), "short");
    assert_eq!(cut("0123456789a", 10), "0123456...");
    assert_eq!(cut("ääääää", 10), "äää...", "never inside a character");
}

#[test]
fn cluster_being_deleted_is_counted_without_a_reason() {
    let mut fleet = clusters(&["m1", "m2"]);
    let leaving = std::sync::Arc::make_mut(fleet.get_mut(&"m1".into()).unwrap());
    leaving.metadata.deletion_timestamp = Some(Time(at(1)));
    std::sync::Arc::make_mut(fleet.get_mut(&"m2".into()).unwrap()).spec.taints = vec![taint("k", "v", NO_SCHEDULE)];
    let decision = plain(&placed(duplicated(), 1), &fleet, 1);
    let text = decision.failure.unwrap().to_string();
    assert_eq!(text, "0/2 clusters are available: 1 cluster(s) had untolerated taint {k=v:NoSchedule}.");
}
