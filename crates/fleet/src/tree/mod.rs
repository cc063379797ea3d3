//! The chain from a template to its copies, link by link, and where it breaks first (specification/operations.md 2.20
//! `tree`).

use std::{collections::BTreeSet, fmt::Write as _};

use ironclad_api::{
    Condition, ObjectMeta,
    annotations::{self, PROCEED_WITHOUT_CLEANUP},
    conditions, labels, names,
    work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus, ResourceHealth, Work},
};
use serde::Serialize;
use serde_json::Value;

use crate::{BindingKey, ClusterName, ObjectKey, PolicyKey, WorkKey, World, targets};

mod reach;

pub use reach::{Reach, reach};

/// Kind of Pods.
const POD: &str = "Pod";

/// State of a link of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum LinkState {
    /// As it should be.
    Ok,
    /// Not there yet, and nothing says that it won't be.
    Waiting,
    /// Something is wrong, and the detail says what.
    Broken,
}

/// One object of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Depth in the tree: the template is 0.
    pub depth: usize,
    /// Kind, namespace and name; of objects in a member also the cluster.
    pub object: String,
    /// State of the link.
    pub state: LinkState,
    /// Reason of the state, or details of the object.
    pub detail: String,
}

/// The whole chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// All links, each before those that hang from it.
    pub links: Vec<Link>,
    /// The link to look at first, if one is broken or, for lack of that, waits.
    pub first_broken: Option<usize>,
}

impl Tree {
    fn push(&mut self, depth: usize, object: impl Into<String>, state: LinkState, detail: impl Into<String>) {
        self.links.push(Link { depth, object: object.into(), state, detail: detail.into() });
    }

    /// The tree of these links, each before those that hang from it.
    #[must_use]
    pub fn of(links: Vec<Link>) -> Self {
        Self { links, first_broken: None }.close()
    }

    fn close(mut self) -> Self {
        let first = |state| self.links.iter().position(|link| link.state == state);
        self.first_broken = first(LinkState::Broken).or_else(|| first(LinkState::Waiting));
        self
    }
}

/// Reasons that the objects of the chain do not show. They are the answers of the decisions, which `why` runs again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explained {
    /// State and reason of a template that no policy has claimed.
    pub unclaimed: Option<(LinkState, String)>,
    /// Reason why a claimed template has no binding.
    pub unbound: Option<String>,
    /// Works without a binding: those of a Namespace that namespace sync brings to every member, or of an autoscaler
    /// that members run.
    pub placed: Option<Placed>,
    /// The reader may not see Works: what is applied is known by the status of a binding alone.
    pub without_works: bool,
}

/// Works that a controller makes without a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    /// Names that they may have.
    pub works: Vec<String>,
    /// The clusters that have one; all if it is `None`.
    pub clusters: Option<BTreeSet<ClusterName>>,
}

/// A binding of either kind, as far as the chain goes.
struct Bound<'a> {
    kind: &'static str,
    key: BindingKey,
    metadata: &'a ObjectMeta,
    spec: &'a ResourceBindingSpec,
    status: Option<&'a ResourceBindingStatus>,
}

/// The chain of a template; `None` if the world does not hold it.
///
/// The world needs only what hangs together: the template, its policy and binding, their Works, the Clusters, and the
/// copies in the members that could be asked (a cluster without an entry in `members` could not).
#[must_use]
pub fn tree(world: &World, template: &ObjectKey, explained: &Explained) -> Option<Tree> {
    let object = world.templates.get(template)?;
    let mut tree = Tree::default();
    let leaving = object.pointer("/metadata/deletionTimestamp").is_some();
    let state = if leaving { LinkState::Waiting } else { LinkState::Ok };
    let detail = if leaving { "is being deleted".to_owned() } else { readiness(object) };
    tree.push(0, template.to_string(), state, detail);
    let bound = binding_of(world, template);
    let claimed = policy(world, object, bound.as_ref(), explained, &mut tree);
    match bound {
        Some(bound) => binding(world, template, &bound, explained, &mut tree),
        None if claimed => {
            let detail = explained.unbound.as_deref().unwrap_or("is not made yet");
            tree.push(2, "ResourceBinding", LinkState::Waiting, detail);
        }
        None => without_binding(world, template, explained, &mut tree),
    }
    Some(tree.close())
}

/// Returns true if the chain of a template shows by itself why it ends where it does: there is a binding, and a claim
/// or other workloads that need it. [`Explained`] says the rest of all other templates.
#[must_use]
pub fn explains_itself(world: &World, template: &ObjectKey) -> bool {
    let claim = world.templates.get(template).and_then(|object| claim_of(object));
    binding_of(world, template).is_some_and(|bound| claim.is_some() || !bound.spec.required_by.is_empty())
}

/// `2/3 ready` for what has replicas.
fn readiness(object: &Value) -> String {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    match (number("/spec/replicas"), number("/status/readyReplicas")) {
        (Some(wanted), ready) => format!("{}/{wanted} ready", ready.unwrap_or(0)),
        (None, _) => String::new(),
    }
}

/// True if all replicas of the present generation are ready.
fn is_ready(object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let wanted = number("/spec/replicas");
    wanted.is_some_and(|wanted| wanted > 0)
        && number("/status/readyReplicas") == wanted
        && number("/status/observedGeneration") == number("/metadata/generation")
}

/// True if replicas are missing and the object does not say that they won't come: its pods start, or wait for nodes.
fn is_starting(object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    number("/status/readyReplicas") < number("/spec/replicas") && failing(object).is_none()
}

/// Condition by which an object says that it makes no progress, with its message.
fn failing(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let fails = |condition: &&Value| {
        let is = |kind: &str, status: &str| condition["type"] == kind && condition["status"] == status;
        is("Progressing", "False") || is("ReplicaFailure", "True")
    };
    conditions.iter().find(fails).map(|condition| message_of(&text(condition, "reason"), &text(condition, "message")))
}

fn binding_of<'a>(world: &'a World, template: &ObjectKey) -> Option<Bound<'a>> {
    let is_of = |spec: &ResourceBindingSpec| {
        let resource = &spec.resource;
        let group = resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        *resource.kind == *template.gvk.kind
            && *resource.name == *template.name
            && *resource.namespace == *template.namespace
            && *group == *template.gvk.group
    };
    let namespaced = world.bindings.iter().find(|(_, binding)| is_of(&binding.spec)).map(|(key, binding)| Bound {
        kind: "ResourceBinding",
        key: key.clone(),
        metadata: &binding.metadata,
        spec: &binding.spec,
        status: binding.status.as_ref(),
    });
    namespaced.or_else(|| {
        world.cluster_bindings.iter().find(|(_, binding)| is_of(&binding.spec)).map(|(key, binding)| Bound {
            kind: "ClusterResourceBinding",
            key: key.clone(),
            metadata: &binding.metadata,
            spec: &binding.spec,
            status: binding.status.as_ref(),
        })
    })
}

/// Namespace and name of the policy that claims a template; the namespace of a ClusterPropagationPolicy is empty.
fn claim_of(template: &Value) -> Option<(&str, &str)> {
    let mark = |key: &str| {
        let marks = template.pointer("/metadata/annotations")?;
        marks.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    };
    let namespaced = mark(annotations::PROPAGATION_POLICY_NAME)
        .map(|name| (mark(annotations::PROPAGATION_POLICY_NAMESPACE).unwrap_or_default(), name));
    namespaced.or_else(|| mark(annotations::CLUSTER_PROPAGATION_POLICY_NAME).map(|name| ("", name)))
}

/// The policy that claims the template; false if none does and nothing else explains a binding.
fn policy(world: &World, template: &Value, bound: Option<&Bound<'_>>, explained: &Explained, tree: &mut Tree) -> bool {
    let attached = bound.is_some_and(|bound| !bound.spec.required_by.is_empty());
    let Some((namespace, name)) = claim_of(template) else {
        if attached {
            let needed_by: Vec<String> = bound
                .iter()
                .flat_map(|bound| &bound.spec.required_by)
                .map(|by| format!("{}/{}", by.namespace, by.name))
                .collect();
            tree.push(1, "no policy", LinkState::Ok, format!("follows what needs it: {}", needed_by.join(", ")));
            return true;
        }
        let (state, detail) = match &explained.unclaimed {
            Some((state, detail)) => (*state, detail.clone()),
            None => (LinkState::Broken, "has claimed it".to_owned()),
        };
        tree.push(1, "no policy", state, detail);
        return bound.is_some();
    };
    let key = PolicyKey { namespace: namespace.into(), name: name.into() };
    let (object, found, leaving) = if namespace.is_empty() {
        let policy = world.cluster_policies.get(&key);
        let leaving = policy.is_some_and(|p| p.metadata.deletion_timestamp.is_some());
        (format!("ClusterPropagationPolicy {name}"), policy.is_some(), leaving)
    } else {
        let policy = world.policies.get(&key);
        let leaving = policy.is_some_and(|p| p.metadata.deletion_timestamp.is_some());
        (format!("PropagationPolicy {namespace}/{name}"), policy.is_some(), leaving)
    };
    match (found, leaving) {
        (true, false) => tree.push(1, object, LinkState::Ok, ""),
        (true, true) => tree.push(1, object, LinkState::Waiting, "is being deleted"),
        (false, _) => {
            let detail =
                "does not exist any more: copies are kept as they are until another policy claims the template";
            tree.push(1, object, LinkState::Broken, detail);
        }
    }
    true
}

fn binding(world: &World, template: &ObjectKey, bound: &Bound<'_>, explained: &Explained, tree: &mut Tree) {
    let (state, detail) = scheduled(bound);
    tree.push(2, format!("{} {}", bound.kind, bound.key), state, detail);
    for task in &bound.spec.graceful_eviction_tasks {
        let mode = task.purge_mode.map(|mode| format!("{mode:?}")).unwrap_or_else(|| "Gracefully".to_owned());
        let mut detail = format!("{}, {mode}", task.reason);
        if !task.message.is_empty() {
            let _ = write!(detail, ": {}", task.message);
        }
        tree.push(3, format!("leaving {}", task.from_cluster), LinkState::Waiting, detail);
    }
    let staying = targets::staying(bound.spec);
    let expected = targets::expected_clusters(bound.spec);
    for cluster in &expected {
        let (state, detail) = cluster_state(world, cluster);
        tree.push(3, format!("Cluster {cluster}"), state, detail);
        let work = work_of(world, bound, cluster);
        let reported = explained.without_works.then(|| reported(bound, cluster)).flatten();
        let known = work.map(Applied::of).or_else(|| reported.map(Applied::reported));
        let (state, detail) = match &known {
            None => not_made(world, bound, cluster),
            Some(_) if is_suspended(bound, cluster) => (LinkState::Waiting, "dispatching is suspended".to_owned()),
            Some(known) => match staying.iter().find(|copy| copy.cluster == *cluster && copy.replicas > 0) {
                Some(copy) => (LinkState::Waiting, copy.stays()),
                None => (known.state, known.detail.clone()),
            },
        };
        let resource = &bound.spec.resource;
        let default = || names::work_name(&resource.kind, &resource.namespace, &resource.name);
        let name = work.and_then(|work| work.metadata.name.clone()).unwrap_or_else(default);
        tree.push(4, format!("Work {}/{name}", names::execution_namespace(&cluster.0)), state, detail);
        if let Some(known) = known {
            copy_at(5, world, template, cluster, &known, tree);
        }
    }
    let others: BTreeSet<&ClusterName> =
        world.works.keys().map(|key| &key.cluster).filter(|cluster| !expected.contains(*cluster)).collect();
    for (cluster, work) in others.into_iter().filter_map(|cluster| Some((cluster, work_of(world, bound, cluster)?))) {
        let (state, detail) = cluster_state(world, cluster);
        tree.push(3, format!("Cluster {cluster}"), state, detail);
        let known = Applied::of(work);
        let (state, detail) = match known.state {
            LinkState::Broken if work.metadata.deletion_timestamp.is_some() => (known.state, known.detail.clone()),
            _ => (LinkState::Waiting, "is to be deleted".to_owned()),
        };
        let name = work.metadata.name.as_deref().unwrap_or_default();
        tree.push(4, format!("Work {}/{name}", names::execution_namespace(&cluster.0)), state, detail);
        copy_at(5, world, template, cluster, &known, tree);
    }
}

/// Returns whether nothing is dispatched to a cluster.
fn is_suspended(bound: &Bound<'_>, cluster: &ClusterName) -> bool {
    bound.spec.suspension.as_ref().is_some_and(|suspension| {
        let on = suspension.dispatching_on_clusters.as_ref();
        let on_it = on.is_some_and(|on| on.cluster_names.iter().any(|name| **name == *cluster.0));
        suspension.dispatching == Some(true) || on_it
    })
}

/// The binding's status about a cluster.
fn reported<'a>(bound: &Bound<'a>, cluster: &ClusterName) -> Option<&'a AggregatedStatusItem> {
    bound.status?.aggregated_status.iter().find(|item| *item.cluster_name == *cluster.0)
}

/// State of a target without a Work: the reason that the binding's status gives, or the old copy that has to go first.
fn not_made(world: &World, bound: &Bound<'_>, cluster: &ClusterName) -> (LinkState, String) {
    match reported(bound, cluster).filter(|item| !item.applied).map(|item| item.applied_message.as_str()) {
        Some(message) if !message.is_empty() => (LinkState::Broken, format!("was not made: {message}")),
        _ => match old_copy(world, bound) {
            Some(from) => {
                let detail = format!(
                    "waits until the old copy in {from} is deleted; annotation {PROCEED_WITHOUT_CLEANUP}=true on the \
                     binding ends the wait"
                );
                (LinkState::Waiting, detail)
            }
            None => (LinkState::Waiting, "is not made yet".to_owned()),
        },
    }
}

/// Cluster whose copy must be deleted before new ones are made.
fn old_copy(world: &World, bound: &Bound<'_>) -> Option<ClusterName> {
    let has_copy = |cluster: &ClusterName| work_of(world, bound, cluster).is_some();
    let is_ready = |cluster: &ClusterName| world.clusters.get(cluster).is_some_and(|cluster| cluster.is_ready());
    targets::awaited_source(bound.spec, bound.metadata, has_copy, is_ready)
}

fn cluster_state(world: &World, cluster: &ClusterName) -> (LinkState, String) {
    let Some(known) = world.clusters.get(cluster) else {
        return (LinkState::Broken, "does not exist: join it, or take it out of the placement".to_owned());
    };
    if known.metadata.deletion_timestamp.is_some() {
        return (LinkState::Waiting, "is being removed from the fleet".to_owned());
    }
    match condition(known.status.as_ref().map(|s| &s.conditions), conditions::cluster::READY) {
        Some(ready) if ready.status == conditions::TRUE => (LinkState::Ok, String::new()),
        Some(ready) => (LinkState::Broken, format!("is not ready: {}", message_of(&ready.reason, &ready.message))),
        None => (LinkState::Waiting, "was not heard of yet".to_owned()),
    }
}

/// The Works that a controller makes without a binding.
fn without_binding(world: &World, template: &ObjectKey, explained: &Explained, tree: &mut Tree) {
    let Some((placed, first)) = explained.placed.as_ref().and_then(|placed| Some((placed, placed.works.first()?)))
    else {
        return;
    };
    let clusters = placed.clusters.clone().unwrap_or_else(|| world.clusters.keys().cloned().collect());
    for cluster in &clusters {
        let (state, detail) = cluster_state(world, cluster);
        tree.push(2, format!("Cluster {cluster}"), state, detail);
        let mut keys = placed.works.iter().map(|name| WorkKey { cluster: cluster.clone(), name: name.as_str().into() });
        let work = keys.find_map(|key| world.works.get(&key)).map(|work| &**work);
        let known = work.map(Applied::of);
        let why = if explained.without_works { "is not known: you may not read it" } else { "is not made yet" };
        let not_made = || (LinkState::Waiting, why.to_owned());
        let (state, detail) = known.as_ref().map_or_else(not_made, |known| (known.state, known.detail.clone()));
        let name = work.and_then(|work| work.metadata.name.as_deref()).unwrap_or(first);
        tree.push(3, format!("Work {}/{name}", names::execution_namespace(&cluster.0)), state, detail);
        if let Some(known) = known {
            copy_at(4, world, template, cluster, &known, tree);
        }
    }
}

fn scheduled(bound: &Bound<'_>) -> (LinkState, String) {
    let placement: Vec<String> = bound
        .spec
        .clusters
        .iter()
        .map(|target| match target.replicas {
            0 => target.name.clone(),
            replicas => format!("{}:{replicas}", target.name),
        })
        .collect();
    let placement = placement.join(", ");
    if bound.metadata.deletion_timestamp.is_some() {
        return (LinkState::Waiting, "is being deleted".to_owned());
    }
    if bound.spec.suspension.as_ref().is_some_and(|s| s.scheduling == Some(true)) {
        return (LinkState::Waiting, "scheduling is suspended".to_owned());
    }
    match condition(bound.status.map(|s| &s.conditions), conditions::binding::SCHEDULED) {
        // The condition is about the result before, which an eviction or somebody else emptied.
        Some(condition) if condition.status == conditions::TRUE && placement.is_empty() && !is_observed(bound) => {
            (LinkState::Waiting, "is not scheduled anew yet".to_owned())
        }
        Some(condition) if condition.status == conditions::TRUE => (LinkState::Ok, format!("on {placement}")),
        Some(condition) => {
            let mut detail = message_of(&condition.reason, &condition.message);
            if !placement.is_empty() {
                let _ = write!(detail, " (stays on {placement})");
            }
            (LinkState::Broken, detail)
        }
        None if !bound.spec.required_by.is_empty() => (LinkState::Ok, "follows what needs it".to_owned()),
        None => (LinkState::Waiting, "is not scheduled yet".to_owned()),
    }
}

/// True if the scheduler has answered the present version of the binding.
fn is_observed(bound: &Bound<'_>) -> bool {
    let observed = bound.status.map_or(0, |status| status.scheduler_observed_generation);
    observed >= bound.metadata.generation.unwrap_or(0)
}

fn work_of<'a>(world: &'a World, bound: &Bound<'_>, cluster: &ClusterName) -> Option<&'a Work> {
    let label = if bound.key.namespace.is_empty() {
        labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID
    } else {
        labels::RESOURCE_BINDING_PERMANENT_ID
    };
    let id = bound.metadata.labels.as_ref()?.get(label)?;
    let mut works = world.works.iter().filter(|(key, _)| key.cluster == *cluster).map(|(_, work)| work);
    works.find(|work| work.metadata.labels.as_ref().and_then(|labels| labels.get(label)) == Some(id)).map(|w| &**w)
}

/// Result of applying a manifest to a cluster.
struct Applied {
    state: LinkState,
    detail: String,
    health: Option<ResourceHealth>,
}

impl Applied {
    fn of(work: &Work) -> Self {
        let health = work.status.as_ref().and_then(|status| status.manifest_statuses.first()?.health);
        let (state, detail) = match condition(work.status.as_ref().map(|s| &s.conditions), conditions::work::APPLIED) {
            Some(condition) if condition.status == conditions::TRUE => (LinkState::Ok, "applied".to_owned()),
            Some(condition) => (LinkState::Broken, message_of(&condition.reason, &condition.message)),
            None => (LinkState::Waiting, "is not applied yet".to_owned()),
        };
        Self { state, detail, health }
    }

    /// The same as the binding's status has it.
    fn reported(item: &AggregatedStatusItem) -> Self {
        let (state, detail) = match (item.applied, item.applied_message.as_str()) {
            (true, _) => (LinkState::Ok, "applied"),
            (false, "") => (LinkState::Waiting, "is not applied yet"),
            (false, message) => (LinkState::Broken, message),
        };
        Self { state, detail: format!("{detail}, as the binding reports"), health: item.health }
    }
}

fn copy_at(depth: usize, world: &World, template: &ObjectKey, cluster: &ClusterName, known: &Applied, tree: &mut Tree) {
    let is_applied = known.state == LinkState::Ok;
    let (state, detail) = match world.members.get(cluster).map(|objects| objects.get(template)) {
        None => (LinkState::Waiting, "could not be asked".to_owned()),
        Some(None) if is_applied => {
            (LinkState::Broken, "is not there although it was applied: it will be put there again".to_owned())
        }
        Some(None) => (LinkState::Waiting, "is not there yet".to_owned()),
        Some(Some(object)) => {
            let mut detail = readiness(object);
            let (state, word) = match known.health {
                // The object was read now, the health was reported before.
                Some(ResourceHealth::Unhealthy) if is_ready(object) => (LinkState::Waiting, "health not reported yet"),
                Some(ResourceHealth::Unhealthy) if is_starting(object) => (LinkState::Waiting, "not healthy yet"),
                Some(ResourceHealth::Unhealthy) => (LinkState::Broken, "unhealthy"),
                Some(ResourceHealth::Healthy) => (LinkState::Ok, "healthy"),
                _ => (LinkState::Waiting, "health not known"),
            };
            if !detail.is_empty() {
                detail.push_str(", ");
            }
            detail.push_str(word);
            if let Some(why) = failing(object).filter(|_| state == LinkState::Broken) {
                let _ = write!(detail, ": {why}");
            }
            (state, detail)
        }
    };
    tree.push(depth, format!("{cluster}: {template}"), state, detail);
    if *template.gvk.kind != *POD {
        pods_at(depth + 1, world, template, cluster, tree);
    }
}

/// The Pods of a copy, if the world holds them.
fn pods_at(depth: usize, world: &World, template: &ObjectKey, cluster: &ClusterName, tree: &mut Tree) {
    let objects = world.members.get(cluster).into_iter().flatten();
    let is_pod = |key: &ObjectKey| *key.gvk.kind == *POD && key.gvk.group.is_empty();
    for (key, pod) in objects.filter(|(key, _)| is_pod(key) && key.namespace == template.namespace) {
        let (state, detail) = pod_state(pod);
        tree.push(depth, format!("{cluster}: {key}"), state, detail);
    }
}

/// State of a Pod, with the reason that its node, its container or the scheduler gives.
fn pod_state(pod: &Value) -> (LinkState, String) {
    let text =
        |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return (LinkState::Waiting, "is being deleted".to_owned());
    }
    let containers = list("/status/initContainerStatuses").chain(list("/status/containerStatuses"));
    let failing = containers
        .map(|container| (text(container, "/state/waiting/reason"), text(container, "/state/waiting/message")))
        .find(|(reason, _)| !["", "ContainerCreating", "PodInitializing"].contains(&reason.as_str()));
    let condition = |kind: &str| list("/status/conditions").find(|condition| condition["type"] == kind);
    let node = text(pod, "/spec/nodeName");
    let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
    match (text(pod, "/status/phase").as_str(), failing) {
        ("Failed", _) => {
            let why = message_of(&text(pod, "/status/reason"), &text(pod, "/status/message"));
            (LinkState::Broken, if why.is_empty() { format!("failed{on}") } else { format!("failed{on}: {why}") })
        }
        ("Succeeded", _) => (LinkState::Ok, format!("has ended{on}")),
        (_, Some((reason, message))) => (LinkState::Broken, message_of(&reason, &message)),
        ("Running", None) if condition("Ready").is_some_and(|ready| ready["status"] == "True") => {
            (LinkState::Ok, format!("ready{on}"))
        }
        ("Running", None) => (LinkState::Waiting, format!("runs{on}, not ready yet")),
        _ => match condition("PodScheduled").filter(|scheduled| scheduled["status"] == "False") {
            Some(scheduled) => {
                (LinkState::Broken, message_of(&text(scheduled, "/reason"), &text(scheduled, "/message")))
            }
            None => (LinkState::Waiting, format!("starts{on}")),
        },
    }
}

fn condition<'a>(all: Option<&'a Vec<Condition>>, kind: &str) -> Option<&'a Condition> {
    all?.iter().find(|condition| condition.type_ == kind)
}

fn message_of(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
}

#[cfg(test)]
mod tests;
