//! The metrics of all members through `ironclad up` and kubectl, and those of `up` itself, with which dashboards and
//! alert rules are compared.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, until},
};
use serde_json::Value;

use crate::{
    monitoring::{self, Program},
    propagation_up::kubectl,
};

const DEADLINE: Duration = Duration::from_secs(90);
/// `up` with gate Failover, in which workloads left a member and another member was lost.
const UP: Program = Program {
    absent: &[],
    by_name: &[],
    unseen: &[
        "federatedhpa_process_duration_seconds",
        // Only while one is under way.
        "graceful_eviction_tasks",
        "ironclad_hot_loop",
        "ironclad_interpreter_pool_calls_total",
        "karmada_scheduler_estimator_estimating_request_total",
        "karmada_scheduler_preemption_attempts_total",
        "karmada_scheduler_preemption_nomination_duration_seconds",
        "policy_preemption_total",
    ],
};

#[tokio::test]
async fn kubectl_top_shows_the_pods_of_all_members() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let port = free_port()?;
    let metrics = format!("127.0.0.1:{port}");
    let daemon = Daemon::start([
        "up", "--data-dir", &path, "--listen", &listen, "--metrics-bind-address", &metrics, "--demo",
        "--startup-delay", "0s", "--feature-gates", "Failover=true", "--eviction-warm-up", "0s",
    ])
    .await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let verb = async |args: &[&str]| ironclad(args.iter().copied().chain(["--kubeconfig", &kubeconfig])).await;
    verb(&["sim", "load", "member1", "-l", "app=web", "--cpu", "800m", "--memory", "1Gi"]).await?.success()?;

    until("kubectl top shows all pods", DEADLINE, async || {
        let top = plane.run(["top", "pods", "-A", "-l", "app=web", "--no-headers"]).await?;
        ensure!(top.lines().count() == 4, "{top}");
        ensure!(top.lines().any(|line| line.contains("800m") && line.contains("1024Mi")), "{top}");
        Ok(())
    })
    .await?;
    let nodes = plane.output(["get", "nodes.metrics.k8s.io", "--no-headers"], "").await?.success()?;
    ensure!(nodes.lines().any(|line| line.contains("member3-node-1") && line.contains("member3")), "{nodes}");
    let table = plane.run(["get", "pods.metrics.k8s.io", "-A"]).await?;
    ensure!(table.lines().next().is_some_and(|l| l.contains("CLUSTER") && l.contains("WINDOW")), "{table}");
    let services = plane.run(["get", "apiservices", "--no-headers"]).await?;
    for service in ["v1beta1.metrics.k8s.io", "v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"] {
        let line = services.lines().find(|line| line.starts_with(service)).unwrap_or_default();
        ensure!(line.contains("Local") && line.contains("True"), "{service}: {services}");
    }
    let versions = plane.run(["api-versions"]).await?;
    ensure!(versions.contains("external.metrics.k8s.io/v1beta1"), "{versions}");

    let explained = plane.run(["explain", "podmetrics.containers"]).await?;
    ensure!(explained.contains("FIELD: containers <[]ContainerMetrics>"), "{explained}");

    // What leaves a member, and what a user asks of one, is in the metrics of `up`.
    verb(&["taint", "clusters", "member2", "gone:NoExecute", "--yes"]).await?.success()?;
    plane.run(["get", "--raw", "/apis/cluster.karmada.io/v1alpha1/clusters/member3/proxy/api/v1/pods"]).await?;
    until("a workload left member2, and another one has nowhere to go", DEADLINE, async || {
        let scraped = monitoring::scrape(port).await?;
        for metric in ["graceful_eviction_duration_seconds", "eviction_abandoned_total", "delete_resource_from_cluster"]
        {
            ensure!(scraped.0.get(metric).is_some_and(|family| family.has_samples), "{metric} has no samples");
        }
        Ok(())
    })
    .await?;

    // A member that is down costs its own pods only, and is named.
    verb(&["sim", "down", "member1"]).await?.success()?;
    until("a dead member is named", DEADLINE, async || {
        let top = plane.output(["get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods"], "").await?;
        let list: Value = serde_json::from_str(&top.success()?)?;
        let failed = &list["metadata"]["annotations"]["resource.karmada.io/query-failed-clusters"];
        ensure!(failed == "member1", "{failed}");
        ensure!(list["items"].as_array().is_some_and(|items| !items.is_empty()), "{list}");
        Ok(())
    })
    .await?;
    let warned = plane.output(["top", "pods", "-A"], "").await?;
    ensure!(warned.code == Some(0) && warned.stderr.contains("no metrics of cluster member1"), "{warned:?}");
    until("dashboards and alert rules ask for what there is", DEADLINE, async || {
        monitoring::check(UP, &monitoring::scrape(port).await?)
    })
    .await?;
    daemon.stop().await
}
