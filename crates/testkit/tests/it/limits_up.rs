//! `ironclad up` with limited resources: a file that may not grow, few file descriptors.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::ensure;
use ironclad_runtime::{Traffic, client_from_kubeconfig, kubeconfig_client_config};
use ironclad_testkit::binary::{Daemon, free_port};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;
use tokio::net::TcpStream;

fn up(data: &Path, port: u16) -> [String; 9] {
    let (data, listen) = (data.display().to_string(), format!("127.0.0.1:{port}"));
    ["up", "--data-dir", &data, "--listen", &listen, "--clusters", "0", "--metrics-bind-address", "0"]
        .map(str::to_owned)
}

async fn client(data: &Path) -> anyhow::Result<Client> {
    let config = kubeconfig_client_config(&data.join("kubeconfig"), None).await?;
    Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
}

async fn names(api: &Api<ConfigMap>) -> anyhow::Result<BTreeSet<String>> {
    let all = api.list(&ListParams::default()).await?.items;
    Ok(all.iter().map(ConfigMap::name_any).filter(|name| name.starts_with("large")).collect())
}

#[tokio::test]
async fn writes_to_a_full_file_fail_with_the_cause_and_lose_nothing() -> anyhow::Result<()> {
    const OBJECTS: usize = 64;
    let dir = tempfile::tempdir()?;
    let (data, port) = (dir.path().join("data"), free_port()?);
    // In blocks of 512 bytes: some 6 MiB. The signal that comes with the failure would end the process.
    let daemon = Daemon::start_limited("trap '' XFSZ; ulimit -f 12288", up(&data, port)).await?;
    let api: Api<ConfigMap> = Api::namespaced(client(&data).await?, "default");
    let (mut acknowledged, mut refusal) = (BTreeSet::new(), None);
    for number in 0..OBJECTS {
        let name = format!("large-{number}");
        let object = json!({"metadata": {"name": name}, "data": {"d": "x".repeat(500_000)}});
        match api.create(&PostParams::default(), &serde_json::from_value(object)?).await {
            Ok(_) => drop(acknowledged.insert(name)),
            Err(error) => {
                refusal = Some(error.to_string());
                break;
            }
        }
    }
    let refusal = refusal.unwrap_or_default();
    ensure!(refusal.contains("no longer takes writes") && refusal.contains("data directory"), "{refusal:?}");
    ensure!(!acknowledged.is_empty(), "there was no place for anything");
    ensure!(names(&api).await? == acknowledged, "reads go on, of what was acknowledged");
    daemon.stop().await?;

    let daemon = Daemon::start(up(&data, port)).await?;
    let api: Api<ConfigMap> = Api::namespaced(client(&data).await?, "default");
    let there = names(&api).await?;
    // The refused write may have been stored.
    ensure!(there.is_superset(&acknowledged) && there.len() <= acknowledged.len() + 1, "{there:?}, {acknowledged:?}");
    api.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "again"}}))?).await?;
    daemon.stop().await
}

#[tokio::test]
async fn idle_connections_beyond_the_file_descriptors_block_no_clients() -> anyhow::Result<()> {
    const IDLE: usize = 200;
    let dir = tempfile::tempdir()?;
    let (data, port) = (dir.path().join("data"), free_port()?);
    let daemon = Daemon::start_limited("ulimit -n 64", up(&data, port)).await?;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await?);
    }
    let api: Api<ConfigMap> = Api::namespaced(client(&data).await?, "default");
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
    }
    drop(idle);
    daemon.stop().await
}
