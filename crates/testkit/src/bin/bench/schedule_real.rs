//! `bench schedule --real`: from the create of a ResourceBinding on a real kube-apiserver to its written result.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    cluster::Cluster,
    conditions,
    work::{ResourceBinding, ResourceBindingStatus},
};
use ironclad_runtime::Api;
use ironclad_seam::{Clock, Tasks};
use ironclad_testkit::real;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    process::{Used, plane_writes},
    propagate::{at, client, install, start_run, watch},
    schedule,
};

/// Objects that are created at once.
const CREATING: usize = 8;
/// Bindings before the measured ones, so that connections and caches exist.
const WARMING: usize = 20;
/// Longest time for one step.
const DEADLINE: Duration = Duration::from_secs(1_800);
/// The daemon has taken in the fleet if it writes nothing for this long but renewals of its Lease.
const QUIET: Duration = Duration::from_secs(5);
/// The most renewals of a Lease in `QUIET`: one every two seconds.
const RENEWALS: u64 = 3;
const LOOK: Duration = Duration::from_millis(20);
/// Time for writes that the daemon delays, and over which its idle CPU is measured.
const SETTLE: Duration = Duration::from_secs(5);
/// No member reports, so no cluster may become silent.
const FLAGS: [&str; 3] =
    ["--controllers=scheduler", "--cluster-monitor-grace-period=24h", "--cluster-startup-grace-period=24h"];

#[derive(Default, Clone)]
struct Seen {
    created: Option<Instant>,
    scheduled: Option<Instant>,
}

type Table = Arc<Mutex<BTreeMap<String, Seen>>>;

/// Figures of one fleet.
struct Figures {
    /// Seconds from the start of the daemon to the result of a binding that waits for it.
    first: f64,
    /// CPU time of `ironclad run` for one binding, in milliseconds, without what it uses at rest.
    cpu: f64,
    rate: f64,
    /// Milliseconds from the create to the result, sorted.
    latencies: Vec<f64>,
    resident_mib: f64,
}

/// Measures fleets of these numbers of clusters, each with this number of bindings.
pub(crate) async fn run(fleets: &[usize], bindings: usize) -> anyhow::Result<()> {
    ensure!(bindings > 0, "--bindings 0: there is nothing to measure");
    println!("{bindings} bindings in turn: three by name, ten by label, ten by label divided, ten of all divided");
    println!(
        "{:>8}   {:>8} {:>12} {:>15} {:>10} {:>10} {:>12}   {:>9}",
        "clusters", "first s", "bindings/s", "CPU/binding ms", "p50 ms", "p99 ms", "memory MiB", "CPU ratio"
    );
    let mut first = None;
    for clusters in fleets {
        let figures = measured(*clusters, bindings).await.with_context(|| format!("{clusters} clusters"))?;
        let ratio = figures.cpu / *first.get_or_insert(figures.cpu);
        println!(
            "{clusters:>8}   {:>8.2} {:>12.0} {:>15.2} {:>10.1} {:>10.1} {:>12.0}   {ratio:>8.2}x",
            figures.first,
            figures.rate,
            figures.cpu,
            at(&figures.latencies, 0.5),
            at(&figures.latencies, 0.99),
            figures.resident_mib
        );
    }
    Ok(())
}

async fn measured(clusters: usize, bindings: usize) -> anyhow::Result<Figures> {
    let (clock, tasks) = (Clock::system(), Tasks::new("bench"));
    let env = real::RealEnv::start(real::Config { members: 0, plane: true, ..real::Config::default() }).await?;
    install(&env)?;
    let plane = client(&env.plane().kubeconfig(), None).await?;
    create_fleet(&plane, clusters).await?;
    let table = Table::default();
    let api: Api<ResourceBinding> = Api::namespaced(plane, "default");
    watch(api.clone(), &table, &tasks, &clock, note, |binding| Some(binding.name_any()));
    create(&api, &table, &clock, clusters, 0..1).await?;
    let flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
    let began = clock.mono();
    let (daemon, metrics, _) = start_run(&env, &flags)?;
    settled(&table, &clock, 1).await?;
    let first = (clock.mono() - began).as_secs_f64();
    let mut writes = plane_writes(&metrics).await?;
    loop {
        clock.sleep(QUIET).await;
        let now = plane_writes(&metrics).await?;
        if now - writes <= RENEWALS {
            break;
        }
        ensure!(clock.mono() - began < DEADLINE, "the fleet is not taken in within {DEADLINE:?}");
        writes = now;
    }
    create(&api, &table, &clock, clusters, 1..WARMING).await?;
    settled(&table, &clock, WARMING).await?;
    clock.sleep(SETTLE).await;
    let before = daemon.used()?;
    clock.sleep(SETTLE).await;
    let (resting, began) = (daemon.used()?, clock.mono());
    let idle = (resting.cpu_seconds - before.cpu_seconds) / SETTLE.as_secs_f64();
    create(&api, &table, &clock, clusters, WARMING..WARMING + bindings).await?;
    settled(&table, &clock, WARMING + bindings).await?;
    let scheduled = clock.mono() - began;
    clock.sleep(SETTLE).await;
    let (after, whole): (Used, _) = (daemon.used()?, clock.mono() - began);
    tasks.kill();

    let cpu = after.cpu_seconds - resting.cpu_seconds - idle * whole.as_secs_f64();
    let measured = |(name, seen): (&String, &Seen)| {
        let is_measured = *name >= schedule::binding_name(WARMING);
        let latency = (seen.scheduled? - seen.created?).as_secs_f64() * 1e3;
        is_measured.then_some(latency)
    };
    let mut latencies: Vec<f64> = table.lock().iter().filter_map(measured).collect();
    latencies.sort_by(f64::total_cmp);
    let n = bindings as f64;
    Ok(Figures {
        first,
        cpu: cpu * 1e3 / n,
        rate: n / scheduled.as_secs_f64(),
        latencies,
        resident_mib: after.resident_mib,
    })
}

fn note(binding: &ResourceBinding, seen: &mut Seen, now: Instant) {
    let is_scheduled = |status: &ResourceBindingStatus| conditions::is_true(&status.conditions, "Scheduled");
    if !binding.spec.clusters.is_empty() && binding.status.as_ref().is_some_and(is_scheduled) {
        seen.scheduled.get_or_insert(now);
    }
}

/// Creates Clusters with their status, as members would report it.
pub(crate) async fn create_fleet(plane: &kube::Client, count: usize) -> anyhow::Result<()> {
    let api: Api<Cluster> = Api::all(plane.clone());
    stream::iter(0..count)
        .map(|n| {
            let api = api.clone();
            async move {
                let cluster = schedule::ready_cluster(n)?;
                let (name, status) = (cluster.name_any(), json!({ "status": cluster.status }));
                api.create(&PostParams::default(), &cluster).await?;
                api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CREATING)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

async fn create(
    api: &Api<ResourceBinding>,
    table: &Table,
    clock: &Clock,
    clusters: usize,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<()> {
    let placements: Vec<Value> = schedule::placements(clusters).into_iter().take(4).map(|(_, one)| one).collect();
    stream::iter(numbers)
        .map(|n| {
            let (api, table, clock, placement) = (api.clone(), table.clone(), clock.clone(), &placements[n % 4]);
            async move {
                let binding = schedule::new_binding(placement, n)?;
                table.lock().entry(binding.name_any()).or_default().created = Some(clock.mono());
                api.create(&PostParams::default(), &binding).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CREATING)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

async fn settled(table: &Table, clock: &Clock, count: usize) -> anyhow::Result<()> {
    let began = clock.mono();
    loop {
        let scheduled = table.lock().values().filter(|seen| seen.scheduled.is_some()).count();
        if scheduled >= count {
            return Ok(());
        }
        ensure!(clock.mono() - began < DEADLINE, "only {scheduled} of {count} bindings are scheduled");
        clock.sleep(LOOK).await;
    }
}
