//! Decision of the controller `serviceImport`: the Service by which a ServiceImport is reached, and the status of both
//! (specification/mcs.md 4).

use std::collections::BTreeSet;

use ironclad_api::{
    annotations::IMPORTED_SERVICE_NAME,
    conditions, events,
    multicluster::{ServiceImport, ServiceImportType},
    names,
};
use ironclad_fleet::{ClusterName, Event, Plan, StatusPart, merge_patch_between};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{EXPORT_API_VERSION, changed, listed};

/// Condition: its Service is made, and leads to endpoints.
pub const READY: &str = "Ready";
/// Kind of ServiceImports.
pub const KIND: &str = "ServiceImport";

/// Name of the Service of a ServiceImport; without one, of the ServiceImport that an export may get.
#[must_use]
pub fn service_name(import: Option<&ServiceImport>, name: &str) -> String {
    let chosen = import.and_then(|import| import.metadata.annotations.as_ref()?.get(IMPORTED_SERVICE_NAME));
    chosen.filter(|chosen| !chosen.is_empty()).cloned().unwrap_or_else(|| names::derived_service(name))
}

/// Snapshot of one ServiceImport.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub import: &'a ServiceImport,
    /// The Service under [`service_name`].
    pub service: Option<&'a Value>,
    /// The clusters with collected slices of the exported Service.
    pub exporters: &'a BTreeSet<ClusterName>,
    pub now: Timestamp,
}

/// Write or report.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    CreateService(Value),
    PatchService(Value),
    /// Set a part of the status of the Service.
    ServiceStatus(StatusPart),
    /// Set a part of the status of the import.
    Status(StatusPart),
    Event(Event),
}

/// Makes the Service what the import says. Garbage collection deletes it with the import.
pub fn decide(seen: &Seen<'_>) -> Plan<Effect> {
    let mut plan = Plan::default();
    let import = seen.import;
    if import.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let own_name = import.metadata.name.as_deref().unwrap_or_default();
    let name = service_name(Some(import), own_name);
    let about = || ironclad_fleet::reference(EXPORT_API_VERSION, KIND, &import.metadata);
    let wanted = wanted(import, &name);
    let synced = |name: &str| {
        Event::normal(about(), events::SYNC_DERIVED_SERVICE_SUCCEED, format!("Service {name} is up to date"))
    };
    let Some(present) = seen.service else {
        plan.effects.extend(report(seen, &name, None).map(Effect::Status));
        plan.effects.extend([Effect::CreateService(wanted), Effect::Event(synced(&name))]);
        return plan;
    };
    let uid = import.metadata.uid.as_deref().unwrap_or_default();
    let owners = present["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_owned = owners.iter().any(|owner| owner["uid"] == uid);
    // Karmada's own have no owner.
    let is_former = owners.is_empty() && name == names::derived_service(own_name);
    if !is_owned && !is_former {
        let message = format!(
            "there is a Service {name} that does not belong to this import: delete it, or set annotation {IMPORTED_SERVICE_NAME} to another name"
        );
        plan.effects.extend(report(seen, &name, Some(&message)).map(Effect::Status));
        plan.effects.push(Effect::Event(Event::warning(about(), events::SYNC_DERIVED_SERVICE_FAILED, message)));
        return plan;
    }
    plan.effects.extend(report(seen, &name, None).map(Effect::Status));
    if let Some(patch) = merge_patch_between(&comparable(present), &comparable(&wanted)) {
        plan.effects.extend([Effect::PatchService(patch), Effect::Event(synced(&name))]);
    }
    let ingress: Vec<Value> = import.spec.iter().flat_map(|spec| &spec.ips).map(|ip| json!({"ip": ip})).collect();
    let stored = &present["status"];
    let addresses = |status: &Value| -> Vec<Value> {
        let list = status["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one["ip"].clone()).collect()
    };
    let balancer = if ingress.is_empty() { json!({}) } else { json!({"ingress": ingress}) };
    if addresses(stored) != addresses(&json!({"loadBalancer": balancer})) {
        let fields = Map::from_iter([("loadBalancer".to_owned(), balancer)]);
        plan.effects.push(Effect::ServiceStatus(StatusPart { fields, ..StatusPart::default() }));
    }
    plan
}

/// The clusters that it is imported from, and its condition: `refused` is the reason why it has no Service.
fn report(seen: &Seen<'_>, name: &str, refused: Option<&str>) -> Option<StatusPart> {
    let import = seen.import;
    let clusters: Vec<Value> = seen.exporters.iter().map(|cluster| json!({"cluster": &*cluster.0})).collect();
    let has_clusters = import.status.as_ref().is_some_and(|status| !status.clusters.is_empty());
    let mut part = StatusPart::default();
    if (has_clusters || !clusters.is_empty()) && json!(import.status)["clusters"] != json!(clusters) {
        part.fields.insert("clusters".to_owned(), json!(clusters));
    }
    let has_families = import.spec.as_ref().is_some_and(|spec| !spec.ip_families.is_empty());
    let families = if has_families { "; spec.ipFamilies has no effect: each cluster has its own" } else { "" };
    let told = match refused {
        Some(why) => (conditions::FALSE, "Pending", why.to_owned()),
        None if seen.exporters.is_empty() => {
            (conditions::FALSE, "Pending", format!("no cluster exports it yet{families}"))
        }
        None => {
            let text = format!("Service {name} leads to endpoints of {}{families}", listed(seen.exporters));
            (conditions::TRUE, "Ready", text)
        }
    };
    let stored = import.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    part.conditions.extend(changed(stored, READY, told, seen.now));
    (!part.is_empty()).then_some(part)
}

/// The Service of an import.
fn wanted(import: &ServiceImport, name: &str) -> Value {
    let spec = import.spec.as_ref();
    let ports: Vec<Value> = spec
        .into_iter()
        .flat_map(|spec| &spec.ports)
        .map(|port| {
            let mut one =
                json!({"protocol": if port.protocol.is_empty() { "TCP" } else { &port.protocol }, "port": port.port});
            if !port.name.is_empty() {
                one["name"] = port.name.as_str().into();
            }
            if let Some(protocol) = &port.app_protocol {
                one["appProtocol"] = protocol.as_str().into();
            }
            one
        })
        .collect();
    let affinity = spec.map(|spec| spec.session_affinity.as_str()).filter(|affinity| !affinity.is_empty());
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": import.metadata.namespace, "name": name,
            "ownerReferences": [{
                "apiVersion": EXPORT_API_VERSION, "kind": KIND, "name": import.metadata.name, "uid": import.metadata.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"type": "ClusterIP", "ports": ports, "sessionAffinity": affinity.unwrap_or("None")},
    });
    if spec.is_some_and(|spec| spec.type_ == ServiceImportType::Headless) {
        service["spec"]["clusterIP"] = "None".into();
    }
    if let Some(config) = spec.and_then(|spec| spec.session_affinity_config.as_ref()) {
        service["spec"]["sessionAffinityConfig"] = json!(config);
    }
    if let Some(policy) = spec.and_then(|spec| spec.internal_traffic_policy.as_ref()) {
        service["spec"]["internalTrafficPolicy"] = policy.as_str().into();
    }
    if let Some(preference) = spec.and_then(|spec| spec.traffic_distribution.as_ref()) {
        service["spec"]["trafficDistribution"] = preference.as_str().into();
    }
    service
}

/// The fields of a Service that an import decides about. Its address is the server's, and so is the target of a port,
/// which is the port.
fn comparable(service: &Value) -> Value {
    let spec = &service["spec"];
    let ports: Vec<Value> = spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| {
            let kept = ["name", "protocol", "port", "appProtocol"];
            Value::Object(kept.iter().filter_map(|key| Some(((*key).to_owned(), port.get(*key)?.clone()))).collect())
        })
        .collect();
    // The server's default.
    let policy = spec["internalTrafficPolicy"].as_str().unwrap_or("Cluster");
    json!({
        "metadata": {"ownerReferences": service["metadata"]["ownerReferences"]},
        "spec": {
            "ports": ports, "sessionAffinity": spec["sessionAffinity"], "internalTrafficPolicy": policy,
            "sessionAffinityConfig": spec["sessionAffinityConfig"], "trafficDistribution": spec["trafficDistribution"],
        },
    })
}
