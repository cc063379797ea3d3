//! The documented example of an interpreter webhook, through `ironclad up` over TLS.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Kubectl, until},
};

use serde_json::json;

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);
const KIND: &str = include_str!("../../../../samples/interpreter-webhook/farm-crd.yaml");
const FARM: &str = include_str!("../../../../samples/interpreter-webhook/farm.yaml");

/// Waits until a field of an object has this value.
async fn says(kubectl: &Kubectl, object: &str, path: &str, want: &str) -> anyhow::Result<()> {
    until(&format!("{path} of {object} is {want:?}"), DEADLINE, async || {
        let got = kubectl.run(["get", object, "-o", &format!("jsonpath={path}")]).await?;
        ensure!(got == want, "{got:?}");
        Ok(())
    })
    .await
}

/// Promotes a farm of member1 with what it needs: whether that succeeds, and what the verb prints.
async fn promoted(kubeconfig: &str, farm: &str) -> anyhow::Result<(bool, String)> {
    let words =
        ["promote", "farm", farm, "-n", "default", "-C", "member1", "--dependencies", "--kubeconfig", kubeconfig];
    let done = ironclad(words).await?;
    Ok((done.code == Some(0), done.stdout + &done.stderr))
}

#[tokio::test]
async fn a_kind_that_a_webhook_interprets() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let daemon = Daemon::start([
        "up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0",
    ])
    .await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let mut members = Vec::new();
    for n in 1..=2 {
        members.push(kubectl(&binaries, &data, &format!("member{n}"), dir.path())?);
    }

    let manifest = dir.path().join("webhook.json").display().to_string();
    let webhook =
        Daemon::start_example("interpreter-webhook", ["--listen", "127.0.0.1:0", "--manifest", &manifest]).await?;
    plane.run(["apply", "-f", &manifest]).await?;
    plane.apply(KIND).await?;
    plane.apply(FARM).await?;

    // Replicas and their requirements, their division, and the share of each copy.
    let binding = "rb/valley-farm";
    says(&plane, binding, "{.spec.clusters[*].name}:{.spec.clusters[*].replicas}", "member1 member2:4 2").await?;
    says(&plane, binding, "{.spec.replicaRequirements.resourceRequest.cpu}", "100m").await?;
    for (member, share) in members.iter().zip(["4", "2"]) {
        until("the farm is in the member", DEADLINE, async || {
            let size = member.run(["get", "farm/valley", "-o", "jsonpath={.spec.size}"]).await?;
            ensure!(size == share, "its size is {size}");
            let seeds = member.run(["get", "configmap/wheat", "-o", "jsonpath={.data.sort}"]).await?;
            ensure!(seeds == "spelt", "the dependency says {seeds:?}");
            Ok(())
        })
        .await?;
    }
    says(&plane, binding, "{.status.aggregatedStatus[*].health}", "Unhealthy Unhealthy").await?;

    // Statuses of the members, their health, and their aggregation in the template.
    for (member, ready) in members.iter().zip([4, 1]) {
        let status = format!("{{\"status\": {{\"ready\": {ready}, \"weather\": \"dry\"}}}}");
        member.run(["patch", "farm/valley", "--subresource=status", "--type=merge", "-p", &status]).await?;
    }
    says(&plane, binding, "{.status.aggregatedStatus[*].health}", "Healthy Unhealthy").await?;
    says(&plane, binding, "{.status.aggregatedStatus[*].status}", "{\"ready\":4} {\"ready\":1}").await?;
    says(&plane, "farm/valley", "{.status.ready}", "5").await?;

    // What a member has is promoted with what the webhook says that it needs.
    let own = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "barley"}, "data": {"sort": "two-row"}},
        {"apiVersion": "farm.io/v1", "kind": "Farm", "metadata": {"name": "hills"},
            "spec": {"size": 2, "field": {"cpu": "100m", "memory": "64Mi"}, "seeds": "barley"}}]});
    members[0].apply(&own.to_string()).await?;
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let (succeeded, done) = promoted(&kubeconfig, "hills").await?;
    ensure!(succeeded && done.contains("hills") && done.contains("barley"), "{done}");
    says(&plane, "configmap/barley", "{.data.sort}", "two-row").await?;
    drop(webhook);
    members[0].apply(&own.to_string().replace("hills", "moor").replace("barley", "oats")).await?;
    let (succeeded, refused) = promoted(&kubeconfig, "moor").await?;
    let is_told = refused.contains("asking what Farm default/moor needs") && refused.contains("without --dependencies");
    ensure!(!succeeded && is_told, "its webhook is gone: {refused}");
    daemon.stop().await
}
