//! The queue of the scheduler, preemptions, and what it counts as free.

use std::sync::Arc;

use ironclad_api::{events::BINDING_PREEMPTED, gates::Gate, work::ResourceBinding};
use ironclad_dashboard::Account;
use ironclad_fleet::BindingRef;
use ironclad_planning::{Fleet, schedule::State, views};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Event;
use kube::{Client, ResourceExt as _, config::Kubeconfig};
use serde_json::{Value, json};

use super::{kept::Kept, observe};
use crate::{
    leader,
    nodes::{self, Asked},
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
async fn bindings(
    client: &Client,
    kept: &Kept,
    notes: &mut Vec<String>,
    otherwise: &str,
) -> anyhow::Result<Vec<Arc<ResourceBinding>>> {
    let found = permitted(kept.bindings.all(client).await)?;
    if found.is_none() {
        notes.push(format!("you may not list resourcebindings.work.karmada.io in all namespaces{otherwise}"));
    }
    Ok(found.unwrap_or_default())
}

/// The view of preemptions.
pub(super) async fn preemptions(client: &Client, kept: &Kept) -> anyhow::Result<Value> {
    let mut notes = Vec::new();
    let bindings = bindings(client, kept, &mut notes, "").await?;
    if observe::is_off(client, Gate::PriorityBasedPreemptiveScheduling).await {
        notes.push("feature gate PriorityBasedPreemptiveScheduling is off: no binding is preempted".to_owned());
    }
    let of_preemptions = |event: &Event| event.reason.as_deref() == Some(BINDING_PREEMPTED);
    let mut past = match permitted(observe::events(client, kept, of_preemptions).await)? {
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
    kept: &Kept,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
    by: Account,
) -> anyhow::Result<Value> {
    let mut notes = Vec::new();
    let known = leader::configuration(client).await.ok().map(|configuration| configuration.settings());
    let by_node = known.as_ref().map(|settings| settings.estimators);
    let mut fleet = Fleet { settings: known.unwrap_or_default(), ..Fleet::default() };
    kept.clusters.all(client).await?.into_iter().for_each(|cluster| {
        fleet.world.clusters.insert(cluster.name_any().as_str().into(), cluster);
    });
    let bindings = bindings(client, kept, &mut notes, ": what is promised and held is not known").await?;
    bindings.into_iter().for_each(|binding| {
        fleet.world.bindings.insert(BindingRef::from(&*binding).key(), binding);
    });
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
