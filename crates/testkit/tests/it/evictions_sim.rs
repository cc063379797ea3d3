//! Evictions through the whole chain in virtual time: taint, queue, binding, scheduler, Works, members.

use ironclad_failover::flags::eviction::Check;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions,
    policy::PropagationPolicy,
    work::{ResourceBinding, Work},
};
use ironclad_cli::evictions::failover::{EvictionSwitch, set};
use ironclad_testkit::sim::{Setup, World, WorldOptions, flags};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Event};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

fn policy() -> anyhow::Result<PropagationPolicy> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": { "name": "one", "namespace": "default" },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment" }],
            "placement": { "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] }
        }
    }))?)
}

fn deployment(name: &str) -> anyhow::Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "web", "image": "web:1" }] }
            }
        }
    }))?)
}

async fn taint(user: &Client, name: &str, taints: serde_json::Value) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(user.clone());
    let patch = json!({ "spec": { "taints": taints } });
    clusters.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

async fn places(user: &Client) -> anyhow::Result<Vec<(String, Vec<String>, usize)>> {
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    let list = bindings.list(&ListParams::default()).await?.items;
    let one = |b: ResourceBinding| {
        let on = b.spec.clusters.iter().map(|target| target.name.clone()).collect();
        (b.name_any(), on, b.spec.graceful_eviction_tasks.len())
    };
    Ok(list.into_iter().map(one).collect())
}

/// Starts three members with this many healthy Deployments, each on one member.
async fn ready(setup: Setup, deployments: usize) -> anyhow::Result<(World, Client)> {
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let user = world.user();
    let clusters: Api<Cluster> = Api::all(user.clone());
    world
        .until("all clusters are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            Ok(all.iter().all(|c| c.is_ready()))
        })
        .await?;
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &policy()?).await?;
    let api: Api<Deployment> = Api::namespaced(user.clone(), "default");
    for n in 0..deployments {
        api.create(&PostParams::default(), &deployment(&format!("web{n}"))?).await?;
    }
    world
        .until("all are placed and healthy", async || {
            let list = api.list(&ListParams::default()).await?.items;
            let well = |d: &Deployment| d.status.as_ref().is_some_and(|s| s.ready_replicas == Some(1));
            Ok(list.len() == deployments && list.iter().all(well))
        })
        .await?;
    world.until_quiet().await?;
    Ok((world, user))
}

fn setup(gate: bool, rate: f64) -> Setup {
    let mut setup = Setup::from(WorldOptions { seed: 11, members: 3 });
    setup.settings = flags::settings(gate, rate, Check::Strict);
    setup.rules.gate = gate;
    setup.rules.rates.primary = rate;
    setup.rules.rates.secondary = setup.rules.rates.secondary.min(rate);
    setup.rules.asked_taints = [("broken".to_owned(), "NoExecute".to_owned())].into();
    setup
}

fn no_execute() -> serde_json::Value {
    json!([{ "key": "broken", "effect": "NoExecute" }])
}

/// B20, B28: the copies move one by one at the rate, and the old ones are deleted when the new ones are
/// healthy.
#[tokio::test(start_paused = true)]
async fn a_tainted_member_is_evacuated_at_the_rate_and_cleaned_up() -> anyhow::Result<()> {
    let (mut world, user) = ready(setup(true, 0.5), 4).await?;
    let before = places(&user).await?;
    let from = before[0].1[0].clone();
    let there = before.iter().filter(|(_, on, _)| on.contains(&from)).count();
    ensure!(there > 0, "{before:?}");
    taint(&user, &from, no_execute()).await?;
    let began = world.clock().mono();
    world
        .until("nobody is on the tainted member", async || {
            Ok(places(&user).await?.iter().all(|(_, on, _)| on.len() == 1 && !on.contains(&from)))
        })
        .await?;
    let took = world.clock().mono() - began;
    let least = Duration::from_secs(2 * (there as u64 - 1));
    ensure!(took >= least, "{there} left within {took:?}, the rate allows it after {least:?}");
    world
        .until("the tasks are cleared", async || Ok(places(&user).await?.iter().all(|(_, _, tasks)| *tasks == 0)))
        .await?;
    let member = world.members.get(&from).context("the member")?.clone();
    let works: Api<Work> = Api::namespaced(user.clone(), &format!("karmada-es-{from}"));
    world
        .until("the old copies are deleted", async || {
            let copies = Api::<Deployment>::all(member.client()).list(&ListParams::default()).await?;
            Ok(copies.items.is_empty()
                && works.list(&ListParams::default()).await?.items.iter().all(|w| !w.name_any().starts_with("web")))
        })
        .await?;
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    world
        .until("no binding shows anything pending", async || {
            let list = bindings.list(&ListParams::default()).await?.items;
            let shows = |b: &ResourceBinding| {
                let conditions = b.status.as_ref().map_or(&[][..], |status| &status.conditions);
                conditions::get(conditions, "EvictionPending").is_some()
            };
            Ok(!list.iter().any(shows))
        })
        .await?;
    let moved = bindings.get(&before[0].0).await?;
    let status = moved.status.context("a status")?;
    let record = status.failover_history.last().context("a record of the migration")?;
    assert_eq!(
        (record.from.as_str(), record.reason.as_str(), record.original_clusters.len()),
        (&*from, "TaintUntolerated", 1)
    );
    let events: Api<Event> = Api::namespaced(user.clone(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let evicted = events.iter().filter(|e| e.reason.as_deref() == Some("EvictWorkloadFromClusterSucceed")).count();
    ensure!(evicted >= 2 * there, "the binding and the template of each hear of it: {evicted}");
    world.until_quiet().await
}

/// B1: with the gate off, no taint moves anything.
#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_moves() -> anyhow::Result<()> {
    let (mut world, user) = ready(setup(false, 0.5), 2).await?;
    let before = places(&user).await?;
    taint(&user, &before[0].1[0], no_execute()).await?;
    world.pass(Duration::from_secs(600)).await?;
    assert_eq!(places(&user).await?, before);
    Ok(())
}

/// Pausing holds all evictions, visibly, also across a restart of the leader; resuming continues them immediately.
#[tokio::test(start_paused = true)]
async fn paused_evictions_wait_across_a_restart() -> anyhow::Result<()> {
    let (mut world, user) = ready(setup(true, 0.5), 2).await?;
    let before = places(&user).await?;
    let from = before[0].1[0].clone();
    ensure!(set(&user, EvictionSwitch::Paused).await?, "it was not paused before");
    taint(&user, &from, no_execute()).await?;
    world.pass(Duration::from_secs(60)).await?;
    assert_eq!(places(&user).await?, before, "paused");
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    let pending = bindings.get(&before[0].0).await?.status.context("a status")?;
    let condition = conditions::get(&pending.conditions, "EvictionPending").context("a condition")?;
    assert_eq!(condition.reason, "Queued");
    world.kill_controllers();
    world.start_controllers().await;
    world.pass(Duration::from_secs(90)).await?;
    assert_eq!(places(&user).await?, before, "still paused under the new leader");
    ensure!(set(&user, EvictionSwitch::Running).await?, "it was paused");
    world
        .until("they leave", async || {
            Ok(places(&user).await?.iter().all(|(_, on, _)| on.len() == 1 && !on.contains(&from)))
        })
        .await
}

/// B51: queued evictions are abandoned when the taint is removed.
#[tokio::test(start_paused = true)]
async fn a_removed_taint_abandons_queued_evictions() -> anyhow::Result<()> {
    let (mut world, user) = ready(setup(true, 0.05), 6).await?;
    let before = places(&user).await?;
    let from = before[0].1[0].clone();
    let there = before.iter().filter(|(_, on, _)| on.contains(&from)).count();
    taint(&user, &from, no_execute()).await?;
    world.pass(Duration::from_secs(5)).await?;
    taint(&user, &from, json!(null)).await?;
    world.pass(Duration::from_secs(120)).await?;
    let still = places(&user).await?.iter().filter(|(_, on, _)| on.contains(&from)).count();
    ensure!(still + 1 >= there, "{there} were there, {still} are");
    world.until_quiet().await
}
