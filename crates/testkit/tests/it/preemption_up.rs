//! Priority and preemption through `ironclad up` and on real kube-apiservers, with members too small for all.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Config, NodeShape, RealEnv, until},
};

use crate::{
    preemption_walk::{FLAGS, walk},
    propagation_up::kubectl,
};

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn preemption_through_up() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let own = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--nodes", "1", "--cpu", "4"];
    let daemon = Daemon::start(own.into_iter().chain(["--startup-delay", "0s"]).chain(FLAGS)).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let members =
        [kubectl(&binaries, &data, "member1", dir.path())?, kubectl(&binaries, &data, "member2", dir.path())?];
    walk(&plane, &members).await?;

    // What Pods use is no request: load evicts nobody, and the plan says that a request would.
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let load = ["sim", "load", "member1", "--cpu", "4", "--memory", "1Gi", "--kubeconfig", &kubeconfig];
    ironclad(load).await?.success()?;
    let plan = ["plan", "preemption", "-o", "json", "--kubeconfig", &kubeconfig, "-f"];
    let manifest = dir.path().join("high.yaml");
    std::fs::write(&manifest, HIGH)?;
    let planned = ironclad(plan.into_iter().chain([manifest.display().to_string().as_str()])).await?;
    ensure!(planned.code == Some(3) && planned.stdout.contains("low-deployment"), "{planned:?}");
    daemon.stop().await
}

/// A workload of a high class that fits nowhere.
const HIGH: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: high, namespace: default, labels: {app: high}}
spec:
  replicas: 3
  selector: {matchLabels: {app: high}}
  template:
    metadata: {labels: {app: high}}
    spec:
      containers:
      - {name: web, image: 'registry.example/web:1', resources: {requests: {cpu: '1'}}}
";

#[tokio::test]
async fn preemption_on_real_kube_apiservers() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, cpu: "4".into(), ..NodeShape::default() };
    let config = Config { members: 2, nodes, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let plane = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let account = env.account().await?;
    let daemon = Daemon::start(["run", "--kubeconfig", &account].into_iter().chain(FLAGS)).await?;
    for (n, member) in env.members().iter().enumerate() {
        let (name, member) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
        ironclad(["join", &name, "--kubeconfig", &plane, "--cluster-kubeconfig", &member]).await?.success()?;
    }
    let kubectl = env.plane().kubectl();
    until("both members are Ready", DEADLINE, async || {
        let ready = kubectl.run(["get", "clusters", "--no-headers"]).await?;
        ensure!(ready.lines().filter(|l| l.contains("True")).count() == 2, "{ready}");
        Ok(())
    })
    .await?;
    let members: Vec<_> = env.members().iter().map(|m| m.kubectl().clone()).collect();
    walk(kubectl, &members).await?;
    daemon.stop_unrefused().await
}
