//! Nominations, the capacity that they hold, and the limits of attempts (specification/scheduling.md 15.7).

use ironclad_api::{
    policy::PurgeMode,
    work::{BindingSuspension, GracefulEvictionTask, TargetCluster},
};
use ironclad_fleet::{BindingKey, because::schedule::Unhelpful};

use super::*;
use crate::{
    Effect,
    preempt::{Limits, Turn, Victim},
    testkit::{targets, task},
};

fn nominated(mut binding: ResourceBinding, clusters: &[(&str, i32)]) -> ResourceBinding {
    binding.status.as_mut().unwrap().nominated_clusters = targets(clusters);
    binding
}

fn scheduling_suspended() -> BindingSuspension {
    BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() }
}

#[test]
fn held_capacity_counts_for_lower_and_equal_priorities_only() {
    let holder = nominated(preemptor(5, 2, &[("cpu", "2")]), &[("m1", 2)]);
    let world = World::new().cluster("m1", &[("cpu", "5")]).running(holder.clone());
    let placed = |binding: &ResourceBinding| world.decide(binding, 1_000).result().is_some();
    let other = |priority, cores| {
        let mut other = workload("other", priority, 1, &[("cpu", cores)], &[]);
        other.spec.resource.name = "other".into();
        other
    };
    for (name, binding, want) in [
        ("a lower priority that fits beside it", other(0, "1"), true),
        ("a lower priority", other(0, "2"), false),
        ("the same priority", other(5, "2"), false),
        ("a higher one ignores it", other(6, "5"), true),
        ("its own", holder.clone(), true),
    ] {
        assert_eq!(placed(&binding), want, "{name}");
    }
    let mut capacity = Capacity::of(&world.clusters, Modelling::On);
    capacity.nominate(&holder, &targets(&[("m1", 2)]), &world.options);
    assert_eq!(capacity.nominated_count(), 1);
    let key = BindingRef::from(&holder).key();
    drop(capacity.take_grown());
    capacity.withdraw_nomination(&key);
    assert_eq!(capacity.take_grown(), ["m1".into()].into());
    assert_eq!(capacity.nominated_count(), 0);
    for (name, change) in [
        ("suspended", (|b| b.spec.suspension = Some(scheduling_suspended())) as fn(&mut ResourceBinding)),
        ("being deleted", |b| b.metadata.deletion_timestamp = Some(Time(at(1)))),
    ] {
        capacity.nominate(&holder, &targets(&[("m1", 2)]), &world.options);
        assert_eq!(capacity.take_grown(), [].into(), "{name}: what is held is not free");
        let mut changed = holder.clone();
        change(&mut changed);
        capacity.nominate(&changed, &targets(&[("m1", 2)]), &world.options);
        assert_eq!(capacity.take_grown(), ["m1".into()].into(), "{name}");
        assert_eq!(capacity.nominated_count(), 0, "{name}");
    }
}

/// Message of condition `Scheduled`.
fn message(binding: &ResourceBinding) -> &str {
    let conditions = &binding.status.as_ref().unwrap().conditions;
    &conditions.iter().find(|condition| condition.type_ == "Scheduled").unwrap().message
}

/// Attempt, wait, success: what the status shows meanwhile.
#[test]
fn a_nomination_from_attempt_to_result() {
    let mut world = World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("low", 0, "4")]);
    let pending = preemptor(5, 1, &[("cpu", "4")]);
    let key = BindingRef::from(&pending).key();
    let first = world.decide(&pending, 1_000);
    let effects: Vec<&str> = first
        .plan
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Result { .. } => "result",
            Effect::Status(_) => "status",
            Effect::Event(_) => "event",
            Effect::Preempt(_) => "preempt",
        })
        .collect();
    assert_eq!(effects, ["status", "event", "event", "preempt"], "nominated before anything is evicted");
    let waiting = applied(&pending, &first);
    assert_eq!(json!(waiting.status.as_ref().unwrap().nominated_clusters), json!([{"name": "m1", "replicas": 1}]));
    let outcome = first.preemption.unwrap();
    world.preemptors.record(&key, 1, &outcome, at(1_000));
    world.preemptors.all_evicted(&key);
    world.bindings[0].spec.clusters.clear();
    world.bindings[0].spec.graceful_eviction_tasks = vec![task("m1", "BindingPreempted", Some(1))];
    let second = world.decide(&waiting, 1_010);
    assert_eq!(second.preemption, Some(Outcome::Waits), "nobody else is evicted while it waits");
    assert!(second.plan.effects.is_empty(), "and nothing is written");
    assert!(message(&waiting).ends_with(" Preempting 1 binding(s) on cluster(s) m1 to make room."));
    world.bindings[0].spec.graceful_eviction_tasks.clear();
    let left = world.decide(&waiting, 1_020);
    assert_eq!(left.preemption, Some(Outcome::Waits));
    let waiting = applied(&waiting, &left);
    assert!(message(&waiting).ends_with("enough to schedule. Waiting for the capacity of preempted bindings."));
    assert!(world.decide(&waiting, 1_030).plan.effects.is_empty(), "written once");
    let third = world.decide(&waiting, 1_600);
    assert_eq!(third.preemption, Some(Outcome::Expired(Unhelpful::NoProgress)));
    assert_eq!(applied(&waiting, &third).status.unwrap().nominated_clusters, []);
    let roomy = World::new().cluster("m1", &[("cpu", "4")]);
    let bound = roomy.decide(&waiting, 1_020);
    assert_eq!(bound.preemption, Some(Outcome::Bound));
    let bound = applied(&waiting, &bound);
    assert_eq!((bound.status.unwrap().nominated_clusters, bound.spec.clusters), (vec![], targets(&[("m1", 1)])));
}

/// Bindings of higher priority ignore a nomination, and may use up its capacity.
#[test]
fn a_nomination_ends_once_higher_priorities_took_what_it_held() {
    let other = |name: &str, priority, cores: &str, on: &str, scheduled| {
        let mut other = workload(name, priority, 1, &[("cpu", cores)], &[(on, 1)]);
        other.status.as_mut().unwrap().last_scheduled_time = Some(Time(at(scheduled)));
        other
    };
    let leaving = || {
        let mut leaving = workload("low", 0, 1, &[("cpu", "4")], &[]);
        let task = task("m1", "BindingPreempted", Some(1));
        leaving.spec.graceful_eviction_tasks =
            vec![GracefulEvictionTask { purge_mode: Some(PurgeMode::Directly), ..task }];
        leaving
    };
    let one = [("m1", 1)];
    let rows: [(_, &[(&str, i32)], _, _); 9] = [
        ("nobody came", &one, vec![], Outcome::Waits),
        ("one that took all", &one, vec![other("a", 6, "4", "m1", 1_001)], Outcome::Expired(Unhelpful::Overtaken)),
        (
            "two that took all",
            &one,
            vec![other("a", 6, "2", "m1", 1_001), other("b", 9, "2", "m1", 1_002)],
            Outcome::Expired(Unhelpful::Overtaken),
        ),
        ("less than it lacks: the rest is still to come", &one, vec![other("a", 6, "3", "m1", 1_001)], Outcome::Waits),
        ("its own priority", &one, vec![other("a", 5, "4", "m1", 1_001)], Outcome::Waits),
        ("one that was there before", &one, vec![other("a", 6, "4", "m1", 1_000)], Outcome::Waits),
        ("one elsewhere", &one, vec![other("a", 6, "4", "m2", 1_001)], Outcome::Waits),
        (
            "the task of a victim lasts longer than its copy",
            &one,
            vec![other("a", 6, "4", "m1", 1_001), leaving()],
            Outcome::Expired(Unhelpful::Overtaken),
        ),
        (
            "one of two clusters",
            &[("m1", 1), ("m2", 1)],
            vec![other("a", 6, "4", "m1", 1_001)],
            Outcome::Expired(Unhelpful::Overtaken),
        ),
    ];
    for (name, clusters, others, want) in rows {
        let replicas = i32::try_from(clusters.len()).unwrap();
        let pending = nominated(preemptor(5, replicas, &[("cpu", "4")]), clusters);
        let key = BindingRef::from(&pending).key();
        let free = if clusters.len() > 1 { "4" } else { "0" };
        let mut world = World::new().cluster("m1", &[("cpu", "0")]).cluster("m2", &[("cpu", free)]);
        world.bindings = others;
        let plan = Plan { victims: Vec::new(), nominated: targets(clusters) };
        world.preemptors.record(&key, 1, &Outcome::Nominated(plan), at(1_000));
        world.preemptors.all_evicted(&key);
        let early = world.decide(&pending, 1_059);
        assert_eq!(early.preemption, Some(Outcome::Waits), "{name}");
        let decision = world.decide(&pending, 1_060);
        assert_eq!(decision.preemption, Some(want.clone()), "{name}");
        let held = applied(&pending, &decision).status.unwrap().nominated_clusters;
        assert_eq!(held.is_empty(), want != Outcome::Waits, "{name}");
        world.preemptors.record(&key, 1, &want, at(1_060));
        let again = world.preemptors.turn(&key, 1, false, false, at(1_070));
        let ended = Turn::Pause { until: at(1_120) };
        let goes_on = Turn::Wait { since: at(1_000), until: at(1_600) };
        assert_eq!(again, if want == Outcome::Waits { goes_on } else { ended }, "{name}");
    }
}

/// A process that ends after the eviction leaves the task only.
#[test]
fn condition_preempted_follows_from_the_task_until_the_victim_is_placed() {
    let plan = World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("low", 0, "4")]);
    let plan = plan.plan(&preemptor(5, 1, &[("cpu", "4")])).unwrap();
    let running = workload("low", 0, 1, &[("cpu", "4")], &[("m1", 1)]);
    let pending = preemptor(5, 1, &[("cpu", "4")]);
    let eviction = crate::preempt::evict(&running, &plan.victims[..1], (&pending).into(), at(5)).unwrap().unwrap();
    let mut victim = serde_json::to_value(&running).unwrap();
    merge(&mut victim, &eviction.patch);
    let victim: ResourceBinding = serde_json::from_value(victim).unwrap();
    let preempted = |binding: &ResourceBinding| {
        let conditions = &binding.status.as_ref().unwrap().conditions;
        conditions.iter().find(|condition| condition.type_ == "Preempted").cloned()
    };
    assert_eq!(preempted(&victim), None);
    let full = World::new().cluster("m2", &[("cpu", "0")]);
    let waiting = applied(&victim, &full.decide(&victim, 1_000));
    let condition = preempted(&waiting).unwrap();
    let key = BindingRef::from(&pending).key();
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str(), condition.message, condition.last_transition_time.0),
        ("True", "PreemptedByHigherPriority", format!("preempted from cluster m1 by {key} (priority 5)"), at(5))
    );
    assert!(full.decide(&waiting, 1_010).plan.effects.is_empty(), "written once");
    let placed = applied(&waiting, &World::new().cluster("m2", &[("cpu", "4")]).decide(&waiting, 1_020));
    assert_eq!((preempted(&placed), &placed.spec.clusters), (None, &targets(&[("m2", 1)])));
    // The process ended between the result and the status.
    let half = ResourceBinding { status: waiting.status, ..placed };
    let caught_up = applied(&half, &World::new().cluster("m2", &[("cpu", "4")]).decide(&half, 1_030));
    assert_eq!(preempted(&caught_up), None);
}

#[test]
fn whose_failure_is_another_one_loses_its_nomination() {
    let pending = nominated(preemptor(5, 1, &[("cpu", "4")]), &[("m1", 1)]);
    let decision = World::new().decide(&pending, 1_000);
    assert_eq!(decision.preemption, Some(Outcome::Dropped), "no cluster is left");
    assert_eq!(applied(&pending, &decision).status.unwrap().nominated_clusters, []);
}

#[test]
fn a_quota_is_asked_before_victims_are_chosen() {
    let mut world = World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("low", 0, "4")]);
    world.over_quota = Some("FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 9, limit 8");
    let pending = preemptor(5, 1, &[("cpu", "4")]);
    let key = BindingRef::from(&pending).key();
    let refused = world.decide(&pending, 1_000);
    assert_eq!(refused.preemption, Some(Outcome::Refused(Unhelpful::OverQuota)));
    assert_eq!(refused.next, crate::Next::WhenCapacityOrQuota, "capacity helps as well as quota");
    let message = applied(&pending, &refused).status.unwrap().conditions[0].message.clone();
    assert!(
        message.ends_with("Preemption is not helpful: a quota would refuse the result: FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 9, limit 8."),
        "{message}"
    );
    // Somebody else used the quota up while it waits for what its victims free, or for their evictions.
    let plan = World { over_quota: None, ..world.clone() }.decide(&pending, 1_000);
    let waiting = applied(&pending, &plan);
    world.preemptors.record(&key, 1, &plan.preemption.unwrap(), at(1_000));
    for evicted in [false, true] {
        if evicted {
            world.preemptors.all_evicted(&key);
        }
        let given_up = world.decide(&waiting, 1_010);
        let want = if evicted { Outcome::Expired } else { Outcome::Refused };
        assert_eq!(given_up.preemption, Some(want(Unhelpful::OverQuota)));
        assert_eq!(applied(&waiting, &given_up).status.unwrap().nominated_clusters, []);
        assert!(given_up.plan.effects.iter().all(|effect| !matches!(effect, Effect::Preempt(_))), "nobody leaves");
    }
}

#[test]
fn a_pause_of_evictions_holds_what_has_not_left() {
    let mut world = World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("low", 0, "4")]);
    let pending = preemptor(5, 1, &[("cpu", "4")]);
    let key = BindingRef::from(&pending).key();
    let paused =
        |world: &World, pending: &ResourceBinding| World { paused: true, ..world.clone() }.decide(pending, 1_010);
    let nobody = |decision: &Decision| decision.plan.effects.iter().all(|one| !matches!(one, Effect::Preempt(_)));
    let plan = world.decide(&pending, 1_000);
    let waiting = applied(&pending, &plan);
    let refused = paused(&world, &pending);
    assert_eq!((refused.preemption.clone(), nobody(&refused)), (Some(Outcome::Refused(Unhelpful::Paused)), true));
    let message = applied(&pending, &refused).status.unwrap().conditions[0].message.clone();
    assert!(
        message.ends_with("Preemption is not helpful: evictions are paused (ironclad failover resume)."),
        "{message}"
    );
    assert_eq!(refused.next, crate::Next::WhenCapacity, "what becomes free is taken all the same");
    // The nomination is written, and nobody has left.
    world.preemptors.record(&key, 1, &plan.preemption.unwrap(), at(1_000));
    let held = paused(&world, &waiting);
    assert!(nobody(&held), "{:?}", held.plan);
    assert_eq!(applied(&waiting, &held).status.unwrap().nominated_clusters, []);
    world.preemptors.record(&key, 1, &held.preemption.unwrap(), at(1_010));
    assert!(matches!(world.decide(&pending, 1_020).preemption, Some(Outcome::Nominated(_))), "resumed");
    // Whose victims have left waits on.
    world.preemptors.record(&key, 1, &world.decide(&pending, 1_020).preemption.unwrap(), at(1_020));
    world.preemptors.all_evicted(&key);
    assert_eq!(paused(&world, &waiting).preemption, Some(Outcome::Waits));
}

/// A higher priority took the rest of the cluster while the nomination was written.
#[test]
fn a_plan_is_made_once_more_before_the_first_eviction() {
    let rest = |cores: &str| World::new().cluster("m1", &[("cpu", cores)]).cores("m1", &[("low", 0, "4")]);
    let pending = preemptor(5, 1, &[("cpu", "6")]);
    let key = BindingRef::from(&pending).key();
    let first = rest("2").decide(&pending, 1_000);
    let waiting = applied(&pending, &first);
    let outcome = first.preemption.unwrap();
    for (name, free, victims) in
        [("as before", "2", vec!["low"]), ("the rest is taken", "1", vec![]), ("more", "6", vec![])]
    {
        let mut world = rest(free);
        world.preemptors.record(&key, 1, &outcome, at(1_000));
        let second = world.decide(&waiting, 1_001);
        let evicted: Vec<&str> = second
            .plan
            .effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Preempt(plan) => Some(plan.victims.iter().map(|victim| &*victim.key.name)),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(evicted, victims, "{name}");
        let held = applied(&waiting, &second).status.unwrap().nominated_clusters;
        assert_eq!(held.is_empty(), victims.is_empty(), "{name}");
        // It was no attempt.
        if let Some(refused @ Outcome::Refused(_)) = &second.preemption {
            world.preemptors.record(&key, 1, refused, at(1_001));
            assert_eq!(world.preemptors.turn(&key, 1, false, false, at(1_001)), Turn::Attempt, "{name}");
        }
    }
}

#[test]
fn a_new_process_waits_for_victims_that_are_leaving() {
    let pending = nominated(preemptor(5, 1, &[("cpu", "4")]), &[("m1", 1)]);
    let mut leaving = workload("low", 0, 1, &[("cpu", "4")], &[]);
    leaving.spec.graceful_eviction_tasks = vec![task("m1", "BindingPreempted", Some(1))];
    let world = World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("next", 1, "4")]);
    assert_eq!(world.victims(&pending), ["next@m1"], "nobody is leaving: the plan is made anew");
    let decision = world.running(leaving).decide(&pending, 1_000);
    assert_eq!(decision.preemption, Some(Outcome::Waits));
}

#[test]
fn attempts_are_limited() {
    let key = BindingKey { namespace: "n".into(), name: "p".into() };
    let victim = |name: &str| Victim {
        key: BindingKey { namespace: "n".into(), name: name.into() },
        cluster: "m1".into(),
        priority: 0,
        replicas: 1,
    };
    let open = Plan { victims: ["a", "b"].map(victim).into(), nominated: Vec::<TargetCluster>::new() };
    let plan = Outcome::Nominated(open.clone());
    let mut all = Preemptors::default();
    let turn = |all: &Preemptors, generation, now| all.turn(&key, generation, false, false, at(now));
    assert_eq!(turn(&all, 1, 0), Turn::Attempt);
    all.record(&key, 1, &plan, at(0));
    assert_eq!(turn(&all, 1, 5), Turn::Attempt, "nobody is evicted yet: the plan is made once more");
    all.record(&key, 1, &Outcome::Refused(Unhelpful::NoVictims), at(5));
    assert_eq!(turn(&all, 1, 5), Turn::Attempt, "it did not hold, and was no attempt");
    all.record(&key, 1, &plan, at(5));
    all.record(&key, 1, &plan, at(6));
    all.evicted(&key, at(6));
    assert_eq!(turn(&all, 1, 6), Turn::Resume(open.clone()), "not all victims were evicted: the same plan again");
    all.all_evicted(&key);
    assert_eq!(turn(&all, 1, 6), Turn::Wait { since: at(5), until: at(605) });
    assert_eq!(turn(&all, 1, 605), Turn::GiveUp);
    assert_eq!(
        all.record(&key, 1, &Outcome::Expired(Unhelpful::NoProgress), at(605)).map(|lasted| lasted.as_secs()),
        Some(600)
    );
    assert_eq!(turn(&all, 1, 606), Turn::Pause { until: at(665) });
    assert_eq!(turn(&all, 1, 665), Turn::Attempt);
    for begun in [665, 1_400] {
        all.record(&key, 1, &plan, at(begun));
        all.all_evicted(&key);
        all.record(&key, 1, &Outcome::Expired(Unhelpful::NoProgress), at(begun + 600));
    }
    assert_eq!(turn(&all, 1, 2_100), Turn::Rest { until: at(3_800) }, "three attempts are all");
    assert_eq!(turn(&all, 2, 2_100), Turn::Attempt, "until its spec changes");
    assert_eq!(turn(&all, 1, 3_800), Turn::Attempt, "or half an hour passed");
    all.record(&key, 1, &plan, at(3_800));
    all.evicted(&key, at(3_800));
    all.record(&key, 1, &Outcome::Refused(Unhelpful::NoVictims), at(3_900));
    assert_eq!(turn(&all, 1, 3_901), Turn::Pause { until: at(3_960) }, "the attempts count anew");
    all.record(&key, 1, &Outcome::Bound, at(4_000));
    assert_eq!(turn(&all, 1, 4_000), Turn::Attempt);
}

/// A clock that jumps back by more than a time limit holds nobody up until it has caught up.
#[test]
fn clocks_that_jump_back_hold_nobody_up() {
    let key = BindingKey { namespace: "n".into(), name: "p".into() };
    let plan = Plan { victims: Vec::new(), nominated: Vec::<TargetCluster>::new() };
    let mut all = Preemptors::default();
    let turn = |all: &Preemptors, now| all.turn(&key, 1, false, false, at(now));
    let limits = Limits { evictions_per_minute: 1, ..Limits::default() };
    let other = BindingKey { namespace: "n".into(), name: "other".into() };
    for (name, now, want) in [("a little", 99_990, Turn::Attempt), ("a lot", 1_000, Turn::GiveUp)] {
        all.record(&key, 1, &Outcome::Nominated(plan.clone()), at(100_000));
        assert_eq!(turn(&all, now), want, "{name}");
    }
    all.evicted(&key, at(100_000));
    assert_eq!(all.allowed_at(&other, 1, &limits, at(99_990)), Some(at(100_060)));
    assert_eq!(all.allowed_at(&other, 1, &limits, at(1_000)), Some(at(1_000)));
    all.record(&key, 1, &Outcome::Expired(Unhelpful::NoProgress), at(100_000));
    assert_eq!(turn(&all, 99_990), Turn::Pause { until: at(100_060) });
    assert_eq!(turn(&all, 1_000), Turn::Attempt);
}

#[test]
fn evictions_per_minute_are_limited() {
    let limits = Limits { victims: 16, evictions_per_minute: 3 };
    let [key, other] = ["p", "other"].map(|name| BindingKey { namespace: "n".into(), name: name.into() });
    let mut all = Preemptors::default();
    assert_eq!(all.allowed_at(&other, 3, &limits, at(100)), Some(at(100)));
    assert_eq!(all.allowed_at(&other, 4, &limits, at(100)), None, "never");
    all.evicted(&key, at(100));
    all.evicted(&key, at(110));
    assert_eq!(all.allowed_at(&other, 1, &limits, at(120)), Some(at(120)));
    assert_eq!(all.allowed_at(&other, 2, &limits, at(120)), Some(at(160)), "when the first one is a minute old");
    assert_eq!(all.allowed_at(&other, 3, &limits, at(120)), Some(at(170)));
    assert_eq!(all.allowed_at(&other, 3, &limits, at(170)), Some(at(170)));
}

/// Two preemptors that plan at the same moment share the limit.
#[test]
fn victims_of_open_plans_count_as_evicted() {
    let limits = Limits { victims: 16, evictions_per_minute: 2 };
    let world = World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("a", 0, "2"), ("b", 0, "2")]);
    let plan = world.plan(&preemptor(5, 2, &[("cpu", "2")])).unwrap();
    assert_eq!(plan.victims.len(), 2);
    let [key, other] = ["p", "other"].map(|name| BindingKey { namespace: "n".into(), name: name.into() });
    let mut all = Preemptors::default();
    all.record(&key, 1, &Outcome::Nominated(plan.clone()), at(100));
    assert_eq!(all.allowed_at(&other, 1, &limits, at(105)), Some(at(165)), "none is evicted yet");
    assert_eq!(all.allowed_at(&key, 2, &limits, at(105)), Some(at(105)), "its own plan");
    all.evicted(&key, at(110));
    assert_eq!(all.allowed_at(&other, 1, &limits, at(115)), Some(at(170)), "one is");
    all.evicted(&key, at(120));
    all.all_evicted(&key);
    assert_eq!(all.allowed_at(&other, 1, &limits, at(125)), Some(at(170)), "both are, and count once");
    let mut all = Preemptors::default();
    all.record(&key, 1, &Outcome::Nominated(plan), at(100));
    all.record(&key, 1, &Outcome::Refused(Unhelpful::StillTooLittle), at(101));
    assert_eq!(all.allowed_at(&other, 2, &limits, at(105)), Some(at(105)), "the plan is not carried on");
}

/// Until the pods of its cluster are listed nobody knows what is free, so that nobody leaves.
#[test]
fn nobody_is_preempted_while_pods_are_listed_after_a_start() {
    let pending = preemptor(5, 1, &[("cpu", "4")]);
    let open = || World::new().cluster("m1", &[("cpu", "0")]).cores("m1", &[("low", 0, "4")]);
    let listed = || World::new().watched("m1", &[("n1", 4)]).on_node("m1", "n1", &[("low", 0, 4)]);
    let lost = || {
        let mut world = listed().cluster("m2", &[("cpu", "0")]);
        let cluster = Arc::make_mut(world.clusters.get_mut(&"m2".into()).unwrap());
        cluster.status.as_mut().unwrap().conditions[0].status = "False".into();
        world
    };
    for (name, mut world, started, is_waited_for) in [
        ("long ago", open(), None, false),
        ("just now", open(), Some(0), true),
        ("half a minute ago: its pods are not watched", open(), Some(29), true),
        ("since then", open(), Some(30), false),
        ("its pods are listed", listed(), Some(0), false),
        ("another one is still to be listed", listed().cluster("m2", &[("cpu", "0")]), Some(0), true),
        ("the other one is not ready", lost(), Some(0), false),
    ] {
        world.started = started;
        let decision = world.decide(&pending, 1_000);
        if is_waited_for {
            assert_eq!(decision.preemption, Some(Outcome::Refused(Unhelpful::Recounting)), "{name}");
            assert_eq!(decision.next, crate::Next::At(at(1_001)), "{name}");
        } else {
            assert!(matches!(decision.preemption, Some(Outcome::Nominated(_))), "{name}: {:?}", decision.preemption);
        }
    }
}
