//! Decision of the controller `serviceExport` in the control plane: a ServiceExport there exports its Service from all
//! clusters that have it, also without a policy for the export, and its conditions say so (specification/mcs.md 4).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{StringMap, annotations, conditions, labels, multicluster::ServiceExport, work::Work};
use ironclad_fleet::{ClusterName, Plan, StatusPart, because::propagation::Reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    EXPORT_API_VERSION, SLICE_API_VERSION, SLICE_KIND, ServiceKey, changed,
    collect::{self, EXPORT_KIND, Flow},
    listed, manifest, marker_key, metadata, slice,
};
use crate::{
    new_ids::NewIds,
    work::{
        Owner, key_of,
        owned::{self, DesiredWork, OfBinding, Write},
        owner,
    },
};

/// Condition: there is a Service that can be exported.
pub const VALID: &str = "Valid";
/// Condition: its EndpointSlices arrived.
pub const READY: &str = "Ready";
/// Condition: its clusters export Services that differ.
pub const CONFLICT: &str = "Conflict";

/// Snapshot of one ServiceExport.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub key: &'a ServiceKey,
    /// It, with status parts that wait to be written; `None` if it was deleted.
    pub export: Option<&'a ServiceExport>,
    /// The Service of its name.
    pub service: Option<&'a Value>,
    /// The clusters of the Service's binding.
    pub clusters: &'a BTreeSet<ClusterName>,
    /// True if a policy propagates the export, which says where it counts.
    pub is_propagated: bool,
    /// The clusters with an execution space.
    pub spaces: &'a BTreeSet<ClusterName>,
    /// Works that contain the export, and those with slices that were collected for it.
    pub works: &'a [Arc<Work>],
    pub now: Timestamp,
}

/// Write of a Work, or report.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Work(Write),
    /// Set a part of the status of the export.
    Status(StatusPart),
}

/// The Service that a Work of this process exports: the index value of markers and of propagated exports.
#[must_use]
pub fn of_work(work: &Work) -> Option<ServiceKey> {
    match collect::export(work) {
        Some((key, Flow::ServiceExport)) => Some(key),
        _ => super::export_of(work),
    }
}

/// Marks the clusters that export the Service, and reports.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let export = seen.export.filter(|export| export.metadata.deletion_timestamp.is_none());
    let marks = export.is_some() && !seen.is_propagated;
    for cluster in seen.clusters.iter().filter(|cluster| marks && seen.spaces.contains(*cluster)) {
        let key = marker_key(cluster, EXPORT_KIND, seen.key);
        let desired = DesiredWork {
            cluster,
            manifest: json!({
                "apiVersion": EXPORT_API_VERSION, "kind": EXPORT_KIND,
                "metadata": metadata(&seen.key.namespace, &seen.key.name),
            }),
            labels: StringMap::from([
                (labels::ENDPOINT_SLICE_NAMESPACE.to_owned(), seen.key.namespace.to_string()),
                (labels::ENDPOINT_SLICE_NAME.to_owned(), seen.key.name.to_string()),
            ]),
            annotations: StringMap::new(),
            of_binding: OfBinding::Keeps,
            owner: None,
            conflict_resolution: annotations::CONFLICT_RESOLUTION_ABORT,
            reports_only: true,
        };
        let existing = seen.works.iter().find(|work| key_of(work).as_ref() == Some(&key)).map(|work| &**work);
        if let Some(write) = owned::write(desired, existing, &mut ids) {
            plan.push(Effect::Work(write), Reason::PlacedOn { cluster: cluster.clone() }.into());
        }
    }
    for work in seen.works.iter().filter(|work| is_marker(work)) {
        let Some(key) = key_of(work).filter(|key| !marks || !seen.clusters.contains(&key.cluster)) else { continue };
        if let Some(write) = owned::delete(work) {
            plan.push(Effect::Work(write), Reason::NotATarget { work: key }.into());
        }
    }
    plan.effects.extend(export.and_then(|export| report(seen, export)).map(Effect::Status));
    plan
}

/// Returns true for a Work that this decision made.
fn is_marker(work: &Work) -> bool {
    manifest(work, EXPORT_API_VERSION, EXPORT_KIND).is_some()
        && work.spec.suspend_dispatching == Some(true)
        && !matches!(owner(work), Some(Owner::Binding { .. }))
}

/// Traits of the Service that a cluster exports, by which it may differ from that of another cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traits {
    /// Ports by name and protocol.
    ports: BTreeSet<(String, String)>,
    hostnames: BTreeSet<String>,
    is_headless: bool,
}

/// The traits that a collected slice shows; `None` for other Works and for slices without endpoints, which have no
/// ports either.
#[must_use]
pub fn traits(work: &Work) -> Option<Traits> {
    if work.metadata.deletion_timestamp.is_some() || !collect::is_collected_for(work, Flow::ServiceExport) {
        return None;
    }
    let object = manifest(work, SLICE_API_VERSION, SLICE_KIND)?;
    let list = |field: &str| object[field].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, without: &str| value.as_str().unwrap_or(without).to_owned();
    let endpoints = list("endpoints");
    if endpoints.is_empty() {
        return None;
    }
    Some(Traits {
        ports: list("ports").iter().map(|port| (text(&port["name"], ""), text(&port["protocol"], "TCP"))).collect(),
        hostnames: endpoints.iter().filter_map(|one| one["hostname"].as_str()).map(str::to_owned).collect(),
        is_headless: slice::is_headless(&object),
    })
}

/// What differs between the clusters that export a Service: reasons of the condition with a sentence for each.
fn conflicts(works: &[Arc<Work>]) -> BTreeMap<&'static str, Vec<String>> {
    let mut clusters = BTreeMap::<ClusterName, Traits>::new();
    for work in works {
        let (Some(key), Some(of_slice)) = (key_of(work), traits(work)) else { continue };
        let all = clusters.entry(key.cluster).or_default();
        all.ports.extend(of_slice.ports);
        all.hostnames.extend(of_slice.hostnames);
        all.is_headless |= of_slice.is_headless;
    }
    let with = |has: &dyn Fn(&Traits) -> bool| -> [Vec<&ClusterName>; 2] {
        let (yes, no): (Vec<_>, Vec<_>) = clusters.iter().partition(|(_, traits)| has(traits));
        [yes, no].map(|side| side.into_iter().map(|(name, _)| name).collect())
    };
    let mut found = BTreeMap::<&'static str, Vec<String>>::new();
    let ports: BTreeSet<_> = clusters.values().flat_map(|traits| &traits.ports).collect();
    for port in ports {
        let [have, lack] = with(&|traits| traits.ports.contains(port));
        if !lack.is_empty() {
            let (name, protocol) = port;
            let name = if name.is_empty() { "without a name" } else { name };
            let text = format!("port {name}/{protocol} is served in {} and not in {}", listed(have), listed(lack));
            found.entry("PortConflict").or_default().push(text);
        }
    }
    let [headless, other] = with(&|traits| traits.is_headless);
    if !headless.is_empty() && !other.is_empty() {
        let text = format!("the Service is headless in {} and not in {}", listed(headless), listed(other));
        found.entry("TypeConflict").or_default().push(text);
    }
    let hostnames: BTreeSet<_> = clusters.values().flat_map(|traits| &traits.hostnames).collect();
    for hostname in hostnames {
        let [have, _] = with(&|traits| traits.is_headless && traits.hostnames.contains(hostname));
        if have.len() > 1 {
            let text = format!("hostname {hostname} is used in {}: its addresses are served together", listed(have));
            found.entry("HostnameConflict").or_default().push(text);
        }
    }
    found
}

/// Most sentences of a condition for one reason.
const CONFLICTS_TOLD_MAX: usize = 5;

fn report(seen: &Seen<'_>, export: &ServiceExport) -> Option<StatusPart> {
    let passed_on = export
        .spec
        .as_ref()
        .is_some_and(|spec| !spec.exported_labels.is_empty() || !spec.exported_annotations.is_empty());
    let valid = match seen.service {
        None => (conditions::FALSE, "NoService", format!("there is no Service {}: create it", seen.key)),
        Some(service) if service["spec"]["type"] == "ExternalName" => {
            let message = "a Service of type ExternalName has no endpoints that can be exported".to_owned();
            (conditions::FALSE, "InvalidServiceType", message)
        }
        Some(_) if passed_on => {
            let message = "the Service can be exported; exportedLabels and exportedAnnotations have no effect";
            (conditions::TRUE, "Valid", message.to_owned())
        }
        Some(_) => (conditions::TRUE, "Valid", "the Service can be exported".to_owned()),
    };
    let collected = seen.works.iter().filter(|work| {
        work.metadata.deletion_timestamp.is_none() && collect::is_collected_for(work, Flow::ServiceExport)
    });
    let clusters: BTreeSet<ClusterName> = collected.filter_map(|work| Some(key_of(work)?.cluster)).collect();
    let ready = if clusters.is_empty() {
        (conditions::FALSE, "Pending", "no cluster has reported EndpointSlices of the Service yet".to_owned())
    } else {
        (conditions::TRUE, "Exported", format!("EndpointSlices of {} are collected", listed(&clusters)))
    };
    let mut differences = conflicts(seen.works);
    for told in differences.values_mut().filter(|told| told.len() > CONFLICTS_TOLD_MAX) {
        let more = told.split_off(CONFLICTS_TOLD_MAX).len();
        told.push(format!("and {more} more"));
    }
    let reasons = differences.keys().copied().collect::<Vec<_>>().join(",");
    let message = differences.into_values().flatten().collect::<Vec<_>>().join("; ");
    let conflict = if reasons.is_empty() {
        (conditions::FALSE, "NoConflicts", "what the clusters export is alike".to_owned())
    } else {
        (conditions::TRUE, &*reasons, message)
    };
    let stored = export.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let all = [(VALID, valid), (READY, ready), (CONFLICT, conflict)].into_iter();
    let conditions = all.filter_map(|(type_, told)| changed(stored, type_, told, seen.now)).collect();
    let part = StatusPart { conditions, ..StatusPart::default() };
    (!part.is_empty()).then_some(part)
}
