//! The queue of the scheduler, preemptions, and what it counts as free.

use ironclad_api::{events::BINDING_PREEMPTED, gates::Gate, work::ResourceBinding};
use ironclad_dashboard::Account;
use ironclad_planning::{Fleet, schedule::State, views};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};
use serde_json::{Value, json};

use super::observe;
use crate::{
    leader,
    nodes::{self, Asked},
    plan::read::every,
    report::permitted,
};

/// Former preemptions that are shown.
const PAST_MAX: usize = 100;

/// The view of the queue.
pub(super) async fn queue(client: &Client) -> Value {
    match leader::scheduling_queue(client).await {
        Ok(rows) => json!({ "rows": rows }),
        Err(why) => json!({ "rows": [], "unknown": why }),
    }
}

/// All ResourceBindings; notes say if they may not be listed.
async fn bindings(client: &Client, notes: &mut Vec<String>, otherwise: &str) -> anyhow::Result<Vec<ResourceBinding>> {
    let found = permitted(every(Api::<ResourceBinding>::all(client.clone())).await)?;
    if found.is_none() {
        notes.push(format!("you may not list resourcebindings.work.karmada.io in all namespaces{otherwise}"));
    }
    Ok(found.unwrap_or_default())
}

/// The view of preemptions.
pub(super) async fn preemptions(client: &Client) -> anyhow::Result<Value> {
    let mut notes = Vec::new();
    let bindings = bindings(client, &mut notes, "").await?;
    if observe::is_off(client, Gate::PriorityBasedPreemptiveScheduling).await {
        notes.push("feature gate PriorityBasedPreemptiveScheduling is off: no binding is preempted".to_owned());
    }
    let mut past = match permitted(observe::events_with(client, None, Some(BINDING_PREEMPTED)).await)? {
        Some(events) => views::preempted(events),
        None => {
            notes.push("you may not list events in all namespaces: former preemptions are not known".to_owned());
            Vec::new()
        }
    };
    past.truncate(PAST_MAX);
    let rows = views::preemptions(&bindings);
    let sums = observe::sums(rows.iter().map(|row| row.state));
    Ok(json!({ "sums": sums, "rows": rows, "past": past, "notes": notes }))
}

/// The view of the accounts of clusters, as a scheduler that starts now has them: by the reports of clusters, or by the
/// nodes and pods of members, which are asked.
pub(super) async fn accounts(
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
    by: Account,
) -> anyhow::Result<Value> {
    let mut notes = Vec::new();
    let known = leader::configuration(client).await.ok().map(|configuration| configuration.settings());
    let by_node = known.as_ref().map(|settings| settings.estimators);
    let mut fleet = Fleet { settings: known.unwrap_or_default(), ..Fleet::default() };
    observe::clusters(client).await?.into_iter().for_each(|cluster| fleet.world.insert_cluster(cluster));
    let bindings = bindings(client, &mut notes, ": what is promised and held is not known").await?;
    bindings.into_iter().for_each(|binding| fleet.world.insert_binding(binding));
    if by == Account::Nodes {
        let (mut members, all) = (Asked::default(), fleet.world.clusters.keys().cloned().collect());
        members.ask(&fleet, &all, client, kubeconfig, clock).await;
        notes.extend(members.unknown.iter().map(|(cluster, why)| nodes::unknown(cluster, why)));
        fleet.nodes = members.nodes;
    }
    let state = State::of_fleet(&fleet, clock.wall_seconds());
    let rows = views::accounts(&state.capacity, &fleet.world.clusters);
    Ok(
        json!({ "sums": observe::sums(rows.iter().map(|row| row.state)), "rows": rows, "leaderCountsNodes": by_node, "notes": notes }),
    )
}
