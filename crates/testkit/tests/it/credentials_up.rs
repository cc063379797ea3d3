//! Credentials of a member in a namespace of their own: `join --cluster-namespace`.

use std::time::Duration;

use anyhow::ensure;
use ironclad_api::cluster::Cluster;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::until,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::failover_walk::client;

const DEADLINE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "fleet-credentials";

#[tokio::test]
async fn credentials_in_another_namespace_are_used_and_followed() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut daemons = Vec::new();
    let mut kubeconfigs = Vec::new();
    for name in ["plane", "member"] {
        let data = dir.path().join(name);
        let (folder, listen) = (data.display().to_string(), format!("127.0.0.1:{}", free_port()?));
        let line = [
            "up",
            "--data-dir",
            &folder,
            "--listen",
            &listen,
            "--clusters",
            "0",
            "--metrics-bind-address",
            "0",
            "--cluster-status-update-frequency=1s",
            "--cluster-success-threshold=1s",
            "--cluster-failure-threshold=1s",
        ];
        daemons.push(Daemon::start(line).await?);
        kubeconfigs.push(data.join("kubeconfig"));
    }
    let [plane, member] = [0, 1].map(|n| kubeconfigs[n].display().to_string());
    let join = [
        "join", "m1", "--kubeconfig", &plane, "--cluster-kubeconfig", &member, "--cluster-namespace", NAMESPACE,
        "--wait=60s",
    ];
    ironclad(join).await?.success()?;
    let client = client(&kubeconfigs[0], None).await?;
    let clusters: Api<Cluster> = Api::all(client.clone());
    let cluster = clusters.get("m1").await?;
    let named = cluster.spec.secret_ref.clone().unwrap_or_default();
    ensure!(named.namespace == NAMESPACE && cluster.is_ready(), "{cluster:?}");

    // A token that the member does not accept, and the one before again: both are seen without a change of the Cluster.
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let token = secrets.get(&named.name).await?.data.unwrap_or_default().remove("token");
    let with = async |token: serde_json::Value| {
        let patch = Patch::Merge(json!({"data": {"token": token}}));
        secrets.patch(&named.name, &PatchParams::default(), &patch).await
    };
    for (ready, token) in [(false, json!("bm90IGEgdG9rZW4=")), (true, json!(token))] {
        with(token).await?;
        until("the new token is used", DEADLINE, async || {
            let cluster = clusters.get("m1").await?;
            ensure!(cluster.is_ready() == ready, "{:?}", cluster.status.map(|status| status.conditions));
            Ok(())
        })
        .await?;
    }
    ironclad(["unjoin", "m1", "--kubeconfig", &plane, "--yes", "--cluster-namespace", NAMESPACE]).await?.success()?;
    for daemon in daemons {
        daemon.stop().await?;
    }
    Ok(())
}
