//! Preemption between bindings in virtual time (specification/scheduling.md 15): members have one node of eight cores,
//! and each replica requests one.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{
    conditions::{self, binding::PREEMPTED},
    policy::PropagationPolicy,
    work::ResourceBinding,
};
use ironclad_fleet::gates::Gate;
use ironclad_scheduling::preempt::Mode;
use ironclad_testkit::sim::{Setup, World, WorldOptions, propagation};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Event, scheduling::v1::PriorityClass};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

/// Replicas, priority, and the clusters that it may run on.
pub(crate) struct App {
    pub(crate) name: &'static str,
    pub(crate) replicas: i32,
    pub(crate) priority: i32,
    pub(crate) on: &'static [&'static str],
}

/// Two full members: `low` and `mid` on the first, `keep` on the second.
pub(crate) const RUNNING: [App; 3] = [
    App { name: "low", replicas: 4, priority: 0, on: &["member1"] },
    App { name: "mid", replicas: 4, priority: 5, on: &["member1"] },
    App { name: "keep", replicas: 8, priority: 100, on: &["member2"] },
];

pub(crate) async fn create(user: &Client, app: &App) -> anyhow::Result<()> {
    let class = json!({"metadata": {"name": app.name}, "value": app.priority});
    let classes: Api<PriorityClass> = Api::all(user.clone());
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["metadata"]["name"] = json!(app.name);
    policy["spec"]["resourceSelectors"][0]["name"] = json!(app.name);
    policy["spec"]["schedulePriority"] =
        json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": app.name});
    policy["spec"]["placement"] = json!({
        "clusterAffinity": {"clusterNames": app.on},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    });
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let mut deployment = serde_json::to_value(propagation::deployment()?)?;
    deployment["metadata"]["name"] = json!(app.name);
    deployment["spec"]["replicas"] = json!(app.replicas);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    Ok(())
}

pub(crate) fn bindings(user: &Client) -> Api<ResourceBinding> {
    Api::namespaced(user.clone(), "default")
}

pub(crate) fn result(binding: &ResourceBinding) -> Vec<(&str, i32)> {
    binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect()
}

fn message(binding: &ResourceBinding) -> &str {
    let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions::get(conditions, conditions::binding::SCHEDULED).map_or("", |condition| &condition.message)
}

/// A fleet on which [`RUNNING`] runs.
async fn full(mode: Mode) -> anyhow::Result<(World, Client)> {
    running(mode, &RUNNING).await
}

/// A fleet of two members on which these run, created one after the other.
pub(crate) async fn running(mode: Mode, apps: &[App]) -> anyhow::Result<(World, Client)> {
    let mut setup = Setup { nodes: 1, ..Setup::from(WorldOptions { seed: 5, members: 2 }) };
    // By the default models a node of eight cores has room for four.
    let gates = setup.settings.gates.with(Gate::CustomizedClusterResourceModeling, false);
    let gates = gates.with(Gate::PriorityBasedPreemptiveScheduling, true);
    setup.settings.gates = gates.with(Gate::SchedulingOvercommitProtection, true);
    setup.settings.scheduler.preemption_mode = mode;
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let user = world.user();
    let all = bindings(&user);
    for app in apps {
        create(&user, app).await?;
        world
            .until("it is placed", async || {
                let binding = all.get_opt(&format!("{}-deployment", app.name)).await?;
                Ok(binding.is_some_and(|b| b.spec.clusters.iter().map(|t| t.replicas).sum::<i32>() == app.replicas))
            })
            .await?;
    }
    world.until_quiet().await?;
    world.pass(Duration::from_secs(60)).await?;
    Ok((world, user))
}

pub(crate) const HIGH: App = App { name: "high", replicas: 3, priority: 10, on: &["member1", "member2"] };

#[tokio::test(start_paused = true)]
async fn lowest_priority_makes_room_and_returns() -> anyhow::Result<()> {
    let (mut world, user) = full(Mode::Evict).await?;
    let all = bindings(&user);
    create(&user, &HIGH).await?;
    world
        .until("it is nominated", async || {
            let Some(high) = all.get_opt("high-deployment").await? else { return Ok(false) };
            let nominated = high.status.as_ref().map_or(0, |status| status.nominated_clusters.len());
            Ok(nominated == 1
                && message(&high).ends_with("Preempting 1 binding(s) on cluster(s) member1 to make room."))
        })
        .await?;
    world
        .until("it runs where the lowest ran", async || {
            let high = all.get("high-deployment").await?;
            let nominated = high.status.as_ref().map_or(0, |status| status.nominated_clusters.len());
            Ok(result(&high) == [("member1", 3)] && nominated == 0)
        })
        .await?;
    world.until_quiet().await?;
    let (low, mid) = (all.get("low-deployment").await?, all.get("mid-deployment").await?);
    ensure!(result(&mid) == [("member1", 4)], "one victim is enough: {:?}", result(&mid));
    ensure!(result(&low).is_empty(), "no cluster has room for it: {:?}", result(&low));
    let conditions = low.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let preempted = conditions::get(conditions, PREEMPTED).context("condition Preempted")?;
    ensure!(preempted.message == "preempted from cluster member1 by default/high-deployment (priority 10)");
    let events: Api<Event> = Api::namespaced(user.clone(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let about = |reason: &str| -> Vec<String> {
        let of = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
        let mut about: Vec<String> = of.filter_map(|event| event.involved_object.name.clone()).collect();
        about.sort();
        about
    };
    ensure!(about("BindingPreempted") == ["low", "low-deployment"], "{:?}", about("BindingPreempted"));
    ensure!(about("PreemptBindingSucceed") == ["high", "high-deployment"], "{:?}", about("PreemptBindingSucceed"));
    // The victim does not come back as long as there is no room, and nothing else moves.
    world.pass(Duration::from_secs(1_200)).await?;
    let (low, high) = (all.get("low-deployment").await?, all.get("high-deployment").await?);
    ensure!((result(&low).len(), result(&high)) == (0, vec![("member1", 3)]));
    ensure!(low.spec.graceful_eviction_tasks.is_empty(), "the task ended with its grace period");
    let deployments: Api<Deployment> = Api::namespaced(user, "default");
    deployments.delete("high", &DeleteParams::default()).await?;
    world
        .until("it returns", async || {
            let low = all.get("low-deployment").await?;
            let conditions = low.status.as_ref().map_or(&[][..], |status| &status.conditions);
            Ok(result(&low) == [("member1", 4)] && conditions::get(conditions, PREEMPTED).is_none())
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn observing_evicts_nobody() -> anyhow::Result<()> {
    let (mut world, user) = full(Mode::Observe).await?;
    let all = bindings(&user);
    create(&user, &HIGH).await?;
    world
        .until("the condition says what would happen", async || {
            let Some(high) = all.get_opt("high-deployment").await? else { return Ok(false) };
            Ok(message(&high)
                .contains("Preemption is observed only and would evict 1 binding(s) on cluster(s) member1."))
        })
        .await?;
    world.pass(Duration::from_secs(900)).await?;
    ensure!(result(&all.get("low-deployment").await?) == [("member1", 4)]);
    ensure!(result(&all.get("high-deployment").await?).is_empty());
    Ok(())
}

/// Whenever the process dies: the preemptor gets its room, nobody leaves who need not, and nothing is held in the end.
/// Failures of single writes are in `preemption_matrix.rs`.
#[tokio::test(start_paused = true)]
async fn a_crash_neither_loses_the_room_nor_costs_more_victims() -> anyhow::Result<()> {
    for delay in (0..12).map(|step| Duration::from_millis(step * step * 40)) {
        let (mut world, user) = full(Mode::Evict).await?;
        create(&user, &HIGH).await?;
        world.pass(delay).await?;
        world.crash(0, Duration::from_secs(2));
        ends_well(&mut world, &user).await.with_context(|| format!("killed after {delay:?}"))?;
    }
    Ok(())
}

async fn ends_well(world: &mut World, user: &Client) -> anyhow::Result<()> {
    let all = bindings(user);
    world
        .until("the high priority runs", async || {
            let Some(high) = all.get_opt("high-deployment").await? else { return Ok(false) };
            Ok(result(&high).iter().map(|(_, replicas)| replicas).sum::<i32>() == 3)
        })
        .await?;
    world.pass(Duration::from_secs(120)).await?;
    let high = all.get("high-deployment").await?;
    ensure!(result(&high) == [("member1", 3)], "{:?}", result(&high));
    ensure!(high.status.as_ref().is_none_or(|status| status.nominated_clusters.is_empty()), "something is still held");
    ensure!(result(&all.get("mid-deployment").await?) == [("member1", 4)], "mid need not have left");
    ensure!(result(&all.get("keep-deployment").await?) == [("member2", 8)], "keep has a higher priority");
    ensure!(result(&all.get("low-deployment").await?).is_empty(), "there is no room for low");
    Ok(())
}

/// While no write gets through, bindings of rising priority are decided on; then capacity is freed for some of them.
#[tokio::test(start_paused = true)]
async fn freed_capacity_goes_to_the_highest_priority_that_waits() -> anyhow::Result<()> {
    let (mut world, user) = full(Mode::Off).await?;
    let all = bindings(&user);
    for (name, priority) in [("first", 1), ("second", 7), ("third", 3)] {
        create(&user, &App { name, replicas: 4, priority, on: &["member1"] }).await?;
    }
    let reason = |binding: &ResourceBinding| {
        let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
        conditions::get(conditions, conditions::binding::SCHEDULED).map(|condition| condition.reason.clone())
    };
    world
        .until("all three wait for capacity", async || {
            let listed = all.list(&ListParams::default()).await?.items;
            Ok(listed.iter().filter(|binding| reason(binding).as_deref() == Some("Unschedulable")).count() == 3)
        })
        .await?;
    let queue = world.context().context("the controllers")?.explain_scheduling_queue().context("the scheduler")?;
    let ranks: Vec<i32> = queue.iter().filter(|one| one.state == "Unschedulable").map(|one| one.priority).collect();
    ensure!(ranks == [7, 3, 1], "the queue shows the highest priority first: {ranks:?}");
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    for (deleted, served) in [("mid", "second"), ("low", "third")] {
        deployments.delete(deleted, &DeleteParams::default()).await?;
        world
            .until("the next priority is served", async || {
                let binding = all.get(&format!("{served}-deployment")).await?;
                Ok(result(&binding) == [("member1", 4)])
            })
            .await?;
    }
    ensure!(result(&all.get("first-deployment").await?).is_empty(), "the lowest still waits");
    Ok(())
}

/// Ten bindings wait for capacity: a label that none of them asks for tries none of them again.
#[tokio::test(start_paused = true)]
async fn a_label_does_not_try_everybody_again() -> anyhow::Result<()> {
    let (mut world, user) = full(Mode::Off).await?;
    const NAMES: [&str; 10] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"];
    for name in NAMES {
        create(&user, &App { name, replicas: 9, priority: 0, on: &["member1"] }).await?;
    }
    world.pass(Duration::from_secs(60)).await?;
    let attempts = |world: &World| -> anyhow::Result<f64> {
        let registry = world.context().context("the controllers")?.registry();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        let of = text.lines().filter(|line| line.starts_with("karmada_scheduler_schedule_attempts_total{"));
        Ok(of.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    };
    let before = attempts(&world)?;
    let clusters: Api<ironclad_api::cluster::Cluster> = Api::all(user.clone());
    let label = kube::api::Patch::Merge(json!({"metadata": {"labels": {"unasked": "yes"}}}));
    clusters.patch("member1", &kube::api::PatchParams::default(), &label).await?;
    world.pass(Duration::from_secs(30)).await?;
    let tried = attempts(&world)? - before;
    // Those that run there are looked at, as before.
    ensure!(tried <= 3.0, "{tried} attempts for one label");
    Ok(())
}
