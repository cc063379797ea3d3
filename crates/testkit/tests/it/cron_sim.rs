//! CronFederatedHPAs in virtual time: rules scale workloads and FederatedHPAs, while processes are killed
//! (specification/autoscaling.md 4).

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::autoscaling::{CronFederatedHPA, ExecutionHistory, FederatedHPA};
use ironclad_testkit::sim::{Setup, World, WorldOptions, propagation};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

struct Scene {
    world: World,
    deployments: Api<Deployment>,
    autoscalers: Api<FederatedHPA>,
    rules: Api<CronFederatedHPA>,
}

fn object(target: &Value, rules: &Value) -> anyhow::Result<CronFederatedHPA> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA",
        "metadata": {"name": "clock", "namespace": "default"},
        "spec": {"scaleTargetRef": target, "rules": rules},
    }))?)
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

impl Scene {
    async fn with(target: &Value, rules: &Value) -> anyhow::Result<Self> {
        let mut world = World::start(Setup::from(WorldOptions { seed: 7, members: 2 })).await?;
        world.start_controllers().await;
        let user = world.user();
        let (deployments, rules_api) =
            (Api::namespaced(user.clone(), "default"), Api::namespaced(user.clone(), "default"));
        let post = PostParams::default();
        deployments.create(&post, &propagation::deployment()?).await?;
        Api::namespaced(user.clone(), "default").create(&post, &propagation::policy()?).await?;
        rules_api.create(&post, &object(target, rules)?).await?;
        Ok(Self { world, deployments, autoscalers: Api::namespaced(user, "default"), rules: rules_api })
    }

    async fn replicas_become(&mut self, want: i32) -> anyhow::Result<()> {
        let deployments = self.deployments.clone();
        let is_so = async || {
            let found = deployments.get("web").await?;
            Ok(found.spec.and_then(|spec| spec.replicas) == Some(want))
        };
        self.world.until(&format!("{want} replicas"), is_so).await
    }

    async fn scale(&self, replicas: i32) -> anyhow::Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn change(&self, rules: &Value) -> anyhow::Result<()> {
        let patch = json!({"spec": {"rules": rules}});
        self.rules.patch("clock", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn history(&self, rule: &str) -> anyhow::Result<ExecutionHistory> {
        let status = self.rules.get("clock").await?.status.unwrap_or_default();
        status.execution_histories.into_iter().find(|history| history.rule_name == rule).context("no history")
    }
}

fn each_minute(suspend: bool) -> Value {
    json!([{"name": "r", "schedule": "* * * * *", "targetReplicas": 4, "suspend": suspend}])
}

#[tokio::test(start_paused = true)]
async fn rules_scale_workloads_unless_they_are_suspended() -> anyhow::Result<()> {
    let mut scene = Scene::with(&deployment(), &each_minute(true)).await?;
    scene.world.pass(Duration::from_secs(150)).await?;
    let history = scene.history("r").await?;
    ensure!(history.successful_executions.is_empty() && history.next_execution_time.is_none(), "{history:?}");
    scene.change(&each_minute(false)).await?;
    scene.replicas_become(4).await?;
    scene.change(&each_minute(true)).await?;
    scene.world.until_quiet().await?;
    scene.scale(1).await?;
    scene.world.pass(Duration::from_secs(150)).await?;
    scene.replicas_become(1).await?;
    let history = scene.history("r").await?;
    let [done] = history.successful_executions.as_slice() else { anyhow::bail!("{history:?}") };
    ensure!(done.applied_replicas == Some(4), "{done:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_restart_neither_forgets_nor_repeats_an_execution() -> anyhow::Result<()> {
    let hourly = json!([{"name": "r", "schedule": "@every 10m", "targetReplicas": 3}]);
    let mut scene = Scene::with(&deployment(), &hourly).await?;
    scene.replicas_become(3).await?;
    scene.world.until_quiet().await?;
    scene.scale(1).await?;
    // Down at the next time, and back within the deadline.
    scene.world.pass(Duration::from_secs(540)).await?;
    scene.world.crash(0, Duration::from_secs(90));
    scene.replicas_become(3).await?;
    scene.world.until_quiet().await?;
    scene.scale(1).await?;
    scene.world.crash(0, Duration::from_secs(5));
    scene.world.pass(Duration::from_secs(60)).await?;
    scene.replicas_become(1).await?;
    // Down for longer: the time is missed.
    scene.world.pass(Duration::from_secs(400)).await?;
    scene.world.crash(0, Duration::from_secs(300));
    scene.world.pass(Duration::from_secs(320)).await?;
    let history = scene.history("r").await?;
    let [missed] = history.failed_executions.as_slice() else { anyhow::bail!("{history:?}") };
    ensure!(missed.message.starts_with("missed"), "{missed:?}");
    scene.replicas_become(1).await
}

#[tokio::test(start_paused = true)]
async fn rules_change_the_bounds_of_federated_hpas() -> anyhow::Result<()> {
    let target = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"});
    let rules = json!([
        {"name": "more", "schedule": "* * * * *", "targetMinReplicas": 3},
        {"name": "too-many", "schedule": "* * * * *", "targetMinReplicas": 9},
    ]);
    let mut scene = Scene::with(&target, &rules).await?;
    let hpa = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": deployment(), "maxReplicas": 5}});
    scene.autoscalers.create(&PostParams::default(), &serde_json::from_value(hpa)?).await?;
    let autoscalers = scene.autoscalers.clone();
    let is_bound = async || Ok(autoscalers.get("web").await?.spec.min_replicas == Some(3));
    scene.world.until("the minimum is 3", is_bound).await?;
    scene.world.until_quiet().await?;
    let history = scene.history("too-many").await?;
    let message = history.failed_executions.first().map(|failed| failed.message.as_str());
    ensure!(
        message == Some("minReplicas 9 would exceed maxReplicas 5: the rule has to set targetMaxReplicas, too"),
        "{history:?}"
    );
    ensure!(scene.history("more").await?.failed_executions.is_empty(), "the other rule is executed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn targets_that_do_not_exist_are_named() -> anyhow::Result<()> {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"});
    let mut scene = Scene::with(&target, &each_minute(false)).await?;
    scene.world.pass(Duration::from_secs(130)).await?;
    let history = scene.history("r").await?;
    let message = history.failed_executions.first().map(|failed| failed.message.clone()).unwrap_or_default();
    ensure!(message.starts_with("failed to scale Deployment other: "), "{history:?}");
    Ok(())
}
