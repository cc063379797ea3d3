//! Room in virtual time: what members report decides where replicas go, and who found none is placed when there is some.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{conditions, work::ResourceBinding};
use ironclad_simcluster::Shape;
use ironclad_testkit::sim::{Setup, World, WorldOptions, road};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::PostParams};
use serde_json::json;

/// A workload whose replicas ask for a core each, divided by room; members have one node of eight cores.
async fn placed_by_room(replicas: i32) -> anyhow::Result<(World, Api<ResourceBinding>)> {
    let setup = Setup { nodes: 1, ..Setup::from(WorldOptions { seed: 11, members: 2 }) };
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let user = world.user();
    let mut policy = serde_json::to_value(road::policy()?)?;
    policy["spec"]["placement"] = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }});
    let mut deployment = serde_json::to_value(road::deployment()?)?;
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
async fn replicas_go_where_members_report_room() -> anyhow::Result<()> {
    let (mut world, bindings) = placed_by_room(6).await?;
    world
        .until("all six are placed", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            Ok(result(&binding) == [("member1", 3), ("member2", 3)])
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn who_found_no_room_is_placed_when_a_member_grows() -> anyhow::Result<()> {
    // A node of eight cores is of the grade that has four at least.
    let (mut world, bindings) = placed_by_room(12).await?;
    world
        .until("nobody has room for twelve", async || {
            let Some(binding) = bindings.get_opt("web-deployment").await? else { return Ok(false) };
            let full = "failed to assign replicas: failed to scale up: Clusters available replicas 8 are not enough to schedule.";
            Ok(result(&binding).is_empty() && scheduled(&binding) == Some(("Unschedulable", full)))
        })
        .await?;
    let member1 = world.members.get("member1").context("member1")?.clone();
    let grown_at = world.clock().mono();
    member1.reshape(Shape { nodes: 3, ..Shape::default() });
    world
        .until("the new nodes take them", async || {
            let binding = bindings.get("web-deployment").await?;
            Ok(result(&binding) == [("member1", 9), ("member2", 3)]
                && scheduled(&binding).is_some_and(|(r, _)| r == "Success"))
        })
        .await?;
    let took = world.clock().mono() - grown_at;
    ensure!(took < Duration::from_secs(60), "not by the timer of five minutes: {took:?}");
    Ok(())
}
