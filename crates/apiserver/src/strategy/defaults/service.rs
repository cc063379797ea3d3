//! Defaults of Service.

use serde_json::{Value, json};

use super::{child, each, set};

pub(super) fn service(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
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
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    child(child(object, "status"), "loadBalancer");
}

/// The addresses as a list, and their families. They come with the allocation, so that nobody owns them.
pub(crate) fn families(object: &mut Value) {
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
        // Nobody knows which addresses somebody else's endpoints will have.
        set(spec, "ipFamilyPolicy", "RequireDualStack");
        set(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
    }
    set(spec, "ipFamilies", json!(["IPv4"]));
    set(spec, "ipFamilyPolicy", "SingleStack");
}

/// An update that leaves out the addresses keeps them; one to ExternalName lets them go.
pub(crate) fn keep_addresses(old: &Value, new: &mut Value) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        for key in ["clusterIP", "clusterIPs"] {
            spec.remove(key);
        }
        return;
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let blank = |v: &Value| v.is_null() || v.as_str() == Some("") || v.as_array().is_some_and(Vec::is_empty);
        if spec.get(key).is_none_or(blank)
            && let Some(value) = old.pointer(&format!("/spec/{key}"))
        {
            spec.insert(key.into(), value.clone());
        }
    }
}
