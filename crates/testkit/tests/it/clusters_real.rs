//! Group `cluster.karmada.io` as an aggregated API behind a real kube-apiserver, whose garbage collector runs: Clusters
//! are carried over and back below a running workload, and kubectl finds them and the proxy where Karmada's users do.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Config, Kubectl, NodeShape, RealEnv, until},
};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(120);
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

const WORKLOAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
"#;

const PULLED: &str = r#"
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: pulled, labels: {tier: a}}
spec: {syncMode: Pull, region: REGION}
"#;

struct Plane<'a> {
    kubeconfig: String,
    /// Kubeconfig of `run`.
    account: String,
    kubectl: &'a Kubectl,
    member: &'a Kubectl,
}

impl Plane<'_> {
    async fn run(&self, more: &[&str]) -> anyhow::Result<Daemon> {
        let words =
            ["run", "--kubeconfig", &self.account, "--metrics-bind-address=0", "--webhook-bind-address=127.0.0.1:0"];
        Daemon::start(words.into_iter().chain(more.iter().copied())).await
    }

    /// The uids that must not change: of Pods in the member, of Works, and of what the Cluster owns.
    async fn untouched(&self) -> anyhow::Result<[String; 3]> {
        let uids = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}";
        Ok([
            self.member.run(["get", "pods", "-l", "app=web", "-o", uids]).await?,
            self.kubectl.run(["get", "works", "-n", "karmada-es-member1", "-o", uids]).await?,
            self.kubectl.run(["get", "secrets", "-n", "karmada-cluster", "-o", uids]).await?,
        ])
    }

    /// Waits until the member is ready in the form of its Clusters, and the Secrets' owner is that Cluster.
    async fn serves(&self, aggregated: bool) -> anyhow::Result<()> {
        until("the member is ready", DEADLINE, async || {
            let service = self.kubectl.run(["get", "apiservice", "v1alpha1.cluster.karmada.io", "-o", "json"]).await?;
            let service: Value = serde_json::from_str(&service)?;
            ensure!(service["spec"]["service"].is_object() == aggregated, "{service}");
            let member = self.kubectl.run(["get", "clusters.cluster.karmada.io", "member1"]).await?;
            let ready = member.lines().nth(1).context("a row")?.split_whitespace().nth(3) == Some("True");
            ensure!(member.starts_with("NAME") && ready, "{member}");
            Ok(())
        })
        .await?;
        let definitions = self.kubectl.run(["get", "crds", "-o", "name"]).await?;
        for (name, there) in
            [("clusters.cluster.karmada.io", !aggregated), ("clusters.cluster.ironclad.io", aggregated)]
        {
            ensure!(definitions.contains(&format!("/{name}\n")) == there, "{name}: {definitions}");
        }
        let uid =
            self.kubectl.run(["get", "clusters", "member1", "-o", "jsonpath={.apiVersion} {.metadata.uid}"]).await?;
        let uid = uid.strip_prefix("cluster.karmada.io/v1alpha1 ").with_context(|| uid.clone())?;
        for secret in ["member1", "member1-impersonator"] {
            let owner = "jsonpath={.metadata.ownerReferences[*].uid}";
            let owner = self.kubectl.run(["get", "secret", secret, "-n", "karmada-cluster", "-o", owner]).await?;
            ensure!(owner == uid, "{secret} is owned by {owner}, not by {uid}");
        }
        Ok(())
    }

    /// kubectl's verbs on Clusters of the aggregated API.
    async fn verbs(&self) -> anyhow::Result<()> {
        let listed = self.kubectl.run(["get", "--raw", "/apis/cluster.karmada.io/v1alpha1"]).await?;
        let listed: Value = serde_json::from_str(&listed)?;
        let names: Vec<&str> =
            listed["resources"].as_array().into_iter().flatten().filter_map(|r| r["name"].as_str()).collect();
        ensure!(names == ["clusters", "clusters/proxy", "clusters/status"], "{names:?}");
        until("the kube-apiserver has read the schemas", DEADLINE, async || {
            let explained = self.kubectl.run(["explain", "cluster.spec.syncMode"]).await?;
            ensure!(explained.contains("GROUP:      cluster.karmada.io"), "{explained}");
            Ok(())
        })
        .await?;
        let mut watch = self.kubectl.start(["get", "clusters", "-l", "tier=a", "-w", "-o", "name"]).await?;
        self.kubectl.apply(&PULLED.replace("REGION", "east")).await?;
        let seen = watch.next_line().await?;
        ensure!(seen.as_deref() == Some("cluster.cluster.karmada.io/pulled"), "{seen:?}");
        drop(watch);
        self.kubectl.apply(&PULLED.replace("REGION", "west")).await?;
        let server_side = ["apply", "--server-side", "--field-manager=me", "--force-conflicts", "-f", "-"];
        self.kubectl.output(server_side, &PULLED.replace("REGION", "north")).await?.success()?;
        let region = self.kubectl.run(["get", "cluster", "pulled", "-o", "jsonpath={.spec.region}"]).await?;
        ensure!(region == "north", "{region}");
        let managed = ["get", "cluster", "pulled", "-o", "json", "--show-managed-fields"];
        let object: Value = serde_json::from_str(&self.kubectl.run(managed).await?)?;
        ensure!(!object.to_string().contains("cluster.ironclad.io"), "{object}");
        let managers = object["metadata"]["managedFields"].as_array().context("managedFields")?;
        ensure!(managers.iter().any(|entry| entry["manager"] == "me"), "{object}");
        let status = r#"{"status": {"kubernetesVersion": "v1.2.3"}}"#;
        self.kubectl.run(["patch", "cluster", "pulled", "--subresource=status", "--type=merge", "-p", status]).await?;
        let version =
            self.kubectl.run(["get", "cluster", "pulled", "-o", "jsonpath={.status.kubernetesVersion}"]).await?;
        ensure!(version == "v1.2.3", "{version}");
        let patch = ["patch", "cluster", "pulled", "--type=json", "-p"];
        let region = r#"[{"op": "replace", "path": "/spec/region", "value": "south"}]"#;
        self.kubectl.run(patch.into_iter().chain([region])).await?;
        let wrong = self.kubectl.output(["apply", "-f", "-"], &PULLED.replace("Pull,", "Fly,")).await?;
        ensure!(wrong.code == Some(1) && wrong.stderr.contains("spec.syncMode"), "{wrong:?}");
        ensure!(!wrong.stderr.contains("ironclad.io"), "{wrong:?}");
        let absent = self.kubectl.output(["get", "cluster", "absent"], "").await?;
        ensure!(absent.stderr.contains("clusters.cluster.karmada.io \"absent\" not found"), "{absent:?}");
        for asked in [
            vec!["get", "clusters"],
            vec!["get", "--raw", "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/version"],
        ] {
            let nobody = self.kubectl.output(asked.into_iter().chain(["--as=nobody"]), "").await?;
            ensure!(nobody.code == Some(1) && nobody.stderr.to_lowercase().contains("forbidden"), "{nobody:?}");
        }
        // An agent may write its own Cluster alone: reviews see who writes.
        let agent =
            ["annotate", "cluster", "member1", "a=b", "--as=system:karmada:agent:pulled", "--as-group=system:masters"];
        let agent = self.kubectl.output(agent, "").await?;
        ensure!(agent.code == Some(1) && agent.stderr.contains("member1"), "{agent:?}");
        self.kubectl.run(["delete", "cluster", "pulled"]).await?;
        Ok(())
    }

    async fn proxied(&self) -> anyhow::Result<()> {
        let me = self.kubectl.run(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await?;
        let bind =
            ["create", "clusterrolebinding", "proxy-admins", "--clusterrole", "cluster-proxy-admin", "--user", &me];
        self.kubectl.run(bind).await?;
        let path = format!("{CLUSTERS}/member1/proxy/api/v1/namespaces/default/pods?labelSelector=app%3Dweb");
        until("the proxy lets the administrator in", DEADLINE, async || {
            let pods: Value = serde_json::from_str(&self.kubectl.run(["get", "--raw", &path]).await?)?;
            ensure!(pods["items"].as_array().is_some_and(|items| items.len() == 2), "{pods}");
            Ok(())
        })
        .await
    }
}

#[tokio::test]
async fn clusters_are_an_aggregated_api_and_are_carried_over_and_back() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, ..NodeShape::default() };
    let Some(env) = RealEnv::start_or_skip(Config { members: 1, nodes, ..Config::default() }).await? else {
        return Ok(());
    };
    let plane = Plane {
        kubeconfig: env.plane().kubeconfig().display().to_string(),
        account: env.account_with("{clusters: {enabled: true}}").await?,
        kubectl: env.plane().kubectl(),
        member: env.member(0).kubectl(),
    };
    ironclad(["crds", "--install", "--kubeconfig", &plane.kubeconfig]).await?.success()?;
    let run = plane.run(&[]).await?;
    let member = env.member(0).kubeconfig().display().to_string();
    let join = ["join", "member1", "--cluster-kubeconfig", &member, "--kubeconfig", &plane.kubeconfig];
    ironclad(join).await?.success()?;
    plane.kubectl.apply(WORKLOAD).await?;
    until("the workload runs", DEADLINE, async || {
        let ready = ["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"];
        let ready = plane.kubectl.run(ready).await?;
        ensure!(ready == "2", "{ready}");
        Ok(())
    })
    .await?;
    plane.serves(false).await?;
    let before = plane.untouched().await?;
    run.stop_unrefused().await?;

    let port = free_port()?.to_string();
    let aggregate = ["--aggregate-clusters", "--clusters-bind-address", &port];
    let run = plane.run(&aggregate).await?;
    plane.serves(true).await?;
    plane.verbs().await?;
    plane.proxied().await?;
    ensure!(plane.untouched().await? == before, "{before:?}");
    // Killed without a word: the next process goes on with what is stored.
    run.kill().await?;
    let run = plane.run(&aggregate).await?;
    plane.serves(true).await?;
    plane.kubectl.run(["scale", "deployment", "web", "--replicas=1"]).await?;
    until("the workload shrinks", DEADLINE, async || {
        let pods = plane.member.run(["get", "pods", "-l", "app=web", "-o", "name"]).await?;
        ensure!(pods.lines().count() == 1, "{pods}");
        Ok(())
    })
    .await?;
    // Definitions that are installed anew leave Clusters where they are.
    ironclad(["crds", "--install", "--kubeconfig", &plane.kubeconfig]).await?.success()?;
    let definitions = plane.kubectl.run(["get", "crds", "-o", "name"]).await?;
    ensure!(!definitions.contains("/clusters.cluster.karmada.io"), "{definitions}");
    let before = plane.untouched().await?;
    run.stop_unrefused().await?;

    let run = plane.run(&[]).await?;
    plane.serves(false).await?;
    ensure!(plane.untouched().await? == before, "{before:?}");
    let unjoin = [
        "unjoin", "member1", "--yes", "--no-drain", "--cluster-kubeconfig", &member, "--kubeconfig", &plane.kubeconfig,
    ];
    ironclad(unjoin).await?.success()?;
    run.stop_unrefused().await
}
