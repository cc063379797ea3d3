//! Reads the fleet once: every kind that invariants use, and the objects in members that have our labels.

use std::{collections::BTreeMap, collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use ironclad_api::{config::ResourceInterpreterWebhookConfiguration, crds::crds, labels};
use ironclad_fleet::{ClusterName, Gvk, World};
use ironclad_interpreter::{Interpreter, ReplicasPaths, replicas_paths, webhook::Webhooks};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::{
    api::apps::v1::ReplicaSet, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;

use crate::{
    members::{Member, Silent, ask_telling},
    plan::read::every,
    print,
    report::answer,
    resource::{Resource, Resources},
    tree::whole,
    why::read::interpreter,
};
use ironclad_planning::doctor::{
    Finding, Grade,
    controllers::{Others, findings, kind_of, to_count},
};

/// Objects that are listed at a time.
const PAGE: u32 = 500;

/// Objects that were read.
pub(super) struct Read {
    pub(super) world: World,
    /// Answers about kinds, as far as webhooks need not be asked.
    pub(super) interpreter: Interpreter,
    /// Findings made while reading.
    pub(super) findings: Vec<Finding>,
    /// Members that did not answer.
    pub(super) silent: Silent,
}

/// Reads the control plane, and the members at the same time, each no longer than `patience`; those that were silent
/// before are not asked again.
pub(super) async fn all(
    plane: &Client,
    clock: &Clock,
    members: &[Member],
    patience: Duration,
    silent: Silent,
) -> anyhow::Result<Read> {
    let mut read = Read {
        world: World::default(),
        interpreter: Interpreter::default(),
        findings: readiness(plane).await.into_iter().collect(),
        silent,
    };
    let resources = Resources::of(plane).await.context("asking the control plane what it serves")?;
    let replicas_paths = definitions(plane, &mut read).await?;
    let world = &mut read.world;
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_cluster(one));
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_policy(one));
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_cluster_policy(one));
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_taint_policy(one));
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_binding(one));
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_cluster_binding(one));
    every(Api::all(plane.clone())).await?.into_iter().for_each(|one| world.insert_work(one));
    let hooks: Vec<ResourceInterpreterWebhookConfiguration> = every(Api::all(plane.clone())).await?;
    read.interpreter = interpreter(clock, &every(Api::all(plane.clone())).await?, Webhooks::new(&hooks))
        .with_replicas_paths(replicas_paths.into());
    let kinds = templates(world);
    for resource in kinds.iter().filter_map(|kind| resource_of(&resources, kind)) {
        for object in list(plane, &resource, None).await.map_err(|error| anyhow::anyhow!(answer(&error)))? {
            world.insert_template(whole(&object, &resource)?);
        }
    }
    replica_sets(plane, &mut read).await?;
    let of_members = manifests(&read.world);
    let asked = members.iter().filter(|member| !read.silent.contains(&member.name));
    let question = async |member: &Member, client: Client| {
        let wanted = of_members.get(&ClusterName::from(member.name.as_str()));
        within_member(&client, &resources, wanted.into_iter().flatten()).await
    };
    let answers = ask_telling(asked, clock, patience, question, print::note).await;
    for (name, found) in answers.answered {
        let cluster = ClusterName::from(name.as_str());
        read.world.members.entry(cluster.clone()).or_default();
        found.objects.into_iter().for_each(|object| read.world.insert_member(cluster.clone(), object));
        for (kind, why) in found.unlisted {
            let line = format!("{kind} in cluster {name} could not be checked: {why}");
            read.findings.push(Finding::new(Grade::Warning, line));
            read.world.unlisted.insert((cluster.clone(), kind));
        }
    }
    read.silent.extend(answers.silent);
    for (name, why) in read.silent.iter() {
        read.findings.push(Finding::new(Grade::Warning, format!("cluster {name} could not be checked: {why}")));
    }
    if let Err(error) = read.silent.verdict(members.len(), members.is_empty(), false) {
        let line = error.to_string();
        read.findings.push(Finding::new(Grade::Broken, line.lines().next().unwrap_or_default().to_owned()));
    }
    Ok(read)
}

/// Finding that the API server itself is not ready, with its words on each check that fails: a store that takes no
/// writes still answers every list.
async fn readiness(plane: &Client) -> Option<Finding> {
    let refused = said(plane, "/readyz").await.err()?;
    let failed = refused.lines().filter_map(|line| line.strip_prefix("[-]")?.split_whitespace().next());
    let mut words = Vec::new();
    for check in failed {
        let why = said(plane, &format!("/readyz/{check}")).await.err().unwrap_or_else(|| "passes by now".to_owned());
        let why = why.trim().trim_start_matches("internal server error: ").to_owned();
        words.push(format!("check {check} fails: {why}"));
    }
    if words.is_empty() {
        words.push(refused.lines().next().unwrap_or_default().to_owned());
    }
    let line = format!("the control plane's API server is not ready: {}", words.join("; "));
    let remedy = "the log of the API server, and free space on the disk of its store; then start it again";
    Some(Finding::new(Grade::Broken, line).remedy(remedy))
}

/// Error with the words of a health check that fails. Whoever may not ask it, or finds none, learns nothing.
async fn said(plane: &Client, path: &str) -> Result<(), String> {
    let Ok(request) = http::Request::get(path).body(Vec::new()) else { return Ok(()) };
    match plane.request_text(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code < 500 => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        // Whether there is an answer at all is found by the lists.
        Err(_) => Ok(()),
    }
}

/// `apiVersion` and kind.
type Kind = (String, String);

/// The kinds of all templates that have a binding, Namespaces, which are synced without one, and
/// HorizontalPodAutoscalers, which members may run without one.
fn templates(world: &World) -> BTreeSet<Kind> {
    let namespaced = world.bindings.values().map(|binding| &binding.spec.resource);
    let resources = namespaced.chain(world.cluster_bindings.values().map(|binding| &binding.spec.resource));
    let kinds = resources.map(|resource| (resource.api_version.clone(), resource.kind.clone()));
    let unbound = [("v1", "Namespace"), ("autoscaling/v2", "HorizontalPodAutoscaler")];
    kinds.chain(unbound.map(|(api_version, kind)| (api_version.to_owned(), kind.to_owned()))).collect()
}

/// The kinds that each cluster's Works bring to it.
fn manifests(world: &World) -> BTreeMap<ClusterName, BTreeSet<Kind>> {
    let mut all: BTreeMap<ClusterName, BTreeSet<Kind>> = BTreeMap::new();
    for (key, work) in &world.works {
        for manifest in &work.spec.workload.manifests {
            let named = manifest.named();
            all.entry(key.cluster.clone()).or_default().insert((named.api_version, named.kind));
        }
    }
    all
}

fn resource_of(resources: &Resources, (api_version, kind): &Kind) -> Option<Resource> {
    resources.of_kind(api_version, kind).cloned()
}

/// Lists the objects of a kind, all or those with these labels.
async fn list(client: &Client, resource: &Resource, labels: Option<&str>) -> Result<Vec<DynamicObject>, kube::Error> {
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource.api);
    let mut params = ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() }.limit(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&params).await?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// Objects of a member that carry our mark.
#[derive(Default)]
struct Found {
    objects: Vec<Value>,
    /// Kinds that the member refused to list, each with its answer: a dead conversion webhook of one says nothing
    /// about the others.
    unlisted: Vec<(Gvk, String)>,
}

/// Lists the objects of these kinds in the member.
async fn within_member<'a>(
    client: &Client,
    resources: &Resources,
    wanted: impl Iterator<Item = &'a Kind>,
) -> Result<Found, String> {
    // A member without objects of ours is checked only if it answers, too.
    client.apiserver_version().await.map_err(|error| answer(&error))?;
    let managed = format!("{}={}", labels::MANAGED, labels::TRUE);
    let mut found = Found::default();
    for (kind, resource) in wanted.filter_map(|kind| Some((kind, resource_of(resources, kind)?))) {
        match list(client, &resource, Some(&managed)).await {
            Ok(objects) => {
                for object in objects {
                    found.objects.push(whole(&object, &resource).map_err(|error| error.to_string())?);
                }
            }
            // Without the kind it has no objects of it.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error @ kube::Error::Api(_)) => {
                found.unlisted.push((Gvk::from_manifest(&kind.0, &kind.1), answer(&error)));
            }
            Err(error) => return Err(answer(&error)),
        }
    }
    Ok(found)
}

/// Finds kinds of ours that the control plane does not serve. Returns where defined kinds have their replicas.
async fn definitions(plane: &Client, read: &mut Read) -> anyhow::Result<ReplicasPaths> {
    let present = every(Api::<CustomResourceDefinition>::all(plane.clone())).await?;
    let paths = present.iter().flat_map(replicas_paths).collect();
    let present: BTreeSet<String> = present.iter().map(|definition| definition.name_any()).collect();
    let missing: Vec<String> = crds().iter().map(|d| d.name_any()).filter(|name| !present.contains(name)).collect();
    if !missing.is_empty() {
        read.findings.push(
            Finding::new(Grade::Broken, format!("CustomResourceDefinitions are missing: {}", missing.join(", ")))
                .remedy("ironclad crds --install"),
        );
    }
    Ok(paths)
}

/// Findings about the leader's controllers, if it tells of them.
pub(super) async fn controllers(plane: &Client, world: &World) -> anyhow::Result<Vec<Finding>> {
    let configuration = match crate::leader::configuration(plane).await {
        Ok(configuration) => configuration,
        Err(why) => return Ok(vec![Finding::new(Grade::Fine, format!("which controllers run is not known: {why}"))]),
    };
    let resources = Resources::of(plane).await.context("asking the control plane what it serves")?;
    let mut others = Others::new();
    for acts_on in to_count(&configuration.controllers) {
        let Some((api_version, kind)) = kind_of(acts_on) else { continue };
        let Some(resource) = resources.of_kind(api_version, kind) else { continue };
        let objects = list(plane, resource, None).await.map_err(|error| anyhow::anyhow!(answer(&error)))?;
        others.insert(acts_on, objects.len());
    }
    let mut found = findings(&configuration.controllers, world, &others);
    found.extend(super::quotas::finding(plane, &configuration.settings().gates, &resources).await);
    Ok(found)
}

/// ReplicaSets that a controller of Kubernetes made out of templates: the control plane would run them itself.
async fn replica_sets(plane: &Client, read: &mut Read) -> anyhow::Result<()> {
    let owned = |set: &ReplicaSet| set.owner_references().iter().any(|owner| owner.kind == "Deployment");
    let count = every(Api::<ReplicaSet>::all(plane.clone())).await?.iter().filter(|set| owned(set)).count();
    if count > 0 {
        let line = format!(
            "{count} ReplicaSets in the control plane are owned by templates: something acts on templates there"
        );
        let remedy = "run the control plane's kube-controller-manager without the controllers of workloads";
        read.findings.push(Finding::new(Grade::Warning, line).remedy(remedy));
    }
    Ok(())
}
