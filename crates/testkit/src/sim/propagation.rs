//! The scenario of propagation: a Deployment is propagated to all members, changed, and deleted.

use std::collections::BTreeMap;

use anyhow::ensure;
use ironclad_api::{
    cluster::Cluster,
    policy::PropagationPolicy,
    work::{ResourceBinding, Work},
};
use ironclad_runtime::Api;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Fault, World, WorldOptions};

/// Lines of history in an error; `--history` prints all.
const HISTORY_SHOWN: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbance {
    pub write: u64,
    pub fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The masked state of the world whenever it is idle.
    pub states: Vec<String>,
    pub writes: u64,
    /// Number of these writes until the Deployment was first settled and all was quiet.
    pub writes_to_settle: u64,
    pub digest: String,
    pub history: Vec<String>,
    pub struck: bool,
}

pub fn run(options: WorldOptions, disturbance: Option<Disturbance>) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut world = World::start(options).await?;
        if let Some(disturbance) = disturbance {
            world.faults.on_write(disturbance.write, disturbance.fault);
        }
        match drive(&mut world).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                let lines = world.history.lines();
                let tail = lines[lines.len().saturating_sub(HISTORY_SHOWN)..].join("\n");
                let state = world.state().await.unwrap_or_else(|e| format!("the state can't be read: {e:#}"));
                let seed = options.seed;
                Err(error.context(format!(
                    "{disturbance:?} at seed {seed}, the history ends with\n{tail}\nand the state is\n{state}"
                )))
            }
        }
    })
}

async fn drive(world: &mut World) -> anyhow::Result<Outcome> {
    let members = world.members.len();
    let mut states = Vec::new();
    world.start_controllers().await;
    let user = world.user();
    let clusters: Api<Cluster> = Api::all(user.clone());
    world
        .until("all clusters are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?;
            Ok(all.items.iter().all(|c| c.is_ready()))
        })
        .await?;
    world.until_quiet().await?;
    let before = world.faults.writes();

    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    deployments.create(&PostParams::default(), &deployment()?).await?;
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &policy()?).await?;
    settled(world, &deployments, 2 * members as i32).await?;
    world.until_quiet().await?;
    states.push(world.state().await?);
    let writes_to_settle = world.faults.writes() - before;

    let change =
        json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(change)).await?;
    settled(world, &deployments, 3 * members as i32).await?;
    world.until_quiet().await?;
    states.push(world.state().await?);

    deployments.delete("web", &DeleteParams::background()).await?;
    let (bindings, works): (Api<ResourceBinding>, Api<Work>) = (Api::all(user.clone()), Api::all(user.clone()));
    world
        .until("binding and Works are deleted", async || {
            let list = ListParams::default();
            Ok(bindings.list(&list).await?.items.is_empty() && works.list(&list).await?.items.is_empty())
        })
        .await?;
    world.until_quiet().await?;
    for (name, member) in world.members.iter() {
        let left = Api::<Deployment>::all(member.client()).list(&ListParams::default()).await?;
        ensure!(left.items.is_empty(), "{name} still has {:?}", left.items.first().map(ResourceExt::name_any));
    }
    states.push(world.state().await?);
    Ok(Outcome {
        states,
        writes: world.faults.writes(),
        writes_to_settle,
        digest: world.history.digest(),
        history: world.history.lines(),
        struck: !world.faults.struck().is_empty(),
    })
}

/// Waits until the scenario's template reports this many ready replicas for its generation.
pub async fn settled(world: &mut World, deployments: &Api<Deployment>, replicas: i32) -> anyhow::Result<()> {
    world
        .until(&format!("the template reports {replicas} ready replicas"), async || {
            let template = deployments.get("web").await?;
            let status = template.status.unwrap_or_default();
            Ok(status.observed_generation == template.metadata.generation
                && status.updated_replicas == Some(replicas)
                && status.ready_replicas == Some(replicas))
        })
        .await
}

pub fn deployment() -> anyhow::Result<Deployment> {
    let labels = BTreeMap::from([("app", "web")]);
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    }))?)
}

pub fn policy() -> anyhow::Result<PropagationPolicy> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {}},
        },
    }))?)
}
