//! The fleet as it is, and as it would be with the applied objects in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use ironclad_api::{
    cluster::Cluster,
    config::ResourceInterpreterCustomization,
    policy::{ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy, ResourceSelector},
    work::{ClusterResourceBinding, ObjectReference, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::{Gvk, ObjectKey, PolicyKey};
use ironclad_interpreter::Dependency;
use ironclad_patch::merge::merge_patch;
use ironclad_propagation::{dependencies, template::Identity};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::Value;

use super::Fleet;
use crate::{
    plan::read::{every, take},
    report::answer,
    resource::{Resource, Resources},
};

/// Who asks for the dry runs.
const MANAGER: &str = "ironclad-plan";
/// Objects of a file that are planned for at once.
const OBJECTS_MAX: usize = 1_000;

/// What the answer is made of.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) before: Fleet,
    pub(super) after: Fleet,
    /// The applied policies and templates.
    pub(super) policies: BTreeSet<PolicyKey>,
    pub(super) templates: BTreeSet<ObjectKey>,
    /// Scripts of the fleet about kinds, as it would be.
    pub(super) customizations: Vec<ResourceInterpreterCustomization>,
    /// What becomes of the applied objects themselves.
    pub(super) objects: Vec<Object>,
}

/// An object that is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Object {
    /// As its key is written.
    pub name: String,
    /// What becomes of it.
    pub change: Change,
}

/// What applying would make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It is new.
    Created,
    /// It is another than now.
    Configured,
    /// It is so already.
    Unchanged,
}

impl Change {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }

    fn of(standing: Option<&Value>, then: &Value) -> Self {
        let bare = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|key, _| !matches!(key.as_str(), "managedFields" | "resourceVersion" | "generation"));
            }
            object
        };
        match standing {
            None => Self::Created,
            Some(standing) if bare(standing) == bare(then) => Self::Unchanged,
            Some(_) => Self::Configured,
        }
    }
}

/// Objects of a dump, and the file over them: as a merge patch of those that are there.
pub(super) fn dump(standing: Vec<Value>, documents: Vec<Value>, namespace: &str) -> anyhow::Result<Seen> {
    bounded(&documents)?;
    let mut all: BTreeMap<ObjectKey, Value> = BTreeMap::new();
    for object in standing {
        all.insert(Identity::of(&object).key(), object);
    }
    // Which kinds have no namespace is not known from a file; ours are, and those that the dump has.
    let mut applied = Vec::new();
    for mut document in documents {
        let identity = Identity::of(&document);
        let (kind, named) = (identity.kind.to_owned(), !identity.namespace.is_empty());
        let is_global = is_global(&kind) || all.keys().any(|key| *key.gvk.kind == *kind && key.namespace.is_empty());
        if !named && !is_global {
            document["metadata"]["namespace"] = namespace.into();
        }
        let there = all.get(&Identity::of(&document).key());
        let then = match there {
            Some(there) => {
                let mut then = there.clone();
                merge_patch(&mut then, &document);
                then
            }
            None => document,
        };
        applied.push((there.cloned(), then));
    }
    let mut seen = Seen::default();
    for object in all.into_values() {
        seen.keep(object)?;
    }
    seen.apply(applied)?;
    Ok(seen)
}

/// What a control plane has, and what it would make of the file: each object goes through its admission as a dry run.
pub(super) async fn live(
    client: &Client,
    documents: Vec<Value>,
    namespace: Option<&str>,
) -> anyhow::Result<(Seen, Resources)> {
    bounded(&documents)?;
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
        let parameters = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER).force() };
        match api.patch(&name, &parameters, &Patch::Apply(&document)).await {
            Ok(then) => applied.push((there, crate::tree::whole(&then, resource)?)),
            // Its namespace comes with it, so nobody can be asked yet.
            Err(kube::Error::Api(status)) if status.code == 404 && namespaces.contains(&at) => {
                eprintln!("{name}: admission is not asked, as namespace {at} is not there yet");
                applied.push((None, document));
            }
            Err(error) => refused.push(format!("{} {name} would be refused: {}", resource.api.kind, answer(&error))),
        }
    }
    if !refused.is_empty() {
        bail!("{}", refused.join("\n"));
    }
    let mut seen = Seen::default();
    let world = &mut seen.before.world;
    every(Api::<Cluster>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_cluster(one));
    every(Api::<PropagationPolicy>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_policy(one));
    let policies = every(Api::<ClusterPropagationPolicy>::all(client.clone())).await?;
    policies.into_iter().for_each(|one| world.insert_cluster_policy(one));
    every(Api::<ResourceBinding>::all(client.clone())).await?.into_iter().for_each(|one| world.insert_binding(one));
    let bindings = every(Api::<ClusterResourceBinding>::all(client.clone())).await?;
    bindings.into_iter().for_each(|one| world.insert_cluster_binding(one));
    seen.before.overrides =
        every(Api::<OverridePolicy>::all(client.clone())).await?.into_iter().map(Arc::new).collect();
    let overrides = every(Api::<ClusterOverridePolicy>::all(client.clone())).await?;
    seen.before.cluster_overrides = overrides.into_iter().map(Arc::new).collect();
    seen.customizations = every(Api::all(client.clone())).await?;
    for (resource, namespace) in wanted(&seen.before, &applied, &resources) {
        let api: Api<DynamicObject> = crate::tree::api(client.clone(), &resource, &namespace);
        for object in of_resource(&api).await? {
            seen.before.world.insert_template(crate::tree::whole(&object, &resource)?);
        }
    }
    seen.apply(applied)?;
    Ok((seen, resources))
}

/// Every object of one resource, a page at a time.
async fn of_resource(api: &Api<DynamicObject>) -> anyhow::Result<Vec<DynamicObject>> {
    let (mut items, mut page) = (Vec::new(), kube::api::ListParams::default().limit(500));
    loop {
        let list = api.list(&page).await.map_err(said)?;
        items.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// The lists that hold all templates that the applied objects may concern: of the kinds that they select, now or then, and of the
/// bindings that they claim. An empty namespace is all of them.
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

impl Seen {
    /// Puts what workloads refer to into the fleet, as it is and as it would be, as far as it is there.
    pub(super) async fn fetch(
        &mut self,
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
                if !dependencies::selects(need, &identity) || self.after.world.templates.contains_key(&identity.key()) {
                    continue;
                }
                self.before.world.insert_template(object.clone());
                self.after.world.insert_template(object);
            }
        }
        Ok(())
    }

    /// Puts an object into the fleet as it is.
    fn keep(&mut self, object: Value) -> anyhow::Result<()> {
        put(&mut self.before, &mut self.customizations, object)
    }

    /// Puts the applied objects, each as it stands and as it would be, into the fleet as it would be.
    fn apply(&mut self, applied: Vec<(Option<Value>, Value)>) -> anyhow::Result<()> {
        self.after = self.before.clone();
        for (there, then) in applied {
            let identity = Identity::of(&then);
            let key = identity.key();
            self.objects.push(Object { name: key.to_string(), change: Change::of(there.as_ref(), &then) });
            let named = || PolicyKey { namespace: identity.namespace.into(), name: identity.name.into() };
            match (identity.group(), identity.kind) {
                ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => {
                    self.policies.insert(named());
                }
                ("policy.karmada.io" | "cluster.karmada.io" | "work.karmada.io" | "config.karmada.io", _) => {}
                _ => {
                    self.templates.insert(key);
                }
            }
            put(&mut self.after, &mut self.customizations, then)?;
        }
        Ok(())
    }
}

fn put(
    fleet: &mut Fleet,
    customizations: &mut Vec<ResourceInterpreterCustomization>,
    object: Value,
) -> anyhow::Result<()> {
    let identity = Identity::of(&object);
    let name = identity.name.to_owned();
    let what = || format!("{} {name}", object["kind"].as_str().unwrap_or_default());
    match (identity.group(), identity.kind) {
        ("policy.karmada.io", "OverridePolicy") => {
            let policy: OverridePolicy = serde_json::from_value(object.clone()).with_context(what)?;
            let key = (policy.metadata.namespace.clone(), policy.metadata.name.clone());
            fleet.overrides.retain(|one| (one.metadata.namespace.clone(), one.metadata.name.clone()) != key);
            fleet.overrides.push(Arc::new(policy));
        }
        ("policy.karmada.io", "ClusterOverridePolicy") => {
            let policy: ClusterOverridePolicy = serde_json::from_value(object.clone()).with_context(what)?;
            fleet.cluster_overrides.retain(|one| one.metadata.name != policy.metadata.name);
            fleet.cluster_overrides.push(Arc::new(policy));
        }
        ("config.karmada.io", "ResourceInterpreterCustomization") => {
            let customization: ResourceInterpreterCustomization =
                serde_json::from_value(object.clone()).with_context(what)?;
            customizations.retain(|one| one.metadata.name != customization.metadata.name);
            customizations.push(customization);
        }
        ("policy.karmada.io" | "cluster.karmada.io" | "work.karmada.io", _) => take(&mut fleet.world, object)?,
        _ => fleet.world.insert_template(object),
    }
    Ok(())
}

fn bounded(documents: &[Value]) -> anyhow::Result<()> {
    if documents.is_empty() {
        bail!("the file holds no object");
    }
    if documents.len() > OBJECTS_MAX {
        bail!("the file holds {} objects, more than {OBJECTS_MAX} are not planned for at once", documents.len());
    }
    for document in documents {
        let identity = Identity::of(document);
        if identity.kind.is_empty() || identity.api_version.is_empty() || identity.name.is_empty() {
            bail!("an object of the file has no apiVersion, kind or metadata.name");
        }
    }
    Ok(())
}

fn is_global(kind: &str) -> bool {
    kind.starts_with("Cluster")
        || matches!(
            kind,
            "Namespace" | "CustomResourceDefinition" | "PersistentVolume" | "ResourceInterpreterCustomization"
        )
}

fn said(error: kube::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", answer(&error))
}
