//! `bench propagate`: from the create of a Deployment to its settled status.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    annotations, conditions,
    work::{ResourceBinding, Work},
};
use ironclad_runtime::{
    Api, Event, Object, Traffic, Watch, WatchScope, client_from_kubeconfig, kubeconfig_client_config,
};
use ironclad_seam::{Clock, Tasks};
use ironclad_testkit::{binary::free_port, real};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, GroupVersionKind, PostParams},
    core::ApiResource,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::process::{Daemon, Used, binary, plane_writes};

const DEADLINE: Duration = Duration::from_secs(600);
/// Time after which memory that only the work needed was released.
const REST: Duration = Duration::from_secs(35);
const CREATING: usize = 8;
/// Duration of one watch, seconds.
const WATCH_SECONDS: u32 = 290;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Deployments to create
    #[arg(long, default_value_t = 100)]
    deployments: usize,
    /// Members that each of them goes to
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// Replicas of each in every member
    #[arg(long, default_value_t = 2)]
    replicas: i32,
    /// Startup delay of pods in simulated members
    #[arg(long, default_value = "0s")]
    startup_delay: String,
    /// Use real kube-apiservers instead of `ironclad up`
    #[arg(long)]
    real: bool,
    /// Use a real kube-apiserver as control plane, with simulated members
    #[arg(long, conflicts_with = "real")]
    real_plane: bool,
}

impl Args {
    async fn world(&self) -> anyhow::Result<World> {
        if self.real {
            let nodes = real::NodeShape { count: nodes_for(self.pods()), ..Default::default() };
            return World::real(&[], self.members, nodes).await;
        }
        if self.real_plane {
            return World::real_plane(&self.up(), self.members).await;
        }
        World::up(&self.up(), self.members).await
    }

    fn servers(&self) -> &'static str {
        match (self.real, self.real_plane) {
            (true, _) => "real kube-apiservers",
            (_, true) => "a real kube-apiserver and simulated members",
            _ => "ironclad up",
        }
    }

    fn pods(&self) -> usize {
        self.deployments * usize::try_from(self.replicas).unwrap_or(0)
    }

    fn up(&self) -> Vec<String> {
        [
            ("--clusters", self.members.to_string()),
            ("--nodes", nodes_for(self.pods()).to_string()),
            ("--cpu", "64".to_owned()),
            ("--startup-delay", self.startup_delay.clone()),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect()
    }
}

/// Number of nodes for this number of pods.
pub(crate) fn nodes_for(pods: usize) -> usize {
    /// Pods per node, of a maximum of 110: the pod scheduler spreads pods rather than fill nodes.
    const EACH: usize = 100;
    pods.div_ceil(EACH) + 1
}

#[derive(Default, Clone)]
struct Seen {
    created: Option<Instant>,
    scheduled: Option<Instant>,
    works: BTreeSet<String>,
    all_works: Option<Instant>,
    members: BTreeSet<usize>,
    present: Option<Instant>,
    settled: Option<Instant>,
}

type When = fn(&Seen) -> Option<Instant>;

type Table = Arc<Mutex<BTreeMap<String, Seen>>>;

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    let tasks = Tasks::new("bench");
    let world = args.world().await?;
    let table = Table::default();
    observe(&world, &table, &tasks, &clock, args.members, args.replicas);
    world.apply_policy(None).await?;

    let (before, writes_before) = (world.daemon.used()?, plane_writes(&world.metrics).await?);
    let began = clock.mono();
    let api: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    stream::iter(0..args.deployments)
        .map(|n| {
            let (api, table, clock) = (api.clone(), table.clone(), clock.clone());
            async move {
                let name = format!("bench-{n:05}");
                table.lock().entry(name.clone()).or_default().created = Some(clock.mono());
                api.create(&PostParams::default(), &deployment(&name, args.replicas)?).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CREATING)
        .try_collect::<Vec<()>>()
        .await?;
    let created = clock.mono() - began;
    loop {
        let settled = table.lock().values().filter(|s| s.settled.is_some()).count();
        if settled == args.deployments {
            break;
        }
        ensure!(
            clock.mono() - began < DEADLINE,
            "only {settled} of {} Deployments settled within {DEADLINE:?}",
            args.deployments
        );
        clock.sleep(Duration::from_millis(20)).await;
    }
    let (whole, settled) = (clock.mono() - began, world.daemon.used()?);
    // Include writes that coalescing writers still delay.
    clock.sleep(Duration::from_secs(4)).await;
    let (after, writes_after) = (world.daemon.used()?, plane_writes(&world.metrics).await?);
    print(&args, &table, created, whole, (before, settled, after), writes_after - writes_before);
    clock.sleep(REST).await;
    let rest = world.daemon.used()?;
    println!("own memory at rest: {:.1} MiB, {:.1} without pages of files", rest.resident_mib, rest.own_mib);
    tasks.kill();
    Ok(())
}

fn print(args: &Args, table: &Table, created: Duration, whole: Duration, used: (Used, Used, Used), writes: u64) {
    let (n, (before, settled, after)) = (args.deployments as f64, used);
    println!(
        "{} Deployments of {} replicas to {} members, {}",
        args.deployments,
        args.replicas,
        args.members,
        args.servers()
    );
    println!("{:<22} {:>10} {:>10}", "from create to", "p50 ms", "p99 ms");
    let rows: [(&str, When); 4] = [
        ("scheduled", |s| s.scheduled),
        ("Works", |s| s.all_works),
        ("present everywhere", |s| s.present),
        ("settled", |s| s.settled),
    ];
    let table = table.lock();
    for (name, when) in rows {
        let mut all: Vec<f64> =
            table.values().filter_map(|s| Some((when(s)? - s.created?).as_secs_f64() * 1e3)).collect();
        all.sort_by(f64::total_cmp);
        println!("{name:<22} {:>10.1} {:>10.1}", at(&all, 0.5), at(&all, 0.99));
    }
    println!("created within {:.2} s, all settled after {:.2} s", created.as_secs_f64(), whole.as_secs_f64());
    println!("write requests of our own to the control plane per Deployment: {:.2}", writes as f64 / n);
    println!("own CPU per Deployment: {:.1} ms", (after.cpu_seconds - before.cpu_seconds) * 1e3 / n);
    let copies = n * args.members as f64;
    println!("own CPU per copy until settled: {:.2} ms", (settled.cpu_seconds - before.cpu_seconds) * 1e3 / copies);
    println!("own memory: peak {:.1} MiB, now {:.1} MiB", after.peak_mib, after.resident_mib);
}

/// The value at a quantile.
pub(crate) fn at(sorted: &[f64], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * quantile).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Ironclad, its control plane and its members.
pub(crate) struct World {
    pub(crate) daemon: Daemon,
    pub(crate) metrics: String,
    pub(crate) plane: Client,
    /// Kubeconfig of the control plane.
    kubeconfig: PathBuf,
    pub(crate) members: Vec<Client>,
    _real: Option<real::RealEnv>,
    /// Process of the simulated members, if it is not the control plane.
    _simulated: Option<Daemon>,
    /// Removed when the world is dropped.
    _dir: tempfile::TempDir,
}

impl World {
    /// Starts `ironclad up` on an empty directory, with further arguments and clients of this many members.
    pub(crate) async fn up(arguments: &[String], members: usize) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let listen = format!("127.0.0.1:{}", free_port()?);
        let data = dir.path().join("data").display().to_string();
        let own = ["up", "--data-dir", &data, "--listen", &listen, "--metrics-bind-address", &metrics];
        let arguments: Vec<String> = own.into_iter().map(str::to_owned).chain(arguments.iter().cloned()).collect();
        let daemon = start(&arguments)?;
        let kubeconfig = dir.path().join("data/kubeconfig");
        let mut clients = Vec::new();
        for n in 1..=members {
            clients.push(client(&kubeconfig, Some(&format!("member{n}"))).await?);
        }
        let plane = client(&kubeconfig, Some("ironclad")).await?;
        Ok(Self { daemon, metrics, plane, kubeconfig, members: clients, _real: None, _simulated: None, _dir: dir })
    }

    /// Starts real kube-apiservers with `ironclad run`, with further arguments and this many members.
    pub(crate) async fn real(arguments: &[String], members: usize, nodes: real::NodeShape) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let env = real::RealEnv::start(real::Config { members, nodes, ..Default::default() }).await?;
        let (daemon, metrics, kubeconfig) = run_beside(&env, arguments)?;
        let mut clients = Vec::new();
        for n in 0..members {
            let member = env.member(n).kubeconfig();
            join(&kubeconfig, n, &member, None)?;
            clients.push(client(&member, None).await?);
        }
        let plane = client(&kubeconfig, None).await?;
        let _real = Some(env);
        Ok(Self { daemon, metrics, plane, kubeconfig, members: clients, _real, _simulated: None, _dir: dir })
    }

    /// Starts a real kube-apiserver with `ironclad run`, and an `ironclad up` with these further arguments, whose
    /// simulated members join it.
    async fn real_plane(arguments: &[String], members: usize) -> anyhow::Result<Self> {
        let host = Self::up(arguments, members).await?;
        let env = real::RealEnv::start(real::Config { members: 0, ..Default::default() }).await?;
        let (daemon, metrics, kubeconfig) = run_beside(&env, &[])?;
        for n in 0..members {
            join(&kubeconfig, n, &host.kubeconfig, Some(&format!("member{}", n + 1)))?;
        }
        let plane = client(&kubeconfig, None).await?;
        let (_real, _simulated) = (Some(env), Some(host.daemon));
        Ok(Self { daemon, metrics, plane, kubeconfig, _real, _simulated, ..host })
    }

    /// Runs a verb of Ironclad on this control plane.
    pub(crate) fn verb(&self, args: &[&str]) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let args: Vec<&str> = args.iter().copied().chain(["--kubeconfig", &kubeconfig]).collect();
        verb(&binary()?, &args)
    }

    /// Propagates all Deployments, or the one of this name, to all members.
    pub(crate) async fn apply_policy(&self, name: Option<&str>) -> anyhow::Result<()> {
        let names: Vec<String> = (1..=self.members.len()).map(|n| format!("member{n}")).collect();
        let gvk = GroupVersionKind::gvk("policy.karmada.io", "v1alpha1", "PropagationPolicy");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "propagationpolicies");
        let api: Api<DynamicObject> = Api::namespaced_with(self.plane.clone(), "default", &resource);
        let mut selector = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        if let Some(name) = name {
            selector["name"] = json!(name);
        }
        let policy: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": name.unwrap_or("bench")},
            "spec": {
                "resourceSelectors": [selector],
                "placement": {"clusterAffinity": {"clusterNames": names}},
            },
        }))?;
        api.create(&PostParams::default(), &policy).await?;
        Ok(())
    }
}

/// Installs our kinds in a real kube-apiserver and starts `ironclad run` beside it, as [`start_run`] does.
fn run_beside(env: &real::RealEnv, arguments: &[String]) -> anyhow::Result<(Daemon, String, PathBuf)> {
    install(env)?;
    start_run(env, arguments)
}

/// Installs our kinds in a real kube-apiserver.
pub(crate) fn install(env: &real::RealEnv) -> anyhow::Result<()> {
    let path = env.plane().kubeconfig().display().to_string();
    verb(&binary()?, &["crds", "--install", "--kubeconfig", &path])
}

/// Starts `ironclad run` beside a real kube-apiserver; returns it with its address of metrics and the kubeconfig.
pub(crate) fn start_run(env: &real::RealEnv, arguments: &[String]) -> anyhow::Result<(Daemon, String, PathBuf)> {
    let (binary, kubeconfig) = (binary()?, env.plane().kubeconfig());
    let path = kubeconfig.display().to_string();
    let metrics = format!("127.0.0.1:{}", free_port()?);
    let own = ["run", "--kubeconfig", &path, "--metrics-bind-address", &metrics];
    let all: Vec<&str> = own.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    Ok((Daemon::start(&binary, &all)?, metrics, kubeconfig))
}

/// Joins the member with this index, counted from 0.
fn join(kubeconfig: &Path, index: usize, member: &Path, context: Option<&str>) -> anyhow::Result<()> {
    let (name, plane, member) = (format!("member{}", index + 1), kubeconfig.display(), member.display());
    let (plane, member) = (plane.to_string(), member.to_string());
    let mut args = vec!["join", &name, "--kubeconfig", &plane, "--cluster-kubeconfig", &member];
    args.extend(context.into_iter().flat_map(|context| ["--cluster-context", context]));
    verb(&binary()?, &args)
}

fn start(arguments: &[String]) -> anyhow::Result<Daemon> {
    Daemon::start(&binary()?, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn verb(binary: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(binary).args(args).output()?;
    if !output.status.success() {
        bail!("ironclad {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

pub(crate) async fn client(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Client> {
    let config = kubeconfig_client_config(kubeconfig, context).await?;
    Ok(client_from_kubeconfig(config, Arc::new(Traffic::default()))?)
}

/// A Deployment of this name.
pub(crate) fn deployment(name: &str, replicas: i32) -> anyhow::Result<Deployment> {
    serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1.0"}]},
            },
        },
    }))
    .context("the bench's own Deployment")
}

fn observe(world: &World, table: &Table, tasks: &Tasks, clock: &Clock, members: usize, replicas: i32) {
    let bindings: Api<ResourceBinding> = Api::namespaced(world.plane.clone(), "default");
    watch(
        bindings,
        table,
        tasks,
        clock,
        move |binding, seen, now| {
            let scheduled = binding.status.as_ref().is_some_and(|s| conditions::is_true(&s.conditions, "Scheduled"));
            if scheduled {
                seen.scheduled.get_or_insert(now);
            }
        },
        |binding| Some(binding.spec.resource.name.clone()),
    );
    let works: Api<Work> = Api::all(world.plane.clone());
    watch(
        works,
        table,
        tasks,
        clock,
        move |work, seen, now| {
            seen.works.extend(work.namespace());
            if seen.works.len() == members {
                seen.all_works.get_or_insert(now);
            }
        },
        |work| {
            work.annotations().get(annotations::RESOURCE_BINDING_NAME)?.strip_suffix("-deployment").map(str::to_owned)
        },
    );
    for (n, member) in world.members.iter().enumerate() {
        let deployments: Api<Deployment> = Api::namespaced(member.clone(), "default");
        watch(
            deployments,
            table,
            tasks,
            clock,
            move |_, seen, now| {
                seen.members.insert(n);
                if seen.members.len() == members {
                    seen.present.get_or_insert(now);
                }
            },
            |d| Some(d.name_any()),
        );
    }
    let templates: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    watch(
        templates,
        table,
        tasks,
        clock,
        move |template, seen, now| {
            let want = replicas * i32::try_from(members).unwrap_or(i32::MAX);
            let status = template.status.clone().unwrap_or_default();
            let observed = status.observed_generation == template.metadata.generation;
            if observed && status.ready_replicas == Some(want) && status.available_replicas == Some(want) {
                seen.settled.get_or_insert(now);
            }
        },
        |d| Some(d.name_any()),
    );
}

/// Watches objects and records what each shows about its entry of the table.
pub(crate) fn watch<K, S>(
    api: Api<K>,
    table: &Arc<Mutex<BTreeMap<String, S>>>,
    tasks: &Tasks,
    clock: &Clock,
    note: impl Fn(&K, &mut S, Instant) + Send + 'static,
    name: fn(&K) -> Option<String>,
) where
    K: Object,
    S: Send + 'static,
{
    let (table, clock, retry) = (table.clone(), clock.clone(), Duration::from_millis(200));
    tasks.spawn("watch", async move {
        let mut events = Watch::new(&api, &WatchScope::default(), WATCH_SECONDS, &clock);
        loop {
            match events.next().await {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    let Some(name) = name(&object) else { continue };
                    if let Some(seen) = table.lock().get_mut(&name) {
                        note(&object, seen, clock.mono());
                    }
                }
                Ok(_) => {}
                Err(_) => clock.sleep(retry).await,
            }
        }
    });
}
