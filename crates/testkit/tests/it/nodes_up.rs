//! `plan apply` and `why` count the nodes of members where the scheduler does, through `ironclad up`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, until},
};
use serde_json::Value;

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);

/// A workload whose pods want nodes with a label that no node has, and a policy that divides its replicas.
const SELECTIVE: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      containers:
      - {name: web, image: 'registry.example/web:1', resources: {requests: {cpu: 100m}}}
";

#[tokio::test]
async fn what_is_foreseen_counts_the_nodes_of_members() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let own = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--enable-scheduler-estimator"];
    let daemon = Daemon::start(own).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    until("both members report their capacity", DEADLINE, async || {
        let reported = "jsonpath={range .items[*]}{.status.resourceSummary.allocatable.cpu}{\"\\n\"}{end}";
        let reported = plane.run(["get", "clusters", "-o", reported]).await?;
        ensure!(reported.lines().filter(|line| !line.is_empty()).count() == 2, "{reported}");
        Ok(())
    })
    .await?;
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let file = dir.path().join("web.yaml");
    let planned = async |text: &str| -> anyhow::Result<Value> {
        std::fs::write(&file, text)?;
        let path = file.display().to_string();
        let planned = ironclad(["plan", "apply", "-o", "json", "--kubeconfig", &kubeconfig, "-f", &path]).await?;
        let found: Value = serde_json::from_str(&planned.stdout).with_context(|| format!("{planned:?}"))?;
        Ok(found["foreseen"]["templates"][0].clone())
    };
    let anywhere = planned(&SELECTIVE.replace("      nodeSelector: {disk: ssd}\n", "")).await?;
    ensure!(anywhere["copies"].as_object().is_some_and(|copies| !copies.is_empty()), "{anywhere}");
    let nowhere = planned(SELECTIVE).await?;
    let failure = nowhere["scheduling"]["failure"].as_str().unwrap_or_default();
    ensure!(failure.contains("not enough") && nowhere["copies"] == serde_json::json!({}), "{nowhere}");

    plane.run(["apply", "-f", &file.display().to_string()]).await?;
    until("it waits", DEADLINE, async || {
        let reason = "jsonpath={.status.conditions[?(@.type==\"Scheduled\")].message}";
        let told = plane.run(["get", "resourcebinding", "web-deployment", "-o", reason]).await?;
        ensure!(told.contains("not enough"), "{told}");
        Ok(())
    })
    .await?;
    let why = ironclad(["why", "deploy/web", "--kubeconfig", &kubeconfig]).await?;
    ensure!(why.stdout.contains("a scheduling cycle would find no cluster"), "{why:?}");
    ensure!(why.stdout.contains("member1, by its nodes: 0 more"), "{why:?}");
    daemon.stop().await
}
