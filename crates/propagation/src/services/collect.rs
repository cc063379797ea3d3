//! Decision of the controllers `endpointsliceCollect` and `serviceExport`: EndpointSlices of exported Services of one
//! member become Works that report them to the control plane (specification/mcs.md 3).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{StringMap, annotations, labels, work::Work};
use ironclad_fleet::{ClusterName, Plan, WorkKey, because::propagation::Reason};
use serde_json::{Value, json};

use super::{EXPORT_API_VERSION, MCS_API_VERSION, MCS_KIND, SLICE_KIND, ServiceKey, manifest, provider_of, slice};
use crate::{
    new_ids::NewIds,
    work::{
        key_of,
        owned::{self, DesiredWork, OfBinding, Write},
    },
};

/// Kind of ServiceExports.
pub const EXPORT_KIND: &str = "ServiceExport";
/// Labels of a collected slice's Work that depend on what it is collected for.
const LABELS: [&str; 5] = [
    labels::ENDPOINT_SLICE_MANAGED_BY,
    labels::MULTI_CLUSTER_SERVICE_NAMESPACE,
    labels::MULTI_CLUSTER_SERVICE_NAME,
    labels::ENDPOINT_SLICE_NAMESPACE,
    labels::ENDPOINT_SLICE_NAME,
];
/// Largest number of Services whose slices a member is asked for by name.
const NAMED_SERVICES_MAX: usize = 50;

/// Purpose of an export. The order is that of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// A MultiClusterService.
    MultiClusterService,
    /// A ServiceExport.
    ServiceExport,
}

impl Flow {
    /// Its word in label `endpointslice.karmada.io/managed-by`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MultiClusterService => MCS_KIND,
            Self::ServiceExport => EXPORT_KIND,
        }
    }
}

/// The Services that a member exports.
pub type Exported = BTreeMap<ServiceKey, BTreeSet<Flow>>;

/// The Service that a Work in the execution space of a member has exported there: the marker of a MultiClusterService,
/// or a ServiceExport.
#[must_use]
pub fn export(work: &Work) -> Option<(ServiceKey, Flow)> {
    if work.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let kinds = [(MCS_API_VERSION, Flow::MultiClusterService), (EXPORT_API_VERSION, Flow::ServiceExport)];
    kinds.into_iter().find_map(|(api_version, flow)| {
        let object = manifest(work, api_version, flow.as_str())?;
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Some((ServiceKey::new(&text("namespace"), &text("name")), flow))
    })
}

/// The Services that these Works of a member export, as far as this process serves the flows.
pub fn exported<'w>(works: impl IntoIterator<Item = &'w Work>, flows: &BTreeSet<Flow>) -> Exported {
    let mut all = Exported::new();
    for (key, flow) in works.into_iter().filter_map(export).filter(|(_, flow)| flows.contains(flow)) {
        all.entry(key).or_default().insert(flow);
    }
    all
}

/// Label selector of the slices that have to be watched in a member that exports these Services.
#[must_use]
pub fn selector(exported: &Exported) -> String {
    let names: BTreeSet<&str> = exported.keys().map(|key| &*key.name).collect();
    if names.len() > NAMED_SERVICES_MAX {
        return labels::SERVICE_NAME.to_owned();
    }
    format!("{} in ({})", labels::SERVICE_NAME, names.into_iter().collect::<Vec<_>>().join(","))
}

/// Returns true if the Work contains a slice that was collected in its own cluster.
#[must_use]
pub fn is_collected(work: &Work) -> bool {
    let is_marked = work.metadata.labels.as_ref().is_some_and(|l| l.contains_key(labels::ENDPOINT_SLICE_MANAGED_BY));
    is_marked && provider_of(work).is_none()
}

/// Returns true if the Work contains a slice that was collected for this flow.
#[must_use]
pub fn is_collected_for(work: &Work, flow: Flow) -> bool {
    let flows = work.metadata.labels.as_ref().and_then(|map| map.get(labels::ENDPOINT_SLICE_MANAGED_BY));
    is_collected(work) && flows.is_some_and(|flows| flows.split('.').any(|one| one == flow.as_str()))
}

/// The key of the Work of a slice of a member.
#[must_use]
pub fn key(cluster: &ClusterName, namespace: &str, name: &str) -> WorkKey {
    owned::key(cluster, SLICE_KIND, namespace, name)
}

/// Snapshot of one slice of a member.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The member.
    pub cluster: &'a ClusterName,
    /// Its slice; `None` if it was deleted.
    pub slice: Option<&'a Value>,
    /// The Work under [`key`].
    pub work: Option<&'a std::sync::Arc<Work>>,
    /// The Services that the member exports.
    pub exported: &'a Exported,
}

/// The Work that a slice has to have, if any.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Write> {
    let mut plan = Plan::default();
    let existing = seen.work.filter(|work| is_collected(work));
    let none = BTreeSet::new();
    let own = seen.slice.filter(|slice| !slice::is_of_another_cluster(slice));
    let service = own.and_then(slice::service_of);
    let flows = service.as_ref().and_then(|service| seen.exported.get(service)).unwrap_or(&none);
    let (Some(whole), Some(service), false) = (own, service, flows.is_empty()) else {
        if let Some((work, write)) = existing.and_then(|work| Some((key_of(work)?, owned::delete(work)?))) {
            plan.push(write, Reason::NotATarget { work }.into());
        }
        return plan;
    };
    // Its name is taken, by a slice that came from another cluster or by a Work of a binding.
    if seen.work.is_some() && existing.is_none() {
        return plan;
    }
    let labels = labels_of(&service, flows);
    let stale: Vec<&str> = LABELS.into_iter().filter(|label| !labels.contains_key(*label)).collect();
    let desired = DesiredWork {
        cluster: seen.cluster,
        manifest: slice::portable(whole),
        labels,
        annotations: StringMap::new(),
        of_binding: OfBinding::Keeps,
        owner: None,
        conflict_resolution: annotations::CONFLICT_RESOLUTION_ABORT,
        reports_only: true,
    };
    let existing = existing.map(|work| &**work);
    let write = without_labels(owned::write(desired, existing, &mut ids), existing, &stale);
    if let Some(write) = write {
        plan.push(write, Reason::Reported { cluster: seen.cluster.clone() }.into());
    }
    plan
}

fn labels_of(service: &ServiceKey, flows: &BTreeSet<Flow>) -> StringMap {
    let joined = flows.iter().map(|flow| flow.as_str()).collect::<Vec<_>>().join(".");
    let mut all = StringMap::from([(labels::ENDPOINT_SLICE_MANAGED_BY.to_owned(), joined)]);
    for flow in flows {
        let [namespace, name] = match flow {
            Flow::MultiClusterService => [labels::MULTI_CLUSTER_SERVICE_NAMESPACE, labels::MULTI_CLUSTER_SERVICE_NAME],
            Flow::ServiceExport => [labels::ENDPOINT_SLICE_NAMESPACE, labels::ENDPOINT_SLICE_NAME],
        };
        all.insert(namespace.to_owned(), service.namespace.to_string());
        all.insert(name.to_owned(), service.name.to_string());
    }
    all
}

/// The write, which also takes these labels from the Work.
fn without_labels(write: Option<Write>, existing: Option<&Work>, stale: &[&str]) -> Option<Write> {
    let present = existing.filter(|work| work.metadata.deletion_timestamp.is_none());
    let has = |label: &&&str| present.and_then(|w| w.metadata.labels.as_ref()).is_some_and(|l| l.contains_key(**label));
    let taken: serde_json::Map<String, Value> =
        stale.iter().filter(has).map(|label| ((*label).to_owned(), Value::Null)).collect();
    if taken.is_empty() {
        return write;
    }
    match write {
        Some(Write::Patch { key, mut patch }) => {
            let map = &mut patch["metadata"]["labels"];
            taken.into_iter().for_each(|(label, null)| map[label] = null);
            Some(Write::Patch { key, patch })
        }
        None => Some(Write::Patch { key: key_of(present?)?, patch: json!({"metadata": {"labels": taken}}) }),
        other => other,
    }
}

/// The time to wait before a change of a slice is reported. The first change goes at once, and so does one that takes
/// an address away; `since_last` is the time since the last report of the slice.
#[must_use]
pub fn wait(
    before: Option<&Value>,
    after: Option<&Value>,
    since_last: Option<Duration>,
    interval: Duration,
) -> Duration {
    let (Some(before), Some(after)) = (before, after) else { return Duration::ZERO };
    let takes_away = !slice::addresses(before).is_subset(&slice::addresses(after));
    if takes_away { Duration::ZERO } else { since_last.map_or(Duration::ZERO, |since| interval.saturating_sub(since)) }
}
