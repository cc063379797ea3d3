//! Lists that several views need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    gates::Gate,
    namespaces,
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_failover::taint_manager::Row;
use ironclad_fleet::{Binding, ClusterName, tree::LinkState};
use ironclad_planning::views::{self, BindingRow, Entry};
use ironclad_runtime::Api;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{Client, ResourceExt as _, api::ListParams};

use crate::{evictions::observe::leader_report_if_readable, pages, plan::read::every, report::permitted};

/// Events that are shown at most: a fleet in trouble makes more than anybody reads.
const EVENTS_MAX: usize = 2_000;

/// All clusters.
pub(super) async fn clusters(client: &Client) -> anyhow::Result<Vec<Cluster>> {
    every(Api::<Cluster>::all(client.clone())).await
}

/// The rows of all bindings. Notes say which could not be read.
pub(super) async fn bindings(
    client: &Client,
    clusters: &[Cluster],
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<BindingRow>> {
    let mut all: Vec<Binding> = Vec::new();
    match permitted(every(Api::<ResourceBinding>::all(client.clone())).await)? {
        Some(found) => all.extend(found.into_iter().map(|one| Binding::from(Arc::new(one)))),
        None => notes.push("you may not list resourcebindings.work.karmada.io in all namespaces".to_owned()),
    }
    match permitted(every(Api::<ClusterResourceBinding>::all(client.clone())).await)? {
        Some(found) => all.extend(found.into_iter().map(|one| Binding::from(Arc::new(one)))),
        None => notes.push("you may not list clusterresourcebindings.work.karmada.io".to_owned()),
    }
    Ok(views::workloads(all.iter().map(Binding::view), &unready(clusters)))
}

/// True if the leader says that a feature gate is off.
pub(super) async fn is_off(client: &Client, gate: Gate) -> bool {
    let known = crate::leader::configuration(client).await;
    known.is_ok_and(|configuration| !configuration.settings().gates.enabled(gate))
}

fn unready(clusters: &[Cluster]) -> BTreeSet<ClusterName> {
    let unready = clusters.iter().filter(|cluster| !cluster.is_ready());
    unready.map(|cluster| ClusterName::from(cluster.name_any().as_str())).collect()
}

/// The last heartbeats of clusters, as far as they may be read.
pub(super) async fn heard(client: &Client) -> BTreeMap<String, Timestamp> {
    let leases = Api::<Lease>::namespaced(client.clone(), namespaces::CLUSTER);
    let found = pages::all(&leases, ListParams::default()).await.unwrap_or_default();
    let renewed = |lease: Lease| Some((lease.name_any(), lease.spec?.renew_time?.0));
    found.into_iter().filter_map(renewed).collect()
}

/// The leader's queue of evictions; empty if it tells none. The page of evictions says why.
pub(super) async fn queue(client: &Client) -> Vec<Row> {
    leader_report_if_readable(client).await.rows
}

/// Events of a namespace, or of all: the newest ones, newest first.
pub(super) async fn events(client: &Client, namespace: Option<&str>) -> anyhow::Result<Vec<Entry>> {
    events_with(client, namespace, None).await
}

/// The same, with one reason only.
pub(super) async fn events_with(
    client: &Client,
    namespace: Option<&str>,
    reason: Option<&str>,
) -> anyhow::Result<Vec<Entry>> {
    let api = match namespace {
        Some(namespace) => Api::<Event>::namespaced(client.clone(), namespace),
        None => Api::<Event>::all(client.clone()),
    };
    let fields = reason.map(|reason| format!("reason={reason}"));
    let parameters = ListParams { field_selector: fields, ..ListParams::default() };
    let found = pages::all(&api, parameters).await?;
    let read = found.iter().filter_map(|event| views::event(&serde_json::to_value(event).ok()?));
    let mut all = views::timeline(read);
    all.truncate(EVENTS_MAX);
    Ok(all)
}

/// The Works of a binding; none if they may not be read.
pub(super) async fn works(client: &Client, binding: &Binding) -> anyhow::Result<Option<Vec<Work>>> {
    let view = binding.view();
    let Some(id) = view.permanent_id() else { return Ok(Some(Vec::new())) };
    let selector = ListParams::default().labels(&format!("{}={id}", view.id_label()));
    permitted(pages::all(&Api::<Work>::all(client.clone()), selector).await.map_err(Into::into))
}

/// Number of rows by their state.
pub(super) fn sums(states: impl Iterator<Item = LinkState>) -> BTreeMap<String, usize> {
    states.fold(BTreeMap::new(), |mut sums, state| {
        *sums.entry(format!("{state:?}")).or_default() += 1;
        sums
    })
}
