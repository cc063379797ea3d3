//! Bad input of propagation, in virtual time: refusals have a reason, errors are reported
//! where users look, and other objects are not affected.

use std::{io, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{cluster::Cluster, policy::PropagationPolicy};
use ironclad_testkit::sim::{ConnectPanic, World, WorldOptions};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;

/// Starts a world with one Ready member, and a policy that propagates every ConfigMap and claim of `default`.
async fn ready() -> anyhow::Result<World> {
    let mut world = World::start(WorldOptions { seed: 254, members: 1 }).await?;
    world.start_controllers().await;
    let clusters: Api<Cluster> = Api::all(world.user());
    world
        .until("it is Ready", async || {
            Ok(clusters.list(&ListParams::default()).await?.items.iter().all(|c| c.is_ready()))
        })
        .await?;
    let policy: PropagationPolicy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "maps", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}],
            "placement": {"clusterAffinity": {}},
        },
    }))?;
    Api::namespaced(world.user(), "default").create(&PostParams::default(), &policy).await?;
    world.until_quiet().await?;
    Ok(world)
}

fn maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.user(), "default")
}

fn map(name: &str, bytes: usize) -> anyhow::Result<ConfigMap> {
    let metadata = json!({"name": name, "namespace": "default"});
    Ok(serde_json::from_value(json!({"metadata": metadata, "data": {"k": "x".repeat(bytes)}}))?)
}

/// Returns code and message of a refusal.
async fn refused(maps: &Api<ConfigMap>, map: &ConfigMap) -> anyhow::Result<(u16, String)> {
    match maps.create(&PostParams::default(), map).await {
        Ok(_) => anyhow::bail!("{} was accepted", map.name_any()),
        Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
        Err(other) => Err(other.into()),
    }
}

/// Waits until the member has the ConfigMap.
async fn arrives(world: &mut World, name: &str) -> anyhow::Result<()> {
    let there: Api<ConfigMap> = Api::namespaced(world.member("member1")?.client(), "default");
    world.until(&format!("{name} is in the member"), async || Ok(there.get_opt(name).await?.is_some())).await
}

#[tokio::test(start_paused = true)]
async fn an_object_of_5_mib_is_refused_and_the_largest_allowed_one_is_propagated() -> anyhow::Result<()> {
    let mut world = ready().await?;
    let maps = maps(&world);
    let (code, says) = refused(&maps, &map("huge", 5 << 20)?).await?;
    ensure!(code == 413, "{code} {says}");
    // The largest ConfigMap.
    maps.create(&PostParams::default(), &map("large", (1 << 20) - 1)?).await?;
    arrives(&mut world, "large").await?;
    world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn names_too_long_for_the_object_or_its_binding_are_reported() -> anyhow::Result<()> {
    let mut world = ready().await?;
    let maps = maps(&world);
    let (code, says) = refused(&maps, &map(&"n".repeat(254), 1)?).await?;
    ensure!(code == 422 && says.contains("must be no more than 253"), "{code} {says}");
    // The binding's name ends with the kind, as in Karmada: `<name>-persistentvolumeclaim`.
    let (fits, long) = ("n".repeat(230), "n".repeat(240));
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.user(), "default");
    let claim = json!({
        "metadata": {"name": long},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
    maps.create(&PostParams::default(), &map(&fits, 1)?).await?;
    arrives(&mut world, &fits).await?;
    let events: Api<Event> = Api::namespaced(world.user(), "default");
    world
        .until("the error is reported", async || {
            let all = events.list(&ListParams::default()).await?.items;
            Ok(all.iter().any(|event| {
                event.type_.as_deref() == Some("Warning")
                    && event.involved_object.name.as_deref() == Some(&long)
                    && event.message.as_deref().unwrap_or_default().contains("must be no more than 253")
            }))
        })
        .await?;
    let before = world.faults.writes();
    world.pass(Duration::from_secs(600)).await?;
    let tries = world.faults.writes() - before;
    // At most once a minute, each with at most one event.
    ensure!(tries <= 24, "it is tried too often: {tries} writes in ten minutes");
    claims.delete(&long, &DeleteParams::default()).await.context("it can be deleted")?;
    world.until_quiet().await
}

/// Captures log lines while the guard lives.
fn logged() -> (Arc<Mutex<Vec<u8>>>, tracing::subscriber::DefaultGuard) {
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lines: Arc<Mutex<Vec<u8>>> = Arc::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_writer(move || Lines(writer.clone()))
        .finish();
    (lines, tracing::subscriber::set_default(subscriber))
}

#[tokio::test(start_paused = true)]
async fn panicking_reconcile_is_caught_counted_backed_off_and_logged_once() -> anyhow::Result<()> {
    let (lines, _guard) = logged();
    let mut world = World::start(WorldOptions { seed: 255, members: 2 }).await?;
    world.set_connect_panic("member2", ConnectPanic::On);
    world.start_controllers().await;
    let clusters: Api<Cluster> = Api::all(world.user());
    let ready = async |name: &str| -> anyhow::Result<bool> {
        Ok(clusters.get_opt(name).await?.is_some_and(|cluster| cluster.is_ready()))
    };
    world.until("the other one is Ready", async || ready("member1").await).await?;
    let panics = |world: &World| -> anyhow::Result<u32> {
        let mut text = String::new();
        let registry = world.context().context("it runs")?.registry();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        let start = "controller_runtime_reconcile_panics_total{controller=\"cluster\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(start)).context("it is counted")?;
        Ok(line.parse()?)
    };
    world.pass(Duration::from_secs(600)).await?;
    let count = panics(&world)?;
    // Backoff from 5 ms, doubled up to a minute: 23 attempts within ten minutes.
    ensure!((14..=30).contains(&count), "{count} reconciles panicked within ten minutes");
    // Other members are not affected.
    let policy: PropagationPolicy = serde_json::from_value(json!({
        "metadata": {"name": "maps", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {"clusterNames": ["member1"]}},
        },
    }))?;
    Api::namespaced(world.user(), "default").create(&PostParams::default(), &policy).await?;
    maps(&world).create(&PostParams::default(), &map("m", 1)?).await?;
    arrives(&mut world, "m").await?;
    let logged = |what: &str| String::from_utf8_lossy(&lines.lock()).lines().filter(|line| line.contains(what)).count();
    ensure!(
        logged("connecting member2 panics") == 1,
        "logged {} times:\n{}",
        logged("panic"),
        String::from_utf8_lossy(&lines.lock())
    );
    ensure!(logged("ERROR") == 1, "{}", String::from_utf8_lossy(&lines.lock()));
    // The member is connected once the panics end.
    world.set_connect_panic("member2", ConnectPanic::Off);
    world.until("it is Ready too", async || ready("member2").await).await?;
    world.until_quiet().await?;
    ensure!(logged("connecting member2 panics") == 1, "it is over");
    Ok(())
}
