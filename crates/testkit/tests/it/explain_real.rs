//! `explain.ironclad.io` of two replicas of `run` behind a real kube-apiserver: one that does not lead answers what the
//! leader knows, the next leader goes on, and the last one takes the APIService with it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::Request;
use ironclad_testkit::{
    binary::{Daemon, Output, free_port, ironclad},
    real::{Config, Kubectl, NodeShape, RealEnv, until},
};
use kube::{Client, client::Body};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(90);
const GROUP: &str = "/apis/explain.ironclad.io/v1alpha1";
const OLD_REPORT: &str = "ironclad-failover-status";

/// A workload that leaves a cluster, one that fits nowhere, an autoscaler, and what an older version left.
fn objects(port: &str) -> String {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let policy = |kind: &str, api: &str, name: &str, cluster: &str| {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": api, "kind": kind, "name": name}],
                "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
            },
        })
    };
    let all = [
        map("leaves"),
        map("stuck"),
        policy("ConfigMap", "v1", "leaves", "member1"),
        policy("ConfigMap", "v1", "stuck", "nowhere"),
        policy("Deployment", "apps/v1", "web", "member2"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}]},
                },
            },
        }),
        json!({
            "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1, "maxReplicas": 3,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "explain", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port.parse::<u16>().unwrap_or_default()}]},
        }),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string()
}

/// Headers of a proxy without its certificate make nobody an administrator.
async fn check_headers(port: &str) -> anyhow::Result<()> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    let request = Request::get(format!("{GROUP}/evictions"))
        .header("x-remote-user", "admin")
        .header("x-remote-group", "system:masters")
        .body(Body::empty())?;
    let answer = Client::try_from(config)?.send(request).await?;
    ensure!(answer.status() == 403, "{answer:?}");
    Ok(())
}

struct Plane<'a> {
    kubeconfig: String,
    kubectl: &'a Kubectl,
}

impl Plane<'_> {
    async fn verb(&self, words: &[&str]) -> anyhow::Result<Output> {
        let mut line = words.to_vec();
        line.extend(["--kubeconfig", &self.kubeconfig]);
        ironclad(line).await
    }

    async fn raw(&self, what: &str) -> anyhow::Result<Value> {
        let text = self.kubectl.run(["get", "--raw", &format!("{GROUP}/{what}")]).await?;
        serde_json::from_str(&text).context(text)
    }

    /// The waiting eviction, and whether it was rebuilt from the objects.
    async fn eviction(&self) -> anyhow::Result<bool> {
        let listed = self.verb(&["get", "evictions", "-o", "json"]).await?;
        ensure!(listed.code == Some(0), "{listed:?}");
        let list: Value = serde_json::from_str(&listed.stdout)?;
        let rows = list["items"].as_array().context("a list")?;
        ensure!(rows.len() == 1 && rows[0]["binding"]["name"] == "leaves-configmap", "{list}");
        Ok(rows[0].get("rebuilt").is_some())
    }

    /// Evictions, the queue of the scheduler and rounds are told by a leader.
    async fn is_told(&self) -> anyhow::Result<()> {
        ensure!(!self.eviction().await?, "the leader tells it");
        let queue = self.raw("schedulingqueue").await?;
        let names: Vec<&Value> =
            queue["items"].as_array().into_iter().flatten().map(|one| &one["binding"]["name"]).collect();
        ensure!(names.contains(&&json!("stuck-configmap")), "{queue}");
        let why = self.verb(&["why", "configmap/stuck", "-n", "default"]).await?;
        ensure!(why.stdout.contains("position"), "{why:?}");
        let round = self.raw("namespaces/default/autoscalers/web").await?;
        ensure!(round["kind"] == "Autoscaler" && round["name"] == "web", "{round}");
        let why = self.verb(&["why", "fhpa/web", "-n", "default"]).await?;
        ensure!(why.code == Some(0), "{why:?}");
        Ok(())
    }
}

#[tokio::test]
async fn replicas_of_run_answer_for_the_leader() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, ..NodeShape::default() };
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, nodes, ..Config::default() }).await? else {
        return Ok(());
    };
    let plane = Plane { kubeconfig: env.plane().kubeconfig().display().to_string(), kubectl: env.plane().kubectl() };
    plane.verb(&["crds", "--install"]).await?.success()?;
    let (first, second) = (free_port()?.to_string(), free_port()?.to_string());
    plane.kubectl.apply(&objects(&second)).await?;
    plane.kubectl.run(["create", "namespace", "karmada-system"]).await?;
    plane.kubectl.run(["create", "configmap", OLD_REPORT, "-n", "karmada-system"]).await?;
    // The Service leads to the second replica, whoever leads.
    let service = format!("default/explain:{second}");
    let account = env.account().await?;
    let run = |port: &str| {
        let words = ["run", "--kubeconfig", &account, "--metrics-bind-address=0", "--feature-gates=Failover=true"];
        let own = ["--explain-bind-address", port, "--explain-service", &service];
        words.into_iter().chain(own).map(str::to_owned).collect::<Vec<_>>()
    };
    let leader = Daemon::start(run(&first)).await?;
    let (replica, _) = Daemon::start_until(run(&second), "explain.ironclad.io: ").await?;
    for (n, member) in env.members().iter().enumerate() {
        let (name, member) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
        plane.verb(&["join", &name, "--cluster-kubeconfig", &member]).await?.success()?;
    }
    plane.verb(&["failover", "pause"]).await?.success()?;
    until("the ConfigMap is placed", DEADLINE, async || {
        let placed = plane
            .verb(&["get", "rb", "leaves-configmap", "-n", "default", "-o", "jsonpath={.spec.clusters[*].name}"])
            .await?;
        ensure!(placed.stdout.trim() == "member1", "{placed:?}");
        Ok(())
    })
    .await?;
    plane.verb(&["taint", "clusters", "member1", "gone:NoExecute", "--yes"]).await?.success()?;
    until("the replica answers for the leader", DEADLINE, async || plane.is_told().await).await?;
    let status = plane.verb(&["failover", "status"]).await?;
    ensure!(status.stdout.contains("member1") && status.stdout.contains("held"), "{status:?}");
    let maps = plane.kubectl.run(["get", "configmaps", "-n", "karmada-system", "-o", "name"]).await?;
    ensure!(!maps.contains(OLD_REPORT), "the first new leader removes what older ones left: {maps}");

    // Who may ask is decided by the control plane, for requests that are passed on, too.
    let nobody = plane.kubectl.output(["get", "--raw", &format!("{GROUP}/evictions"), "--as=nobody"], "").await?;
    ensure!(nobody.code == Some(1) && nobody.stderr.contains("nobody"), "{nobody:?}");
    for port in [&first, &second] {
        check_headers(port).await?;
    }

    leader.stop_unrefused().await?;
    until("the next leader answers", DEADLINE, async || plane.is_told().await).await?;
    replica.stop_unrefused().await?;
    let services = plane.kubectl.run(["get", "apiservices", "-o", "name"]).await?;
    ensure!(!services.contains("explain.ironclad.io"), "the last process takes it with it: {services}");
    ensure!(plane.eviction().await?, "without a leader the queue is rebuilt");
    let doctor = plane.verb(&["doctor"]).await?;
    ensure!(doctor.stdout.contains("evicting taints are on member1"), "{doctor:?}");
    Ok(())
}
