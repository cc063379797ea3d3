//! A member's kube-apiserver is killed: its workloads move at the configured rate, and its old copies are deleted when
//! it returns.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::ensure;
use ironclad_api::{
    conditions::{binding::EVICTION_PENDING, is_true},
    taints::NO_EXECUTE,
    work::ResourceBinding,
};
use ironclad_seam::{Clock, Tasks};
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Config, NodeShape, RealEnv, until},
    sim::script::TaintPolicy,
};
use serde_json::json;

use crate::failover_walk::{DEADLINE, Fleet, LOST, client, rows};

const RATE: f64 = 1.0;
const WORKLOADS: usize = 12;

#[tokio::test]
async fn a_lost_kube_apiserver_on_real_kube_apiservers() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, ..NodeShape::default() };
    let config = Config { members: 3, nodes, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let kubeconfig = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &kubeconfig]).await?.success()?;
    // Windows and thresholds are short to save time: the test is about the rate.
    let (rate, port) = (format!("--resource-eviction-rate={RATE}"), free_port()?.to_string());
    let account = env.account().await?;
    let run = [
        "run",
        "--kubeconfig",
        &account,
        "--metrics-bind-address=0",
        "--feature-gates=Failover=true",
        &rate,
        "--cluster-status-update-frequency=1s",
        "--cluster-success-threshold=2s",
        "--cluster-failure-threshold=2s",
        "--eviction-warm-up=1s",
        "--explain-bind-address",
        &port,
    ];
    let daemon = Daemon::start(run).await?;
    let mut members = Vec::new();
    for (n, member) in env.members().iter().enumerate() {
        let (name, path): (String, PathBuf) = (format!("member{}", n + 1), member.kubeconfig());
        let path = path.display().to_string();
        ironclad(["join", &name, "--kubeconfig", &kubeconfig, "--cluster-kubeconfig", &path]).await?.success()?;
        members.push(client(&member.kubeconfig(), None).await?);
    }
    let plane = client(&env.plane().kubeconfig(), None).await?;
    let fleet = Fleet { plane, members, kubeconfig: kubeconfig.clone(), rate: RATE, workloads: WORKLOADS };
    fleet.settle(&TaintPolicy { effect: NO_EXECUTE, add_after: 2, remove_after: 2 }).await?;

    let tasks = Tasks::new("failover");
    let seen = fleet.watch(&tasks);
    // While paused, all evictions wait visibly.
    fleet.verb(&["failover", "pause"]).await?;
    env.member(0).stop_api_server();
    fleet.tainted().await?;
    until("everything waits", DEADLINE, async || {
        let waiting = rows(&fleet.verb(&["get", "evictions", "-o", "json"]).await?)?;
        ensure!(waiting.len() == WORKLOADS, "{} wait", waiting.len());
        ensure!(waiting.iter().all(|row| row["cluster"] == LOST), "{waiting:?}");
        Ok(())
    })
    .await?;
    let by = async |source| until("everything is explained", DEADLINE, async || explained(&fleet, source).await).await;
    by(Source::Leader).await?;
    until("each binding shows since when it waits", DEADLINE, async || {
        let shows = |b: &ResourceBinding| b.status.as_ref().is_some_and(|s| is_true(&s.conditions, EVICTION_PENDING));
        let shown = fleet.bindings().await?.iter().filter(|binding| shows(binding)).count();
        ensure!(shown == WORKLOADS, "{shown} of {WORKLOADS}");
        Ok(())
    })
    .await?;
    // Without a leader: the verbs compute the same queue from the objects.
    daemon.stop_unrefused().await?;
    by(Source::Objects).await?;
    let daemon = Daemon::start(run).await?;
    by(Source::Leader).await?;
    let moved = fleet.bindings().await?.iter().any(|binding| binding.spec.target(LOST).is_none());
    ensure!(!moved, "paused, and yet something moved");

    let resumed = Clock::system().wall();
    fleet.verb(&["failover", "resume"]).await?;
    fleet.moved().await?;
    fleet.paced(resumed, &seen).await?;

    env.member(0).start_api_server().await?;
    fleet.back().await?;
    tasks.kill();
    daemon.stop_unrefused().await
}

/// Source of the output of the verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Leader,
    Objects,
}

/// All evictions wait; users see time, reason, position, and what would cancel each.
async fn explained(fleet: &Fleet, source: Source) -> anyhow::Result<()> {
    let by_objects = json!(source == Source::Objects);
    let answers = rows(&fleet.verb(&["why", "evicted", "-o", "json"]).await?)?;
    ensure!(answers.len() == WORKLOADS, "{source:?}: {answers:?}");
    let mut places = BTreeSet::new();
    for answer in &answers {
        let rebuilt = answer.get("rebuilt").cloned().unwrap_or(json!(false));
        ensure!(answer["cluster"] == LOST && rebuilt == by_objects, "{source:?}: {answer}");
        ensure!(
            answer["state"] == "Queued" && answer["because"].as_str().is_some_and(|b| b.contains("NoExecute")),
            "{answer}"
        );
        ensure!(answer["due"].is_string() && answer["since"].is_string(), "{source:?}: since when is known: {answer}");
        let targets = answer["target"].as_str().unwrap_or_default();
        ensure!(targets.contains("member2") && targets.contains("member3"), "{answer}");
        ensure!(answer["cancels"].as_array().is_some_and(|ways| ways.len() == 2), "{answer}");
        places.extend(answer["place"].as_u64());
    }
    let all: BTreeSet<u64> = (1..=u64::try_from(WORKLOADS)?).collect();
    ensure!(places == all, "{source:?}: each has its place: {places:?}");
    let listed = fleet.both(&["get", "evictions"]).await?;
    let said = match source {
        Source::Leader => "paused by ConfigMap karmada-system/ironclad-failover",
        Source::Objects => "no leader: the Lease was last renewed",
    };
    ensure!(listed.stderr.contains(said), "{source:?}: {listed:?}");
    ensure!(listed.stdout.lines().count() == 1 + WORKLOADS, "{source:?}: {listed:?}");
    Ok(())
}
