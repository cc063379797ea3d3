//! The same seed gives the same history, byte for byte.

use std::time::Duration;

use futures::StreamExt;
use ironclad_apiserver::Options;
use ironclad_store::Revision;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::json;

use crate::support::{World, config_map};

/// Twenty clients write and watch for a virtual while; everything that was stored and seen.
async fn history(seed: u64) -> Vec<String> {
    let world = World::seeded(seed, Options::default()).await;
    let log = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..20u64 {
        let world = world.clone();
        let maps: Api<ConfigMap> = Api::default_namespaced(world.client());
        let stream = world.seam.rng.stream(&format!("client{n}"));
        let (clock, watching, seen) = (world.seam.clock.clone(), maps.clone(), log.clone());
        let tasks_of = world.seam.tasks.clone();
        tasks_of.spawn("watcher", async move {
            let mut events = Box::pin(watcher(watching, watcher::Config::default()));
            while let Some(event) = events.next().await {
                let text = event.map_or_else(|e| e.to_string(), |e| e.to_string());
                seen.lock().push(format!("{n} {text}"));
            }
        });
        tasks.push(tasks_of.spawn("writer", async move {
            for _ in 0..20 {
                clock.sleep(stream.duration_up_to(Duration::from_millis(50))).await;
                let name = format!("m{}", stream.below(5));
                let map: ConfigMap = serde_json::from_value(config_map(&name, json!({}))).unwrap();
                // Clashes are part of the history.
                let _ = match stream.below(3) {
                    0 => maps.create(&PostParams::default(), &map).await.map(|_| ()),
                    1 => {
                        let patch = Patch::Merge(json!({"data": {"n": n.to_string()}}));
                        maps.patch(&name, &PatchParams::default(), &patch).await.map(|_| ())
                    }
                    _ => maps.delete(&name, &DeleteParams::default()).await.map(|_| ()),
                };
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    world.seam.clock.sleep(Duration::from_secs(1)).await;
    let store = world.server.store();
    let mut watch = store.watch("", Revision::FIRST).unwrap();
    let mut out = Vec::new();
    while out.len() as u64 + 1 < store.revision().get() {
        let batch = watch.next().await.unwrap().unwrap();
        out.push(format!(
            "{} {:?}",
            batch.revision(),
            batch
                .events()
                .iter()
                .map(|e| (e.key.to_string(), e.entry.as_ref().map(|e| String::from_utf8_lossy(&e.value).into_owned())))
                .collect::<Vec<_>>()
        ));
    }
    out.extend(log.lock().iter().cloned());
    world.seam.tasks.kill();
    out
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(history(seed))
    };
    let (first, second) = (run(7), run(7));
    assert!(first.len() > 1_000, "{}", first.len());
    assert_eq!(first, second);
    assert_ne!(first, run(8));
}
