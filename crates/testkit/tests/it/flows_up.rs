//! The flows of users through `ironclad up` and on real kube-apiservers.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Config, RealEnv, until},
};

use crate::{flows, propagation_up::kubectl};

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_flows_through_up() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let arguments = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(arguments).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let members =
        [kubectl(&binaries, &data, "member1", dir.path())?, kubectl(&binaries, &data, "member2", dir.path())?];
    flows::walk(&plane, &members).await?;
    daemon.stop().await
}

#[tokio::test]
async fn the_flows_on_real_kube_apiservers() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, ..Config::default() }).await? else { return Ok(()) };
    let plane = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let account = env.account().await?;
    let daemon = Daemon::start([
        "run", "--kubeconfig", &account, "--metrics-bind-address", "0", "--webhook-bind-address", "127.0.0.1:0",
    ])
    .await?;
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
    flows::walk(kubectl, &members).await?;
    daemon.stop_unrefused().await
}
