//! Removal of deleted Clusters: immediate, or when workloads no longer block it (specification/failover.md 9.5). A
//! workload that needs more clusters than are left blocks it; the Cluster must report that, and the workload must not
//! be lost meanwhile.

use std::time::Duration;

use anyhow::{bail, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions::{self, TRUE},
    policy::PropagationPolicy,
};
use ironclad_failover::cluster::lifecycle::REMOVAL_BLOCKED;
use kube::{
    Api, ResourceExt,
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
/// fewer clusters meanwhile, as the condition advises.
pub(super) async fn rejoin(world: &mut World, apps: &[App]) -> anyhow::Result<()> {
    let (mut last, mut same, mut eased) = (Vec::new(), 0, Vec::new());
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
                ask_for(world, app, app.placement()).await?;
            }
            return Ok(());
        }
        let names: Vec<String> = leaving.iter().map(ResourceExt::name_any).collect();
        same = if names == last { same + 1 } else { 0 };
        last = names;
        let left = world.members.len() - leaving.len();
        let holders: Vec<&App> =
            apps.iter().filter(|app| matches!(app.spread, Spread::Copies(n) if n > left)).collect();
        if same == SAYS_SO_AFTER && !holders.is_empty() && eased.is_empty() {
            for cluster in &leaving {
                says_who_holds_it(world, cluster, &holders)?;
            }
            happened("a workload holds a Cluster that was deleted");
            world.history.log(format!("EASE {} clusters are left", left));
            for app in &holders {
                let fewer = App { spread: Spread::Copies(left), ..(*app).clone() };
                ask_for(world, app, fewer.placement()).await?;
            }
            eased = holders;
        }
        world.pass(Duration::from_secs(1)).await?;
    }
    bail!("a deleted Cluster is never removed: {}", last.join(" "))
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

/// Changes the placement of a workload as its user.
async fn ask_for(world: &World, app: &App, placement: serde_json::Value) -> anyhow::Result<()> {
    let policies: Api<PropagationPolicy> = Api::namespaced(world.user(), "default");
    let patch = json!({"spec": {"placement": {"spreadConstraints": placement["spreadConstraints"]}}});
    policies.patch(&app.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
