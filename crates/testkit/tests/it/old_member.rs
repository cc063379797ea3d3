//! A member with the oldest Kubernetes that is supported: without streaming lists and aggregated discovery.

use std::{fs, time::Duration};

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{OldMember, until},
};

const DEADLINE: Duration = Duration::from_secs(90);
const OBJECTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [old]}}
"#;

/// Skipped until `cargo xtask oldest-kubernetes` has built that kube-apiserver.
#[tokio::test]
async fn a_deployment_reaches_a_member_with_the_oldest_kubernetes_and_its_status_comes_back() -> anyhow::Result<()> {
    let Some(member) = OldMember::start().await? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let listen = format!("127.0.0.1:{}", free_port()?);
    let text = data.display().to_string();
    let daemon = Daemon::start([
        "up", "--data-dir", &text, "--listen", &listen, "--clusters", "0", "--metrics-bind-address", "0",
    ])
    .await?;
    let plane = data.join("kubeconfig");
    let (kubectl, plane) = (member.kubectl(&plane), plane.display().to_string());
    let of_member = member.cluster().kubeconfig().display().to_string();
    ironclad(["join", "old", "--kubeconfig", &plane, "--cluster-kubeconfig", &of_member]).await?.success()?;
    until("the member is Ready, with all its APIs", DEADLINE, async || {
        let of = "jsonpath={.status.kubernetesVersion} {.status.conditions[*].type}={.status.conditions[*].status}";
        let said = kubectl.run(["get", "cluster", "old", "-o", of]).await?;
        ensure!(said.starts_with("v1.") && said.contains("Ready") && !said.contains("False"), "{said}");
        Ok(())
    })
    .await?;
    let manifests = dir.path().join("web.yaml");
    fs::write(&manifests, OBJECTS)?;
    kubectl.run(["apply", "-f", &manifests.display().to_string()]).await?;
    let replicas = async |at: &ironclad_testkit::real::Kubectl| {
        at.run(["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}/{.status.replicas}"]).await
    };
    let there = member.cluster().kubectl();
    until("it is in the member", DEADLINE, async || {
        let said = replicas(there).await?;
        ensure!(said == "2/2", "{said}");
        Ok(())
    })
    .await?;
    until("its status is in the control plane", DEADLINE, async || {
        let said = replicas(&kubectl).await?;
        ensure!(said == "2/2", "{said}");
        Ok(())
    })
    .await?;
    kubectl.run(["scale", "deployment", "web", "--replicas=3"]).await?;
    until("a change arrives and is reported", DEADLINE, async || {
        let said = (replicas(there).await?, replicas(&kubectl).await?);
        ensure!(said == ("3/3".to_owned(), "3/3".to_owned()), "{said:?}");
        Ok(())
    })
    .await?;
    there.run(["scale", "deployment", "web", "--replicas=1"]).await?;
    until("a change in the member is seen and undone", DEADLINE, async || {
        let said = replicas(there).await?;
        ensure!(said.starts_with("3/"), "{said}");
        Ok(())
    })
    .await?;
    kubectl.run(["delete", "deployment", "web"]).await?;
    until("it is deleted there", DEADLINE, async || {
        let left = there.run(["get", "deployments", "-o", "name"]).await?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await?;
    ironclad(["unjoin", "old", "--kubeconfig", &plane, "--yes"]).await?.success()?;
    daemon.stop().await
}
