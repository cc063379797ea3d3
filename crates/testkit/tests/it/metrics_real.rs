//! The metrics of members with metrics APIs of their own, behind a real kube-apiserver.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Config, MetricsApi, Mood, RealEnv, until},
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(90);

fn pod(name: &str, cpu: &str, qps: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"},
            "annotations": {"metrics.test/cpu": cpu, "metrics.test/qps": qps}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
    .to_string()
}

#[tokio::test]
async fn metrics_of_members_behind_a_real_kube_apiserver() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, ..Config::default() }).await? else { return Ok(()) };
    let plane = env.plane().kubeconfig().display().to_string();
    let kubectl = env.plane().kubectl();
    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let mut apis = Vec::new();
    for member in env.members() {
        apis.push(MetricsApi::start(member).await?);
    }
    env.member(0).kubectl().apply(&pod("web-0", "250m", "10")).await?;
    env.member(1).kubectl().apply(&pod("web-0", "100m", "30")).await?;
    let port = free_port()?.to_string();
    let daemon = Daemon::start([
        "run", "--kubeconfig", &plane, "--metrics-bind-address", "0", "--metrics-adapter-bind-address", &port,
    ])
    .await?;
    for (n, member) in env.members().iter().enumerate() {
        let (name, member) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
        ironclad(["join", &name, "--kubeconfig", &plane, "--cluster-kubeconfig", &member]).await?.success()?;
    }
    until("kubectl top shows both pods", DEADLINE, async || {
        let top = kubectl.run(["top", "pods", "--no-headers"]).await?;
        ensure!(top.contains("250m") && top.contains("100m"), "{top}");
        Ok(())
    })
    .await?;
    until("all versions are available", DEADLINE, async || {
        let services = kubectl.run(["get", "apiservices", "--no-headers"]).await?;
        let ours: Vec<&str> = services.lines().filter(|line| line.contains("ironclad-metrics-adapter")).collect();
        ensure!(ours.len() == 4 && ours.iter().all(|line| line.contains("True")), "{services}");
        Ok(())
    })
    .await?;

    // Pods of one name are two values; a queue that both members see counts once.
    let raw = async |path: &str| -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&kubectl.run(["get", "--raw", path]).await?)?)
    };
    // What members serve is known some time after their metrics of resources are.
    until("both pods have a custom metric", DEADLINE, async || {
        let custom = raw("/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/qps").await?;
        let values: Vec<&str> =
            custom["items"].as_array().into_iter().flatten().filter_map(|i| i["value"].as_str()).collect();
        ensure!(values == ["10", "30"], "{custom}");
        Ok(())
    })
    .await?;
    apis.iter().for_each(|api| api.set_depth("7"));
    let external = raw("/apis/external.metrics.k8s.io/v1beta1/namespaces/default/depth").await?;
    ensure!(external["items"].as_array().is_some_and(|items| items.len() == 1), "{external}");
    ensure!(external["items"][0]["value"] == "7", "{external}");

    // Who may read metrics is decided by the control plane.
    let nobody = kubectl.output(["top", "pods", "--as=nobody"], "").await?;
    ensure!(nobody.code == Some(1) && nobody.stderr.contains("forbidden"), "{nobody:?}");

    // A metrics API that lies or hangs costs its own answer only.
    for (mood, named) in [(Mood::Lies, "left out"), (Mood::Hangs, "no metrics of cluster member2")] {
        apis[1].set_mood(mood);
        until("the other member's pods are shown, and a warning", DEADLINE, async || {
            let top = kubectl.output(["top", "pods", "--no-headers"], "").await?;
            ensure!(top.code == Some(0) && top.stdout.contains("250m"), "{top:?}");
            ensure!(!top.stdout.contains("100m") && top.stderr.contains(named), "{mood:?}: {top:?}");
            Ok(())
        })
        .await?;
    }
    daemon.stop().await
}
