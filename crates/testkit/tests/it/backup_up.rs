//! `ironclad backup` and `up --restore`: writes that were acknowledged before a backup exist unchanged after its
//! restore.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, ensure};
use ironclad_runtime::{Traffic, client_from_kubeconfig, kubeconfig_client_config};
use ironclad_seam::Tasks;
use ironclad_testkit::binary::{Daemon, free_port, ironclad};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

fn up(data: &Path) -> anyhow::Result<Vec<String>> {
    let listen = format!("127.0.0.1:{}", free_port()?);
    let data = data.display().to_string();
    Ok(["up", "--data-dir", &data, "--listen", &listen, "--metrics-bind-address", "0"].map(str::to_owned).to_vec())
}

async fn client(kubeconfig: &Path, context: &str) -> anyhow::Result<Client> {
    let config = kubeconfig_client_config(kubeconfig, Some(context)).await?;
    Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
}

/// Uid, resourceVersion and value by name.
async fn seen(client: &Client) -> anyhow::Result<BTreeMap<String, [String; 3]>> {
    let list = Api::<ConfigMap>::namespaced(client.clone(), "default").list(&ListParams::default()).await?;
    let of = |c: ConfigMap| {
        let value = c.data.as_ref().and_then(|d| d.get("v")).cloned().unwrap_or_default();
        let version = c.resource_version().unwrap_or_default();
        (c.name_any(), [c.uid().unwrap_or_default(), version, value])
    };
    Ok(list.items.into_iter().map(of).filter(|(name, _)| name.starts_with('w')).collect())
}

/// Identities of the simulated members: the Clusters of the control plane and their nodes.
async fn fleet(kubeconfig: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.karmada.io", "v1alpha1", "Cluster"));
    let clusters: Api<DynamicObject> = Api::all_with(client(kubeconfig, "ironclad").await?, &resource);
    let nodes: Api<Node> = Api::all(client(kubeconfig, "member1").await?);
    let mut uids = BTreeMap::new();
    for cluster in clusters.list(&ListParams::default()).await? {
        uids.insert(cluster.name_any(), cluster.uid().unwrap_or_default());
    }
    for node in nodes.list(&ListParams::default()).await? {
        uids.insert(format!("node {}", node.name_any()), node.uid().unwrap_or_default());
    }
    Ok(uids)
}

async fn backup(arguments: &[&str]) -> anyhow::Result<String> {
    ironclad(["backup"].iter().chain(arguments)).await?.success()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_restored_unchanged() -> anyhow::Result<()> {
    const WRITERS: usize = 4;
    let dir = tempfile::tempdir()?;
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    let text = |name: &str| path(name).display().to_string();
    let mut arguments = up(&path("data"))?;
    arguments.extend(["--clusters", "2"].map(str::to_owned));
    let daemon = Daemon::start(&arguments).await?;
    let kubeconfig = path("data/kubeconfig");
    let plane = client(&kubeconfig, "ironclad").await?;
    let tasks = Tasks::new("writers");
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let api: Api<ConfigMap> = Api::namespaced(plane.clone(), "default");
        let name = format!("w{writer}");
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        api.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
        writers.push(tasks.spawn("writer", async move {
            for value in 0u64.. {
                let patch = Patch::Merge(json!({"data": {"v": value.to_string()}}));
                if api.patch(&name, &PatchParams::default(), &patch).await.is_err() {
                    return;
                }
            }
        }));
    }
    let (before, of_fleet) = (seen(&plane).await?, fleet(&kubeconfig).await?);
    let said = backup(&[&text("running.backup"), "--kubeconfig", &text("data/kubeconfig")]).await?;
    ensure!(said.contains("of 3 servers at resourceVersion"), "{said}");
    let mode = fs::metadata(path("running.backup"))?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "the backup has mode {mode:o}");
    // The directory of a running process is not read directly.
    let refused = ironclad(["backup", &text("b"), "--data-dir", &text("data")]).await?;
    ensure!(refused.code == Some(1) && refused.stderr.contains("--kubeconfig"), "{refused:?}");
    ensure!(!path("b").exists(), "a refused backup left a file");
    daemon.stop().await?;
    for writer in writers {
        writer.await?;
    }
    backup(&[&text("stopped.backup"), "--data-dir", &text("data")]).await?;

    for (file, data) in [("running.backup", "from-running"), ("stopped.backup", "from-stopped")] {
        let mut arguments = up(&path(data))?;
        arguments.extend(["--restore".to_owned(), text(file)]);
        let restored = Daemon::start(&arguments).await.with_context(|| file.to_owned())?;
        let kubeconfig = path(data).join("kubeconfig");
        let after = seen(&client(&kubeconfig, "ironclad").await?).await?;
        ensure!(after.len() == WRITERS, "{file}: {after:?}");
        for (name, [uid, version, value]) in &before {
            let [uid_now, version_now, value_now] = &after[name];
            ensure!(uid == uid_now, "{file}: {name} has another uid");
            let number = |text: &String| text.parse::<u64>().unwrap_or(0);
            let newer = number(version_now) >= number(version) && number(value_now) >= number(value);
            ensure!(newer, "{file}: {name} went back from {value} at {version} to {value_now} at {version_now}");
        }
        ensure!(fleet(&kubeconfig).await? == of_fleet, "{file}: other clusters or nodes than before");
        // The authority is the same, so that older certificates remain valid.
        let authority = |data: &str| fs::read(path(data).join("pki/ironclad/ca.crt"));
        ensure!(authority(data)? == authority("data")?, "{file}: another authority");
        restored.stop().await?;
        // A second restore is refused.
        let again = ironclad(&arguments).await?;
        ensure!(again.code == Some(1) && again.stderr.contains("is not empty"), "{file}: {again:?}");
    }
    Ok(())
}

#[tokio::test]
async fn restores_that_are_impossible_are_refused_with_the_reason() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("file");
    fs::write(&file, "apiVersion: v1\nkind: Namespace\n")?;
    for (file, says) in
        [(file.as_path(), "is not a backup of ironclad"), (Path::new("/nonexistent/b"), "can't be read")]
    {
        let mut arguments = up(&dir.path().join("data"))?;
        arguments.extend(["--restore".to_owned(), file.display().to_string()]);
        let output = ironclad(&arguments).await?;
        ensure!(output.code == Some(1) && output.stderr.contains(says), "{says}: {output:?}");
        ensure!(!dir.path().join("data").exists(), "{says}: the directory was made");
    }
    let missing = ironclad(["backup", "b", "--data-dir", "/nonexistent/data"]).await?;
    ensure!(missing.code == Some(1) && missing.stderr.contains("holds no store"), "{missing:?}");
    Ok(())
}
