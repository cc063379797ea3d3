//! Decision of the controller `multiclusterservice`: takes over the Service of a MultiClusterService, binds it to all
//! clusters concerned, and marks the providers (specification/mcs.md 2.1).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    OwnerReference, StringMap, annotations,
    cluster::ApiEnablement,
    conditions::{self, binding::SCHEDULED, multi_cluster_service as types},
    events, finalizers, labels, names,
    networking::MultiClusterService,
    reasons::multi_cluster_service as reasons,
    work::{ResourceBinding, ResourceBindingSpec, Work},
};
use ironclad_fleet::{
    ClusterName, Clusters, Event, Plan, StatusPart, because::propagation::Reason, finalizer, merge_patch_between,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    MCS_API_VERSION, MCS_KIND, SLICE_API_VERSION, SLICE_KIND, ServiceKey, Told, collect, is_served, listed, manifest,
    marker_key, mcs_conditions, mcs_reference, metadata, missing, not_ready, provider_of, selected,
};
use crate::{
    new_ids::NewIds,
    template::{self, Identity},
    template_hash::{APPLIED_TEMPLATE, TemplateHash},
    work::{
        key_of,
        owned::{self, DesiredWork, OfBinding, Write},
    },
};

/// Labels by which a policy claims a template or has a binding.
const POLICY_LABELS: [&str; 2] =
    [labels::PROPAGATION_POLICY_PERMANENT_ID, labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID];
/// Annotations likewise.
const POLICY_ANNOTATIONS: [&str; 3] = [
    annotations::PROPAGATION_POLICY_NAMESPACE,
    annotations::PROPAGATION_POLICY_NAME,
    annotations::CLUSTER_PROPAGATION_POLICY_NAME,
];

/// Snapshot of one MultiClusterService.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub key: &'a ServiceKey,
    /// It, with status parts that wait to be written; `None` if it was deleted.
    pub mcs: Option<&'a MultiClusterService>,
    pub clusters: &'a Clusters,
    /// The clusters with an execution space.
    pub spaces: &'a BTreeSet<ClusterName>,
    /// The Service of its name.
    pub service: Option<&'a Value>,
    /// The binding of that Service.
    pub binding: Option<&'a ResourceBinding>,
    /// All Works with its name in their labels.
    pub works: &'a [Arc<Work>],
    pub now: Timestamp,
}

/// Write or report.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Patch the MultiClusterService.
    PatchMcs(Value),
    /// Patch the Service.
    PatchService(Value),
    /// Create its binding.
    CreateBinding(Box<ResourceBinding>),
    /// Patch its binding.
    PatchBinding(Value),
    /// Write of a Work.
    Work(Write),
    /// Set a part of the status of the MultiClusterService.
    Status(StatusPart),
    /// Record an event.
    Event(Event),
}

/// Takes over the Service, or lets it go. Markers come first, so that slices are collected before the Service exists.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let Some(mcs) = seen.mcs else {
        remove_works(&mut plan, seen, |_| true);
        return plan;
    };
    if !is_served(mcs) {
        let rest = finalizer::removed(&mcs.metadata, finalizers::MULTI_CLUSTER_SERVICE_CONTROLLER);
        if let Some(rest) = rest {
            remove_works(&mut plan, seen, |_| true);
            let_go(&mut plan, seen);
            plan.effects.push(Effect::PatchMcs(json!({"metadata": {"finalizers": rest}})));
        }
        return plan;
    }
    let id = own(&mut plan, mcs, &mut ids);
    let incompatible = mark(&mut plan, seen, mcs, &id, &mut ids);
    let targets: BTreeSet<ClusterName> = [&mcs.spec.provider_clusters, &mcs.spec.consumer_clusters]
        .iter()
        .flat_map(|list| selected(list, seen.clusters))
        .collect();
    let bound = bind(&mut plan, seen, &id, &targets, &mut ids);
    let lists = [mcs.spec.provider_clusters.as_slice(), mcs.spec.consumer_clusters.as_slice()];
    let missing = missing(&lists, seen.clusters);
    let told = Told {
        conditions: mcs_conditions(mcs),
        type_: types::SERVICE_APPLIED,
        reasons: [reasons::SERVICE_APPLIED_SUCCEED, reasons::SERVICE_APPLIED_FAILED],
        events: [events::SYNC_SERVICE_SUCCEED, events::SYNC_SERVICE_FAILED],
    };
    let Some((is_true, mut text)) = bound.err().map(|why| (false, why)).or_else(|| applied(seen, &targets)) else {
        return plan;
    };
    if !missing.is_empty() {
        text.push_str(&format!("; there is no cluster {}", listed(&missing)));
    }
    if !incompatible.is_empty() {
        text.push_str(&format!("; {} does not serve {SLICE_API_VERSION}", listed(&incompatible)));
    }
    let Some((part, event)) = told.tell(is_true, text, seen.now, || mcs_reference(mcs)) else { return plan };
    plan.effects.extend([Effect::Status(part), Effect::Event(event)]);
    let warn = |reason, message: String| Effect::Event(Event::warning(mcs_reference(mcs), reason, message));
    if !missing.is_empty() {
        let message = format!("there is no cluster {}: it is served once it joins", listed(&missing));
        plan.effects.push(warn(events::CLUSTER_NOT_FOUND, message));
    }
    if !incompatible.is_empty() {
        let message =
            format!("{} does not serve {SLICE_API_VERSION}: its endpoints are not known", listed(&incompatible));
        plan.effects.push(warn(events::API_INCOMPATIBLE, message));
    }
    plan
}

/// Sets finalizer and id, and returns the id.
fn own(plan: &mut Plan<Effect>, mcs: &MultiClusterService, ids: &mut NewIds) -> String {
    let label = mcs.metadata.labels.as_ref().and_then(|map| map.get(labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID));
    let present = label.filter(|id| !id.is_empty()).cloned();
    let id = present.clone().unwrap_or_else(|| ids.allocate());
    let mut patch = json!({});
    if let Some(all) = finalizer::added(&mcs.metadata, finalizers::MULTI_CLUSTER_SERVICE_CONTROLLER) {
        patch["metadata"]["finalizers"] = json!(all);
    }
    if present.is_none() {
        patch["metadata"]["labels"] = json!({labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID: id});
    }
    if patch != json!({}) {
        plan.effects.push(Effect::PatchMcs(patch));
    }
    id
}

/// Writes the marker of each provider and deletes the others. Returns providers without EndpointSlices.
fn mark(
    plan: &mut Plan<Effect>,
    seen: &Seen<'_>,
    mcs: &MultiClusterService,
    id: &str,
    ids: &mut NewIds,
) -> BTreeSet<ClusterName> {
    let mut incompatible = BTreeSet::new();
    let mut marked = BTreeSet::new();
    for cluster in selected(&mcs.spec.provider_clusters, seen.clusters) {
        let serves = seen.clusters.get(&cluster).map(|c| c.api_enablement(SLICE_API_VERSION, SLICE_KIND));
        if serves == Some(ApiEnablement::Disabled) {
            incompatible.insert(cluster);
            continue;
        }
        let key = marker_key(&cluster, MCS_KIND, seen.key);
        marked.insert(key.clone());
        if !seen.spaces.contains(&cluster) {
            continue;
        }
        let mut object = json!({
            "apiVersion": MCS_API_VERSION, "kind": MCS_KIND,
            "metadata": metadata(&seen.key.namespace, &seen.key.name), "spec": mcs.spec,
        });
        object["metadata"]["labels"] = json!({labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID: id});
        let desired = DesiredWork {
            cluster: &cluster,
            manifest: object,
            labels: StringMap::from([
                (labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID.to_owned(), id.to_owned()),
                (labels::MULTI_CLUSTER_SERVICE_NAMESPACE.to_owned(), seen.key.namespace.to_string()),
                (labels::MULTI_CLUSTER_SERVICE_NAME.to_owned(), seen.key.name.to_string()),
            ]),
            annotations: StringMap::new(),
            of_binding: OfBinding::Keeps,
            owner: None,
            conflict_resolution: annotations::CONFLICT_RESOLUTION_ABORT,
            reports_only: true,
        };
        let existing = seen.works.iter().find(|work| key_of(work).as_ref() == Some(&key)).map(|work| &**work);
        if let Some(write) = owned::write(desired, existing, ids) {
            plan.push(Effect::Work(write), Reason::PlacedOn { cluster: cluster.clone() }.into());
        }
    }
    remove_works(plan, seen, |work| {
        manifest(work, MCS_API_VERSION, MCS_KIND).is_some() && key_of(work).is_some_and(|key| !marked.contains(&key))
    });
    incompatible
}

/// Deletes these Works: markers first, so that collectors do not make the others again, and only those collected
/// slices that nothing else needs.
fn remove_works(plan: &mut Plan<Effect>, seen: &Seen<'_>, which: impl Fn(&Work) -> bool) {
    let is_marker = |work: &Work| manifest(work, MCS_API_VERSION, MCS_KIND).is_some();
    let is_shared = |work: &Work| collect::is_collected_for(work, collect::Flow::ServiceExport);
    let (markers, others): (Vec<_>, Vec<_>) =
        seen.works.iter().filter(|work| which(work) && !is_shared(work)).partition(|work| is_marker(work));
    for work in markers.into_iter().chain(others) {
        let is_ours = is_marker(work) || collect::is_collected(work) || provider_of(work).is_some();
        if let Some((key, write)) = key_of(work).zip(owned::delete(work)).filter(|_| is_ours) {
            plan.push(Effect::Work(write), Reason::NotATarget { work: key }.into());
        }
    }
}

/// Gives the Service back to policies. Its binding stays, and with it the copies, until a policy claims the Service.
fn let_go(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let nulls = |keys: &[&str]| -> Value { keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect() };
    let patch = |label: &str| {
        json!({"metadata": {
            "labels": nulls(&[label, labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID]),
            "annotations": nulls(&[annotations::MULTI_CLUSTER_SERVICE_NAMESPACE, annotations::MULTI_CLUSTER_SERVICE_NAME]),
        }})
    };
    let is_ours = |object: &Value, label: &str| object["metadata"]["labels"][label] == MCS_KIND;
    if seen.service.is_some_and(|service| is_ours(service, labels::CLAIMED_BY)) {
        plan.effects.push(Effect::PatchService(patch(labels::CLAIMED_BY)));
    }
    let binding = seen.binding.map(|binding| json!({"metadata": {"labels": binding.metadata.labels}}));
    if binding.is_some_and(|binding| is_ours(&binding, labels::BINDING_MANAGED_BY)) {
        plan.effects.push(Effect::PatchBinding(patch(labels::BINDING_MANAGED_BY)));
    }
}

/// Claims the Service and binds it to these clusters.
///
/// # Errors
/// The reason, for people, if that is not possible.
fn bind(
    plan: &mut Plan<Effect>,
    seen: &Seen<'_>,
    id: &str,
    targets: &BTreeSet<ClusterName>,
    ids: &mut NewIds,
) -> Result<(), String> {
    let key = seen.key;
    let lives = |service: &&Value| service["metadata"]["deletionTimestamp"].is_null();
    let Some(service) = seen.service.filter(lives) else {
        return Err(format!("there is no Service {key}: create it in the control plane"));
    };
    let claimant = service["metadata"]["labels"][labels::CLAIMED_BY].as_str().unwrap_or_default();
    if !claimant.is_empty() && claimant != MCS_KIND {
        return Err(format!("Service {key} belongs to a {claimant}: give this MultiClusterService another one"));
    }
    if targets.is_empty() {
        return Err("none of its clusters exists".to_owned());
    }
    let identity = Identity::of(service);
    let controller = |binding: &&ResourceBinding| {
        let owners = binding.metadata.owner_references.iter().flatten();
        owners.filter(|owner| owner.controller == Some(true)).any(|owner| owner.uid != identity.uid)
    };
    if let Some(binding) = seen.binding.filter(controller) {
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        return Err(format!("ResourceBinding {}/{name} belongs to another object: delete it", key.namespace));
    }
    let mut claimed = service.clone();
    claim(&mut claimed["metadata"], id, key, labels::CLAIMED_BY);
    let marks = |object: &Value| json!({"metadata": {"labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"]}});
    if let Some(patch) = merge_patch_between(&marks(service), &marks(&claimed)) {
        plan.effects.push(Effect::PatchService(patch));
    }
    // The patched Service comes back as a change, and with the marks in its content.
    let hash = TemplateHash::of(&claimed);
    let deleting = |binding: &&ResourceBinding| binding.metadata.deletion_timestamp.is_some();
    if seen.binding.is_some_and(|binding| deleting(&binding)) {
        return Ok(());
    }
    let wanted = bound(seen, &identity, service, hash, (id, targets), ids);
    match seen.binding {
        None => plan.effects.push(Effect::CreateBinding(Box::new(wanted))),
        Some(present) => {
            let written = |b: &ResourceBinding| {
                json!({"metadata": {
                    "labels": b.metadata.labels, "annotations": b.metadata.annotations,
                    "finalizers": b.metadata.finalizers, "ownerReferences": b.metadata.owner_references,
                }, "spec": b.spec})
            };
            if let Some(patch) = merge_patch_between(&written(present), &written(&wanted)) {
                plan.effects.push(Effect::PatchBinding(patch));
            }
        }
    }
    Ok(())
}

/// Marks an object as of the MultiClusterService and takes the marks of policies off.
fn claim(metadata: &mut Value, id: &str, key: &ServiceKey, label: &str) {
    let map = |value: &Value| -> BTreeMap<String, Value> {
        value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let (mut labels, mut annotations) = (map(&metadata["labels"]), map(&metadata["annotations"]));
    labels.retain(|key, _| !POLICY_LABELS.contains(&key.as_str()));
    annotations.retain(|key, _| !POLICY_ANNOTATIONS.contains(&key.as_str()));
    labels.insert(label.to_owned(), MCS_KIND.into());
    labels.insert(labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID.to_owned(), id.into());
    annotations.insert(annotations::MULTI_CLUSTER_SERVICE_NAMESPACE.to_owned(), (*key.namespace).into());
    annotations.insert(annotations::MULTI_CLUSTER_SERVICE_NAME.to_owned(), (*key.name).into());
    metadata["labels"] = json!(labels);
    metadata["annotations"] = json!(annotations);
}

/// The binding as it has to be. The scheduler's result in it stays.
fn bound(
    seen: &Seen<'_>,
    identity: &Identity<'_>,
    service: &Value,
    hash: TemplateHash,
    (id, targets): (&str, &BTreeSet<ClusterName>),
    ids: &mut NewIds,
) -> ResourceBinding {
    let mut binding = seen.binding.cloned().unwrap_or_else(|| {
        let name = names::binding_name(identity.kind, identity.name);
        let mut new = ResourceBinding::new(&name, ResourceBindingSpec::default());
        new.metadata.namespace = Some(identity.namespace.to_owned());
        new
    });
    let mut marks = json!({"labels": binding.metadata.labels, "annotations": binding.metadata.annotations});
    let unchanged = marks["annotations"][APPLIED_TEMPLATE] == hash.to_text();
    claim(&mut marks, id, seen.key, labels::BINDING_MANAGED_BY);
    marks["annotations"][APPLIED_TEMPLATE] = hash.to_text().into();
    let map = |value: Value| serde_json::from_value::<StringMap>(value).unwrap_or_default();
    let mut label_map = map(marks["labels"].take());
    if label_map.get(labels::RESOURCE_BINDING_PERMANENT_ID).is_none_or(String::is_empty) {
        label_map.insert(labels::RESOURCE_BINDING_PERMANENT_ID.to_owned(), ids.allocate());
    }
    binding.metadata.labels = Some(label_map);
    binding.metadata.annotations = Some(map(marks["annotations"].take()));
    finalizer::add(&mut binding.metadata, finalizers::BINDING_CONTROLLER);
    binding.metadata.owner_references = Some(vec![OwnerReference {
        api_version: identity.api_version.into(),
        kind: identity.kind.into(),
        name: identity.name.into(),
        uid: identity.uid.into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    let mut resource = identity.reference();
    let before = &binding.spec.resource.resource_version;
    resource.resource_version = if unchanged && !before.is_empty() {
        before.clone()
    } else {
        template::text(service, "/metadata/resourceVersion").into()
    };
    binding.spec.resource = resource;
    let clusters: Vec<&str> = targets.iter().map(|name| &*name.0).collect();
    let fields =
        json!({"placement": {"clusterAffinity": {"clusterNames": clusters}}, "conflictResolution": "Overwrite"});
    let fields: ResourceBindingSpec = serde_json::from_value(merged(&json!(binding.spec), fields)).unwrap_or_default();
    (binding.spec.placement, binding.spec.conflict_resolution) = (fields.placement, fields.conflict_resolution);
    binding
}

fn merged(spec: &Value, fields: Value) -> Value {
    let mut all = json!({"resource": spec["resource"]});
    fields.as_object().into_iter().flatten().for_each(|(field, value)| all[field.as_str()] = value.clone());
    all
}

/// The state of the Service in the clusters and its message; `None` while some have not answered yet.
fn applied(seen: &Seen<'_>, targets: &BTreeSet<ClusterName>) -> Option<(bool, String)> {
    let binding = seen.binding?;
    let status = binding.status.as_ref()?;
    if let Some(scheduled) = conditions::get(&status.conditions, SCHEDULED).filter(|c| c.status == conditions::FALSE) {
        return Some((false, format!("the Service is not scheduled: {}", scheduled.message)));
    }
    let is_scheduled = status.scheduler_observed_generation == binding.metadata.generation.unwrap_or_default();
    let item = |name: &ClusterName| status.aggregated_status.iter().find(|item| *item.cluster_name == *name.0);
    let (mut unready, mut failed, mut applied) = (Vec::new(), Vec::new(), 0);
    for name in targets {
        let Some(cluster) = seen.clusters.get(name) else { continue };
        match item(name) {
            Some(item) if item.applied => applied += 1,
            _ if !cluster.is_ready() => unready.push(not_ready(name, cluster)),
            Some(item) => failed.push(format!("{name}: {}", item.applied_message)),
            None if is_scheduled && binding.spec.target(&name.0).is_none() => {
                failed.push(format!("{name} was not chosen: ironclad why service/{} tells why", seen.key.name));
            }
            None => return None,
        }
    }
    let rest = failed.iter().chain(&unready);
    let text = if applied == targets.len() {
        "Service is propagated to target clusters.".to_owned()
    } else {
        format!(
            "Service is propagated to {applied} of {} target clusters; {}",
            targets.len(),
            rest.cloned().collect::<Vec<_>>().join("; ")
        )
    };
    Some((failed.is_empty() && applied > 0, text))
}
