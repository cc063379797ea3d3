//! `get evictions` of many rows: by the leader, by the objects, and as a watch.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::policy::PropagationPolicy;
use ironclad_testkit::{
    binary::{Daemon, Output, binary, free_port, ironclad},
    real::until,
};
use k8s_openapi::api::{
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::Command,
    time::timeout,
};

use crate::failover_walk::client;

const DEADLINE: Duration = Duration::from_secs(90);
const WORKLOADS: usize = 210;

#[tokio::test]
async fn many_evictions_are_listed_and_watched() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let own = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(own.into_iter().chain(["--feature-gates=Failover=true"])).await?;
    let plane = client(&data.join("kubeconfig"), Some("ironclad")).await?;
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let verb = async |words: &[&str]| -> anyhow::Result<Output> {
        let mut line = words.to_vec();
        line.extend(["--kubeconfig", &kubeconfig]);
        let output = ironclad(line).await?;
        ensure!(output.code == Some(0), "{words:?}: {output:?}");
        Ok(output)
    };
    create(&plane).await?;
    verb(&["failover", "pause"]).await?;
    until("all are placed", DEADLINE, async || {
        let placed = verb(&["get", "rb", "-o", "jsonpath={.items[*].spec.clusters[*].name}"]).await?.stdout;
        ensure!(placed.split_whitespace().count() == WORKLOADS, "{} are", placed.split_whitespace().count());
        Ok(())
    })
    .await?;
    verb(&["taint", "clusters", "member1", "gone:NoExecute", "--yes"]).await?;
    let listed = async |words: &[&str]| -> anyhow::Result<Vec<Value>> {
        let mut line = ["get", "evictions", "-o", "json"].to_vec();
        line.extend(words);
        let list: Value = serde_json::from_str(&verb(&line).await?.stdout)?;
        Ok(list["items"].as_array().context("a list")?.clone())
    };
    until("all wait", DEADLINE, async || {
        let rows = listed(&[]).await?;
        ensure!(rows.len() == WORKLOADS, "{} wait", rows.len());
        ensure!(rows.iter().all(|row| row.get("rebuilt").is_none()), "the leader itself tells all of them");
        Ok(())
    })
    .await?;
    // Who may not ask the leader gets the queue that is computed from the objects.
    let rows = listed(&["--as", "reader"]).await?;
    let rebuilt = rows.iter().filter(|row| row.get("rebuilt").is_some()).count();
    ensure!((rows.len(), rebuilt) == (WORKLOADS, WORKLOADS), "{rebuilt} of {}", rows.len());
    let table = verb(&["get", "evictions", "--as", "reader"]).await?;
    ensure!(table.stderr.contains("you may not read evictionrate of explain.ironclad.io"), "{table:?}");
    ensure!(table.stdout.lines().count() == 1 + WORKLOADS, "{} lines", table.stdout.lines().count());

    let mut watch = Command::new(binary()?)
        .args(["get", "evictions", "-w", "--kubeconfig", &kubeconfig])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut pages = BufReader::new(watch.stdout.take().context("piped")?).lines();
    let mut notes = BufReader::new(watch.stderr.take().context("piped")?).lines();
    let heading = line_with(&mut pages, "POSITION").await?;
    for _ in 0..WORKLOADS {
        line_with(&mut pages, "member1").await?;
    }
    line_with(&mut notes, "paused").await?;
    verb(&["failover", "resume"]).await?;
    ensure!(line_with(&mut pages, "POSITION").await?.split_whitespace().eq(heading.split_whitespace()), "another page");
    verb(&["taint", "clusters", "member1", "gone:NoExecute-", "--yes"]).await?;
    line_with(&mut notes, "no evictions wait").await?;
    ensure!(watch.try_wait()?.is_none(), "it goes on watching");
    watch.kill().await?;
    daemon.stop().await
}

async fn line_with(
    lines: &mut Lines<BufReader<impl tokio::io::AsyncRead + Unpin>>,
    text: &str,
) -> anyhow::Result<String> {
    let found = async {
        while let Some(line) = lines.next_line().await? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        anyhow::bail!("it ended before a line with {text:?}")
    };
    timeout(DEADLINE, found).await.with_context(|| format!("no line with {text:?}"))?
}

/// Creates the workloads, their policy, and a user who may read what decisions read, without the leader's group.
async fn create(plane: &Client) -> anyhow::Result<()> {
    let params = kube::api::PostParams::default;
    let maps: Api<ConfigMap> = Api::namespaced(plane.clone(), "default");
    let map = |n: usize| -> anyhow::Result<ConfigMap> {
        Ok(serde_json::from_value(json!({"metadata": {"name": format!("w{n}"), "labels": {"many": "yes"}}}))?)
    };
    stream::iter(0..WORKLOADS)
        .map(async |n| anyhow::Ok(maps.create(&params(), &map(n)?).await?))
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await?;
    let policy: PropagationPolicy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "many"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"many": "yes"}}}],
            "placement": {"clusterAffinity": {"clusterNames": ["member1"]}},
        },
    }))?;
    Api::namespaced(plane.clone(), "default").create(&params(), &policy).await?;
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [
            {"apiGroups": ["cluster.karmada.io", "policy.karmada.io", "work.karmada.io"], "resources": ["*"], "verbs": ["get", "list"]},
            {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": ["get"]},
        ],
    }))?;
    Api::all(plane.clone()).create(&params(), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    }))?;
    Api::all(plane.clone()).create(&params(), &binding).await?;
    Ok(())
}
