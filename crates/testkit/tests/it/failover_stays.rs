//! Rows of the behaviour table (specification/failover.md 11) in which nothing moves: a fault alone, a cordon, or
//! a disabled gate.

use ironclad_failover::flags::eviction::Check;
use std::time::Duration;

use anyhow::ensure;
use ironclad_api::{cluster::Cluster, conditions, policy::ClusterTaintPolicy, taints};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    runner::{Runner, setup},
    script::{App, Failover, taint, untaint},
};
use kube::{Api, api::PostParams};
use serde_json::json;

fn on_first(name: &str) -> App {
    App { affinity: vec!["member1".into(), "member2".into()], ..App::new(name) }
}

#[tokio::test(start_paused = true)]
async fn b2_with_the_gate_off_workloads_with_failover_stay() -> anyhow::Result<()> {
    let mut off = setup(3, 10.0);
    off.settings = ironclad_testkit::sim::flags::settings(false, 10.0, Check::Strict);
    off.rules.gate = false;
    let mut runner = Runner::new(off).await?;
    let failover = Failover::Cluster { mode: "Gracefully", seconds: 0 };
    runner.settle(&[App { failover, ..on_first("web") }]).await?;
    runner.taint(&["member1"], "PreferNoExecute").await?;
    runner.at(600.0).await?;
    ensure!(runner.placed("web")? == ["member1:1"] && runner.tasks("web")?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b4_a_lost_member_keeps_its_workloads_and_gets_no_new_ones() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(3, 10.0)).await?;
    let failover = Failover::Cluster { mode: "Directly", seconds: 0 };
    runner.settle(&[on_first("web"), App { failover, ..on_first("ready-to-go") }]).await?;
    runner.fault("member1", Faults { down: true, ..Faults::default() })?;
    runner.at(120.0).await?;
    let lost = runner.world.model.look(|fleet| fleet.clusters.get(&"member1".into()).cloned());
    let effects: Vec<String> = lost.into_iter().flat_map(|c| c.spec.taints.clone()).map(|t| t.effect).collect();
    ensure!(effects == ["NoSchedule"], "the only taint that comes by itself (1.6): {effects:?}");
    runner.add(&on_first("new"), |_| {}).await?;
    runner.until("the new one is placed", |runner| Ok(runner.placed("new").is_ok_and(|p| p == ["member2:1"]))).await?;
    runner.at(720.0).await?;
    for name in ["web", "ready-to-go"] {
        ensure!(runner.placed(name)? == ["member1:1"] && runner.tasks(name)?.is_empty(), "{name}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b62_neither_a_cordon_nor_its_end_moves_anything() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(3, 10.0)).await?;
    runner.settle(&[on_first("web")]).await?;
    let (user, now) = (runner.world.user(), runner.world.clock().wall_seconds());
    taint(&user, "member1", taints::UNSCHEDULABLE, "NoSchedule", now).await?;
    runner.world.pass(Duration::from_secs(300)).await?;
    runner.add(&on_first("new"), |_| {}).await?;
    runner.until("the new one is placed", |runner| Ok(runner.placed("new").is_ok_and(|p| p == ["member2:1"]))).await?;
    untaint(&user, "member1", taints::UNSCHEDULABLE, "NoSchedule").await?;
    runner.world.pass(Duration::from_secs(300)).await?;
    ensure!(runner.placed("web")? == ["member1:1"] && runner.placed("new")? == ["member2:1"]);
    ensure!(runner.tasks("web")?.is_empty() && runner.tasks("new")?.is_empty());
    Ok(())
}

/// Condition NodesReady (14.1, #3612): Ready stays True without a node, and a policy may act on it all the same.
#[tokio::test(start_paused = true)]
async fn a_member_without_nodes_is_ready_and_may_be_tainted() -> anyhow::Result<()> {
    let mut watched = setup(3, 10.0);
    watched.settings.failover.health.nodes_ready_ratio = 0.5;
    let mut runner = Runner::new(watched).await?;
    let policy: ClusterTaintPolicy = serde_json::from_value(json!({
        "metadata": {"name": "no-nodes"},
        "spec": {
            "matchConditions": [{"conditionType": "NodesReady", "operator": "In", "statusValues": ["False", "Unknown"]}],
            "taintsToAdd": [{"key": "example.com/no-nodes", "effect": "NoSchedule", "addOnMatchSeconds": 30, "removeOnMismatchSeconds": 10}],
        },
    }))?;
    Api::<ClusterTaintPolicy>::all(runner.world.user()).create(&PostParams::default(), &policy).await?;
    let reported = |runner: &Runner| {
        let cluster: Option<std::sync::Arc<Cluster>> =
            runner.world.model.look(|fleet| fleet.clusters.get(&"member1".into()).cloned());
        let cluster = cluster.unwrap_or_default();
        let status = cluster.status.clone().unwrap_or_default();
        let nodes = conditions::get(&status.conditions, conditions::cluster::NODES_READY).map(|c| c.status.clone());
        (nodes, cluster.ready().map(str::to_owned), cluster.spec.taints.len())
    };
    let is = |nodes: &str, taints| (Some(nodes.to_owned()), Some("True".to_owned()), taints);
    runner.until("its nodes are ready", |runner| Ok(reported(runner) == is("True", 0))).await?;
    runner.remove_nodes("member1")?;
    runner.until("it is tainted", |runner| Ok(reported(runner) == is("Unknown", 1))).await?;
    runner.restore_node("member1")?;
    runner.until("it is well", |runner| Ok(reported(runner) == is("True", 0))).await?;
    runner.world.until_quiet().await
}
