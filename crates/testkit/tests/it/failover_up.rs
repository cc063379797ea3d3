//! A simulated member of `ironclad up` goes down and up again, with default flags except the rate.

use anyhow::ensure;
use ironclad_api::taints::NO_EXECUTE;
use ironclad_seam::Tasks;
use ironclad_testkit::{
    binary::{Daemon, free_port},
    sim::script::TaintPolicy,
};

use crate::failover_walk::{Fleet, LOST, client};

const RATE: f64 = 2.0;

#[tokio::test]
async fn a_lost_member_through_up() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let (path, rate) = (data.display().to_string(), format!("--resource-eviction-rate={RATE}"));
    let own = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "3", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(own.into_iter().chain(["--feature-gates=Failover=true", &rate])).await?;
    let kubeconfig = data.join("kubeconfig");
    let mut members = Vec::new();
    for n in 1..=3 {
        members.push(client(&kubeconfig, Some(&format!("member{n}"))).await?);
    }
    let plane = client(&kubeconfig, Some("ironclad")).await?;
    let kubeconfig = kubeconfig.display().to_string();
    let fleet = Fleet { plane, members, kubeconfig, rate: RATE, workloads: 8 };
    fleet.settle(&TaintPolicy { effect: NO_EXECUTE, add_after: 5, remove_after: 5 }).await?;

    let tasks = Tasks::new("failover");
    let seen = fleet.watch(&tasks);
    ensure!(fleet.verb(&["sim", "down", LOST]).await? == "member1 is down\n");
    let tainted = fleet.tainted().await?;
    fleet.moved().await?;
    fleet.paced(tainted, &seen).await?;
    ensure!(fleet.verb(&["sim", "up", LOST]).await? == "member1 is up\n");
    fleet.back().await?;
    tasks.kill();
    daemon.stop().await
}
