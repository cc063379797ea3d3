//! Propagation on real kube-apiservers: `crds`, `run`, `join`, propagation, `unjoin`.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, ironclad},
    real::{Config, RealEnv, until},
};

use crate::propagation;

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn propagation_on_real_kube_apiservers() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, ..Config::default() }).await? else { return Ok(()) };
    let plane = env.plane().kubeconfig().display().to_string();

    let early = ironclad(["run", "--kubeconfig", &plane, "--metrics-bind-address", "0"]).await?;
    ensure!(early.code == Some(1), "without CRDs it must not run: {early:?}");
    ensure!(early.stderr.contains("ironclad crds --install"), "the remedy is missing: {}", early.stderr);

    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let account = env.account().await?;
    let daemon = Daemon::start(["run", "--kubeconfig", &account, "--metrics-bind-address", "0"]).await?;
    for (n, member) in env.members().iter().enumerate() {
        let (name, member) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
        let joined = ironclad(["join", &name, "--kubeconfig", &plane, "--cluster-kubeconfig", &member]).await?;
        let text = joined.success()?;
        ensure!(text.contains(&format!("cluster({name}) is joined successfully")), "join said: {text}");
    }
    let kubectl = env.plane().kubectl();
    until("both members are Ready", DEADLINE, async || {
        let ready = kubectl.run(["get", "clusters", "--no-headers"]).await?;
        ensure!(ready.lines().filter(|l| l.contains("True")).count() == 2, "{ready}");
        Ok(())
    })
    .await?;
    let members: Vec<_> = env.members().iter().map(|m| m.kubectl().clone()).collect();
    propagation::walk(kubectl, &members).await?;

    for name in ["member1", "member2"] {
        ironclad(["unjoin", name, "--kubeconfig", &plane, "--yes"]).await?.success()?;
    }
    until("nothing is left of the members", DEADLINE, async || {
        let left = kubectl.run(["get", "clusters,namespaces,secrets", "-A", "-o", "name"]).await?;
        ensure!(!left.contains("member1") && !left.contains("member2"), "{left}");
        Ok(())
    })
    .await?;
    daemon.stop_unrefused().await
}
