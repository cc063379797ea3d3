//! Decision of the controller `serviceExport` in the control plane: a ServiceExport there exports its Service from all
//! clusters that have it, also without a policy for the export, and its conditions say so (specification/mcs.md 4).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{StringMap, Time, annotations, conditions, labels, multicluster::ServiceExport, work::Work};
use ironclad_fleet::{ClusterName, Plan, StatusPart, because::propagation::Reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    EXPORT_API_VERSION, ServiceKey,
    collect::{self, EXPORT_KIND, Flow},
    listed, manifest, marker_key, metadata,
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

fn report(seen: &Seen<'_>, export: &ServiceExport) -> Option<StatusPart> {
    let valid = match seen.service {
        None => (conditions::FALSE, "NoService", format!("there is no Service {}: create it", seen.key)),
        Some(service) if service["spec"]["type"] == "ExternalName" => {
            let message = "a Service of type ExternalName has no endpoints that can be exported".to_owned();
            (conditions::FALSE, "InvalidServiceType", message)
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
    let stored = export.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut part = StatusPart::default();
    for (type_, (status, reason, message)) in [(VALID, valid), (READY, ready)] {
        let before = conditions::get(stored, type_);
        if before.is_some_and(|c| (c.status.as_str(), c.reason.as_str(), &c.message) == (status, reason, &message)) {
            continue;
        }
        let mut condition = conditions::condition(type_, status, reason, message);
        condition.last_transition_time = Time(seen.now);
        part.conditions.push(condition);
    }
    (!part.is_empty()).then_some(part)
}
