//! kube-rs as its users use it, against `ironclad up` over TLS: watcher and reflector with both strategies, and its
//! Controller.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, future::ready};
use ironclad_seam::Tasks;
use ironclad_testkit::{
    binary::{Daemon, free_port},
    real::until,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Config, Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        Controller, WatchStreamExt as _,
        controller::Action,
        finalizer::{self, finalizer},
        predicates, reflector,
        wait::{await_condition, conditions},
        watcher,
    },
};
use serde_json::json;

const DEADLINE: Duration = Duration::from_secs(60);
const FINALIZER: &str = "example.com/copied";

async fn client(data: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(data.join("kubeconfig"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    ensure!(config.cluster_url.scheme_str() == Some("https"), "{}", config.cluster_url);
    Ok(Client::try_from(config)?)
}

fn config_map(name: &str, labels: &[(&str, &str)], value: &str) -> ConfigMap {
    let mut object = ConfigMap { data: Some(BTreeMap::from([("k".into(), value.into())])), ..ConfigMap::default() };
    object.metadata.name = Some(name.into());
    object.metadata.labels = Some(labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect());
    object
}

#[tokio::test]
async fn kube_rs_over_tls() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let arguments = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "0", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(arguments).await?;
    let client = client(&data).await?;
    reflectors_follow(&client).await.context("reflectors")?;
    a_controller_reconciles(&client).await.context("a controller")?;
    daemon.stop().await
}

/// Both strategies see the same: existing objects, each change, and in the end the result of a list.
async fn reflectors_follow(client: &Client) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for n in 0..30 {
        api.create(&PostParams::default(), &config_map(&format!("r{n:02}"), &[("of", "reflectors")], "v")).await?;
    }
    let tasks = Tasks::new("reflectors");
    let mut stores = Vec::new();
    for (name, config) in [
        ("list and watch", watcher::Config::default().page_size(7)),
        ("streaming list", watcher::Config::default().streaming_lists()),
    ] {
        let (store, writer) = reflector::store();
        let events = watcher(api.clone(), config.labels("of=reflectors")).default_backoff().reflect(writer);
        tasks.spawn(name, events.for_each(|_| ready(())));
        store.wait_until_ready().await?;
        ensure!(store.len() == 30, "{name}: {} at the start", store.len());
        stores.push((name, store));
    }
    api.create(&PostParams::default(), &config_map("r30", &[("of", "reflectors")], "v")).await?;
    api.patch("r00", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "w"}}))).await?;
    // An object that no longer matches the selector is removed, like a deleted one.
    api.patch("r01", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"of": null}}}))).await?;
    api.delete("r02", &DeleteParams::default()).await?;
    let fingerprint = |o: &ConfigMap| (o.name_any(), o.resource_version().unwrap_or_default());
    let listed = api.list(&ListParams::default().labels("of=reflectors")).await?;
    let mut want: Vec<_> = listed.iter().map(fingerprint).collect();
    want.sort();
    ensure!(want.len() == 29, "{want:?}");
    for (name, store) in &stores {
        until(&format!("{name}: the store is what a list says"), DEADLINE, async || {
            let mut have: Vec<_> = store.state().iter().map(|o| fingerprint(o)).collect();
            have.sort();
            ensure!(have == want, "{have:?} is not {want:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// State of the reconciler: the client, and nothing else.
struct Copier {
    client: Client,
}

/// A reconciler that maintains a Secret for each annotated ConfigMap, with a finalizer, owners and server-side
/// apply.
async fn a_controller_reconciles(client: &Client) -> anyhow::Result<()> {
    let sources: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let config = watcher::Config::default().labels("copied=yes");
    let tasks = Tasks::new("controller");
    let controller = Controller::new(sources.clone(), config)
        .owns(secrets.clone(), watcher::Config::default())
        .run(copy, |_, _, _| Action::requeue(Duration::from_millis(200)), Arc::new(Copier { client: client.clone() }))
        .for_each(|_| ready(()));
    tasks.spawn("controller", controller);

    sources.create(&PostParams::default(), &config_map("source", &[("copied", "yes")], "one")).await?;
    copied(&secrets, "one").await?;
    sources.patch("source", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "two"}}))).await?;
    copied(&secrets, "two").await?;
    let uid = secrets.get("source").await?.uid().context("a uid")?;
    secrets.delete("source", &DeleteParams::default()).await?;
    tokio::time::timeout(DEADLINE, await_condition(secrets.clone(), "source", conditions::is_deleted(&uid))).await??;
    copied(&secrets, "two").await?;

    let source = sources.get("source").await?;
    ensure!(source.finalizers() == [FINALIZER], "{:?}", source.finalizers());
    sources.delete("source", &DeleteParams::foreground()).await?;
    let uid = source.uid().context("a uid")?;
    tokio::time::timeout(DEADLINE, await_condition(sources.clone(), "source", conditions::is_deleted(&uid))).await??;
    let cleaned = sources.get("cleaned-source").await?;
    ensure!(cleaned.data.is_some_and(|d| d.get("k").is_some_and(|v| v == "two")), "what cleaning up left");
    // The reflector of a Controller also filters by predicates.
    let generations = watcher(sources, watcher::Config::default().labels("of=cleaning"))
        .applied_objects()
        .predicate_filter(predicates::resource_version, Default::default());
    let first = std::pin::pin!(generations).try_next().await?.context("an object")?;
    ensure!(first.name_any() == "cleaned-source", "{}", first.name_any());
    ensure!(secrets.get_opt("source").await?.is_none(), "the copy went with its owner, which waited for it");
    Ok(())
}

async fn copied(secrets: &Api<Secret>, value: &str) -> anyhow::Result<()> {
    until(&format!("the copy says {value}"), DEADLINE, async || {
        let secret = secrets.get("source").await?;
        let data = secret.data.unwrap_or_default();
        ensure!(data.get("k").is_some_and(|v| v.0 == value.as_bytes()), "{data:?}");
        ensure!(secret.metadata.owner_references.is_some_and(|o| o.len() == 1 && o[0].name == "source"), "owners");
        Ok(())
    })
    .await
}

async fn copy(source: Arc<ConfigMap>, copier: Arc<Copier>) -> Result<Action, finalizer::Error<kube::Error>> {
    let sources: Api<ConfigMap> = Api::namespaced(copier.client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(copier.client.clone(), "default");
    finalizer(&sources.clone(), FINALIZER, source, |event| async move {
        let manager = PatchParams::apply("copier").force();
        match event {
            finalizer::Event::Apply(source) => {
                let mut owner = source.controller_owner_ref(&()).into_iter().collect::<Vec<_>>();
                owner.iter_mut().for_each(|o| o.block_owner_deletion = Some(true));
                let secret = json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": source.name_any(), "ownerReferences": owner},
                    "stringData": source.data,
                });
                secrets.patch(&source.name_any(), &manager, &Patch::Apply(secret)).await?;
            }
            finalizer::Event::Cleanup(source) => {
                let name = format!("cleaned-{}", source.name_any());
                let cleaned = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "labels": {"of": "cleaning"}}, "data": source.data,
                });
                sources.patch(&name, &manager, &Patch::Apply(cleaned)).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}
