//! Command lines, their output and their exit codes.

use std::{ffi::OsString, time::Duration};

use ironclad_api::policy::PurgeMode;
use ironclad_failover::flags::eviction::{Check, Mode};
use ironclad_planning::{Options, Script, plan_failover};
use ironclad_seam::Clock;
use jiff::Timestamp;

use clap::Parser as _;

use super::{
    command::{Command, Leader, Plan, What, how, options, parse_taint, script},
    print::time,
    read::parse,
    table,
};
use crate::report::{FAILED, MISUSED, exit_code};

/// Three clusters; `web` runs on m1 and may also run on m2, `pinned` may run only on m1.
const DUMP: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1, uid: m1, generation: 1, finalizers: [karmada.io/cluster-controller]}, spec: {syncMode: Push}, status: &ready {apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: "True", reason: ClusterReady, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2, uid: m2, generation: 1, finalizers: [karmada.io/cluster-controller]}, spec: {syncMode: Push}, status: *ready}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m3, uid: m3, generation: 1, finalizers: [karmada.io/cluster-controller]}, spec: {syncMode: Push}, status: *ready}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: failing, uid: failing, generation: 1, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  targetCluster: {}
  matchConditions: [{conditionType: Ready, operator: In, statusValues: ["False", Unknown]}]
  taintsToAdd: [{key: failing, effect: NoExecute, addOnMatchSeconds: 300, removeOnMismatchSeconds: 180}]
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBindingList
items:
- metadata: {name: web-deployment, namespace: shop, uid: web, generation: 2, labels: {propagationpolicy.karmada.io/permanent-id: p}, annotations: {policy.karmada.io/applied-placement: '{"clusterAffinity":{"clusterNames":["m1","m2"]},"spreadConstraints":[{"spreadByField":"cluster","minGroups":1,"maxGroups":1}]}'}}
  spec: {replicas: 2, replicaRequirements: {}, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: w}, clusters: [{name: m1, replicas: 2}], placement: {clusterAffinity: {clusterNames: [m1, m2]}, spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}}
  status: {schedulerObservedGeneration: 2, conditions: [{type: Scheduled, status: "True", reason: Success, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
- metadata: {name: pinned-deployment, namespace: shop, uid: pinned, generation: 2, labels: {propagationpolicy.karmada.io/permanent-id: q}, annotations: {policy.karmada.io/applied-placement: '{"clusterAffinity":{"clusterNames":["m1"]}}'}}
  spec: {replicas: 1, replicaRequirements: {}, resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: pinned, uid: x}, clusters: [{name: m1, replicas: 1}], placement: {clusterAffinity: {clusterNames: [m1]}}}
  status: {schedulerObservedGeneration: 2, conditions: [{type: Scheduled, status: "True", reason: Success, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}
"#;

fn what_of(command: &Command) -> &What {
    match &command.plan {
        Plan::Fleet(what) => what,
        Plan::Apply(_) | Plan::Load(_) | Plan::Preemption(_) | Plan::PriorityClass(_) => panic!("another command"),
    }
}

#[test]
fn dumps_with_any_kind_of_list_are_read() {
    let world = parse(DUMP).unwrap();
    assert_eq!((world.clusters.len(), world.taint_policies.len(), world.bindings.len()), (3, 1, 2));
    assert!(parse("{\"kind\": \"List\"}").is_err(), "a List without items");
    let bad = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1}, spec: 7}";
    assert!(format!("{:#}", parse(bad).unwrap_err()).starts_with("Cluster m1: "));
    assert!(parse("").unwrap().clusters.is_empty());
}

#[test]
fn printed_plans_of_a_loss_and_of_a_taint() {
    let world = parse(DUMP).unwrap();
    let start = Timestamp::from_second(1_790_000_000).unwrap();
    let text = |script: &Script| table(&plan_failover(&world, script, &Options::default(), start), false);
    let loss = Script::cluster_loss(&["m1".into()], Some(Duration::from_secs(1_800)));
    let blip = Script::cluster_loss(&["m1".into()], Some(Duration::from_secs(120)));
    let taint = Script::taint(&"m1".into(), &parse_taint("maintenance:PreferNoExecute").unwrap(), None);
    let both = format!(
        "m1 is lost for 30 minutes\n{}\nfor 2 minutes\n{}\ntainted PreferNoExecute\n{}",
        text(&loss),
        text(&blip),
        text(&taint)
    );
    assert_eq!(both, include_str!("tests/tables.txt"), "\n{both}");
}

#[test]
fn taints_are_parsed_like_kubectl() {
    let taint = parse_taint("disk=slow:NoExecute").unwrap();
    assert_eq!(
        (taint.key.as_str(), taint.value.as_deref(), taint.effect.as_str()),
        ("disk", Some("slow"), "NoExecute")
    );
    assert_eq!(parse_taint("k:NoSchedule").unwrap().value, None);
    for (text, want) in [
        ("k", "invalid taint spec: k"),
        (":NoExecute", "invalid taint spec: :NoExecute"),
        ("k:PreferNoSchedule", "invalid taint effect: PreferNoSchedule, unsupported taint effect"),
    ] {
        assert!(parse_taint(text).unwrap_err().to_string().starts_with(want), "{text}");
    }
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    plan: Command,
}

/// Five workloads on a tainted cluster: the rate determines the duration of the evictions.
#[test]
fn plan_of_another_rate() {
    let one = DUMP.find("- metadata: {name: web-deployment").unwrap();
    let end = DUMP.find("- metadata: {name: pinned-deployment").unwrap();
    let more: String = (0..4).map(|n| DUMP[one..end].replace("web", &format!("web{n}"))).collect();
    let tainted = "spec: {syncMode: Push, taints: [{key: k, effect: NoExecute, timeAdded: \"2026-01-01T00:00:00Z\"}]}";
    let dump = DUMP.replacen("spec: {syncMode: Push}", tainted, 1).replacen(
        &DUMP[one..end],
        &(DUMP[one..end].to_owned() + &more),
        1,
    );
    let world = parse(&dump).unwrap();
    let start = Timestamp::from_second(1_790_000_000).unwrap();
    for (line, moves, seconds) in [("rate 0.5", 5, 8.0), ("rate 5", 5, 0.8), ("rate 0", 0, 0.0)] {
        let line = Line::try_parse_from(std::iter::once("plan").chain(line.split(' '))).unwrap().plan;
        let options = options(&how(what_of(&line)).unwrap(), &Leader::default()).unwrap();
        let found = plan_failover(&world, &script(what_of(&line), &world).unwrap(), &options, start);
        let last = found.moves.iter().map(|one| one.evicted).max().unwrap_or_default();
        assert_eq!((found.moves.len(), last.as_secs_f64()), (moves, seconds), "{:?}", found.moves);
    }
    let line = Line::try_parse_from(["plan", "rate", "NaN"]).unwrap().plan;
    assert!(options(&how(what_of(&line)).unwrap(), &Leader::default()).is_err(), "NaN is no rate");
    let line = Line::try_parse_from(["plan", "rate", "5", "--rate", "3"]).unwrap().plan;
    assert!(how(what_of(&line)).is_err(), "two rates");
}

/// As kubectl: 2 is for command lines that no fleet could answer.
#[tokio::test]
async fn what_does_not_exist_is_a_failure_and_no_misuse() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.yaml");
    std::fs::write(&dump, DUMP).unwrap();
    let clock = Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap());
    for (line, code, want) in [
        ("cluster-loss m1 m9 -f", FAILED, "there is no cluster m9\n  try: one of m1, m2, m3"),
        ("taint m9 k:NoExecute -f", FAILED, "there is no cluster m9"),
        ("taint m1 k:Never -f", MISUSED, "invalid taint effect"),
        ("preemption gone -n shop --dump", FAILED, "no ResourceBinding in namespace shop is called gone"),
        ("priority-class gone --dump", FAILED, "there is no PriorityClass gone"),
    ] {
        let words = ["plan"].into_iter().chain(line.split(' ')).map(OsString::from);
        let words = words.chain([dump.clone().into_os_string()]);
        let plan = Line::try_parse_from(words).unwrap().plan;
        let error = super::command::run(&plan, &clock).await.unwrap_err();
        assert!(error.to_string().starts_with(want), "{line}: {error}");
        assert_eq!(exit_code(&error), code, "{line}");
    }
}

#[test]
fn flags_of_the_leader_are_the_defaults_of_a_plan() {
    let mut leader = Leader::default();
    let eviction = &mut leader.flags.eviction;
    (eviction.resource_eviction_rate, eviction.eviction_capacity_check) = (3.0, true);
    (eviction.pre_scheduling_check, eviction.failover_mode) = (Check::Strict, Mode::Observe);
    leader.flags.health.failure_threshold = Duration::from_secs(2);
    let planned = |line: &str, leader: &Leader| {
        let line = Line::try_parse_from(["plan", "cluster-loss", "m1"].into_iter().chain(line.split_whitespace()));
        options(&how(what_of(&line.unwrap().plan)).unwrap(), leader)
    };
    let found = planned("", &leader).unwrap();
    assert_eq!(
        (found.flags.eviction.resource_eviction_rate, found.flags.eviction.eviction_capacity_check),
        (3.0, true)
    );
    assert_eq!(found.flags.eviction.pre_scheduling_check, Check::Strict);
    assert_eq!(found.flags.health.failure_threshold, Duration::from_secs(2));
    assert_eq!((found.gate, found.flags.eviction.failover_mode), (true, Mode::Enforce));

    let given = "--rate 1 --check off --eviction-capacity-check=false --cluster-failure-threshold 9s \
                 --no-execute-taint-eviction-purge-mode Directly --mass-failure-hold 0";
    let found = planned(given, &leader).unwrap().flags;
    assert_eq!((found.eviction.resource_eviction_rate, found.eviction.eviction_capacity_check), (1.0, false));
    assert_eq!(found.eviction.pre_scheduling_check, Check::Off);
    assert_eq!(found.health.failure_threshold, Duration::from_secs(9));
    assert_eq!(found.eviction.no_execute_taint_eviction_purge_mode, PurgeMode::Directly);
    assert!(planned("--no-execute-taint-eviction-purge-mode Never", &leader).is_err());

    leader.is_off = true;
    for (line, gate) in [("", false), ("--without-failover", false), ("--with-failover", true)] {
        assert_eq!(planned(line, &leader).unwrap().gate, gate, "{line:?} with a leader that decides on no evictions");
    }
}

#[test]
fn times() {
    for (millis, want) in [(0, "0s"), (500, "0.5s"), (61_000, "1m1s"), (3_600_000, "1h"), (90_200, "1m30.2s")] {
        assert_eq!(time(Duration::from_millis(millis)), want);
    }
}
