//! Simulated members of `ironclad up` through the verbs of the command line.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::until,
};
use serde_json::Value;

/// Deadline of a step: a dead member is detected after 30 s.
const DEADLINE: Duration = Duration::from_secs(120);

struct Up {
    binary: Daemon,
    kubeconfig: String,
}

impl Up {
    async fn start(data: &std::path::Path, more: &[&str]) -> anyhow::Result<Self> {
        let (path, listen) = (data.display().to_string(), format!("127.0.0.1:{}", free_port()?));
        let own = ["up", "--data-dir", &path, "--listen", &listen, "--metrics-bind-address", "0"];
        let binary = Daemon::start(own.iter().chain(more)).await?;
        Ok(Self { binary, kubeconfig: data.join("kubeconfig").display().to_string() })
    }

    async fn verb(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = ironclad(args.iter().copied().chain(["--kubeconfig", &self.kubeconfig])).await?;
        ensure!(output.code == Some(0), "{args:?}: {output:?}");
        Ok(output.stdout)
    }

    async fn ready(&self, cluster: &str) -> anyhow::Result<String> {
        let cluster = self.verb(&["get", "cluster", cluster, "-o", "json"]).await?;
        let cluster: Value = serde_json::from_str(&cluster)?;
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|c| c["type"] == "Ready");
        Ok(ready.and_then(|c| c["status"].as_str()).unwrap_or_default().to_owned())
    }
}

#[tokio::test]
async fn members_are_added_failed_healed_and_removed_by_verbs() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let up = Up::start(&data, &["--clusters", "1", "--nodes", "2"]).await?;
    let listed = up.verb(&["sim", "list"]).await?;
    ensure!(listed.lines().nth(1).is_some_and(|l| l.starts_with("member1   2 ")), "{listed}");

    let added = up.verb(&["sim", "add", "edge", "--nodes", "1", "--label", "tier=edge"]).await?;
    ensure!(added == "edge is joined and ready\n", "{added}");
    ensure!(std::fs::read_to_string(data.join("kubeconfig"))?.contains("edge"), "no context");
    let nodes = up.verb(&["top", "node", "-C", "edge", "--no-headers"]).await?;
    ensure!(nodes.starts_with("edge-node-1   edge "), "{nodes}");
    up.verb(&["sim", "nodes", "edge", "--count", "2"]).await?;
    until("the second node", DEADLINE, async || {
        let nodes = up.verb(&["top", "node", "-C", "edge", "--no-headers"]).await?;
        ensure!(nodes.lines().count() == 2, "{nodes}");
        Ok(())
    })
    .await?;

    ensure!(up.verb(&["sim", "down", "member1"]).await? == "member1 is down\n");
    ensure!(up.verb(&["sim", "down", "member1"]).await? == "member1 is down already\n");
    ensure!(up.verb(&["sim", "list", "member1"]).await?.contains(" down "));
    // Faults survive a restart, and the start does not wait for a member that is down.
    up.binary.stop().await?;
    let up = Up::start(&data, &[]).await?;
    ensure!(up.verb(&["sim", "list", "member1"]).await?.contains(" down "));
    until("the control plane sees it", DEADLINE, async || {
        let ready = up.ready("member1").await?;
        ensure!(ready == "False", "Ready is {ready:?}");
        Ok(())
    })
    .await?;
    ensure!(up.verb(&["sim", "heal", "--all"]).await?.contains("member1 is up\n"));
    until("it is ready again", DEADLINE, async || {
        let ready = up.ready("member1").await?;
        ensure!(ready == "True", "Ready is {ready:?}");
        Ok(())
    })
    .await?;

    ensure!(up.verb(&["sim", "remove", "edge"]).await? == "edge is removed\n");
    ensure!(!std::fs::read_to_string(data.join("kubeconfig"))?.contains("edge"), "a context is left");
    let names = up.verb(&["get", "clusters", "-o", "name"]).await?;
    ensure!(names == "cluster.cluster.karmada.io/member1\n", "{names}");

    let nobody = ironclad(["sim", "down", "nobody", "--kubeconfig", &up.kubeconfig]).await?;
    ensure!(nobody.code == Some(1) && nobody.stderr.contains("try: ironclad sim add nobody"), "{nobody:?}");
    let misused = ironclad(["sim", "load", "member1", "--kubeconfig", &up.kubeconfig]).await?;
    ensure!(misused.code == Some(2) && misused.stderr.contains("--cpu 800m"), "{misused:?}");
    up.binary.stop().await
}

#[tokio::test]
async fn pods_in_members_have_metrics_and_logs() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let up = Up::start(&data, &["--demo", "--startup-delay", "0s"]).await?;
    until("the demo runs", DEADLINE, async || {
        let pods = up.verb(&["top", "pod", "-l", "app=web", "--no-headers"]).await?;
        ensure!(pods.lines().count() == 4, "{pods}");
        Ok(())
    })
    .await?;
    up.verb(&["sim", "load", "member1", "-l", "app=web", "--cpu", "800m", "--memory", "1Gi"]).await?;
    let pods = up.verb(&["top", "pod", "-l", "app=web", "-C", "member1", "--sum", "--no-headers"]).await?;
    ensure!(pods.lines().last().is_some_and(|l| l.contains("1600m") && l.contains("2048Mi")), "{pods}");
    let clusters = up.verb(&["top", "cluster", "--no-headers", "--sort-by", "cpu"]).await?;
    ensure!(clusters.starts_with("member1 "), "{clusters}");
    let json = async |words: &[&str]| {
        let text = up.verb(&[words, &["-C", "member1", "-o", "json"]].concat()).await?;
        Ok::<_, anyhow::Error>(serde_json::from_str::<Value>(&text)?["items"].take())
    };
    let pods = json(&["top", "pod", "-l", "app=web"]).await?;
    ensure!(pods[0]["used"]["cpuMillis"] == 800 && pods[0]["cluster"] == "member1", "{pods}");
    let nodes = json(&["top", "node"]).await?;
    ensure!(nodes[0]["of"]["cpuMillis"].as_i64() > Some(0), "{nodes}");
    let clusters = json(&["top", "cluster"]).await?;
    ensure!(clusters[0]["capacity"]["allocatable"]["pods"].as_i64() > Some(0), "{clusters}");
    let said = up.verb(&["logs", "deploy/web", "-C", "member1"]).await?;
    ensure!(said.lines().all(|l| l.starts_with("[member1/web-")) && said.contains("] web: ready\n"), "{said}");
    up.binary.stop().await
}
