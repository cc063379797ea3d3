//! Rules on who may preempt, and who may be preempted (specification/scheduling.md 15.2, 15.3, 15.11).

use ironclad_api::{
    conditions::FALSE,
    eviction::BINDING_PREEMPTED,
    policy::Placement,
    work::{BindingSuspension, WorkloadAffinityGroups},
};
use ironclad_fleet::because::schedule::Unhelpful;
use jiff::Timestamp;

use super::*;
use crate::{
    preempt::{evict, is_wanted},
    testkit::{affinity, group, task},
};

/// Full cluster `m1` with `low` of priority 0 and `high` of priority 9, four cores each.
fn world() -> World {
    World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("low", 0, "4"), ("high", 9, "4")])
}

fn pending() -> ResourceBinding {
    preemptor(5, 1, &[("cpu", "4")])
}

fn changed(mut world: World, name: &str, change: fn(&mut ResourceBinding)) -> World {
    change(world.bindings.iter_mut().find(|binding| binding.metadata.name.as_deref() == Some(name)).unwrap());
    world
}

#[test]
fn who_may_be_a_victim() {
    let not_ready = |mut world: World| {
        let cluster = Arc::make_mut(world.clusters.get_mut(&"m1".into()).unwrap());
        cluster.status.as_mut().unwrap().conditions[0].status = FALSE.into();
        world
    };
    let rows: &[(&str, World, &[&str])] = &[
        ("of lower priority", world(), &["low@m1"]),
        (
            "without a priority it counts as 0",
            changed(world(), "low", |b| b.spec.schedule_priority = None),
            &["low@m1"],
        ),
        ("of another scheduler", changed(world(), "low", |b| b.spec.scheduler_name = "other".into()), &[]),
        ("being deleted", changed(world(), "low", |b| b.metadata.deletion_timestamp = Some(Time(at(1)))), &[]),
        (
            "its scheduling is suspended",
            changed(world(), "low", |b| {
                b.spec.suspension = Some(BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() });
            }),
            &[],
        ),
        ("without requests it frees nothing", changed(world(), "low", |b| b.spec.replica_requirements = None), &[]),
        ("in another namespace", changed(world(), "low", |b| b.metadata.namespace = Some("other".into())), &["low@m1"]),
        (
            "whose own policy is Never or not",
            changed(world(), "low", |b| {
                let priority = b.spec.schedule_priority.as_mut().unwrap();
                priority.preemption_policy = Some(PreemptionPolicy::PreemptLowerPriority);
            }),
            &["low@m1"],
        ),
        ("on a cluster that is not ready", not_ready(world()), &[]),
    ];
    for (name, world, want) in rows {
        assert_eq!(world.victims(&pending()), *want, "{name}");
    }
}

#[test]
fn who_may_preempt() {
    let refused = |because| Some(Outcome::Refused(because));
    let mut off = world();
    off.options.preempts = false;
    assert_eq!(off.decide(&pending(), 1_000).preemption, None, "the gate is off");
    let mut nothing = pending();
    nothing.spec.replica_requirements = Some(requirements(&[("cpu", "0")]).into());
    assert_eq!(world().decide(&nothing, 1_000).preemption, None, "it requests nothing");
    let alone = World::new().cluster("m1", &[("cpu", "0")]);
    assert_eq!(alone.decide(&pending(), 1_000).preemption, refused(Unhelpful::NoVictims));
    let large = preemptor(5, 1, &[("cpu", "5")]);
    assert_eq!(world().decide(&large, 1_000).preemption, refused(Unhelpful::StillTooLittle));
    let mut elsewhere = pending();
    elsewhere.spec.placement = Some(Placement { cluster_affinity: Some(affinity(&["m9"])), ..dynamic() }.into());
    assert_eq!(world().decide(&elsewhere, 1_000).preemption, None, "no cluster passes the filters");
    let mut grouped = pending();
    grouped.spec.placement = Some(
        Placement { cluster_affinities: vec![group("first", &["m1"]), group("second", &["m9"])], ..dynamic() }.into(),
    );
    assert_eq!(world().decide(&grouped, 1_000).preemption, None, "the second group fails for another reason");
    let two = world().cluster("m2", &[("cpu", "0")]).cores("m2", &[("lowest", -5, "4")]);
    grouped.spec.placement.as_mut().unwrap().cluster_affinities[1] = group("second", &["m2"]);
    assert_eq!(two.victims(&grouped), ["low@m1"], "the first group with a plan wins");
}

#[test]
fn the_message_says_what_happens() {
    let message = |world: &World, pending: &ResourceBinding| {
        let decision = world.decide(pending, 1_000);
        let status = decision.plan.effects.iter().find_map(|effect| match effect {
            crate::Effect::Status(part) => part.conditions.first().map(|condition| condition.message.clone()),
            _ => None,
        });
        status.unwrap()
    };
    let text =
        "failed to assign replicas: failed to scale up: Clusters available replicas 0 are not enough to schedule.";
    assert_eq!(message(&world(), &pending()), format!("{text} Preempting 1 binding(s) on cluster(s) m1 to make room."));
    assert_eq!(
        message(&world(), &preemptor(5, 1, &[("cpu", "5")])),
        format!("{text} Preemption is not helpful: insufficient capacity even after preemption.")
    );
    let mut observing = world();
    observing.options.preemption_mode = Mode::Observe;
    assert_eq!(
        message(&observing, &pending()),
        format!("{text} Preemption is observed only and would evict 1 binding(s) on cluster(s) m1.")
    );
    let decision = observing.decide(&pending(), 1_000);
    assert!(matches!(decision.preemption, Some(Outcome::Observed(_))));
    assert!(!decision.plan.effects.iter().any(|effect| matches!(effect, crate::Effect::Preempt(_))));
    let mut limited = world();
    limited.options.preemption_max_victims = 0;
    assert_eq!(message(&limited, &pending()), format!("{text} Preemption is not helpful: victim limit exceeded."));
}

#[test]
fn members_of_an_affinity_group_leave_together() {
    let grouped = |mut binding: ResourceBinding, group: &str| {
        let groups = WorkloadAffinityGroups { affinity_group: group.into(), anti_affinity_group: String::new() };
        binding.spec.workload_affinity_groups = Some(groups);
        binding
    };
    let one = |name, priority| workload(name, priority, 1, &[("cpu", "4")], &[("m1", 1)]);
    let world = |high| {
        let mut world = World::new()
            .cluster("m1", &[("cpu", "0")])
            .running(grouped(one("a", 0), "app=a"))
            .running(grouped(one("b", high), "app=a"))
            .running(one("single", 3));
        world.options.workload_affinity = true;
        world
    };
    assert_eq!(world(1).victims(&pending()), ["single@m1"], "one victim beats the two of the group");
    let large = preemptor(5, 1, &[("cpu", "8")]);
    assert_eq!(world(1).victims(&large), ["a@m1", "b@m1"], "the group leaves as a whole");
    assert_eq!(world(9).victims(&large), [""; 0], "a member of higher priority keeps all of them");
    assert_eq!(world(1).victims(&grouped(pending(), "app=a")), ["single@m1"], "its own group stays");
    let mut off = world(9);
    off.options.workload_affinity = false;
    assert_eq!(off.victims(&pending()), ["a@m1"], "without the gate groups mean nothing");
}

#[test]
fn who_was_preempted_a_short_time_ago_is_spared_if_possible() {
    let world = |others: &[(&str, i32, &str)]| {
        let mut spared = workload("spared", 0, 1, &[("cpu", "4")], &[("m1", 1)]);
        let mut left = task("m9", BINDING_PREEMPTED, None);
        left.creation_timestamp = Some(Time(at(900)));
        spared.spec.graceful_eviction_tasks = vec![left];
        World::new().cluster("m1", &[("cpu", "0")]).running(spared).cores("m1", others)
    };
    assert_eq!(world(&[("other", 3, "4")]).victims(&pending()), ["other@m1"]);
    assert_eq!(world(&[]).victims(&pending()), ["spared@m1"], "there is no other plan");
    let late = world(&[("other", 3, "4")]).decide(&pending(), 1_200);
    let Some(Outcome::Nominated(plan)) = late.preemption else { panic!("no plan") };
    assert_eq!(&*plan.victims[0].key.name, "spared", "five minutes later it counts like any other");
}

#[test]
fn victims_stay_once_the_preemptor_is_deleted() {
    let plan = world().plan(&pending()).unwrap();
    let mut nominated = pending();
    assert!(!is_wanted(&plan, Some((&nominated).into())), "the nomination is not written");
    nominated.status.as_mut().unwrap().nominated_clusters = plan.nominated.clone();
    assert!(is_wanted(&plan, Some((&nominated).into())));
    nominated.metadata.deletion_timestamp = Some(Time(at(1)));
    assert!(!is_wanted(&plan, Some((&nominated).into())), "it is being deleted");
    assert!(!is_wanted(&plan, None), "it is gone");
}

#[test]
fn eviction_verifies_the_victim() {
    let now: Timestamp = at(1_000);
    let plan = world().plan(&pending()).unwrap();
    let low = world().bindings[0].clone();
    let pending = pending();
    let of = |victim: &ResourceBinding| evict(victim, &plan.victims[..1], (&pending).into(), now);
    let eviction = of(&low).unwrap().unwrap();
    assert_eq!(
        eviction.patch,
        json!({"spec": {"clusters": null, "gracefulEvictionTasks": [{
            "fromCluster": "m1", "purgeMode": "Directly", "replicas": 1, "reason": "BindingPreempted",
            "message": "preempted by default/p (priority 5)", "producer": "Scheduler", "gracePeriodSeconds": 300,
            "creationTimestamp": "1970-01-01T00:16:40Z",
        }]}})
    );
    let messages: Vec<&str> = eviction.events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(messages, ["preempted from cluster m1 by default/p (priority 5)"; 2], "on binding and template");
    let change = |change: fn(&mut ResourceBinding)| {
        let mut victim = low.clone();
        change(&mut victim);
        of(&victim).map(|eviction| eviction.is_some()).map_err(|stale| stale.change)
    };
    // From two clusters in one write: it is not scheduled again in between.
    let mut both = low.clone();
    both.spec.clusters.push(low.spec.clusters[0].clone());
    both.spec.clusters[1].name = "m2".to_owned();
    let mut chosen = [plan.victims[0].clone(), plan.victims[0].clone()];
    chosen[1].cluster = "m2".into();
    let eviction = evict(&both, &chosen, (&pending).into(), now).unwrap().unwrap();
    let tasks = eviction.patch["spec"]["gracefulEvictionTasks"].as_array().unwrap();
    let from: Vec<&str> = tasks.iter().map(|task| task["fromCluster"].as_str().unwrap()).collect();
    assert_eq!((from, eviction.clusters, eviction.events.len()), (vec!["m1", "m2"], 2, 4));
    assert_eq!(eviction.patch["spec"]["clusters"], json!(null));
    assert_eq!(change(|b| b.spec.clusters.clear()), Ok(false), "it has left already");
    assert_eq!(change(|b| b.spec.schedule_priority.as_mut().unwrap().priority = 7), Err("its priority"));
    assert_eq!(change(|b| b.spec.clusters[0].replicas = 2), Err("its replicas"));
    assert_eq!(change(|b| b.metadata.deletion_timestamp = Some(Time(at(1)))), Err("it is being deleted"));
}

/// By a summary nobody is known to be leaving: what the models say less than its sums is not about to be free.
#[test]
fn sums_that_models_do_not_bear_out_are_no_capacity_that_is_leaving() {
    let pending = preemptor(5, 1, &[("cpu", "4")]);
    let mut world = World::new().watched("m1", &[("n1", 8)]);
    world.watched.clear();
    let cluster = Arc::make_mut(world.clusters.get_mut(&"m1".into()).unwrap());
    let summary = cluster.status.as_mut().unwrap().resource_summary.as_mut().unwrap();
    summary.allocatable = serde_json::from_value(list(&[("cpu", "108"), ("pods", "1000")])).unwrap();
    let fits = crate::available_replicas(&pending.spec, &"m1".into(), &world.capacity(), &world.options);
    assert_eq!(fits, Some(0), "by the models");
    assert!(world.plan(&pending).is_none(), "nobody is there to leave");
    let world = world.cores("m1", &[("a", 0, "4")]);
    assert_eq!(world.victims(&pending), ["a@m1"]);
}
