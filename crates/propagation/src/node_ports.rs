//! Node ports that the control plane's server allocated to a template: each member allocates its own
//! (specification/propagation.md 9.4).
//!
//! A server allocates after it has noted who owns which field, so an allocated port is one that no entry of
//! `metadata.managedFields` has. Whoever applies with kubectl the very number that was allocated owns it by kubectl's
//! annotation only.

use std::collections::BTreeSet;

use ironclad_api::ObjectMeta;
use serde_json::{Value, json};

use crate::template::{self, Identity};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns true for the core kind Service.
#[must_use]
pub fn has(api_version: &str, kind: &str) -> bool {
    (api_version, kind) == ("v1", "Service")
}

/// Reduces `managedFields` to one entry with the node ports that have an owner. Without entries there are none after
/// it, too: nothing is known about the ports then.
pub fn reduce(metadata: &mut ObjectMeta) {
    let Some(entries) = metadata.managed_fields.as_mut().filter(|entries| !entries.is_empty()) else { return };
    let owned = owned(entries.iter().filter_map(|entry| Some(&entry.fields_v1.as_ref()?.0)));
    // All fields of an entry are optional.
    *entries = serde_json::from_value(json!([{ "fieldsV1": owned }])).unwrap_or_default();
}

/// Removes the allocated node ports of the template from a manifest that was made of it. One that an override put in
/// the place of an allocated one stays. Without entries in `managedFields` all ports count as wanted.
pub(crate) fn leave_out(template: &Value, manifest: &mut Value) {
    let identity = Identity::of(template);
    if !has(identity.api_version, identity.kind) {
        return;
    }
    let Some(entries) = template.pointer("/metadata/managedFields").and_then(Value::as_array) else { return };
    if entries.is_empty() {
        return;
    }
    let owned = owned(entries.iter().filter_map(|entry| entry.get("fieldsV1")));
    let applied: Value = serde_json::from_str(template::annotation(template, LAST_APPLIED)).unwrap_or_default();
    let applied_ports: BTreeSet<_> = ports(&applied).filter_map(node_port).collect();
    let is_wanted = |port: &&Value| {
        let key = format!("k:{}", json!({"port": port["port"], "protocol": protocol(port)}));
        !owned["f:spec"]["f:ports"][key].is_null() || node_port(port).is_some_and(|port| applied_ports.contains(&port))
    };
    let allocated: BTreeSet<_> = ports(template).filter(|port| !is_wanted(port)).filter_map(node_port).collect();
    // With false, ports from before are no longer the server's to keep: they are in the template or nowhere.
    let allocates = template.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&json!(false));
    let theirs = manifest.pointer_mut("/spec/ports").and_then(Value::as_array_mut).filter(|_| allocates);
    for port in theirs.into_iter().flatten() {
        if node_port(port).is_some_and(|number| allocated.contains(&number))
            && let Some(port) = port.as_object_mut()
        {
            port.remove("nodePort");
        }
    }
    let health = |service: &Value| service.pointer("/spec/healthCheckNodePort").cloned();
    let is_wanted = !owned["f:spec"]["f:healthCheckNodePort"].is_null() || health(&applied).is_some();
    if !is_wanted
        && health(manifest) == health(template)
        && let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("healthCheckNodePort");
    }
}

/// The node ports among these sets of fields, as one set.
fn owned<'a>(sets: impl Iterator<Item = &'a Value>) -> Value {
    let mut owned = json!({"f:spec": {"f:ports": {}}});
    for spec in sets.filter_map(|fields| fields.get("f:spec")) {
        for (key, item) in spec.get("f:ports").and_then(Value::as_object).into_iter().flatten() {
            if item.get("f:nodePort").is_some() {
                owned["f:spec"]["f:ports"][key] = json!({"f:nodePort": {}});
            }
        }
        if spec.get("f:healthCheckNodePort").is_some() {
            owned["f:spec"]["f:healthCheckNodePort"] = json!({});
        }
    }
    owned
}

fn ports(service: &Value) -> impl Iterator<Item = &Value> {
    service.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten()
}

fn node_port(port: &Value) -> Option<(&str, u64)> {
    Some((protocol(port), port.get("nodePort")?.as_u64()?))
}

fn protocol(port: &Value) -> &str {
    Some(template::text(port, "/protocol")).filter(|name| !name.is_empty()).unwrap_or("TCP")
}

#[cfg(test)]
mod tests;
