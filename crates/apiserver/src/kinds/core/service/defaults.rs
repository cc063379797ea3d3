//! Defaults of Service.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::kinds::shared::defaults::{child, each, set};

pub(super) fn service(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None"
        && let Some(map) = spec.as_object_mut()
    {
        map.remove("sessionAffinityConfig");
    }
    if spec["sessionAffinity"] == "ClientIP" {
        set(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
    }
    for port in each(spec, "ports") {
        set(port, "protocol", "TCP");
        if port["targetPort"].is_null() || port["targetPort"] == json!(0) || port["targetPort"] == json!("") {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_reached_from_outside(object) {
        set(child(object, "spec"), "externalTrafficPolicy", "Cluster");
    }
    let spec = child(object, "spec");
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    let is_balanced = object["spec"]["type"] == "LoadBalancer";
    let balancer = child(child(object, "status"), "loadBalancer");
    for reached in each(balancer, "ingress") {
        if is_balanced && reached["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
            set(reached, "ipMode", "VIP");
        }
    }
}

/// Fills in the list of addresses and their families. It runs with the allocation, so that no manager owns them.
pub(super) fn families(object: &mut Value) {
    let spec = child(object, "spec");
    if spec["type"] == "ExternalName" {
        if let Some(map) = spec.as_object_mut() {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                map.remove(key);
            }
        }
        return;
    }
    if let Some(ip) = spec["clusterIP"].as_str().filter(|ip| !ip.is_empty()).map(str::to_owned) {
        set(spec, "clusterIPs", json!([ip]));
    }
    let selected = spec["selector"].as_object().is_some_and(|s| !s.is_empty());
    if spec["clusterIP"] == "None" && !selected {
        // Without a selector the families of the endpoints are unknown.
        set(spec, "ipFamilyPolicy", "RequireDualStack");
        set(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
    }
    set(spec, "ipFamilies", json!(["IPv4"]));
    set(spec, "ipFamilyPolicy", "SingleStack");
}

/// An update that leaves out the addresses keeps them; one to ExternalName lets them go.
pub(super) fn keep_addresses(old: &Value, new: &mut Value) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        for key in ["clusterIP", "clusterIPs"] {
            spec.remove(key);
        }
        return;
    }
    let mut keep = |key: &str| {
        let blank =
            |v: &Value| v.is_null() || matches!(v.as_str(), Some("")) || v.as_array().is_some_and(Vec::is_empty);
        if spec.get(key).is_none_or(|v| blank(v) || *v == 0)
            && let Some(value) = old.pointer(&format!("/spec/{key}"))
        {
            spec.insert(key.into(), value.clone());
        }
    };
    ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].into_iter().for_each(&mut keep);
    let one = spec.get("clusterIP").cloned().unwrap_or_default();
    // A client that changes the field without the list means both.
    if old.pointer("/spec/clusterIP") != Some(&one)
        && spec.get("clusterIPs") == old.pointer("/spec/clusterIPs")
        && let Some(first) = spec.get_mut("clusterIPs").and_then(|ips| ips.get_mut(0))
    {
        *first = one;
    }
    if needs_health_check(old) && needs_health_check(new) {
        let spec = child(new, "spec");
        if spec["healthCheckNodePort"].as_u64().is_none_or(|n| n == 0) {
            spec["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
        }
    }
}

/// A port that names no port of nodes keeps the one that a port of its name had, unless another took it over.
pub(super) fn keep_node_ports(old: &Value, new: &mut Value) {
    const NODES: [&str; 2] = ["NodePort", "LoadBalancer"];
    let allocated = |of: &Value| is_of(of, &NODES) && of["spec"]["allocateLoadBalancerNodePorts"] != false;
    if !allocated(old) || !allocated(new) {
        return;
    }
    let number = |port: &Value| port["nodePort"].as_u64().filter(|n| *n != 0);
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let list = |of: &Value| of.pointer("/spec/ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let taken: BTreeSet<u64> = list(new).iter().filter_map(number).collect();
    let mut had = BTreeMap::new();
    for port in list(old) {
        had.entry(name(&port)).or_insert(port);
    }
    for port in each(child(new, "spec"), "ports").filter(|port| number(port).is_none()) {
        let before = had.get(&name(port)).and_then(number).filter(|n| !taken.contains(n));
        if let (Some(before), Some(map)) = (before, port.as_object_mut()) {
            map.insert("nodePort".into(), json!(before));
        }
    }
}

fn is_of(service: &Value, types: &[&str]) -> bool {
    service.pointer("/spec/type").and_then(Value::as_str).is_some_and(|kind| types.contains(&kind))
}

/// True for a Service that is reachable from outside of the cluster.
pub(super) fn is_reached_from_outside(service: &Value) -> bool {
    let named = service.pointer("/spec/externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    is_of(service, &["NodePort", "LoadBalancer"]) || named && is_of(service, &["ClusterIP"])
}

/// True for a Service with a health check node port.
pub(super) fn needs_health_check(service: &Value) -> bool {
    is_of(service, &["LoadBalancer"])
        && service.pointer("/spec/externalTrafficPolicy").is_some_and(|policy| policy == "Local")
}

/// Drops what a Service of the new type doesn't have and the client left as it was: most of it the server set itself.
pub(super) fn drop_of_other_types(old: &Value, new: &mut Value) {
    const NODES: [&str; 2] = ["NodePort", "LoadBalancer"];
    let loses = |types: &[&str]| is_of(old, types) && !is_of(new, types);
    let mut dropped: Vec<&str> = Vec::new();
    if loses(&["ClusterIP", "NodePort", "LoadBalancer"]) {
        dropped.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if loses(&["LoadBalancer"]) {
        dropped.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(new) {
        dropped.push("externalTrafficPolicy");
    }
    if needs_health_check(old) && !needs_health_check(new) {
        dropped.push("healthCheckNodePort");
    }
    let ports = |of: &Value| {
        let ports = of.pointer("/spec/ports").and_then(Value::as_array);
        ports.into_iter().flatten().filter_map(|p| p["nodePort"].as_u64()).collect::<std::collections::BTreeSet<_>>()
    };
    let ports_fall = loses(&NODES) && ports(old) == ports(new);
    let unbalanced = loses(&["LoadBalancer"]);
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for key in dropped {
        if spec.get(key) == old.pointer(&format!("/spec/{key}")) {
            spec.remove(key);
        }
    }
    if ports_fall {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    if unbalanced {
        new["status"]["loadBalancer"] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_the_type_drops_fields() {
        let balanced = json!({"spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.9", "allocateLoadBalancerNodePorts": true,
            "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30001}],
        }});
        let with = |change: Value| {
            let mut new = balanced.clone();
            ironclad_patch::merge_patch(&mut new, &json!({"spec": change}));
            drop_of_other_types(&balanced, &mut new);
            new["spec"].take()
        };
        let spec = with(json!({"type": "ClusterIP"}));
        assert_eq!(spec, json!({"type": "ClusterIP", "clusterIP": "10.96.0.9", "ports": [{"port": 80}]}));
        let changed = with(json!({"type": "ClusterIP", "externalTrafficPolicy": "Local"}));
        assert_eq!(changed["externalTrafficPolicy"], "Local", "what was changed as well is a mistake to be messages");
        let named = with(json!({"type": "ExternalName"}));
        assert!(named.get("clusterIP").is_none());
        assert_eq!(with(json!({"type": "NodePort"}))["ports"][0]["nodePort"], 30001);
    }
}
