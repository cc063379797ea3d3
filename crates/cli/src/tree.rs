//! `ironclad tree`: from a template over its policy, binding and Works to its copies, with the first broken link
//! marked.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    annotations,
    cluster::Cluster,
    labels, names,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_fleet::{
    BindingKey, ClusterName, Gvk, ObjectKey, World, targets,
    tree::{Explained, LinkState, Tree, explains_itself, tree},
};
use ironclad_planning::{views, why::explain};
use ironclad_propagation::{services::ServiceKey, skipped_resources::Skipped};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
    config::Kubeconfig,
};

use crate::{
    connect::Plane,
    members::{self, Silent},
    pages,
    print::{self, Output},
    report::{self, Misused},
    resource::{Resource, Resources, arguments},
    why::services::{self, Asked},
};

/// Show how a template reaches its clusters, and where it breaks.
///
/// From the template over its policy, binding and Works to the copies in the members, with the state of each; the first
/// broken link is marked. Of a MultiClusterService, the clusters that have its backends, and those where it is reached.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad tree deploy/web
  ironclad tree deployment web -n shop
  ironclad tree deploy/web --pods
  ironclad tree mcs/web                                  from which clusters to which
  ironclad tree clusterrole/reader -o json")]
pub struct Command {
    /// TYPE/NAME, or TYPE and NAME
    #[arg(value_name = "TYPE/NAME", required = true, num_args = 1..=2)]
    pub resource: Vec<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Show the Pods of each copy, too
    #[arg(long)]
    pub pods: bool,
    /// Output format
    #[arg(short, long, value_parser = Output::without(&[Output::Wide]), default_value = "table", value_name = "FORMAT")]
    pub output: Output,
    /// Timeout for the answer of a member
    #[arg(long, value_parser = crate::duration, default_value = "5s", value_name = "DURATION")]
    pub timeout: Duration,
    #[command(flatten)]
    pub way: members::Way,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If the template does not exist, or the control plane does not answer.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    if let Some(Asked::Service(name)) = services::asked(&command.resource) {
        let namespace = command.namespace.as_deref().unwrap_or(client.default_namespace());
        let (mcs, explanation) = services::look(&client, &ServiceKey::new(namespace, &name), clock).await?;
        let row = views::multi_cluster_service(&mcs, &explanation);
        return shown(command.output, &views::service_tree(&row));
    }
    let [(kind, names)] =
        arguments(&command.resource)?.try_into().map_err(|_| Misused("one TYPE/NAME is shown at a time".into()))?;
    let [name] = names.as_slice() else {
        return Err(Misused(format!("{kind} without a name\n  try: ironclad tree {kind}/NAME")).into());
    };
    let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let kubeconfig = command.plane.kubeconfig().ok();
    let Command { way, timeout, pods, .. } = *command;
    let way = Ways { client: &client, kubeconfig: kubeconfig.as_ref(), way, timeout, pods };
    let seen = look(&way, clock, &kind, &namespace, name).await?;
    if seen.without_works {
        print::note("left out: Works, which you may not read; what is applied is told by the binding");
    }
    seen.silent.print();
    // The control plane answered.
    seen.silent.verdict(seen.asked, true, false)?;
    shown(command.output, &seen.tree)
}

fn shown(output: Output, tree: &Tree) -> anyhow::Result<()> {
    match output {
        Output::Table | Output::Wide => print::out(&print::drawn(rendered(tree))),
        Output::Name => print::out(&tree.links.iter().map(|link| link.object.clone() + "\n").collect::<String>()),
        Output::Json | Output::Yaml => print::out(&print::objects(output, &[serde_json::to_value(tree)?])?),
    }
}

/// Ways to the objects of a tree.
pub(crate) struct Ways<'a> {
    pub(crate) client: &'a Client,
    pub(crate) kubeconfig: Option<&'a Kubeconfig>,
    pub(crate) way: members::Way,
    /// Time for the answer of a member.
    pub(crate) timeout: Duration,
    /// Pods are shown, too.
    pub(crate) pods: bool,
}

/// A tree, and what is missing in it.
pub(crate) struct Seen {
    pub(crate) tree: Tree,
    /// The members that were asked.
    pub(crate) asked: usize,
    /// Those that did not answer.
    pub(crate) silent: Silent,
    /// Works may not be read.
    pub(crate) without_works: bool,
    /// Its binding, if it has one.
    pub(crate) binding: Option<BindingKey>,
}

/// Looks at a template and at all that it leads to.
///
/// # Errors
/// If the template does not exist, or the control plane does not answer.
pub(crate) async fn look(
    ways: &Ways<'_>,
    clock: &Clock,
    kind: &str,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Seen> {
    let client = ways.client;
    let resource = Resources::of(client).await.context("asking the control plane what it serves")?.find(kind)?;
    let namespace = if resource.namespaced { namespace } else { "" };
    refuse_ours(client, &resource, namespace, name, "tree").await?;
    let (mut world, without_works) = related(client, &resource, namespace, name).await?;
    let key = key(&resource, namespace, name);
    let explained = explained(client, &mut world, clock, kind, namespace, &key).await?;
    let explained = Explained { without_works: without_works || explained.without_works, ..explained };
    let clusters: Vec<Cluster> = world.clusters.values().map(|cluster| (**cluster).clone()).collect();
    let members = members::connect(client, ways.kubeconfig, ways.way, &clusters).await;
    let copies = members::ask(&members, clock, ways.timeout, async |_, client| {
        let copy = api(client.clone(), &resource, namespace).get_opt(name).await;
        let copy = copy.map_err(|error| report::answer(&error))?;
        let pods = match &copy {
            Some(copy) if ways.pods => pods(client, copy, namespace).await?,
            _ => Vec::new(),
        };
        Ok((copy, pods))
    })
    .await;
    for (cluster, (copy, pods)) in copies.answered {
        let cluster = ClusterName::from(cluster.as_str());
        world.members.entry(cluster.clone()).or_default();
        if let Some(object) = copy {
            world.insert_member(cluster.clone(), whole(&object, &resource)?);
        }
        pods.into_iter().for_each(|pod| world.insert_member(cluster.clone(), pod));
    }
    let without_works = explained.without_works;
    let binding = world.all_bindings().next().map(|binding| binding.key());
    let Some(tree) = tree(&world, &key, &explained) else { bail!("{key} does not exist") };
    Ok(Seen { tree, asked: members.len(), silent: copies.silent, without_works, binding })
}

/// The Pods that a copy selects.
async fn pods(client: Client, copy: &DynamicObject, namespace: &str) -> Result<Vec<serde_json::Value>, String> {
    let Some(selector) = crate::logs::pod_selector(&copy.data) else { return Ok(Vec::new()) };
    let found = pages::all(&Api::<Pod>::namespaced(client, namespace), ListParams::default().labels(&selector)).await;
    let found = found.map_err(|error| report::answer(&error))?;
    let typed = |pod: Pod| {
        let mut object = serde_json::to_value(pod).map_err(|error| error.to_string())?;
        (object["apiVersion"], object["kind"]) = ("v1".into(), "Pod".into());
        Ok(object)
    };
    found.into_iter().map(typed).collect()
}

/// Refuses objects that propagation itself makes or reads: they are no templates. For a binding names its template.
pub(crate) async fn refuse_ours(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
    verb: &str,
) -> anyhow::Result<()> {
    let gvk = Gvk::from_manifest(&resource.api.api_version, &resource.api.kind);
    if !Skipped::default().skips_kind(&gvk) {
        return Ok(());
    }
    let object = api(client.clone(), resource, namespace).get_opt(name).await.ok().flatten();
    let of = |field: &str| {
        let object = object.as_ref()?;
        object.data.pointer(&format!("/spec/resource/{field}")).and_then(serde_json::Value::as_str)
    };
    let template = match (of("kind"), of("name")) {
        (Some(kind), Some(name)) => {
            let at = of("namespace").filter(|at| !at.is_empty()).map_or(String::new(), |at| format!(" -n {at}"));
            format!("{}/{name}{at}, its template", kind.to_lowercase())
        }
        _ => "TYPE/NAME of a template".to_owned(),
    };
    let kind = &resource.api.kind;
    Err(Misused(format!("{kind} {name} is no template\n  try: ironclad {verb} {template}")).into())
}

/// Asks the decisions for what the objects of the chain do not show: why there is no claim, or no binding.
async fn explained(
    client: &Client,
    world: &mut World,
    clock: &Clock,
    kind: &str,
    namespace: &str,
    key: &ObjectKey,
) -> anyhow::Result<Explained> {
    if explains_itself(world, key) {
        return Ok(Explained::default());
    }
    let settings = crate::leader::settings(client).await;
    let read = crate::why::read::live(client, clock, kind, Some(namespace), &key.name, settings).await?;
    let (fleet, interpreter, key) = read;
    let Some(explanation) = explain(&fleet, &key, &interpreter, clock.wall_seconds()) else {
        return Ok(Explained::default());
    };
    let mut explained = explanation.for_tree();
    if let Some(placed) = &explained.placed {
        for (name, cluster) in &fleet.world.clusters {
            world.insert_cluster((**cluster).clone());
            let works = Api::<Work>::namespaced(client.clone(), &names::execution_namespace(&name.0));
            let works = &works;
            let read = placed.works.iter().map(async |work| works.get_opt(work).await);
            let found: Result<Vec<Option<Work>>, _> =
                stream::iter(read).buffered(members::ASKED_MAX).try_collect().await;
            let found = report::permitted(found.map_err(Into::into))?;
            explained.without_works |= found.is_none();
            found.into_iter().flatten().flatten().for_each(|work| world.insert_work(work));
        }
    }
    Ok(explained)
}

pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> ObjectKey {
    let gvk = Gvk::from_manifest(&resource.api.api_version, &resource.api.kind);
    ObjectKey { gvk, namespace: namespace.into(), name: name.into() }
}

pub(crate) fn api(client: Client, resource: &Resource, namespace: &str) -> Api<DynamicObject> {
    if namespace.is_empty() {
        Api::all_with(client, &resource.api)
    } else {
        Api::namespaced_with(client, namespace, &resource.api)
    }
}

/// The object with its `apiVersion` and `kind`, whichever the server left out.
pub(crate) fn whole(object: &DynamicObject, resource: &Resource) -> anyhow::Result<serde_json::Value> {
    let mut value = serde_json::to_value(object)?;
    value["apiVersion"] = resource.api.api_version.clone().into();
    value["kind"] = resource.api.kind.clone().into();
    Ok(value)
}

/// Reads the objects of the template's propagation from the control plane alone; true if Works may not be read.
pub(crate) async fn related(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(World, bool)> {
    let mut world = World::default();
    let Some(template) = api(client.clone(), resource, namespace).get_opt(name).await? else {
        bail!("{} does not exist\n  try: ironclad get {} -A", key(resource, namespace, name), resource.api.plural)
    };
    let mark = |name: &str| template.annotations().get(name).map(String::as_str).filter(|text| !text.is_empty());
    if let Some(policy) = mark(annotations::PROPAGATION_POLICY_NAME) {
        let of = mark(annotations::PROPAGATION_POLICY_NAMESPACE).unwrap_or(namespace);
        let found = Api::<PropagationPolicy>::namespaced(client.clone(), of).get_opt(policy).await?;
        found.into_iter().for_each(|policy| world.insert_policy(policy));
    } else if let Some(policy) = mark(annotations::CLUSTER_PROPAGATION_POLICY_NAME) {
        let found = Api::<ClusterPropagationPolicy>::all(client.clone()).get_opt(policy).await?;
        found.into_iter().for_each(|policy| world.insert_cluster_policy(policy));
    }
    world.insert_template(whole(&template, resource)?);
    let binding = names::binding_name(&resource.api.kind, name);
    let (spec, label, id) = if namespace.is_empty() {
        let Some(found) = Api::<ClusterResourceBinding>::all(client.clone()).get_opt(&binding).await? else {
            return Ok((world, false));
        };
        let (label, spec) = (labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID, found.spec.clone());
        let id = found.labels().get(label).cloned();
        world.insert_cluster_binding(found);
        (spec, label, id)
    } else {
        let found = Api::<ResourceBinding>::namespaced(client.clone(), namespace).get_opt(&binding).await?;
        let Some(found) = found else { return Ok((world, false)) };
        let (label, spec) = (labels::RESOURCE_BINDING_PERMANENT_ID, found.spec.clone());
        let id = found.labels().get(label).cloned();
        world.insert_binding(found);
        (spec, label, id)
    };
    let mut clusters = targets::expected_clusters(&spec);
    let mut without_works = false;
    if let Some(id) = id {
        let selector = ListParams::default().labels(&format!("{label}={id}"));
        let works =
            report::permitted(pages::all(&Api::<Work>::all(client.clone()), selector).await.map_err(Into::into))?;
        without_works = works.is_none();
        works.into_iter().flatten().for_each(|work| world.insert_work(work));
        // A member may still have a copy that it does not delete.
        clusters.extend(world.works.keys().map(|key| key.cluster.clone()));
    }
    for cluster in of_names(client, &clusters).await? {
        world.insert_cluster(cluster);
    }
    Ok((world, without_works))
}

async fn of_names(client: &Client, wanted: &BTreeSet<ClusterName>) -> Result<Vec<Cluster>, kube::Error> {
    let api: &Api<Cluster> = &Api::all(client.clone());
    let read = wanted.iter().map(async |name| api.get_opt(&name.0).await);
    let found: Vec<Option<Cluster>> = stream::iter(read).buffered(members::ASKED_MAX).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Prints the tree as indented lines.
fn rendered(tree: &Tree) -> String {
    let mut text = String::new();
    for (i, link) in tree.links.iter().enumerate() {
        let rest = tree.links.get(i + 1..).unwrap_or_default();
        for depth in 1..link.depth {
            // A bar where a later link still hangs from that depth.
            let goes_on = rest.iter().take_while(|later| later.depth >= depth).any(|later| later.depth == depth);
            text.push_str(if goes_on { "│  " } else { "   " });
        }
        if link.depth > 0 {
            let last =
                !rest.iter().take_while(|later| later.depth >= link.depth).any(|later| later.depth == link.depth);
            text.push_str(if last { "└─ " } else { "├─ " });
        }
        let mark = match link.state {
            LinkState::Ok => "✓",
            LinkState::Waiting => "…",
            LinkState::Broken => "✗",
        };
        text.push_str(&format!("{mark} {}", link.object));
        if !link.detail.is_empty() {
            text.push_str(&format!(" – {}", print::line(&link.detail)));
        }
        if tree.first_broken == Some(i) {
            let under_way = link.state == LinkState::Waiting;
            text.push_str(if under_way { "   <-- waits for this" } else { "   <-- look here first" });
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use ironclad_fleet::tree::Link;

    use super::*;

    #[test]
    fn tree_is_printed_with_branches() {
        let link = |depth, object: &str, state| Link { depth, object: object.to_owned(), state, detail: String::new() };
        let mut links = vec![
            link(0, "Deployment shop/web", LinkState::Ok),
            link(1, "PropagationPolicy shop/p", LinkState::Ok),
            link(2, "ResourceBinding shop/web-deployment", LinkState::Ok),
            link(3, "Cluster m1", LinkState::Ok),
            link(4, "Work m1/w", LinkState::Broken),
            link(3, "Cluster m2", LinkState::Ok),
            link(4, "Work m2/w", LinkState::Waiting),
        ];
        links[4].detail = "AppliedFailed: denied".to_owned();
        let tree = Tree { links, first_broken: Some(4) };
        let expected = "\
✓ Deployment shop/web
└─ ✓ PropagationPolicy shop/p
   └─ ✓ ResourceBinding shop/web-deployment
      ├─ ✓ Cluster m1
      │  └─ ✗ Work m1/w – AppliedFailed: denied   <-- look here first
      └─ ✓ Cluster m2
         └─ … Work m2/w
";
        assert_eq!(rendered(&tree), expected);
        let under_way = Tree { links: vec![link(0, "Work m2/w", LinkState::Waiting)], first_broken: Some(0) };
        assert_eq!(rendered(&under_way), "… Work m2/w   <-- waits for this\n");
    }
}
