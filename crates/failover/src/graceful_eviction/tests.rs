use ironclad_api::{
    ObjectMeta,
    annotations::PROCEED_WITHOUT_CLEANUP,
    policy::{ClusterFailoverBehavior, FailoverBehavior, StatePreservation},
    work::{
        ResourceBindingStatus,
        ResourceHealth::{Healthy, Unhealthy, Unknown},
    },
};
use proptest::prelude::*;

use super::*;
use crate::testkit::{at, line, spec, task};

/// Binding whose current generation the scheduler has observed.
struct Case {
    spec: ResourceBindingSpec,
    status: Vec<AggregatedStatusItem>,
    lags: bool,
    not_ready: BTreeSet<ClusterName>,
    copies: BTreeSet<ClusterName>,
    own_replicas: BTreeSet<ClusterName>,
    gone_preemptors: BTreeSet<BindingKey>,
    metadata: ObjectMeta,
    history: Vec<FailoverRecord>,
    plugins: Plugins,
    stale_pending: bool,
}

fn case(result: &[(&str, i32)], tasks: Vec<GracefulEvictionTask>, status: Vec<AggregatedStatusItem>) -> Case {
    let (spec, not_ready, copies) = (spec(result, tasks), BTreeSet::new(), BTreeSet::new());
    let own_replicas = BTreeSet::new();
    let metadata = ObjectMeta { generation: Some(5), namespace: Some("shop".into()), ..ObjectMeta::default() };
    let history = Vec::new();
    Case {
        spec,
        history,
        status,
        lags: false,
        not_ready,
        copies,
        own_replicas,
        gone_preemptors: BTreeSet::new(),
        metadata,
        plugins: Plugins::default(),
        stale_pending: false,
    }
}

impl Case {
    fn lagging(self) -> Self {
        Self { lags: true, ..self }
    }

    fn without(self, cluster: &str) -> Self {
        Self { not_ready: [cluster.into()].into(), ..self }
    }

    fn with_own_replicas(self, cluster: &str) -> Self {
        Self { own_replicas: [cluster.into()].into(), ..self }
    }

    fn plugins(self, list: &str) -> Self {
        Self { plugins: Plugins::parse(list.split(',')).unwrap(), ..self }
    }

    fn decide(&self, now: i64) -> Decision {
        let status = ResourceBindingStatus {
            scheduler_observed_generation: if self.lags { 4 } else { 5 },
            aggregated_status: self.status.clone(),
            failover_history: self.history.clone(),
            ..ResourceBindingStatus::default()
        };
        let mut binding = ResourceBinding::new("b", self.spec.clone());
        (binding.metadata, binding.status) = (self.metadata.clone(), Some(status));
        let seen = Snapshot {
            binding: Arc::new(binding).into(),
            not_ready: self.not_ready.clone(),
            copies: self.copies.clone(),
            own_replicas: self.own_replicas.clone(),
            gone_preemptors: self.gone_preemptors.clone(),
            stale_pending: self.stale_pending,
        };
        decide(&seen, &self.plugins, at(now))
    }

    /// `keep`, `keep until N`, `stamp` or `clear by X`, of the only task.
    fn verdict(&self, now: i64) -> String {
        let decision = self.decide(now);
        let until = decision.next.map_or(String::new(), |at| format!(" until {}", at.as_second()));
        match decision.cleared.first() {
            Some(cleared) => format!("clear by {}", cleared.by),
            None if decision.plan.is_quiet() => format!("keep{until}"),
            None => format!("stamp{until}"),
        }
    }
}

#[test]
fn condition_of_a_disabled_taint_manager_is_removed() {
    let removed = |case: &Case| {
        case.decide(100).plan.effects.into_iter().any(|effect| match effect {
            Effect::Status(part) => part.conditions.iter().any(|c| c.type_ == EVICTION_PENDING && c.status.is_empty()),
            _ => false,
        })
    };
    for stale in [false, true] {
        for tasks in [vec![], vec![task("m1")]] {
            let case = Case { stale_pending: stale, ..case(&[("m2", 1)], tasks, vec![]) };
            assert_eq!(removed(&case), stale);
        }
    }
}

#[test]
fn task_of_a_deleted_preemptor_ends_at_once() {
    let key = |name: &str| BindingKey { namespace: "shop".into(), name: name.into() };
    let preempted = |by: &str| GracefulEvictionTask {
        reason: BINDING_PREEMPTED.to_owned(),
        message: eviction_task::preempted_by(&key(by), 9),
        purge_mode: Some(PurgeMode::Directly),
        grace_period_seconds: Some(300),
        ..task("m1")
    };
    let other = GracefulEvictionTask { message: preempted("gone").message, ..task("m1") };
    let held = GracefulEvictionTask { suppress_deletion: Some(true), ..preempted("gone") };
    for (name, task, result, want) in [
        ("the preemptor is deleted", preempted("gone"), &[][..], "clear by preemptorDeleted"),
        ("and the victim runs elsewhere", preempted("gone"), &[("m2", 1)], "clear by preemptorDeleted"),
        ("the preemptor exists", preempted("there"), &[], "keep until 300"),
        ("a task of another cause", other, &[], "keep"),
        ("a person holds the task", held, &[], "keep"),
    ] {
        let case = Case { gone_preemptors: [key("gone")].into(), ..case(result, vec![task], vec![]) };
        assert_eq!(case.verdict(100), want, "{name}");
    }
}

#[test]
fn overridden_replicas_are_not_compared_with_the_schedule_result() {
    for (name, health, ready, own, want) in [
        ("ready replicas equal the assigned ones", Healthy, 3, false, "clear by ResourceHealth"),
        ("fewer ready than assigned: the report may be older than the result", Healthy, 1, false, "keep"),
        ("fewer ready than assigned, equal to the overridden number", Healthy, 1, true, "clear by ResourceHealth"),
        ("fewer ready than the overridden number", Unhealthy, 1, true, "keep"),
    ] {
        let mut case = case(&[("m2", 3)], vec![task("m1")], vec![line("m2", health, ready)]);
        if own {
            case = case.with_own_replicas("m2");
        }
        assert_eq!(case.verdict(100), want, "{name}");
    }
    let work = |labels: Value, annotations: Value, replicas: Value| -> ironclad_api::work::Work {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "w", "annotations": annotations},
            "spec": {"workload": {"manifests": [{
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "labels": labels, "annotations": annotations}, "spec": {"replicas": replicas},
            }]}},
        }))
        .unwrap()
    };
    let (none, retained) =
        (serde_json::json!({}), serde_json::json!({"resourcetemplate.karmada.io/retain-replicas": "true"}));
    let overridden = serde_json::json!({"policy.karmada.io/applied-overrides": "[]"});
    let decided = serde_json::json!({"federatedhpa.karmada.io/applied-replicas": "3/3"});
    for (name, labels, annotations, replicas, want) in [
        ("replicas of the Work are those of the result", &none, &none, 3, false),
        ("the Work has the replicas of an older result", &none, &none, 1, false),
        ("an override that leaves replicas alone", &none, &overridden, 3, false),
        ("overridden replicas", &none, &overridden, 1, true),
        ("the member keeps its replicas", &retained, &none, 3, true),
        ("an autoscaler in the member decides them", &none, &decided, 3, true),
    ] {
        let work = work(labels.clone(), annotations.clone(), replicas.into());
        assert_eq!(runs_own_replicas(&work, 3), want, "{name}");
    }
}

fn grace(task: GracefulEvictionTask, seconds: i32) -> GracefulEvictionTask {
    GracefulEvictionTask { grace_period_seconds: Some(seconds), ..task }
}

fn suppressed(task: GracefulEvictionTask, suppress: bool) -> GracefulEvictionTask {
    GracefulEvictionTask { suppress_deletion: Some(suppress), ..task }
}

fn new(task: GracefulEvictionTask) -> GracefulEvictionTask {
    GracefulEvictionTask { creation_timestamp: None, ..task }
}

fn preempted(task: GracefulEvictionTask) -> GracefulEvictionTask {
    let reason = BINDING_PREEMPTED.to_owned();
    GracefulEvictionTask { reason, purge_mode: Some(PurgeMode::Directly), ..grace(task, 60) }
}

#[test]
fn verdicts_in_order_of_precedence() {
    let well = || vec![line("m2", Healthy, 2)];
    let ill = || vec![line("m2", Unhealthy, 0)];
    let on = |task, status| case(&[("m2", 2)], vec![task], status);
    let m1 = || task("m1");
    let applied = |applied| AggregatedStatusItem { applied, ..line("m2", Healthy, 2) };
    let plain = || AggregatedStatusItem { status: None, ..line("m2", Healthy, 0) };
    for (name, case, now, want) in [
        ("1: a task without creationTimestamp gets one", on(new(m1()), well()), 0, "stamp"),
        ("1: and is checked at the end of its grace period", on(new(grace(m1(), 600)), ill()), 7, "stamp until 607"),
        (
            "2: suppressDeletion true keeps the copy, healthy or not",
            on(suppressed(m1(), true), well()),
            1_000_000,
            "keep",
        ),
        ("2: suppressDeletion false ends the task", on(suppressed(m1(), false), ill()), 1, "clear by suppressDeletion"),
        (
            "2: also with an empty schedule result",
            case(&[], vec![suppressed(m1(), false)], vec![]),
            1,
            "clear by suppressDeletion",
        ),
        (
            "3: the cluster is a target again, in any health",
            case(&[("m1", 2)], vec![m1()], vec![]).lagging(),
            1,
            "clear by ClusterInScheduleResult",
        ),
        (
            "3: preempted, one second before the end of grace",
            case(&[], vec![preempted(m1())], vec![]),
            59,
            "keep until 60",
        ),
        (
            "3: preempted, grace period over, empty result",
            case(&[], vec![preempted(m1())], vec![]),
            60,
            "clear by gracePeriodSeconds",
        ),
        (
            "3: preempted, grace period over, result outdated",
            case(&[], vec![preempted(m1())], vec![]).lagging(),
            60,
            "clear by gracePeriodSeconds",
        ),
        ("4: the schedule result is outdated, and so is the health", on(m1(), well()).lagging(), 1, "keep"),
        (
            "4: grace period over, but the schedule result is outdated",
            on(grace(m1(), 60), ill()).lagging(),
            600,
            "keep",
        ),
        ("5: empty result: the only copy is kept", case(&[], vec![m1()], vec![]), 86_400, "keep"),
        ("5: empty result: health of other clusters does not count", case(&[], vec![m1()], well()), 1, "keep"),
        (
            "5: empty result: the grace period does not end the task",
            case(&[], vec![grace(m1(), 600)], vec![]),
            601,
            "keep",
        ),
        ("6: every new copy is healthy (B28)", on(m1(), well()), 20, "clear by ResourceHealth"),
        ("6: unhealthy: no timeout ends the task (B29)", on(m1(), ill()), 660, "keep"),
        ("6: unknown is not healthy", on(m1(), vec![line("m2", Unknown, 2)]), 660, "keep"),
        ("6: no status reported yet", on(m1(), vec![]), 660, "keep"),
        ("6: status reported by other clusters only", on(m1(), vec![line("m1", Healthy, 2)]), 660, "keep"),
        (
            "6: every target must be healthy",
            case(&[("m2", 1), ("m3", 1)], vec![m1()], vec![line("m2", Healthy, 1), line("m3", Unhealthy, 0)]),
            1,
            "keep",
        ),
        ("6: health from a cluster that is not ready is stale (IR-29)", on(m1(), well()).without("m2"), 1, "keep"),
        ("6: healthy, but not applied (IR-29)", on(m1(), vec![applied(false)]), 1, "keep"),
        ("6: fewer ready replicas than assigned (IR-29)", on(m1(), vec![line("m2", Healthy, 1)]), 1, "keep"),
        ("6: a kind without replicas ends its task too (#4951)", on(m1(), vec![plain()]), 1, "clear by ResourceHealth"),
        ("7: one second before the end of grace", on(grace(m1(), 600), ill()), 599, "keep until 600"),
        ("7: grace period over (B59)", on(grace(m1(), 600), ill()), 600, "clear by gracePeriodSeconds"),
        ("7: healthy within the grace period", on(grace(m1(), 600), well()), 30, "clear by ResourceHealth"),
        ("8: without a grace period nothing is requeued", on(m1(), ill()), 86_400, "keep"),
        (
            "plugin ResourceHealth off: health ends nothing",
            on(m1(), well()).plugins("ClusterInScheduleResult"),
            1,
            "keep",
        ),
        (
            "plugin ClusterInScheduleResult off: a target again ends nothing",
            case(&[("m1", 1)], vec![m1()], vec![line("m1", Unhealthy, 0)]).plugins("ResourceHealth"),
            1,
            "keep",
        ),
    ] {
        assert_eq!(case.verdict(now), want, "{name}");
    }
}

#[test]
fn each_task_is_assessed_independently() {
    let ill = vec![line("m4", Unhealthy, 0)];
    let tasks = vec![grace(task("m1"), 60), task("m2"), grace(task("m3"), 300), suppressed(task("m5"), true)];
    let case = case(&[("m4", 1)], tasks, ill);
    let decision = case.decide(100);
    let cleared: Vec<_> = decision.cleared.iter().map(|c| c.task.from_cluster.as_str()).collect();
    assert_eq!(cleared, ["m1"], "each task has its own grace period (#7184)");
    assert_eq!(decision.next, Some(at(300)));
    let Effect::Tasks { patch } = &decision.plan.effects[0] else { panic!("{:?}", decision.plan) };
    let left: Vec<_> =
        patch["spec"]["gracefulEvictionTasks"].as_array().unwrap().iter().map(|t| &t["fromCluster"]).collect();
    assert_eq!(left, ["m2", "m3", "m5"], "remaining tasks keep their order");
    assert_eq!(patch["spec"].as_object().unwrap().len(), 1, "the patch contains only the task list");
}

#[test]
fn end_of_a_task_is_reported_on_binding_and_template() {
    let mut case = case(&[("m2", 1)], vec![task("m1")], vec![line("m2", Healthy, 1)]);
    case.spec.resource.kind = "Deployment".into();
    let decision = case.decide(1);
    let reported: Vec<_> = decision
        .plan
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Event(event) => Some((event.about.kind.as_str(), event.reason, event.message.as_str())),
            Effect::Tasks { .. } | Effect::Status(_) => None,
        })
        .collect();
    let text = "Evict from cluster m1 succeed. Its task ended by ResourceHealth.";
    assert_eq!(
        reported,
        [
            ("ResourceBinding", "EvictWorkloadFromClusterSucceed", text),
            ("Deployment", "EvictWorkloadFromClusterSucceed", text),
        ]
    );
    assert!(
        matches!(&decision.plan.effects[0], Effect::Tasks { patch } if patch["spec"]["gracefulEvictionTasks"].is_null())
    );
}

#[test]
fn end_of_a_migration_is_recorded_in_the_history() {
    let by_taint = FailoverRecord { episode: "e1".into(), from: "m1".into(), ..FailoverRecord::default() };
    let done = FailoverRecord { cleared_at: Some(Time(at(1))), ..by_taint.clone() };
    let after = |history: Vec<FailoverRecord>| {
        let mut case = case(&[("m2", 1)], vec![task("m1")], vec![line("m2", Healthy, 1)]);
        case.history = history;
        let decision = case.decide(50);
        let part = decision.plan.effects.iter().find_map(|effect| match effect {
            Effect::Status(part) => Some(part.fields["failoverHistory"].clone()),
            _ => None,
        });
        serde_json::from_value::<Vec<FailoverRecord>>(part.unwrap()).unwrap()
    };
    let ended = |record: FailoverRecord| {
        let mut record = record;
        (record.targets, record.cleared_at) = (vec!["m2".into()], Some(Time(at(50))));
        record
    };
    let own = FailoverRecord {
        from: "m1".into(),
        reason: "TaintUntolerated".into(),
        evicted_at: Some(Time(at(0))),
        ..FailoverRecord::default()
    };
    assert_eq!(after(vec![by_taint.clone()]), [ended(by_taint)], "the open record is completed");
    assert_eq!(
        after(vec![done.clone()]),
        [done, ended(own.clone())],
        "a completed record of the same cluster does not change"
    );
    assert_eq!(after(vec![]), [ended(own)], "a migration without a record gets one");
    let keeps = case(&[("m2", 1)], vec![task("m1")], vec![]).decide(50);
    assert!(keeps.plan.is_quiet(), "no task ended: nothing is recorded");
}

#[test]
fn plugin_lists_are_parsed() {
    let all = ["ResourceHealth", "ClusterInScheduleResult"];
    for (list, want) in [
        ("ResourceHealth,ClusterInScheduleResult", Ok(&all[..])),
        ("*", Ok(&all[..])),
        ("*,-ResourceHealth", Ok(&all[1..])),
        ("-ResourceHealth,*", Ok(&all[1..])),
        ("ResourceHealth", Ok(&all[..1])),
        (" ResourceHealth , -ResourceHealth", Ok(&[][..])),
        ("", Ok(&[][..])),
        ("EndpointSlices", Err("unknown evict plugin \"EndpointSlices\"")),
        ("*,-Nothing", Err("unknown evict plugin \"Nothing\"")),
    ] {
        let got = Plugins::parse(list.split(',')).map(|plugins| plugins.names()).map_err(|error| error.to_string());
        assert_eq!(got, want.map(<[_]>::to_vec).map_err(ToOwned::to_owned), "{list}");
    }
    assert_eq!(Plugins::default().names(), all);
    assert!(Plugins::default().warnings().is_empty());
    let off = Plugins::parse(["ResourceHealth"]).unwrap().warnings();
    assert!(off.len() == 1 && off[0].contains("leaves out ClusterInScheduleResult"), "{off:?}");
}

#[test]
fn waiting_for_source_cleanup_is_reported_every_five_minutes() {
    let stateful = || {
        let cluster =
            ClusterFailoverBehavior { state_preservation: Some(StatePreservation::default()), ..Default::default() };
        Some(FailoverBehavior { cluster: Some(cluster), application: None })
    };
    let directly = || GracefulEvictionTask { purge_mode: Some(PurgeMode::Directly), ..task("m1") };
    let waiting = || {
        let mut case = case(&[("m2", 1)], vec![directly()], vec![]).without("m1");
        (case.copies, case.spec.failover) = (["m1".into()].into(), stateful().map(Into::into));
        case
    };
    let reported = |case: &Case, now| {
        let decision = case.decide(now);
        let message = decision.plan.effects.iter().find_map(|effect| match effect {
            Effect::Event(event) => Some(event.message.clone()),
            Effect::Tasks { .. } | Effect::Status(_) => None,
        });
        let minutes =
            message.map(|text| text.split("waiting for ").nth(1).unwrap().split(' ').next().unwrap().to_owned());
        (minutes, decision.next.map(|at| at.as_second()))
    };
    let case = waiting();
    for (now, minutes, next) in [(0, "0", 300), (299, "0", 300), (300, "5", 600), (3_000, "50", 3_300)] {
        assert_eq!(reported(&case, now), (Some(minutes.to_owned()), Some(next)), "after {now} s");
    }
    let forced = ObjectMeta {
        annotations: Some([(PROCEED_WITHOUT_CLEANUP.to_owned(), "true".to_owned())].into()),
        ..waiting().metadata
    };
    let mut none = waiting();
    none.spec.failover = None;
    let mut copy_deleted = waiting();
    copy_deleted.copies.clear();
    let mut ready = waiting();
    ready.not_ready.clear();
    let mut gracefully = waiting();
    gracefully.spec.graceful_eviction_tasks = vec![task("m1")];
    for (name, case) in [
        ("annotated to proceed without cleanup", Case { metadata: forced, ..waiting() }),
        ("no state to preserve", none),
        ("the copy no longer exists", copy_deleted),
        ("the source cluster is ready", ready),
        ("purge mode Gracefully does not wait", gracefully),
    ] {
        assert_eq!(reported(&case, 1_000), (None, None), "{name}");
    }
}

fn tasks() -> impl Strategy<Value = Vec<GracefulEvictionTask>> {
    let one = (
        prop::sample::select(vec!["m0", "m1", "m2"]),
        prop::option::of(0_i64..100),
        prop::option::of(1_i32..100),
        prop::option::of(any::<bool>()),
        any::<bool>(),
    );
    prop::collection::vec(one, 0..4).prop_map(|rows| {
        let mut tasks: Vec<GracefulEvictionTask> = Vec::new();
        for (from, begun, grace, suppress, preempted) in rows {
            if tasks.iter().all(|t| t.from_cluster != from) {
                let reason = if preempted { BINDING_PREEMPTED } else { "TaintUntolerated" };
                tasks.push(GracefulEvictionTask {
                    creation_timestamp: begun.map(|s| Time(at(s))),
                    grace_period_seconds: grace.filter(|_| suppress.is_none()),
                    suppress_deletion: suppress,
                    reason: reason.into(),
                    ..task(from)
                });
            }
        }
        tasks
    })
}

fn lines() -> impl Strategy<Value = Vec<AggregatedStatusItem>> {
    let reported = (prop::sample::select(vec![Healthy, Unhealthy, Unknown]), 0_i64..4, any::<bool>());
    prop::collection::btree_map(prop::sample::select(vec!["m0", "m1", "m2", "m3"]), reported, 0..4).prop_map(|rows| {
        rows.into_iter().map(|(name, (h, n, applied))| AggregatedStatusItem { applied, ..line(name, h, n) }).collect()
    })
}

proptest! {
    /// Invariants 17, 22 and 23, and the idempotence of the decision.
    #[test]
    fn tasks_end_neither_too_early_nor_never(
        tasks in tasks(), status in lines(), lags in any::<bool>(),
        result in prop::collection::btree_map(prop::sample::select(vec!["m0", "m1", "m2", "m3"]), 0_i32..4, 0..3),
        lost in prop::collection::btree_set(prop::sample::select(vec!["m0", "m1", "m2", "m3"]), 0..2), now in 100_i64..300,
    ) {
        let result: Vec<(&str, i32)> = result.into_iter().collect();
        let mut case = case(&result, tasks, status);
        case.lags = lags;
        case.not_ready = lost.iter().map(|name| ClusterName::from(*name)).collect();
        let decision = case.decide(now);
        let every_copy_healthy = !result.is_empty() && !lags && result.iter().all(|(name, replicas)| {
            let line = case.status.iter().find(|l| l.cluster_name == *name);
            !lost.contains(name) && line.is_some_and(|l| {
                l.applied && l.health == Some(Healthy) && l.status.as_ref().unwrap().value()["readyReplicas"].as_i64() >= Some(i64::from(*replicas))
            })
        });
        for Cleared { task, by } in &decision.cleared {
            let over = task.grace_period_seconds.is_some_and(|s| task.creation_timestamp.as_ref().unwrap().0.as_second() + i64::from(s) <= now);
            let back = case.spec.target(&task.from_cluster).is_some();
            let allowed = task.suppress_deletion == Some(false)
                || back
                || (task.reason == BINDING_PREEMPTED && over)
                || (!result.is_empty() && !lags && (every_copy_healthy || over));
            prop_assert!(allowed, "{task:?} ended by {by}");
            prop_assert!(task.creation_timestamp.is_some(), "a task has a creationTimestamp before it ends");
        }
        if every_copy_healthy {
            for task in &case.spec.graceful_eviction_tasks {
                let ended = decision.cleared.iter().any(|c| c.task == *task);
                prop_assert!(ended || task.suppress_deletion == Some(true) || task.creation_timestamp.is_none(), "{task:?} stays");
            }
        }
        let wakes = decision.next.is_none_or(|next| next > at(now));
        prop_assert!(wakes, "the next check is in the future");

        let mut after = serde_json::to_value(&case.spec).unwrap();
        for effect in &decision.plan.effects {
            if let Effect::Tasks { patch } = effect {
                after["gracefulEvictionTasks"] = match &patch["spec"]["gracefulEvictionTasks"] {
                    Value::Null => serde_json::json!([]),
                    list => list.clone(),
                };
            }
        }
        case.spec = serde_json::from_value(after).unwrap();
        let again = case.decide(now);
        let stamped = decision.plan.because.iter().any(|b| b.reason() == "TaskBegins");
        prop_assert!(stamped || again.plan.is_quiet(), "{again:?}");
        if stamped {
            let more: Vec<_> = again.plan.because.iter().map(ironclad_fleet::Because::reason).collect();
            prop_assert!(!more.contains(&"TaskBegins"), "creationTimestamp is set once: {more:?}");
        }
    }
}
