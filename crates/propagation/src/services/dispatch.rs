//! Decision of the controller `endpointsliceDispatch`: copies of the collected EndpointSlices of a
//! MultiClusterService in its consumers (specification/mcs.md 2.2).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    StringMap, annotations,
    cluster::{ApiEnablement, Cluster},
    conditions::{self, multi_cluster_service as types, work::APPLIED},
    events, finalizers, labels, names,
    networking::MultiClusterService,
    reasons::multi_cluster_service as reasons,
    remedy::TRAFFIC_CONTROL,
    work::Work,
};
use ironclad_fleet::{ClusterName, Clusters, Event, Plan, StatusPart, because::propagation::Reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Options, SLICE_API_VERSION, SLICE_KIND, ServiceKey, Told, UnreadyProviders,
    collect::{self, Flow},
    is_served, is_true_of, listed, manifest, mcs_conditions, mcs_reference, not_ready, provider_of, selected, slice,
    unready_since,
};
use crate::{
    new_ids::NewIds,
    work::{
        key_of,
        owned::{self, DesiredWork, OfBinding, Write},
    },
};

/// Finalizers by which Karmada keeps collected Works. Ours need none, as every pass compares all copies.
const FORMER_FINALIZERS: [&str; 3] = [
    finalizers::MCS_ENDPOINT_SLICE_DISPATCH_CONTROLLER,
    finalizers::MCS_ENDPOINT_SLICE_COLLECT_CONTROLLER,
    finalizers::ENDPOINT_SLICE_CONTROLLER,
];

/// Snapshot of one MultiClusterService.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub key: &'a ServiceKey,
    /// It; `None` if it was deleted.
    pub mcs: Option<&'a MultiClusterService>,
    pub clusters: &'a Clusters,
    /// All Works with its name in their labels, with status parts that wait to be written.
    pub works: &'a [Arc<Work>],
    /// Clusters that no longer have a backend of the Service among their Works, although another cluster has one.
    pub evicted: &'a BTreeSet<ClusterName>,
    pub options: Options,
    pub now: Timestamp,
}

/// Write, report, or time at which to look again.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write of a Work.
    Work(Write),
    /// Set a part of the status of the MultiClusterService.
    Status(StatusPart),
    /// Record an event.
    Event(Event),
    /// Decide again after this time.
    RequeueAfter(Duration),
}

/// Treatment of the slices of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// Consumers get them.
    Served,
    /// Consumers do not get them, for this reason.
    Withheld(String),
    /// Consumers get them until this time passes.
    ServedFor(Duration),
}

/// Treatment of the slices of a provider (specification/mcs.md 2.3).
#[must_use]
pub fn provider(seen: &Seen<'_>, name: &ClusterName, cluster: &Cluster) -> Provider {
    let acts = cluster.status.as_ref().is_some_and(|s| s.remedy_actions.iter().any(|action| action == TRAFFIC_CONTROL));
    if acts && seen.options.traffic_control {
        return Provider::Withheld(format!("{name} has remedy action {TRAFFIC_CONTROL}"));
    }
    if cluster.is_ready() {
        return Provider::Served;
    }
    if seen.evicted.contains(name) {
        return Provider::Withheld(format!("{}, and its backends were moved away", not_ready(name, cluster)));
    }
    let annotation = seen.mcs.and_then(|mcs| mcs.metadata.annotations.as_ref()?.get(annotations::UNREADY_PROVIDERS));
    // Admission refuses other values.
    let choice = annotation.and_then(|text| UnreadyProviders::parse(text).ok());
    let UnreadyProviders::DropAfter(wait) = choice.unwrap_or(seen.options.unready_providers) else {
        return Provider::Served;
    };
    let unready = unready_since(cluster).map(|since| seen.now.duration_since(since));
    let left = unready.map_or(Duration::ZERO, |unready| wait.saturating_sub(unready.unsigned_abs()));
    if left.is_zero() { Provider::Withheld(not_ready(name, cluster)) } else { Provider::ServedFor(left) }
}

/// The clusters whose Works contain a workload with pods of this selector, those that are being deleted not included.
fn backends<'w>(selector: &StringMap, works: impl IntoIterator<Item = &'w Work>) -> BTreeSet<ClusterName> {
    let runs = |work: &&Work| {
        let objects = work.spec.workload.manifests.iter().map(|manifest| manifest.object());
        let mut labels = objects.filter_map(|object| object.pointer("/spec/template/metadata/labels").cloned());
        labels.any(|labels| selector.iter().all(|(key, value)| labels[key] == value.as_str()))
    };
    let present = works.into_iter().filter(|work| work.metadata.deletion_timestamp.is_none());
    present.filter(runs).filter_map(|work| Some(key_of(work)?.cluster)).collect()
}

/// Clusters that are not ready and reported slices of this MultiClusterService. Only of these it counts whether they
/// still have backends.
pub fn unready_reporters<'w>(
    works: impl IntoIterator<Item = &'w Arc<Work>>,
    clusters: &Clusters,
) -> BTreeSet<ClusterName> {
    let unready = |name: &ClusterName| clusters.get(name).is_some_and(|cluster| !cluster.is_ready());
    let reporters = works.into_iter().filter(|work| collect::is_collected(work));
    reporters.filter_map(|work| Some(key_of(work)?.cluster)).filter(unready).collect()
}

/// Those of these clusters that lost their backends to others. Backends that this control plane does not propagate say
/// nothing, and neither does a Service without a selector.
pub fn evicted<'w>(
    mut unready: BTreeSet<ClusterName>,
    namespace: &str,
    selector: &StringMap,
    works: impl IntoIterator<Item = &'w Work>,
) -> BTreeSet<ClusterName> {
    let of_binding = |work: &&Work| {
        let annotations = work.metadata.annotations.as_ref();
        annotations.and_then(|map| map.get(annotations::RESOURCE_BINDING_NAMESPACE)).is_some_and(|one| one == namespace)
    };
    let having = backends(selector, works.into_iter().filter(of_binding));
    if selector.is_empty() || having.is_empty() {
        return BTreeSet::new();
    }
    unready.retain(|name| !having.contains(name));
    unready
}

/// One copy that a consumer has to have.
struct Copy<'a> {
    consumer: ClusterName,
    provider: ClusterName,
    name: String,
    collected: &'a Work,
}

/// Copies each collected slice to all consumers but its own cluster, deletes other copies, and reports.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    plan.effects.extend(release_former(seen.works).map(Effect::Work));
    let served = seen.mcs.filter(|mcs| is_served(mcs));
    let mut outcome = Outcome::default();
    let wanted = served.map(|mcs| copies(seen, mcs, &mut outcome)).unwrap_or_default();
    let present: Vec<(&Arc<Work>, String)> = seen
        .works
        .iter()
        .filter(|work| provider_of(work).is_some())
        .filter_map(|work| {
            Some((work, manifest(work, SLICE_API_VERSION, SLICE_KIND)?["metadata"]["name"].as_str()?.to_owned()))
        })
        .collect();
    let find = |copy: &Copy<'_>| {
        let mut of_cluster =
            present.iter().filter(|(work, _)| key_of(work).is_some_and(|key| key.cluster == copy.consumer));
        of_cluster.find(|(_, name)| *name == copy.name).map(|(work, _)| *work)
    };
    let mut kept = BTreeSet::new();
    for copy in &wanted {
        let existing = find(copy);
        kept.extend(existing.and_then(|work| key_of(work)));
        let key = owned::key(&copy.consumer, SLICE_KIND, &seen.key.namespace, &copy.name);
        let other = seen.works.iter().find(|work| existing.is_none() && key_of(work).as_ref() == Some(&key));
        if other.is_some() {
            outcome.failed.insert(format!("{} has a slice {} of its own", copy.consumer, copy.name));
            continue;
        }
        if let Some(write) = owned::write(desired(seen, copy), existing.map(|work| &**work), &mut ids) {
            let because = Reason::PlacedOn { cluster: copy.consumer.clone() };
            plan.push(Effect::Work(write), because.into());
        }
        outcome.note_copy(seen, copy, existing.map(|work| &**work));
    }
    for (work, _) in &present {
        let Some(key) = key_of(work).filter(|key| !kept.contains(key)) else { continue };
        if let Some(write) = owned::delete(work) {
            plan.push(Effect::Work(write), Reason::NotATarget { work: key }.into());
        }
    }
    if let Some(mcs) = served {
        let told = outcome.tell(seen, mcs, &wanted);
        plan.effects.extend(told.into_iter().flat_map(|(part, event)| [Effect::Status(part), Effect::Event(event)]));
        plan.effects.extend(outcome.again.map(Effect::RequeueAfter));
    }
    plan
}

/// The copies that all consumers have to have.
fn copies<'a>(seen: &Seen<'a>, mcs: &MultiClusterService, outcome: &mut Outcome) -> Vec<Copy<'a>> {
    let providers = selected(&mcs.spec.provider_clusters, seen.clusters);
    let consumers = selected(&mcs.spec.consumer_clusters, seen.clusters);
    let mut collected: Vec<_> = seen
        .works
        .iter()
        .filter(|w| w.metadata.deletion_timestamp.is_none() && collect::is_collected_for(w, Flow::MultiClusterService))
        .filter_map(|work| Some((key_of(work)?, work)))
        .filter(|(key, _)| providers.contains(&key.cluster))
        .collect();
    collected.sort_by(|(one, _), (other, _)| one.cmp(other));
    outcome.providers = providers.len();
    let (mut all, mut names_taken) = (Vec::new(), BTreeSet::new());
    for (key, work) in collected {
        let Some(cluster) = seen.clusters.get(&key.cluster) else { continue };
        match provider(seen, &key.cluster, cluster) {
            Provider::Served => {}
            Provider::ServedFor(left) => outcome.again = Some(outcome.again.map_or(left, |again| again.min(left))),
            Provider::Withheld(why) => {
                outcome.withheld.insert(why);
                continue;
            }
        }
        let Some(object) = manifest(work, SLICE_API_VERSION, SLICE_KIND) else { continue };
        let slice = object["metadata"]["name"].as_str().unwrap_or_default();
        // `a` with `b-x` and `a-b` with `x` give one name.
        let mut name = slice::bounded(names::dispatched_endpoint_slice(&key.cluster.0, slice));
        if !names_taken.insert(name.clone()) {
            name = slice::bounded(format!("{name}-{}", names::hash(&format!("{}/{slice}", key.cluster))));
            names_taken.insert(name.clone());
        }
        for consumer in consumers.iter().filter(|consumer| **consumer != key.cluster) {
            let Some(of_consumer) = seen.clusters.get(consumer) else { continue };
            if of_consumer.api_enablement(SLICE_API_VERSION, SLICE_KIND) == ApiEnablement::Disabled {
                outcome.incompatible.insert(consumer.clone());
                continue;
            }
            let (consumer, provider) = (consumer.clone(), key.cluster.clone());
            all.push(Copy { consumer, provider, name: name.clone(), collected: work });
        }
    }
    all
}

fn desired<'a>(seen: &Seen<'_>, copy: &'a Copy<'_>) -> DesiredWork<'a> {
    let collected = manifest(copy.collected, SLICE_API_VERSION, SLICE_KIND).unwrap_or_default();
    let provider = copy.provider.0.to_string();
    DesiredWork {
        cluster: &copy.consumer,
        manifest: slice::dispatched(&collected, &provider, &copy.name),
        labels: StringMap::from([
            (labels::MULTI_CLUSTER_SERVICE_NAMESPACE.to_owned(), seen.key.namespace.to_string()),
            (labels::MULTI_CLUSTER_SERVICE_NAME.to_owned(), seen.key.name.to_string()),
        ]),
        annotations: StringMap::from([(annotations::ENDPOINT_SLICE_PROVISION_CLUSTER.to_owned(), provider)]),
        of_binding: OfBinding::Keeps,
        owner: None,
        conflict_resolution: annotations::CONFLICT_RESOLUTION_ABORT,
        reports_only: false,
    }
}

/// Writes that let Works go that Karmada collected and that are being deleted.
pub(super) fn release_former(works: &[Arc<Work>]) -> impl Iterator<Item = Write> + '_ {
    works.iter().filter(|work| work.metadata.deletion_timestamp.is_some()).filter_map(|work| {
        let all = work.metadata.finalizers.as_deref().unwrap_or_default();
        let rest: Vec<&String> = all.iter().filter(|one| !FORMER_FINALIZERS.contains(&one.as_str())).collect();
        let patch = json!({"metadata": {"finalizers": rest}});
        (rest.len() < all.len()).then_some(Write::Patch { key: key_of(work)?, patch })
    })
}

/// Content of the condition.
#[derive(Default)]
struct Outcome {
    /// Number of providers.
    providers: usize,
    withheld: BTreeSet<String>,
    unready: BTreeMap<ClusterName, String>,
    incompatible: BTreeSet<ClusterName>,
    failed: BTreeSet<String>,
    /// Consumers that have not answered yet.
    pending: BTreeSet<ClusterName>,
    again: Option<Duration>,
}

impl Outcome {
    fn note_copy(&mut self, seen: &Seen<'_>, copy: &Copy<'_>, existing: Option<&Work>) {
        let Some(cluster) = seen.clusters.get(&copy.consumer) else { return };
        if !cluster.is_ready() {
            self.unready.insert(copy.consumer.clone(), not_ready(&copy.consumer, cluster));
        } else if !existing.is_some_and(|work| is_true_of(work, APPLIED)) {
            let status = existing.and_then(|work| work.status.as_ref());
            match status.and_then(|status| conditions::get(&status.conditions, APPLIED)) {
                Some(applied) if applied.status == conditions::FALSE => {
                    self.failed.insert(format!("{}: {}", copy.consumer, applied.message));
                }
                _ => {
                    self.pending.insert(copy.consumer.clone());
                }
            }
        }
    }

    /// The condition and the event about it. A copy that is on its way changes nothing.
    fn tell(&self, seen: &Seen<'_>, mcs: &MultiClusterService, wanted: &[Copy<'_>]) -> Option<(StatusPart, Event)> {
        let present = mcs_conditions(mcs);
        let is_first = conditions::get(present, types::ENDPOINT_SLICE_DISPATCHED).is_none();
        if !self.pending.is_empty()
            || (is_first && wanted.is_empty() && self.withheld.is_empty() && self.incompatible.is_empty())
        {
            return None;
        }
        let consumers: BTreeSet<&ClusterName> = wanted.iter().map(|copy| &copy.consumer).collect();
        let providers: BTreeSet<&ClusterName> = wanted.iter().map(|copy| &copy.provider).collect();
        let mut text = if wanted.is_empty() {
            "no EndpointSlices are dispatched".to_owned()
        } else {
            format!("EndpointSlices of {} are dispatched to {}", listed(providers), listed(consumers))
        };
        let incompatible = self.incompatible.iter().map(|name| format!("{name} does not serve {SLICE_API_VERSION}"));
        let rest = self.failed.iter().cloned().chain(incompatible);
        for more in rest.chain(self.withheld.iter().cloned()).chain(self.unready.values().cloned()) {
            text.push_str("; ");
            text.push_str(&more);
        }
        let told = Told {
            conditions: present,
            type_: types::ENDPOINT_SLICE_DISPATCHED,
            reasons: [reasons::ENDPOINT_SLICE_DISPATCHED_SUCCEED, reasons::ENDPOINT_SLICE_DISPATCHED_FAILED],
            events: [events::DISPATCH_ENDPOINT_SLICE_SUCCEED, events::DISPATCH_ENDPOINT_SLICE_FAILED],
        };
        let is_true = self.failed.is_empty() && self.incompatible.is_empty();
        told.tell(is_true, text, seen.now, || mcs_reference(mcs))
    }
}

/// Returns true if the Work may be of a backend of a Service in this namespace, so that its coming or going may move
/// backends from one cluster to another.
#[must_use]
pub fn may_be_backend(work: &Work) -> Option<Arc<str>> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    let object: Value = manifest.object();
    object.pointer("/spec/template/metadata/labels")?;
    object.pointer("/metadata/namespace")?.as_str().map(Arc::from)
}
