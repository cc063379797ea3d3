//! `bench autoscalers`: what settled FederatedHPAs cost beside the same fleet without them.

use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{autoscaling::FederatedHPA, policy::PropagationPolicy};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::{
    process::requests,
    propagate::{World, nodes_for},
};

const DEADLINE: Duration = Duration::from_secs(900);
const SETTLE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(500);
const CREATING: usize = 8;
/// Members that each workload goes to, with one replica in each.
const SPREAD: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// FederatedHPAs, each with a workload of its own
    #[arg(long, default_value_t = 1_000)]
    autoscalers: usize,
    /// Simulated members
    #[arg(long, default_value_t = 20)]
    members: usize,
    /// Duration of each measurement, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let clock = Clock::system();
    ensure!(args.members >= SPREAD, "--members {}: at least {SPREAD}", args.members);
    let nodes = nodes_for(args.autoscalers * SPREAD / args.members).to_string();
    let flags = ["--clusters", &args.members.to_string(), "--nodes", &nodes, "--cpu", "64", "--startup-delay", "0s"];
    let world = World::up(&flags.map(str::to_owned), args.members).await?;
    let policies: Api<PropagationPolicy> = Api::namespaced(world.plane.clone(), "default");
    for group in 0..args.members {
        policies.create(&PostParams::default(), &policy(group, args.members)?).await?;
    }
    let deployments: Api<Deployment> = Api::namespaced(world.plane.clone(), "default");
    create(args.autoscalers, async |n| {
        deployments
            .create(&PostParams::default(), &deployment(n, n % args.members)?)
            .await
            .map(drop)
            .map_err(Into::into)
    })
    .await?;
    let began = clock.mono();
    loop {
        let all = deployments.list(&ListParams::default()).await?;
        let ready = all.iter().filter(|one| one.status.as_ref().is_some_and(|s| s.ready_replicas == Some(2))).count();
        if ready == args.autoscalers {
            break;
        }
        ensure!(clock.mono() - began < DEADLINE, "only {ready} workloads run within {DEADLINE:?}");
        clock.sleep(LOOK).await;
    }
    println!(
        "{} workloads run in {} members after {:.1} s",
        args.autoscalers,
        args.members,
        (clock.mono() - began).as_secs_f64()
    );
    clock.sleep(SETTLE).await;
    let without = measure(&world, &clock, args.seconds).await?;

    let autoscalers: Api<FederatedHPA> = Api::namespaced(world.plane.clone(), "default");
    create(args.autoscalers, async |n| {
        autoscalers.create(&PostParams::default(), &autoscaler(n)?).await.map(drop).map_err(Into::into)
    })
    .await?;
    let began = clock.mono();
    loop {
        let all = autoscalers.list(&ListParams::default()).await?;
        let evaluated = all.iter().filter(|one| is_active(one)).count();
        if evaluated == args.autoscalers {
            break;
        }
        ensure!(clock.mono() - began < DEADLINE, "only {evaluated} are evaluated within {DEADLINE:?}");
        clock.sleep(LOOK).await;
    }
    println!("all FederatedHPAs are evaluated after {:.1} s", (clock.mono() - began).as_secs_f64());
    clock.sleep(SETTLE).await;
    let with = measure(&world, &clock, args.seconds).await?;
    println!(
        "settled over {} s: {:.2} % of one core without and {:.2} % with {} FederatedHPAs: they take {:.2} %",
        args.seconds,
        without.share * 100.0,
        with.share * 100.0,
        args.autoscalers,
        (with.share - without.share) * 100.0
    );
    println!(
        "to the control plane {} writes and {} reads, to members {} and {}",
        with.plane.writes, with.plane.reads, with.members.writes, with.members.reads
    );
    Ok(())
}

struct Measured {
    share: f64,
    plane: crate::process::Requests,
    members: crate::process::Requests,
}

async fn measure(world: &World, clock: &Clock, seconds: u64) -> anyhow::Result<Measured> {
    let (before, sent) = (world.daemon.used()?, requests(&world.metrics).await?);
    clock.sleep(Duration::from_secs(seconds)).await;
    let (after, sent_after) = (world.daemon.used()?, requests(&world.metrics).await?);
    Ok(Measured {
        share: (after.cpu_seconds - before.cpu_seconds) / seconds as f64,
        plane: sent_after.0 - sent.0,
        members: sent_after.1 - sent.1,
    })
}

async fn create(count: usize, one: impl AsyncFn(usize) -> anyhow::Result<()>) -> anyhow::Result<()> {
    stream::iter(0..count).map(|n| one(n)).buffer_unordered(CREATING).try_collect::<Vec<()>>().await.map(drop)
}

fn is_active(object: &FederatedHPA) -> bool {
    let conditions = object.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "ScalingActive" && condition.status == "True")
}

fn policy(group: usize, members: usize) -> anyhow::Result<PropagationPolicy> {
    let names: Vec<String> = (0..SPREAD).map(|n| format!("member{}", (group + n) % members + 1)).collect();
    Ok(serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": format!("group-{group}")},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "labelSelector": {"matchLabels": {"group": group.to_string()}}}],
            "placement": {"clusterAffinity": {"clusterNames": names},
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}},
        },
    }))?)
}

fn deployment(n: usize, group: usize) -> anyhow::Result<Deployment> {
    let (name, labels) = (format!("web-{n:05}"), json!({"app": format!("web-{n:05}")}));
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"group": group.to_string()}},
        "spec": {
            "replicas": SPREAD, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "10m"}}}]}},
        },
    }))?)
}

/// Its bounds are equal, so that it is settled whatever its Pods use; its metric is asked for all the same.
fn autoscaler(n: usize) -> anyhow::Result<FederatedHPA> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": format!("web-{n:05}")},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{n:05}")},
            "minReplicas": SPREAD, "maxReplicas": SPREAD,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    }))?)
}
