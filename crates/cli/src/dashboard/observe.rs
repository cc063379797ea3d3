//! Lists that several views need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Context as _;
use ironclad_api::{cluster::Cluster, gates::Gate, namespaces, work::Work};
use ironclad_dashboard::Reference;
use ironclad_failover::taint_manager::Row;
use ironclad_fleet::{Binding, ClusterName, targets, tree::LinkState};
use ironclad_planning::views::{self, BindingRow, Entry};
use ironclad_runtime::Api;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::{Client, ResourceExt as _, api::ListParams};

use super::kept::Kept;
use crate::{
    bindings,
    evictions::observe::leader_report_if_readable,
    pages,
    plan::read::every,
    report::permitted,
    resource::{Resource, Resources},
};

/// Events that are shown at most: a fleet in trouble makes more than anybody reads.
const EVENTS_MAX: usize = 2_000;

/// The rows of all bindings. Notes say which could not be read.
pub(super) async fn bindings(
    client: &Client,
    kept: &Kept,
    clusters: &[Arc<Cluster>],
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<BindingRow>> {
    let mut all: Vec<Binding> = Vec::new();
    match permitted(kept.bindings.all(client).await)? {
        Some(found) => all.extend(found.into_iter().map(Binding::from)),
        None => notes.push("you may not list resourcebindings.work.karmada.io in all namespaces".to_owned()),
    }
    match permitted(kept.cluster_bindings.all(client).await)? {
        Some(found) => all.extend(found.into_iter().map(Binding::from)),
        None => notes.push("you may not list clusterresourcebindings.work.karmada.io".to_owned()),
    }
    Ok(views::workloads(all.iter().map(Binding::view), &unready(clusters)))
}

/// True if the leader says that a feature gate is off.
pub(super) async fn is_off(client: &Client, gate: Gate) -> bool {
    let known = crate::leader::configuration(client).await;
    known.is_ok_and(|configuration| !configuration.settings().gates.enabled(gate))
}

fn unready(clusters: &[Arc<Cluster>]) -> BTreeSet<ClusterName> {
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

/// Events of all namespaces that are wanted: the newest ones, newest first.
pub(super) async fn events(
    client: &Client,
    kept: &Kept,
    is_wanted: impl Fn(&Event) -> bool,
) -> anyhow::Result<Vec<Entry>> {
    let found = kept.events.all(client).await?;
    Ok(newest(found.iter().map(Arc::as_ref).filter(|event| is_wanted(event))))
}

/// Events of a namespace, the newest first, for users who may not list all of them.
pub(super) async fn events_in(client: &Client, namespace: &str) -> anyhow::Result<Vec<Entry>> {
    let found = pages::all(&Api::<Event>::namespaced(client.clone(), namespace), ListParams::default()).await?;
    Ok(newest(found.iter()))
}

fn newest<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Entry> {
    let mut all = views::timeline(events.filter_map(|event| views::event(&serde_json::to_value(event).ok()?)));
    all.truncate(EVENTS_MAX);
    all
}

/// The Works of a binding; none if they may not be read.
pub(super) async fn works(client: &Client, binding: &Binding) -> anyhow::Result<Option<Vec<Work>>> {
    let view = binding.view();
    let Some(id) = view.permanent_id() else { return Ok(Some(Vec::new())) };
    let selector = ListParams::default().labels(&format!("{}={id}", view.id_label()));
    permitted(pages::all(&Api::<Work>::all(client.clone()), selector).await.map_err(Into::into))
}

/// Note about a template without a binding.
pub(super) const NO_COPIES: &str = "it has no binding, so there are no copies";

/// The resource of a template, and the clusters that have copies of it; `None` without a binding. A cluster that the
/// binding names may be gone.
pub(super) async fn copies(client: &Client, template: &Reference) -> anyhow::Result<(Resource, Option<Vec<Cluster>>)> {
    let Reference { namespace, kind, name } = template;
    let resource = Resources::of(client).await.context("asking the control plane what it serves")?.find(kind)?;
    let namespace = if resource.namespaced { namespace.as_str() } else { "" };
    let Some(binding) = bindings::of(client, &resource, namespace, name).await? else { return Ok((resource, None)) };
    let targets: BTreeSet<String> =
        targets::targets(binding.spec()).into_iter().map(|target| target.cluster.to_string()).collect();
    let mut clusters = every(Api::<Cluster>::all(client.clone())).await?;
    clusters.retain(|cluster| targets.contains(&cluster.name_any()));
    Ok((resource, Some(clusters)))
}

/// Number of rows by their state.
pub(super) fn sums(states: impl Iterator<Item = LinkState>) -> BTreeMap<String, usize> {
    states.fold(BTreeMap::new(), |mut sums, state| {
        *sums.entry(format!("{state:?}")).or_default() += 1;
        sums
    })
}
