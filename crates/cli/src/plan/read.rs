//! The fleet that a plan is made for: from lists, or from a dump.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterTaintPolicy, FederatedResourceQuota},
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_fleet::{World, gates::Gate};
use ironclad_planning::{Fleet, Settings, world::insert};
use ironclad_runtime::Api;
use kube::{Client, Resource, api::ListParams};
use serde_json::Value;

use crate::{input, print, report::permitted};

/// Objects per page.
const PAGE: u32 = 500;
/// Largest size of a dump, bytes.
const DUMP_MAX: u64 = 1 << 30;

/// Reads the fleet from the control plane.
///
/// # Errors
/// If it does not answer.
pub async fn lists(client: &Client) -> anyhow::Result<World> {
    let mut world = World::default();
    all::<Cluster>(client).await?.into_iter().for_each(|cluster| world.insert_cluster(cluster));
    all::<ClusterTaintPolicy>(client).await?.into_iter().for_each(|policy| world.insert_taint_policy(policy));
    all::<ResourceBinding>(client).await?.into_iter().for_each(|binding| world.insert_binding(binding));
    let bindings = all::<ClusterResourceBinding>(client).await?;
    bindings.into_iter().for_each(|binding| world.insert_cluster_binding(binding));
    Ok(world)
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    every(Api::<K>::all(client.clone())).await
}

/// All FederatedResourceQuotas, if the leader enforces them. A user who may not read them plans without them, and is
/// warned.
///
/// # Errors
/// If the control plane does not answer.
pub(crate) async fn quotas(client: &Client, settings: &Settings) -> anyhow::Result<Vec<Arc<FederatedResourceQuota>>> {
    if !settings.gates.enabled(Gate::FederatedQuotaEnforcement) {
        return Ok(Vec::new());
    }
    let quotas = permitted(all::<FederatedResourceQuota>(client).await)?;
    if quotas.is_none() {
        print::note("not known here: FederatedResourceQuotas, which you may not list in all namespaces");
    }
    Ok(quotas.into_iter().flatten().map(Arc::new).collect())
}

/// Every object, a page at a time.
///
/// # Errors
/// If the server does not answer.
pub(crate) async fn every<K>(api: Api<K>) -> anyhow::Result<Vec<K>>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    let (mut items, mut page) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let list = api.list(&page).await.with_context(|| format!("listing {}", K::plural(&())))?;
        items.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// The fleet of a dump: YAML or JSON documents, Lists among them. Kinds that a plan does not need are left out.
///
/// # Errors
/// If the file can't be read, or holds no cluster.
pub fn dump(file: &Path) -> anyhow::Result<World> {
    let world = dumped(file).and_then(world).with_context(|| format!("the dump {} can't be used", file.display()))?;
    ensure!(
        !world.clusters.is_empty(),
        "the dump {} holds no Cluster\n  try: kubectl get clusters,clustertaintpolicies,resourcebindings,clusterresourcebindings -A -o yaml",
        file.display()
    );
    Ok(world)
}

/// The objects of a dump, `-` being stdin.
///
/// # Errors
/// If the file can't be read, or is neither YAML nor JSON.
pub(crate) fn dumped(file: &Path) -> anyhow::Result<Vec<Value>> {
    let path = file.to_str().with_context(|| format!("the name {} is not UTF-8", file.display()))?;
    objects(&input::read(path, DUMP_MAX)?)
}

/// The objects of documents, Lists among them.
///
/// # Errors
/// If it is neither YAML nor JSON.
pub(crate) fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = match serde_json::from_str::<Value>(text) {
        Ok(one) => vec![one],
        Err(_) => serde_saphyr::from_multiple(text).context("it is neither JSON nor YAML")?,
    };
    let mut found = Vec::new();
    for document in documents {
        flatten(&mut found, document)?;
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn parse(text: &str) -> anyhow::Result<World> {
    objects(text).and_then(world)
}

fn world(objects: Vec<Value>) -> anyhow::Result<World> {
    let mut world = World::default();
    for object in objects {
        insert(&mut world, object)?;
    }
    Ok(world)
}

/// The fleet of these objects, with all that decisions on placement read.
///
/// # Errors
/// If an object does not have the fields of its kind.
pub(super) fn fleet(objects: Vec<Value>) -> anyhow::Result<Fleet> {
    let mut fleet = Fleet::default();
    for object in objects {
        fleet.insert(object)?;
    }
    Ok(fleet)
}

fn flatten(found: &mut Vec<Value>, object: Value) -> anyhow::Result<()> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if object.is_null() {
        return Ok(());
    }
    let Some(of_items) = kind.strip_suffix("List") else {
        found.push(object);
        return Ok(());
    };
    let Some(Value::Array(items)) = object.get("items").cloned() else { bail!("a {kind} without items") };
    for mut item in items {
        // Items of a typed list don't repeat their type.
        if item.get("kind").is_none() {
            item["kind"] = of_items.into();
            item["apiVersion"] = api_version.as_str().into();
        }
        flatten(found, item)?;
    }
    Ok(())
}
