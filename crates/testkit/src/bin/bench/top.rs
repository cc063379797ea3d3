//! `bench top`: how long `kubectl top pods -A` takes over a fleet of simulated members.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::Request;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use ironclad_testkit::real::Binaries;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, api::PostParams};
use serde_json::Value;

use crate::propagate::{World, deployment};

const DEADLINE: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(250);
const PATH: &str = "/apis/metrics.k8s.io/v1beta1/pods";
/// Longer than the window of a measurement, after which each member is asked again.
const WINDOW: Duration = Duration::from_secs(17);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Simulated members
    #[arg(long, default_value_t = 50)]
    members: u32,
    /// Nodes of each
    #[arg(long, default_value_t = 4)]
    nodes: u32,
    /// Pods in all
    #[arg(long, default_value_t = 5_000)]
    pods: u32,
    /// Measurements of each kind
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// Figures of one kind, in milliseconds.
struct Figures(Vec<f64>);

impl Figures {
    fn print(&mut self, what: &str) {
        self.0.sort_by(f64::total_cmp);
        let at = |share: f64| self.0.get(((self.0.len() - 1) as f64 * share).round() as usize).copied().unwrap_or(0.0);
        println!("{what}: median {:.0} ms, at most {:.0} ms", at(0.5), at(1.0));
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.rounds > 0 && args.members > 0, "--rounds and --members are at least 1");
    let clock = Clock::system();
    let flags = ["--clusters", &args.members.to_string(), "--nodes", &args.nodes.to_string()].map(str::to_owned);
    let world = World::up(&flags, args.members as usize).await?;
    world.apply_policy(None).await?;
    let each = i32::try_from(args.pods.div_ceil(args.members))?;
    let whole = each * i32::try_from(args.members)?;
    let api: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    let began = clock.mono();
    api.create(&PostParams::default(), &deployment("bench", each)?).await?;
    loop {
        let ready = api.get("bench").await?.status.and_then(|s| s.ready_replicas).unwrap_or(0);
        if ready == whole {
            break;
        }
        ensure!(clock.mono() - began < DEADLINE, "only {ready} of {whole} pods are ready within {DEADLINE:?}");
        clock.sleep(LOOK).await;
    }
    println!("{whole} pods run in {} members after {:.1} s", args.members, (clock.mono() - began).as_secs_f64());

    let (took, bytes, items) = measure(&world.plane, &clock).await?;
    println!(
        "first list, before the pods of members are watched: {took:.0} ms, {items} pods, {:.1} MiB",
        bytes / 1024.0 / 1024.0
    );
    let (mut asked, mut cached, mut of_kubectl) = (Figures(Vec::new()), Figures(Vec::new()), Figures(Vec::new()));
    let kubectl = Binaries::find_or_skip()?.map(|binaries| world.kubectl(&binaries));
    let before = world.daemon.used()?.cpu_seconds;
    for _ in 0..args.rounds {
        clock.sleep(WINDOW).await;
        let (took, _, items) = measure(&world.plane, &clock).await?;
        ensure!(items == usize::try_from(whole)?, "{items} of {whole} pods are listed");
        asked.0.push(took);
        cached.0.push(measure(&world.plane, &clock).await?.0);
        if let Some(kubectl) = &kubectl {
            clock.sleep(WINDOW).await;
            let began = clock.mono();
            let lines = kubectl.run(["top", "pods", "-A", "--no-headers"]).await?.lines().count();
            of_kubectl.0.push((clock.mono() - began).as_secs_f64() * 1e3);
            ensure!(lines == usize::try_from(whole)?, "kubectl shows {lines} of {whole} pods");
        }
    }
    let used = world.daemon.used()?;
    asked.print("list, each member asked");
    cached.print("list, within the window");
    if kubectl.is_some() {
        of_kubectl.print("kubectl top pods -A, each member asked, with its discovery and printing");
    }
    println!("{:.0} MiB resident; {:.1} s of CPU meanwhile", used.resident_mib, used.cpu_seconds - before);
    Ok(())
}

/// Lists the usage of all pods. Returns milliseconds, bytes and the number of pods.
async fn measure(plane: &Client, clock: &Clock) -> anyhow::Result<(f64, f64, usize)> {
    let began = clock.mono();
    let text = plane.request_text(Request::get(PATH).body(Vec::new())?).await?;
    let took = (clock.mono() - began).as_secs_f64() * 1e3;
    let list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array().context("the answer has no items")?.len();
    Ok((took, text.len() as f64, items))
}
