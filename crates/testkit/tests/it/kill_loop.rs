//! `kill -9` of `ironclad up` at random times under concurrent writes: acknowledged writes exist afterwards.
//!
//! `IRONCLAD_KILLS=100` for more of them.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_runtime::{Failure, Traffic, client_from_kubeconfig, kubeconfig_client_config};
use ironclad_seam::{Rng, Tasks};
use ironclad_testkit::binary::{Daemon, free_port};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

/// Variable with the number of kills; the default is small enough for every test run.
const KILLS_VARIABLE: &str = "IRONCLAD_KILLS";
const KILLS: u32 = 20;
const WRITERS: usize = 4;
const NAMES_EACH: u64 = 12;

/// Possible states of a key: the last acknowledged value (`None`: deleted), or one whose answer never came.
#[derive(Debug, Clone, Default)]
struct Expected {
    acknowledged: Option<String>,
    in_flight: Option<Option<String>>,
}

type Model = Arc<Mutex<BTreeMap<String, Expected>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kills_under_load() -> anyhow::Result<()> {
    let kills = std::env::var(KILLS_VARIABLE).ok().map_or(Ok(KILLS), |number| number.parse())?;
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data").display().to_string(), format!("127.0.0.1:{}", free_port()?));
    let arguments = ["up", "--data-dir", &data, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0"];
    let rng = Rng::from_system();
    println!("kill loop with seed {}", rng.seed());
    let model = Model::default();
    let mut newest = 0u64;
    for round in 1..=kills {
        let daemon = Daemon::start(arguments).await.with_context(|| format!("start number {round}"))?;
        let client = client(&dir.path().join("data/kubeconfig")).await?;
        newest = check(&client, &model, newest).await.with_context(|| format!("after kill number {}", round - 1))?;
        let (tasks, stopping) = (Tasks::new("writers"), Arc::new(AtomicBool::new(false)));
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (client, model, rng, stopping) =
                (client.clone(), model.clone(), rng.child(&format!("{round}/{writer}")), stopping.clone());
            writers.push(tasks.spawn("writer", write(client, model, writer, rng, stopping)));
        }
        tokio::time::sleep(rng.stream("kill").duration_up_to(Duration::from_millis(400))).await;
        daemon.kill().await?;
        stopping.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await??;
        }
    }
    let daemon = Daemon::start(arguments).await?;
    let client = client(&dir.path().join("data/kubeconfig")).await?;
    check(&client, &model, newest).await?;
    ensure!(model.lock().len() > 10, "the writers wrote next to nothing");
    daemon.stop().await
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config = kubeconfig_client_config(kubeconfig, Some("ironclad")).await?;
    Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
}

/// Creates, changes and deletes its own ConfigMaps until the server has stopped.
async fn write(client: Client, model: Model, writer: usize, rng: Rng, stopping: Arc<AtomicBool>) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let draws = rng.stream("writer");
    while !stopping.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", draws.below(NAMES_EACH));
        let present = model.lock().get(&name).is_some_and(|e| e.acknowledged.is_some());
        let value = format!("{:x}", draws.u64());
        let next = if present && draws.chance(0.3) { None } else { Some(value.clone()) };
        model.lock().entry(name.clone()).or_default().in_flight = Some(next.clone());
        let answer = match (&next, present) {
            (None, _) => api.delete(&name, &DeleteParams::default()).await.map(drop),
            (Some(_), true) => {
                api.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"data": {"v": value}}))).await.map(drop)
            }
            (Some(_), false) => {
                let object = ConfigMap {
                    metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
                    data: Some(BTreeMap::from([("v".to_owned(), value)])),
                    ..ConfigMap::default()
                };
                api.create(&PostParams::default(), &object).await.map(drop)
            }
        };
        match answer.map_err(Failure::from) {
            Ok(()) => {
                let mut model = model.lock();
                let entry = model.entry(name).or_default();
                entry.acknowledged = next;
                entry.in_flight = None;
            }
            // The server has stopped; the request in flight may have been handled or not.
            Err(Failure::Unknown(_) | Failure::Unavailable(_)) => return Ok(()),
            Err(other) => anyhow::bail!("writing {name}: {other}"),
        }
    }
    Ok(())
}

/// Compares stored and acknowledged objects; returns the newest resourceVersion, which never decreases.
async fn check(client: &Client, model: &Model, newest_before: u64) -> anyhow::Result<u64> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let list = api.list(&ListParams::default()).await?;
    let newest: u64 = list.metadata.resource_version.as_deref().unwrap_or("0").parse()?;
    ensure!(newest >= newest_before, "the revision went back from {newest_before} to {newest}");
    let found: BTreeMap<String, String> =
        list.items.iter().filter_map(|c| Some((c.name_any(), c.data.as_ref()?.get("v")?.clone()))).collect();
    for (name, expected) in model.lock().iter_mut() {
        let found = found.get(name).cloned();
        let unanswered = expected.in_flight.as_ref() == Some(&found);
        ensure!(
            found == expected.acknowledged || unanswered,
            "{name} is {found:?}, acknowledged was {:?}, under way {:?}",
            expected.acknowledged,
            expected.in_flight
        );
        expected.acknowledged = found;
        expected.in_flight = None;
    }
    Ok(newest)
}
