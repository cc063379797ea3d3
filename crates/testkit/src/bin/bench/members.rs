//! `bench members`: what a settled fleet of simulated members costs.

use std::time::Duration;

use anyhow::ensure;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PostParams;

use crate::{
    process::requests,
    propagate::{World, deployment},
};

const DEADLINE: Duration = Duration::from_secs(900);
const SETTLE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(250);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Simulated members
    #[arg(long, default_value_t = 50)]
    members: u32,
    /// Nodes of each
    #[arg(long, default_value_t = 20)]
    nodes: u32,
    /// Pods in all
    #[arg(long, default_value_t = 2_000)]
    pods: u32,
    /// Duration of the measurement of the settled fleet, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    let flags = ["--clusters", &args.members.to_string(), "--nodes", &args.nodes.to_string()].map(str::to_owned);
    let began = clock.mono();
    let world = World::up(&flags, args.members as usize).await?;
    println!(
        "{} members of {} nodes serve after {:.1} s",
        args.members,
        args.nodes,
        (clock.mono() - began).as_secs_f64()
    );
    let empty = world.daemon.used()?;

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
    println!("{whole} pods run and are reported after {:.1} s", (clock.mono() - began).as_secs_f64());
    clock.sleep(SETTLE).await;
    let (before, sent) = (world.daemon.used()?, requests(&world.metrics).await?);
    clock.sleep(Duration::from_secs(args.seconds)).await;
    let (after, sent_after) = (world.daemon.used()?, requests(&world.metrics).await?);
    let (plane, members) = (sent_after.0 - sent.0, sent_after.1 - sent.1);
    let share = (after.cpu_seconds - before.cpu_seconds) / args.seconds as f64;
    println!(
        "memory: {:.0} MiB without pods, {:.0} MiB settled, {:.0} MiB at most",
        empty.resident_mib, after.resident_mib, after.peak_mib
    );
    println!(
        "settled over {} s: {:.2} % of one core; of our own to the control plane {} writes and {} reads, to members {} and {}",
        args.seconds,
        share * 100.0,
        plane.writes,
        plane.reads,
        members.writes,
        members.reads
    );
    Ok(())
}
