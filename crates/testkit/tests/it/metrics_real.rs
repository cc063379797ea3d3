//! The metrics of members with metrics APIs of their own, behind a real kube-apiserver.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::Request;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Config, Kubectl, MetricsApi, Mood, RealEnv, until},
};
use kube::{Client, client::Body};
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

/// Documents from which clients know the APIs: aggregated discovery, and OpenAPI for `kubectl explain`.
async fn check_documents(kubectl: &Kubectl) -> anyhow::Result<()> {
    until("kubectl explains the metrics", DEADLINE, async || {
        for (asked, wanted) in [
            ("podmetrics", "KIND:       PodMetrics"),
            ("podmetrics.containers.usage", "Usage of the container by resource"),
            ("nodemetrics.window", "FIELD: window <string>"),
        ] {
            let explained = kubectl.run(["explain", asked]).await?;
            ensure!(explained.contains(wanted), "{asked}: {explained}");
        }
        Ok(())
    })
    .await?;
    let index: Value = serde_json::from_str(&kubectl.run(["get", "--raw", "/openapi/v3"]).await?)?;
    for (path, kind) in [
        ("apis/metrics.k8s.io/v1beta1", "metrics.v1beta1.PodMetrics"),
        ("apis/custom.metrics.k8s.io/v1beta1", "custom_metrics.v1beta1.MetricValue"),
        ("apis/custom.metrics.k8s.io/v1beta2", "custom_metrics.v1beta2.MetricIdentifier"),
        ("apis/external.metrics.k8s.io/v1beta1", "external_metrics.v1beta1.ExternalMetricValue"),
    ] {
        let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default();
        ensure!(!url.is_empty(), "{path}: {index}");
        let document: Value = serde_json::from_str(&kubectl.run(["get", "--raw", url]).await?)?;
        let schema = &document["components"]["schemas"][format!("io.k8s.metrics.pkg.apis.{kind}")];
        ensure!(schema["type"] == "object", "{path}: {schema}");
    }
    let listed = kubectl.run(["api-resources", "--api-group=metrics.k8s.io", "--no-headers"]).await?;
    let kinds: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    ensure!(kinds == ["NodeMetrics", "PodMetrics"], "{listed}");
    Ok(())
}

/// The adapter itself answers as a kube-apiserver asks for it, so that none falls back to one request for each version.
async fn check_discovery(kubectl: &Kubectl, port: &str) -> anyhow::Result<()> {
    const TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let token = kubectl.run(["create", "token", "default"]).await?;
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.trim().to_owned().into());
    let client = Client::try_from(config)?;
    let accept = format!("{TYPE},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList");
    let request = Request::get("/apis").header("accept", accept).body(Body::empty())?;
    let answer = client.send(request).await?;
    let content_type = answer.headers().get("content-type").cloned().context("a type")?;
    let groups: Value = serde_json::from_slice(&answer.into_body().collect_bytes().await?)?;
    ensure!(content_type == TYPE, "{content_type:?}: {groups}");
    let names: Vec<&str> = groups["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group["metadata"]["name"].as_str())
        .collect();
    ensure!(names == ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"], "{groups}");
    let custom = &groups["items"][1]["versions"][0];
    ensure!(custom["version"] == "v1beta2" && custom["resources"][0]["resource"] == "pods", "{groups}");
    Ok(())
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
    let account = env.account().await?;
    let daemon = Daemon::start([
        "run", "--kubeconfig", &account, "--metrics-bind-address", "0", "--metrics-adapter-bind-address", &port,
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

    check_documents(kubectl).await?;
    check_discovery(kubectl, &port).await?;

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
    daemon.stop_unrefused().await
}
