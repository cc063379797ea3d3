//! A member's kube-apiserver is killed: its workloads move at the rate that was set, and its old copies go when it returns.

use std::path::PathBuf;

use anyhow::ensure;
use ironclad_api::taints::NO_EXECUTE;
use ironclad_seam::{Clock, Tasks};
use ironclad_testkit::{
    product::{Product, ironclad},
    real::{Config, NodeShape, RealEnv, until},
    sim::programme::TaintPolicy,
};

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
    // Windows and thresholds are short, or the test would take minutes; the rate is what it is about.
    let rate = format!("--resource-eviction-rate={RATE}");
    let product = Product::start([
        "run",
        "--kubeconfig",
        &kubeconfig,
        "--metrics-bind-address=0",
        "--feature-gates=Failover=true",
        &rate,
        "--cluster-status-update-frequency=1s",
        "--cluster-success-threshold=2s",
        "--cluster-failure-threshold=2s",
        "--eviction-warm-up=1s",
    ])
    .await?;
    let mut members = Vec::new();
    for (n, member) in env.members().iter().enumerate() {
        let (name, path): (String, PathBuf) = (format!("member{}", n + 1), member.kubeconfig());
        let path = path.display().to_string();
        ironclad(["join", &name, "--kubeconfig", &kubeconfig, "--cluster-kubeconfig", &path]).await?.success()?;
        members.push(client(&member.kubeconfig(), None).await?);
    }
    let plane = client(&env.plane().kubeconfig(), None).await?;
    let fleet = Fleet { plane, members, kubeconfig, rate: RATE, workloads: WORKLOADS };
    fleet.settle(&TaintPolicy { effect: NO_EXECUTE, add_after: 2, remove_after: 2 }).await?;

    let tasks = Tasks::new("failover");
    let seen = fleet.watch(&tasks);
    // Paused, everything waits where everybody can see it.
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
    let moved = fleet.bindings().await?.iter().any(|binding| binding.spec.target(LOST).is_none());
    ensure!(!moved, "paused, and yet something moved");

    let resumed = Clock::system().wall();
    fleet.verb(&["failover", "resume"]).await?;
    fleet.moved().await?;
    fleet.paced(resumed, &seen).await?;

    env.member(0).start_api_server().await?;
    fleet.back().await?;
    tasks.kill();
    product.stop().await
}
