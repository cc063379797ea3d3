//! Services over clusters.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    gates::Gate,
    labels,
    multicluster::{ServiceExport, ServiceImport},
    names,
    networking::MultiClusterService,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{BindingRef, ClusterName, Clusters};
use ironclad_planning::views::{self, ServiceRow};
use ironclad_propagation::services::{
    ServiceKey,
    collect::Flow,
    explain::{Source, sources},
    export_of, import, mcs_of,
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{Client, Resource, ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use super::{kept::Kept, observe};
use crate::{members::ASKED_MAX, pages, report::permitted, why};

/// The view of all services over clusters.
pub(super) async fn look(client: &Client, kept: &Kept, clock: &Clock) -> anyhow::Result<Value> {
    let mut notes = Vec::new();
    let clusters = kept.clusters.all(client).await?.into_iter();
    let clusters: Clusters =
        clusters.map(|cluster| (ClusterName::from(cluster.name_any().as_str()), cluster)).collect();
    let services = listed::<MultiClusterService>(client, &mut notes).await?;
    let exports = listed::<ServiceExport>(client, &mut notes).await?;
    let imports = listed::<ServiceImport>(client, &mut notes).await?;
    let mut rows = multi_cluster_services(client, clock, &services, &clusters, &mut notes).await?;
    let exported =
        if exports.is_empty() && imports.is_empty() { BTreeMap::new() } else { collected(client, &mut notes).await? };
    let nothing = BTreeMap::new();
    let of = |namespace: &str, name: &str| exported.get(&ServiceKey::new(namespace, name)).unwrap_or(&nothing);
    rows.extend(exports.iter().map(|export| {
        let (namespace, name) = (export.namespace().unwrap_or_default(), export.name_any());
        views::service_export(export, of(&namespace, &name))
    }));
    let bindings = bindings(client, &imports, &mut notes).await?;
    for (import, binding) in imports.iter().zip(&bindings) {
        let (namespace, name) = (import.namespace().unwrap_or_default(), import.name_any());
        rows.push(views::service_import(import, of(&namespace, &name), binding.as_ref().map(BindingRef::from)));
    }
    let rows = views::services(rows);
    Ok(json!({ "sums": observe::sums(rows.iter().map(|row| row.state)), "rows": rows, "notes": notes }))
}

/// All objects of a kind; none if they may not be listed, or if the kind is not served.
async fn listed<K>(client: &Client, notes: &mut Vec<String>) -> anyhow::Result<Vec<K>>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    let found = pages::all(&Api::<K>::all(client.clone()), ListParams::default()).await;
    let found = match found {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            notes.push(format!("the control plane does not serve {}.{}", K::plural(&()), K::group(&())));
            return Ok(Vec::new());
        }
        other => permitted(other.map_err(Into::into))?,
    };
    if found.is_none() {
        notes.push(format!("you may not list {}.{} in all namespaces", K::plural(&()), K::group(&())));
    }
    Ok(found.unwrap_or_default())
}

async fn multi_cluster_services(
    client: &Client,
    clock: &Clock,
    services: &[MultiClusterService],
    clusters: &Clusters,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<ServiceRow>> {
    if services.is_empty() {
        return Ok(Vec::new());
    }
    if observe::is_off(client, Gate::MultiClusterService).await {
        notes.push("feature gate MultiClusterService is off: nothing is done for MultiClusterServices".to_owned());
    }
    let works: Api<Work> = Api::all(client.clone());
    let selector = ListParams::default().labels(labels::MULTI_CLUSTER_SERVICE_NAME);
    let found = permitted(pages::all(&works, selector).await.map_err(Into::into))?;
    if found.is_none() {
        notes.push(
            "you may not list works.work.karmada.io: EndpointSlices of MultiClusterServices are not known".into(),
        );
    }
    let mut by_service = BTreeMap::<ServiceKey, Vec<Arc<Work>>>::new();
    for work in found.into_iter().flatten() {
        let Some(key) = mcs_of(&work) else { continue };
        by_service.entry(key).or_default().push(Arc::new(work));
    }
    if clusters.values().any(|cluster| !cluster.is_ready()) {
        notes.push(why::services::ASSUMED.to_owned());
    }
    let (mut rows, mut near) = (Vec::new(), None);
    for mcs in services {
        let key = ServiceKey::new(&mcs.namespace().unwrap_or_default(), &mcs.name_any());
        let own = by_service.get(&key).map(Vec::as_slice).unwrap_or_default();
        let now = clock.wall_seconds();
        let explanation = why::services::explained(client, (&key, mcs), clusters, own, &mut near, now).await?;
        rows.push(views::multi_cluster_service(mcs, &explanation));
    }
    Ok(rows)
}

/// By exported Service the clusters whose EndpointSlices were collected.
async fn collected(
    client: &Client,
    notes: &mut Vec<String>,
) -> anyhow::Result<BTreeMap<ServiceKey, BTreeMap<ClusterName, Source>>> {
    let selector = ListParams::default().labels(labels::ENDPOINT_SLICE_NAME);
    let found = permitted(pages::all(&Api::<Work>::all(client.clone()), selector).await.map_err(Into::into))?;
    let Some(found) = found else {
        notes.push("you may not list works.work.karmada.io: EndpointSlices of exports are not known".to_owned());
        return Ok(BTreeMap::new());
    };
    let mut by_service = BTreeMap::<ServiceKey, Vec<Work>>::new();
    for work in found {
        let Some(key) = export_of(&work) else { continue };
        by_service.entry(key).or_default().push(work);
    }
    Ok(by_service.into_iter().map(|(key, works)| (key, sources(&works, Flow::ServiceExport))).collect())
}

/// The binding of each of these imports, if a policy propagates it.
async fn bindings(
    client: &Client,
    imports: &[ServiceImport],
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Option<ResourceBinding>>> {
    let read = imports.iter().map(async |one| {
        let bindings = Api::<ResourceBinding>::namespaced(client.clone(), &one.namespace().unwrap_or_default());
        bindings.get_opt(&names::binding_name(import::KIND, &one.name_any())).await
    });
    let found: Result<Vec<_>, _> = stream::iter(read).buffered(ASKED_MAX).try_collect().await;
    let found = permitted(found.map_err(Into::into))?;
    if found.is_none() {
        notes.push("you may not read resourcebindings.work.karmada.io: consumers of imports are not known".to_owned());
    }
    Ok(found.unwrap_or_else(|| vec![None; imports.len()]))
}
