//! `bench restart`: start with thousands of Deployments: a user's change is handled first, and the rest causes no
//! write.

use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{
    process::{Requests, requests},
    propagate::{World, deployment, nodes_for},
};

const DEADLINE: Duration = Duration::from_secs(1_800);
const CREATING: usize = 8;
/// Time without writes after which it is idle.
const QUIET: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Deployments, each with a policy of its own
    #[arg(long, default_value_t = 5_000)]
    deployments: usize,
    /// Members that each of them goes to
    #[arg(long, default_value_t = 2)]
    members: usize,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    let nodes = nodes_for(args.deployments).to_string();
    let clusters = args.members.to_string();
    let flags = ["--clusters", &clusters, "--nodes", &nodes, "--cpu", "64", "--startup-delay", "0s"].map(str::to_owned);
    let world = World::up(&flags, args.members).await?;
    let began = clock.mono();
    prepare(&world, &clock, args.deployments).await?;
    println!(
        "{} Deployments with policies settled after {:.1} s",
        args.deployments,
        (clock.mono() - began).as_secs_f64()
    );
    quiet(&world, &clock).await?;

    println!("data in {}", world.directory().display());
    let began = clock.mono();
    let world = world.restart().await?;
    let ready = clock.mono();
    // The last one by name, so that only the user's change moves it to the front.
    let name = format!("bench-{:05}", args.deployments - 1);
    let api: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    api.patch(&name, &PatchParams::default(), &patch).await?;
    let asked = clock.mono();
    for member in &world.members {
        let there: Api<Deployment> = Api::namespaced(member.clone(), "default");
        while there.get(&name).await?.spec.and_then(|s| s.replicas) != Some(2) {
            ensure!(clock.mono() - asked < DEADLINE, "the change did not reach a member");
            clock.sleep(LOOK).await;
        }
    }
    println!("ready after {:.2} s", (ready - began).as_secs_f64());
    println!("a user's change then reached all members after {:.3} s", (clock.mono() - asked).as_secs_f64());
    let (plane, members) = quiet(&world, &clock).await?;
    let used = world.daemon.used()?;
    println!(
        "since the start, of our own: {} writes to the control plane and {} to members, the change of one Deployment among them",
        plane.writes, members.writes
    );
    println!("and {} reads of the control plane, {} of members", plane.reads, members.reads);
    println!("own CPU since the start: {:.1} s, memory {:.0} MiB", used.cpu_seconds, used.resident_mib);
    Ok(())
}

async fn prepare(world: &World, clock: &Clock, deployments: usize) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    stream::iter(0..deployments)
        .map(|n| {
            let api = api.clone();
            async move {
                let name = format!("bench-{n:05}");
                world.apply_policy(Some(&name)).await?;
                api.create(&PostParams::default(), &deployment(&name, 1)?).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CREATING)
        .try_collect::<Vec<()>>()
        .await?;
    let want = i32::try_from(world.members.len())?;
    let began = clock.mono();
    loop {
        let all = api.list(&ListParams::default()).await?.items;
        let settled = all.iter().filter(|d| d.status.as_ref().is_some_and(|s| s.ready_replicas == Some(want))).count();
        if settled == deployments {
            return Ok(());
        }
        ensure!(clock.mono() - began < DEADLINE, "only {settled} of {deployments} Deployments settled");
        clock.sleep(Duration::from_secs(1)).await;
    }
}

/// Waits until nothing is written to the control plane and to members; returns the requests since
/// the start.
async fn quiet(world: &World, clock: &Clock) -> anyhow::Result<(Requests, Requests)> {
    let writes = |sent: (Requests, Requests)| (sent.0.writes, sent.1.writes);
    let mut before = requests(&world.metrics).await?;
    loop {
        clock.sleep(QUIET).await;
        let now = requests(&world.metrics).await?;
        if writes(now) == writes(before) {
            return Ok(now);
        }
        before = now;
    }
}
