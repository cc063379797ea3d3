//! Removal of deleted Clusters: immediate, or when workloads no longer block it (specification/failover.md 9.5). A
//! workload that needs more clusters or more capacity than are left blocks it (decision 19); the Cluster must report
//! that, and the workload must not be lost meanwhile.

use std::time::Duration;

use anyhow::{bail, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions::{self, FALSE, TRUE, binding::SCHEDULED},
    policy::PropagationPolicy,
};
use ironclad_failover::cluster::lifecycle::REMOVAL_BLOCKED;
use ironclad_runtime::Api;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{App, Spread, action};
use crate::sim::{World, sometimes::happened};

/// Seconds within which a deleted Cluster must disappear if no workload blocks it.
const GOES_WITHIN: usize = 600;
/// Seconds without removals after which a blocked Cluster must have its condition.
const SAYS_SO_AFTER: usize = 120;

/// Joins members again as soon as their former Cluster is removed. If workloads block a removal, their users request
/// fewer clusters or no replicas meanwhile.
pub(super) async fn rejoin(world: &mut World, apps: &[App]) -> anyhow::Result<()> {
    let (mut last, mut same, mut eased): (_, _, Vec<&App>) = (Vec::new(), 0_usize, Vec::new());
    for _ in 0..GOES_WITHIN {
        action::join_all(world).await?;
        let leaving: Vec<Cluster> = Api::<Cluster>::all(world.user())
            .list(&ListParams::default())
            .await?
            .items
            .into_iter()
            .filter(|cluster| cluster.metadata.deletion_timestamp.is_some())
            .collect();
        if leaving.is_empty() {
            for app in eased {
                ask_for(world, app, app).await?;
            }
            return Ok(());
        }
        let names: Vec<String> = leaving.iter().map(ResourceExt::name_any).collect();
        same = if names == last { same + 1 } else { 0 };
        last = names;
        if same > 0 && same.is_multiple_of(SAYS_SO_AFTER) {
            let left = world.members.len() - leaving.len();
            let is_eased = |app: &App| eased.iter().any(|eased| eased.name == app.name);
            let holders: Vec<&App> =
                apps.iter().filter(|app| !is_eased(app) && holds(world, app, &last, left)).collect();
            if !holders.is_empty() {
                for cluster in &leaving {
                    says_who_holds_it(world, cluster, &holders)?;
                }
                happened("a workload holds a Cluster that was deleted");
                world.history.log(format!("EASE {left} clusters are left"));
            }
            for app in &holders {
                let less = match app.spread {
                    Spread::Copies(_) => App { spread: Spread::Copies(left), ..(*app).clone() },
                    _ => App { replicas: 0, ..(*app).clone() },
                };
                ask_for(world, app, &less).await?;
            }
            eased.extend(holders);
        }
        world.pass(Duration::from_secs(1)).await?;
    }
    bail!("a deleted Cluster is never removed: {}", last.join(" "))
}

/// Returns whether a workload can't leave deleted Clusters: it needs more clusters than are left, or waits for capacity
/// elsewhere.
fn holds(world: &World, app: &App, leaving: &[String], left: usize) -> bool {
    if let Spread::Copies(n) = app.spread {
        return n > left;
    }
    app.exists
        && app.cpu > 0
        && world.model.look(|fleet| {
            let Some((_, binding)) = fleet.bindings.iter().find(|(key, _)| *key.name == *app.binding()) else {
                return false;
            };
            let present = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let waits = conditions::get(present, SCHEDULED).is_some_and(|scheduled| scheduled.status == FALSE);
            waits && leaving.iter().any(|name| binding.spec.target(name).is_some())
        })
}

/// Returns `true` if the condition names a workload that is still placed there and needs more clusters than are left.
fn says_who_holds_it(world: &World, cluster: &Cluster, holders: &[&App]) -> anyhow::Result<()> {
    let name = cluster.name_any();
    let holding: Vec<String> = world.model.look(|fleet| {
        let placed = |app: &&&App| {
            let binding = format!("{}-deployment", app.name);
            fleet.bindings.iter().any(|(key, b)| *key.name == *binding && b.spec.target(&name).is_some())
        };
        holders.iter().filter(placed).map(|app| format!("default/{}-deployment", app.name)).collect()
    });
    if holding.is_empty() {
        return Ok(());
    }
    let present = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = conditions::get(present, REMOVAL_BLOCKED).filter(|condition| condition.status == TRUE);
    let message = condition.map(|condition| condition.message.as_str()).unwrap_or_default();
    ensure!(
        holding.iter().any(|binding| message.contains(binding)),
        "{REMOVAL_BLOCKED} of {name} does not name any of {holding:?}, which hold it: {message:?}"
    );
    Ok(())
}

/// Changes the placement and the replicas of a workload to those of `wanted`, as its user.
async fn ask_for(world: &World, app: &App, wanted: &App) -> anyhow::Result<()> {
    if app.cpu > 0 {
        let deployments: Api<Deployment> = Api::namespaced(world.user(), "default");
        let patch = json!({"spec": {"replicas": wanted.replicas}});
        deployments.patch(&app.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        return Ok(());
    }
    let policies: Api<PropagationPolicy> = Api::namespaced(world.user(), "default");
    let patch = json!({"spec": {"placement": {"spreadConstraints": wanted.placement()["spreadConstraints"]}}});
    policies.patch(&app.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
