//! `bench evictions`: time from the taint of a member until its workloads are present elsewhere, and until
//! the migration is complete.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::ensure;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    policy::PropagationPolicy,
    work::{ResourceBinding, ResourceHealth},
};
use ironclad_failover::{
    flags::EvictionFlags,
    taint_manager::rate::{Counts, formula},
};
use ironclad_runtime::Api;
use ironclad_seam::{Clock, Tasks};
use ironclad_testkit::{eviction_rate, real};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    ResourceExt as _,
    api::{ListParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    process::plane_writes,
    propagate::{World, at, deployment, nodes_for, watch},
};

const DEADLINE: Duration = Duration::from_secs(1_800);
const CREATING: usize = 8;
const LOOK: Duration = Duration::from_millis(20);
/// Longest time for which coalescing writers delay a write.
const SETTLE: Duration = Duration::from_secs(5);
/// The initial member of all workloads.
const SOURCE: &str = "member1";
/// Number of evictions in the timeline.
const SHOWN: usize = 11;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Deployments on the member that is tainted
    #[arg(long, default_value_t = 200)]
    bindings: usize,
    /// Members
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// Evictions per second [default: without a limit]
    #[arg(long)]
    rate: Option<f64>,
    /// Purge mode: Gracefully (delete old copies after the new ones are healthy) or Directly (before)
    #[arg(long, default_value = "Gracefully")]
    mode: String,
    /// Startup delay of pods in simulated members
    #[arg(long, default_value = "0s")]
    startup_delay: String,
    /// Use real kube-apiservers instead of `ironclad up`
    #[arg(long)]
    real: bool,
}

const UNLIMITED: f64 = 1e9;

impl Args {
    fn rate(&self) -> f64 {
        self.rate.unwrap_or(UNLIMITED)
    }

    async fn world(&self) -> anyhow::Result<World> {
        let nodes = nodes_for(self.bindings);
        let mut flags = vec![
            "--feature-gates=Failover=true".to_owned(),
            format!("--resource-eviction-rate={}", self.rate()),
            format!("--no-execute-taint-eviction-purge-mode={}", self.mode),
            "--eviction-warm-up=1s".to_owned(),
        ];
        if self.real {
            return World::real(&flags, self.members, real::NodeShape { count: nodes, ..Default::default() }).await;
        }
        flags.extend([
            format!("--clusters={}", self.members),
            format!("--nodes={nodes}"),
            "--cpu=64".to_owned(),
            format!("--startup-delay={}", self.startup_delay),
        ]);
        World::up(&flags, self.members).await
    }
}

#[derive(Default, Clone)]
struct Seen {
    /// The binding has a task.
    evicted: Option<Instant>,
    /// The scheduler found another member.
    placed: Option<Instant>,
    /// Another member has a copy.
    present: Option<Instant>,
    /// The binding reports a healthy copy.
    healthy: Option<Instant>,
    /// The task is cleared.
    cleared: Option<Instant>,
}

type Table = Arc<Mutex<BTreeMap<String, Seen>>>;
type When = fn(&Seen) -> Option<Instant>;

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.members >= 2, "--members {}: there is no other member to go to", args.members);
    let clock = Clock::system();
    let tasks = Tasks::new("bench");
    let world = args.world().await?;
    prepare(&args, &world, &clock).await?;
    let table = Table::default();
    observe(&world, &table, &tasks, &clock);
    clock.sleep(SETTLE).await;
    for n in 0..args.bindings {
        table.lock().insert(name(n), Seen::default());
    }

    let (before, writes_before) = (world.daemon.used()?, plane_writes(&world.metrics).await?);
    let began = clock.mono();
    world.verb(&["taint", "clusters", SOURCE, "bench=lost:NoExecute", "--yes"])?;
    let tainted = clock.mono() - began;
    until(&clock, "every binding is present in its replacement", || {
        let seen = table.lock().values().filter(|seen| seen.present.is_some()).count();
        (seen == args.bindings).then_some(()).ok_or_else(|| format!("{seen} of {}", args.bindings))
    })
    .await?;
    let present = clock.mono() - began;
    until(&clock, "every task is cleared", || {
        let seen = table.lock().values().filter(|seen| seen.cleared.is_some()).count();
        (seen == args.bindings).then_some(()).ok_or_else(|| format!("{seen} of {}", args.bindings))
    })
    .await?;
    let old: Api<Deployment> = Api::namespaced(world.members[0].clone(), "default");
    let left = clock.mono();
    while !old.list(&ListParams::default()).await?.items.is_empty() {
        ensure!(clock.mono() - left < DEADLINE, "old copies are left in {SOURCE}");
        clock.sleep(LOOK).await;
    }
    let whole = clock.mono() - began;
    clock.sleep(SETTLE).await;
    let (after, writes) = (world.daemon.used()?, plane_writes(&world.metrics).await? - writes_before);

    let n = args.bindings as f64;
    println!(
        "{} bindings off {SOURCE}, {} members, {}, {}, {}",
        args.bindings,
        args.members,
        args.mode,
        args.rate.map_or("no limit".to_owned(), |rate| format!("{rate} per second")),
        if args.real { "real kube-apiservers" } else { "ironclad up" }
    );
    rows(&table, began);
    println!(
        "`taint` took {:.2} s; all present in their replacements after {:.2} s, nothing left after {:.2} s",
        tainted.as_secs_f64(),
        present.as_secs_f64(),
        whole.as_secs_f64()
    );
    println!("write requests of our own to the control plane per binding: {:.2}", writes as f64 / n);
    println!("own CPU per binding: {:.1} ms", (after.cpu_seconds - before.cpu_seconds) * 1e3 / n);
    println!("own memory: peak {:.1} MiB, now {:.1} MiB", after.peak_mib, after.resident_mib);
    tasks.kill();
    timeline(&args, &world).await
}

fn rows(table: &Table, began: Instant) {
    println!("{:<22} {:>10} {:>10} {:>10}", "from the taint to", "p50 s", "p99 s", "last s");
    let steps: [(&str, When); 5] = [
        ("evicted", |s| s.evicted),
        ("placed anew", |s| s.placed),
        ("present there", |s| s.present),
        ("healthy there", |s| s.healthy),
        ("task cleared", |s| s.cleared),
    ];
    let table = table.lock();
    for (step, when) in steps {
        let mut all: Vec<f64> = table.values().filter_map(|s| Some((when(s)? - began).as_secs_f64())).collect();
        all.sort_by(f64::total_cmp);
        println!("{step:<22} {:>10.2} {:>10.2} {:>10.2}", at(&all, 0.5), at(&all, 0.99), at(&all, 1.0));
    }
}

/// Prints evictions as bindings record them, beside the formula of the rate.
async fn timeline(args: &Args, world: &World) -> anyhow::Result<()> {
    let bindings: Api<ResourceBinding> = Api::namespaced(world.plane.clone(), "default");
    let mut moments = Vec::new();
    for binding in bindings.list(&ListParams::default()).await?.items {
        let history = binding.status.map(|status| status.failover_history).unwrap_or_default();
        let at = history.last().and_then(|record| record.evicted_at.as_ref());
        moments.extend(at.and_then(|at| u64::try_from(at.0.as_second()).ok()).map(Duration::from_secs));
    }
    ensure!(moments.len() == args.bindings, "{} of {} bindings record an eviction", moments.len(), args.bindings);
    let flags = EvictionFlags { resource_eviction_rate: args.rate(), ..EvictionFlags::default() };
    let (rate, state) = formula(Counts { total: args.members, unhealthy: 1 }, &flags);
    println!("evictions as recorded, in whole seconds; formula: {rate} per second, {}", state.as_str());
    print!("{}", eviction_rate::table(&moments, rate, SHOWN));
    match eviction_rate::too_fast(&moments, rate, Duration::from_secs(1)) {
        None => println!("no window saw more than the rate allows"),
        Some(found) => anyhow::bail!("the rate was exceeded: {found}"),
    }
    Ok(())
}

fn name(n: usize) -> String {
    format!("bench-{n:05}")
}

async fn prepare(args: &Args, world: &World, clock: &Clock) -> anyhow::Result<()> {
    let others: Vec<String> = (2..=args.members).map(|n| format!("member{n}")).collect();
    let all = |verb| std::iter::once(verb).chain(others.iter().map(String::as_str)).collect::<Vec<&str>>();
    world.verb(&all("cordon"))?;
    let policies: Api<PropagationPolicy> = Api::namespaced(world.plane.clone(), "default");
    let policy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "bench"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {
                "clusterAffinity": {},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        },
    }))?;
    policies.create(&PostParams::default(), &policy).await?;
    let api: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    stream::iter(0..args.bindings)
        .map(|n| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &deployment(&name(n), 1)?).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CREATING)
        .try_collect::<Vec<()>>()
        .await?;
    let bindings: Api<ResourceBinding> = Api::namespaced(world.plane.clone(), "default");
    let began = clock.mono();
    loop {
        let all = bindings.list(&ListParams::default()).await?.items;
        let settled = all.iter().filter(|binding| binding.spec.target(SOURCE).is_some() && is_healthy(binding)).count();
        if settled == args.bindings {
            break;
        }
        ensure!(clock.mono() - began < DEADLINE, "only {settled} of {} run on {SOURCE}", args.bindings);
        clock.sleep(Duration::from_secs(1)).await;
    }
    world.verb(&all("uncordon"))
}

fn is_healthy(binding: &ResourceBinding) -> bool {
    let status = binding.status.as_ref().map(|status| status.aggregated_status.as_slice()).unwrap_or_default();
    let healthy = |name: &str| {
        status.iter().any(|item| item.cluster_name == name && item.health == Some(ResourceHealth::Healthy))
    };
    !binding.spec.clusters.is_empty() && binding.spec.clusters.iter().all(|target| healthy(&target.name))
}

fn observe(world: &World, table: &Table, tasks: &Tasks, clock: &Clock) {
    let bindings: Api<ResourceBinding> = Api::namespaced(world.plane.clone(), "default");
    let note = |binding: &ResourceBinding, seen: &mut Seen, now: Instant| {
        let has_task = binding.spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == SOURCE);
        if has_task {
            seen.evicted.get_or_insert(now);
        }
        if !binding.spec.clusters.is_empty() && binding.spec.target(SOURCE).is_none() {
            seen.placed.get_or_insert(now);
            if is_healthy(binding) {
                seen.healthy.get_or_insert(now);
            }
            if seen.evicted.is_some() && !has_task {
                seen.cleared.get_or_insert(now);
            }
        }
    };
    watch(bindings, table, tasks, clock, note, |binding| Some(binding.spec.resource.name.clone()));
    for member in &world.members[1..] {
        let copies: Api<Deployment> = Api::namespaced(member.clone(), "default");
        let note = |_: &Deployment, seen: &mut Seen, now: Instant| {
            seen.present.get_or_insert(now);
        };
        watch(copies, table, tasks, clock, note, |copy| Some(copy.name_any()));
    }
}

async fn until(clock: &Clock, what: &str, mut holds: impl FnMut() -> Result<(), String>) -> anyhow::Result<()> {
    let began = clock.mono();
    while let Err(not_yet) = holds() {
        ensure!(clock.mono() - began < DEADLINE, "{what}: not so within {DEADLINE:?}: {not_yet}");
        clock.sleep(LOOK).await;
    }
    Ok(())
}
