//! Capacity in virtual time: reports of members decide about placement, and unplaced workloads are placed when there is
//! some.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{cluster::Cluster, conditions, policy::PropagationPolicy, work::ResourceBinding};
use ironclad_fleet::gates::Gate;
use ironclad_simcluster::Shape;
use ironclad_testkit::sim::{Fault, Setup, World, WorldOptions, propagation};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// A workload whose replicas request one core each, divided by available replicas; members have one node of eight
/// cores.
async fn placed_by_capacity(replicas: i32) -> anyhow::Result<(World, Api<ResourceBinding>)> {
    let setup = Setup { nodes: 1, ..Setup::from(WorldOptions { seed: 11, members: 2 }) };
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    // What is placed before both have reported stays where it is.
    world.advance(Duration::from_secs(30)).await;
    let user = world.user();
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["placement"] = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }});
    let mut deployment = serde_json::to_value(propagation::deployment()?)?;
    deployment["spec"]["replicas"] = json!(replicas);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let policies = Api::namespaced(user.clone(), "default");
    policies
        .create(&PostParams::default(), &serde_json::from_value(policy)?)
        .await
        .map(|_: ironclad_api::policy::PropagationPolicy| ())?;
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    Ok((world, Api::namespaced(user, "default")))
}

fn scheduled(binding: &ResourceBinding) -> Option<(&str, &str)> {
    let conditions = binding.status.as_ref().map(|status| status.conditions.as_slice())?;
    let condition = conditions::get(conditions, conditions::binding::SCHEDULED)?;
    Some((condition.reason.as_str(), condition.message.as_str()))
}

fn result(binding: &ResourceBinding) -> Vec<(&str, i32)> {
    binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)).collect()
}

#[tokio::test(start_paused = true)]
async fn replicas_are_placed_by_reported_capacity() -> anyhow::Result<()> {
    let (mut world, bindings) = placed_by_capacity(6).await?;
    world
        .until("all six are placed", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            Ok(result(&binding) == [("member1", 3), ("member2", 3)])
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn unplaced_workload_is_placed_when_a_member_grows() -> anyhow::Result<()> {
    let (mut world, bindings) = placed_by_capacity(20).await?;
    world
        .until("nobody has room for twenty", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            let full = "failed to assign replicas: failed to scale up: Clusters available replicas 16 are not enough to schedule.";
            Ok(result(&binding).is_empty() && scheduled(&binding) == Some(("Unschedulable", full)))
        })
        .await?;
    let member1 = world.members.get("member1").context("member1")?.clone();
    let grown_at = world.clock().mono();
    member1.reshape(Shape { nodes: 3, ..Shape::default() });
    world
        .until("the new nodes take them", async || {
            let binding = bindings.get("web-deployment").await?;
            Ok(result(&binding) == [("member1", 15), ("member2", 5)]
                && scheduled(&binding).is_some_and(|(r, _)| r == "Success"))
        })
        .await?;
    let took = world.clock().mono() - grown_at;
    ensure!(took < Duration::from_secs(60), "not by the timer of five minutes: {took:?}");
    Ok(())
}

/// Thirty workloads of one replica that requests a core wait for a member with 24 cores. All are decided while no
/// write gets through; then some writes are refused, or their answers are lost.
async fn a_burst(faults: &[(u64, Fault)]) -> anyhow::Result<()> {
    const WORKLOADS: usize = 30;
    const ROOM: usize = 24;
    // Three nodes of eight cores, counted exactly: by their models more would fit after each report.
    let mut setup = Setup { nodes: 3, ..Setup::from(WorldOptions { seed: 11, members: 1 }) };
    let gates = setup.settings.gates.with(Gate::SchedulingOvercommitProtection, true);
    setup.settings.gates = gates.with(Gate::CustomizedClusterResourceModeling, false);
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let user = world.user();
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["resourceSelectors"][0].as_object_mut().context("a selector")?.remove("name");
    policy["spec"]["placement"] = json!({
        "clusterAffinity": {"labelSelector": {"matchLabels": {"open": "true"}}},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    });
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    for n in 0..WORKLOADS {
        let mut deployment = serde_json::to_value(propagation::deployment()?)?;
        deployment["metadata"]["name"] = json!(format!("web{n:02}"));
        deployment["spec"]["replicas"] = json!(1);
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    }
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    let placed = async || -> anyhow::Result<usize> {
        let all = bindings.list(&ListParams::default()).await?.items;
        Ok(all.iter().filter(|binding| !binding.spec.clusters.is_empty()).count())
    };
    world
        .until("no cluster fits any of them", async || {
            let all = bindings.list(&ListParams::default()).await?.items;
            let unfit = all.iter().filter(|b| scheduled(b).is_some_and(|(reason, _)| reason == "NoClusterFit"));
            Ok(unfit.count() == WORKLOADS)
        })
        .await?;
    world.until_quiet().await?;

    let until = world.clock().mono() + Duration::from_secs(5);
    world.faults.stall(until);
    for (number, fault) in faults {
        world.faults.on_coming_write(*number, *fault);
    }
    let clusters: Api<Cluster> = Api::all(user.clone());
    let open = Patch::Merge(json!({"metadata": {"labels": {"open": "true"}}}));
    clusters.patch("member1", &PatchParams::default(), &open).await?;
    world.pass(Duration::from_millis(4_900)).await?;
    ensure!(placed().await? == 0, "no write got through");
    if faults.is_empty() {
        // One after the other, with round trips of up to 8 ms, they would take a tenth of a second.
        world.pass(Duration::from_millis(100 + 40)).await?;
        let soon = placed().await?;
        ensure!(soon == ROOM, "written one after the other: {soon} in 40 ms");
    }
    world.pass(Duration::from_secs(60)).await?;
    let (got, refused) = (placed().await?, bindings.list(&ListParams::default()).await?.items);
    let refused = refused.iter().filter(|b| scheduled(b).is_some_and(|(reason, _)| reason == "Unschedulable")).count();
    ensure!((got, refused) == (ROOM, WORKLOADS - ROOM), "{got} placed, {refused} rejected for lack of capacity");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn concurrent_decisions_share_capacity() -> anyhow::Result<()> {
    a_burst(&[]).await
}

#[tokio::test(start_paused = true)]
async fn refused_or_lost_results_neither_use_capacity_nor_free_it_twice() -> anyhow::Result<()> {
    for fault in [Fault::Conflict, Fault::LoseAnswer] {
        a_burst(&[(2, fault), (5, fault), (9, fault)]).await.with_context(|| fault.to_string())?;
    }
    Ok(())
}

/// The safety re-check: what no cluster fits is looked at again every five minutes, in silence.
#[tokio::test(start_paused = true)]
async fn unschedulable_bindings_are_retried_without_writes() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 11, members: 1 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": ["nowhere"]}});
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    deployments.create(&PostParams::default(), &propagation::deployment()?).await?;
    let bindings: Api<ResourceBinding> = Api::namespaced(user, "default");
    world
        .until("nothing fits", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            Ok(scheduled(&binding).is_some_and(|(reason, _)| reason == "NoClusterFit"))
        })
        .await?;
    world.until_quiet().await?;
    let appointment = |world: &World| -> anyhow::Result<Duration> {
        let waiting =
            world.context().context("the controllers")?.explain_scheduling_queue().context("the scheduler")?;
        match waiting.as_slice() {
            [waiting] if waiting.state == "Unschedulable" => {
                Ok(Duration::from_millis(waiting.wait_ms.context("a timer")?))
            }
            other => anyhow::bail!("one timer, not {other:?}"),
        }
    };
    let before = bindings.get("web-deployment").await?.metadata.resource_version;
    let first = appointment(&world)?;
    world.pass(first + Duration::from_secs(10)).await?;
    let second = appointment(&world)?;
    ensure!(second > Duration::from_secs(285), "it had its turn, and the next one is in {second:?}");
    let after = bindings.get("web-deployment").await?.metadata.resource_version;
    ensure!(after == before, "which wrote something: {before:?}, {after:?}");
    Ok(())
}

/// Five workloads of one anti-affinity group on three members: three are placed, each alone; when one of them is
/// deleted, another takes its member.
#[tokio::test(start_paused = true)]
async fn workloads_of_an_anti_affinity_group_take_a_member_each() -> anyhow::Result<()> {
    let mut setup = Setup::from(WorldOptions { seed: 3, members: 3 });
    setup.settings.gates = setup.settings.gates.with(Gate::WorkloadAffinity, true);
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let user = world.user();
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["resourceSelectors"][0].as_object_mut().context("a selector")?.remove("name");
    policy["spec"]["placement"] = json!({
        "workloadAffinity": {"antiAffinity": {"groupByLabelKey": "team"}},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    });
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    for n in 0..5 {
        let mut deployment = serde_json::to_value(propagation::deployment()?)?;
        deployment["metadata"]["name"] = json!(format!("web{n}"));
        deployment["metadata"]["labels"] = json!({"team": "red"});
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    }
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    let targets = async || -> anyhow::Result<Vec<String>> {
        let all = bindings.list(&ListParams::default()).await?.items;
        let mut names: Vec<String> =
            all.iter().flat_map(|b| b.spec.clusters.iter().map(|target| target.name.clone())).collect();
        names.sort();
        Ok(names)
    };
    let members = ["member1", "member2", "member3"];
    world.until("each member has one of them", async || Ok(targets().await? == members)).await?;
    world.until_quiet().await?;
    let all = bindings.list(&ListParams::default()).await?.items;
    let waiting: Vec<_> = all.iter().filter(|binding| binding.spec.clusters.is_empty()).collect();
    let why = scheduled(waiting.first().context("two wait")?).context("a condition")?;
    ensure!(why.0 == "NoClusterFit" && why.1.contains("same anti-affinity group (default/web"), "{why:?}");
    let placed = all.iter().find(|binding| !binding.spec.clusters.is_empty()).context("three are placed")?;
    let gone = placed.spec.resource.name.clone();
    let began = world.clock().mono();
    deployments.delete(&gone, &kube::api::DeleteParams::default()).await?;
    world
        .until("another one takes its place", async || {
            let is_gone = bindings.get_opt(&format!("{gone}-deployment")).await?.is_none();
            Ok(is_gone && targets().await? == members)
        })
        .await?;
    let took = world.clock().mono() - began;
    ensure!(took < Duration::from_secs(60), "not by the timer of five minutes: {took:?}");
    Ok(())
}
