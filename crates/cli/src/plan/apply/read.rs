//! The fleet before and after the objects of a file are applied, from a control plane.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, bail};
use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy, ResourceSelector},
    work::{ClusterResourceBinding, ObjectReference, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::Gvk;
use ironclad_interpreter::Dependency;
use ironclad_planning::{
    Fleet,
    apply::{Apply, Planned, check},
};
use ironclad_propagation::{dependencies, priority::Class, template::Identity};
use ironclad_runtime::Api;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{
    Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::Value;

use crate::{
    plan::read::every,
    report::answer,
    resource::{Resource, Resources},
};

/// Field manager of the dry runs.
const MANAGER: &str = "ironclad-plan";

/// Reads the fleet and applies each object of the file as a dry run, so that admission and defaulting take part.
pub(in crate::plan) async fn live(
    client: &Client,
    documents: Vec<Value>,
    namespace: Option<&str>,
    mut report: impl FnMut(&str),
) -> anyhow::Result<(Planned, Resources)> {
    check(&documents)?;
    let resources = Resources::of(client).await.context("asking the control plane what it serves")?;
    let namespace = namespace.unwrap_or(client.default_namespace()).to_owned();
    let (mut applied, mut refused) = (Vec::new(), Vec::new());
    let come = |kind: &str| -> BTreeSet<String> {
        let of_kind = documents.iter().filter(|document| document["kind"] == kind);
        of_kind.map(|document| Identity::of(document).name.to_owned()).collect()
    };
    let namespaces = come("Namespace");
    for mut document in documents {
        let identity = Identity::of(&document);
        let name = identity.name.to_owned();
        let Some(resource) = resources.of_kind(identity.api_version, identity.kind) else {
            bail!(
                "the control plane does not serve {}\n  try: apply its CRD first",
                Gvk::from_manifest(identity.api_version, identity.kind)
            );
        };
        let at = match (resource.namespaced, identity.namespace) {
            (false, _) => String::new(),
            (true, "") => namespace.clone(),
            (true, named) => named.to_owned(),
        };
        if resource.namespaced {
            document["metadata"]["namespace"] = at.as_str().into();
        }
        let api = crate::tree::api(client.clone(), resource, &at);
        let there = api.get_opt(&name).await.map_err(said)?;
        let there = there.map(|object| crate::tree::whole(&object, resource)).transpose()?;
        let (parameters, patch) = dry_run(Apply::of(there.as_ref(), &document), &document);
        match api.patch(&name, &parameters, &patch).await {
            Ok(then) => applied.push((there, crate::tree::whole(&then, resource)?)),
            // Its namespace does not exist yet, so admission can't be asked.
            Err(kube::Error::Api(status)) if status.code == 404 && namespaces.contains(&at) => {
                report(&format!("{name}: admission is not asked, as namespace {at} does not exist yet"));
                applied.push((None, document));
            }
            Err(error) => refused.push(format!("{} {name} would be refused: {}", resource.api.kind, answer(&error))),
        }
    }
    if !refused.is_empty() {
        bail!("{}", refused.join("\n"));
    }
    let mut before = ours(client).await?;
    for (resource, namespace) in wanted(&before, &applied, &resources) {
        let api: Api<DynamicObject> = crate::tree::api(client.clone(), &resource, &namespace);
        for object in of_resource(&api).await? {
            before.world.insert_template(crate::tree::whole(&object, &resource)?);
        }
    }
    Ok((Planned::new(before, applied)?, resources))
}

/// The fleet with the templates of all bindings.
pub(in crate::plan) async fn fleet(client: &Client) -> anyhow::Result<Fleet> {
    let resources = Resources::of(client).await.context("asking the control plane what it serves")?;
    let mut fleet = ours(client).await?;
    let of_bindings: BTreeSet<(String, String)> = fleet
        .world
        .all_bindings()
        .map(|binding| (binding.spec().resource.api_version.clone(), binding.spec().resource.kind.clone()))
        .collect();
    for (api_version, kind) in of_bindings {
        let Some(resource) = resources.of_kind(&api_version, &kind) else { continue };
        for object in of_resource(&crate::tree::api(client.clone(), resource, "")).await? {
            fleet.world.insert_template(crate::tree::whole(&object, resource)?);
        }
    }
    Ok(fleet)
}

/// The objects of our own kinds that decisions on placement read, and the PriorityClasses.
async fn ours(client: &Client) -> anyhow::Result<Fleet> {
    let mut before = Fleet { settings: crate::leader::settings(client).await, ..Fleet::default() };
    let world = &mut before.world;
    every(Api::<Cluster>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_cluster(one));
    every(Api::<PropagationPolicy>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_policy(one));
    let policies = every(Api::<ClusterPropagationPolicy>::all(client.clone())).await?;
    policies.into_iter().for_each(|one| world.insert_cluster_policy(one));
    every(Api::<ResourceBinding>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_binding(one));
    let bindings = every(Api::<ClusterResourceBinding>::all(client.clone())).await?;
    bindings.into_iter().for_each(|one| world.insert_cluster_binding(one));
    before.overrides = every(Api::<OverridePolicy>::all(client.clone())).await?.into_iter().map(Arc::new).collect();
    let overrides = every(Api::<ClusterOverridePolicy>::all(client.clone())).await?;
    before.cluster_overrides = overrides.into_iter().map(Arc::new).collect();
    before.quotas = crate::plan::read::quotas(client, &before.settings).await?;
    before.customizations = every(Api::all(client.clone())).await?;
    before.priority_classes = match Api::<PriorityClass>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => {
            let manifests = list.items.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
            Some(manifests.iter().map(Class::of_manifest).collect())
        }
        // Whoever may not read them plans with the priorities that bindings have.
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        Err(error) => return Err(said(error)),
    };
    Ok(before)
}

/// Request that applies a manifest as a dry run.
fn dry_run(apply: Apply, manifest: &Value) -> (PatchParams, Patch<Value>) {
    let by_client = || PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let (parameters, patch) = match apply {
        Apply::ServerSide { manager } => {
            let manager = manager.as_deref().unwrap_or(MANAGER);
            (PatchParams::apply(manager).force(), Patch::Apply(manifest.clone()))
        }
        Apply::Strategic(patch) => (by_client(), Patch::Strategic(patch)),
        Apply::Merge(patch) => (by_client(), Patch::Merge(patch)),
    };
    (PatchParams { dry_run: true, ..parameters }, patch)
}

/// Every object of one resource, a page at a time.
async fn of_resource(api: &Api<DynamicObject>) -> anyhow::Result<Vec<DynamicObject>> {
    let (mut items, mut page) = (Vec::new(), ListParams::default().limit(500));
    loop {
        let list = api.list(&page).await.map_err(said)?;
        items.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// The lists that hold all templates that the applied objects may concern: of the kinds that they select, now or then,
/// and of the bindings that they claim. An empty namespace is all of them.
fn wanted(before: &Fleet, applied: &[(Option<Value>, Value)], resources: &Resources) -> Vec<(Resource, String)> {
    let mut found: BTreeSet<(String, String, String)> = BTreeSet::new();
    let of_bindings = |at: &str| -> Vec<ObjectReference> {
        let specs = before.world.bindings.values().map(|binding| &binding.spec);
        let specs = specs.chain(before.world.cluster_bindings.values().map(|binding| &binding.spec));
        let fits = |spec: &&ResourceBindingSpec| at.is_empty() || spec.resource.namespace == at;
        specs.filter(fits).map(|spec| spec.resource.clone()).collect()
    };
    for object in applied.iter().flat_map(|(there, then)| there.iter().chain([then])) {
        let identity = Identity::of(object);
        if identity.group() == "cluster.karmada.io" {
            // Any workload may be scheduled anew.
            let all = of_bindings("").into_iter();
            found.extend(all.map(|resource| (resource.api_version, resource.kind, resource.namespace)));
            continue;
        }
        let is_policy = identity.group() == "policy.karmada.io";
        if !is_policy {
            found.insert((identity.api_version.into(), identity.kind.into(), identity.namespace.into()));
            continue;
        }
        let selectors: Vec<ResourceSelector> =
            serde_json::from_value(object["spec"]["resourceSelectors"].clone()).unwrap_or_default();
        for selector in &selectors {
            let at = if identity.namespace.is_empty() { &selector.namespace } else { identity.namespace };
            found.insert((selector.api_version.clone(), selector.kind.clone(), at.to_owned()));
        }
        if selectors.is_empty() && identity.kind.ends_with("OverridePolicy") {
            // It applies to everything there.
            let all = of_bindings(identity.namespace).into_iter();
            found.extend(all.map(|resource| (resource.api_version, resource.kind, resource.namespace)));
        }
    }
    let is_in_all =
        |api_version: &str, kind: &str| found.contains(&(api_version.to_owned(), kind.to_owned(), String::new()));
    let lists = found.iter().filter(|(api_version, kind, at)| at.is_empty() || !is_in_all(api_version, kind));
    lists
        .filter_map(|(api_version, kind, at)| Some((resources.of_kind(api_version, kind)?.clone(), at.clone())))
        .collect()
}

/// Puts the objects that workloads refer to into the fleet before and after, if they exist.
pub(super) async fn fetch(
    planned: &mut Planned,
    client: &Client,
    resources: &Resources,
    needs: &[&Dependency],
) -> anyhow::Result<()> {
    for need in needs {
        let Some(resource) = resources.of_kind(&need.api_version, &need.kind) else { continue };
        let api: Api<DynamicObject> = crate::tree::api(client.clone(), resource, &need.namespace);
        let found = match need.name.as_str() {
            "" => of_resource(&api).await?,
            name => api.get_opt(name).await.map_err(said)?.into_iter().collect(),
        };
        for object in found {
            let object = crate::tree::whole(&object, resource)?;
            let identity = Identity::of(&object);
            // An applied one is known, as it would be.
            if !dependencies::selects(need, &identity) || planned.after.world.templates.contains_key(&identity.key()) {
                continue;
            }
            planned.before.world.insert_template(object.clone());
            planned.after.world.insert_template(object);
        }
    }
    Ok(())
}

fn said(error: kube::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", answer(&error))
}
