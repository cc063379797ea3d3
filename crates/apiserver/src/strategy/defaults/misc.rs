//! Defaults of the kinds that have few.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{child, each, set};

pub(super) fn apply(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Namespace") => namespace(object),
        ("", "Secret") => secret(object),
        ("", "PersistentVolumeClaim") => {
            set(child(object, "spec"), "volumeMode", "Filesystem");
            set(child(object, "status"), "phase", "Pending");
        }
        ("", "PersistentVolume") => {
            let spec = child(object, "spec");
            set(spec, "persistentVolumeReclaimPolicy", "Retain");
            set(spec, "volumeMode", "Filesystem");
            if let Some(path) = spec.get_mut("hostPath").and_then(Value::as_object_mut) {
                path.entry("type").or_insert_with(|| json!(""));
            }
        }
        ("", "Node") => {
            pod_ranges(object);
            let status = child(object, "status");
            if status["capacity"].is_object() {
                let capacity = status["capacity"].clone();
                set(status, "allocatable", capacity);
            }
        }
        ("", "LimitRange") => {
            for limit in each(child(object, "spec"), "limits") {
                limits(limit);
            }
        }
        ("networking.k8s.io", "IngressClass") => {
            if let Some(parameters) = object.pointer_mut("/spec/parameters").filter(|p| p.is_object()) {
                set(parameters, "scope", "Cluster");
            }
        }
        ("storage.k8s.io", "CSIDriver") => {
            let spec = child(object, "spec");
            set(spec, "attachRequired", true);
            set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            for switch in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
                set(spec, switch, false);
            }
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
        ("apiregistration.k8s.io", "APIService") => {
            if let Some(service) = object.pointer_mut("/spec/service").filter(|s| s.is_object()) {
                set(service, "port", 443);
            }
        }
        ("", "Endpoints") => {
            for subset in each(object, "subsets") {
                each(subset, "ports").for_each(|p| set(p, "protocol", "TCP"));
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object),
        ("policy", "PodDisruptionBudget") => {
            let status = child(object, "status");
            for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                set(status, count, 0);
            }
        }
        ("networking.k8s.io", "Ingress") => {
            child(child(object, "status"), "loadBalancer");
        }
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("storage.k8s.io", "StorageClass") => {
            set(object, "reclaimPolicy", "Delete");
            set(object, "volumeBindingMode", "Immediate");
        }
        ("scheduling.k8s.io", "PriorityClass") => set(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in each(object, "ports") {
                if let Some(map) = port.as_object_mut() {
                    map.entry("name").or_insert_with(|| json!(""));
                }
                set(port, "protocol", "TCP");
            }
            each(object, "endpoints").for_each(|e| set(e, "conditions", json!({})));
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => webhooks(object, true),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => webhooks(object, false),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            let spec = child(object, "spec");
            set(spec, "failurePolicy", "Fail");
            if spec["matchConstraints"].is_object() {
                constraints(&mut spec["matchConstraints"]);
            }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            let spec = child(object, "spec");
            if spec["matchResources"].is_object() {
                constraints(&mut spec["matchResources"]);
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crd::default(object),
        _ => {}
    }
}

/// The addresses of a node's pods: the one field holds the first of the other.
fn pod_ranges(node: &mut Value) {
    let Some(spec) = node.get_mut("spec").filter(|s| s.is_object()) else { return };
    let first = |spec: &Value| spec.pointer("/podCIDRs/0").and_then(Value::as_str).map(str::to_owned);
    match spec["podCIDR"].as_str().filter(|one| !one.is_empty()).map(str::to_owned) {
        Some(one) if first(spec).as_ref() != Some(&one) => spec["podCIDRs"] = json!([one]),
        Some(_) => {}
        None => {
            if let Some(first) = first(spec) {
                spec["podCIDR"] = json!(first);
            }
        }
    }
}

fn namespace(object: &mut Value) {
    let name = crate::object::meta_str(object, "name").to_owned();
    let labels = child(child(object, "metadata"), "labels");
    labels["kubernetes.io/metadata.name"] = json!(name);
    set(child(object, "status"), "phase", "Active");
}

fn secret(object: &mut Value) {
    set(object, "type", "Opaque");
    let Some(Value::Object(plain)) = object.as_object_mut().and_then(|m| m.remove("stringData")) else { return };
    if plain.is_empty() {
        return;
    }
    let data = child(object, "data");
    for (key, value) in plain {
        data[key] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

/// Limits of a container default to its maximum, requests to the limits or the minimum.
fn limits(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        for (name, amount) in limit[from].as_object().cloned().into_iter().flatten() {
            set(child(limit, to), &name, amount);
        }
    }
}

fn autoscaler(object: &mut Value) {
    let spec = child(object, "spec");
    set(spec, "minReplicas", 1);
    if object["apiVersion"] == "autoscaling/v1" {
        let status = child(object, "status");
        set(status, "currentReplicas", 0);
        set(status, "desiredReplicas", 0);
        return;
    }
    let spec = child(object, "spec");
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    if spec["behavior"].is_object() {
        let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
        let up = child(&mut spec["behavior"], "scaleUp");
        set(up, "stabilizationWindowSeconds", 0);
        set(up, "selectPolicy", "Max");
        set(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
        let down = child(&mut spec["behavior"], "scaleDown");
        set(down, "selectPolicy", "Max");
        set(down, "policies", json!([policy("Percent", 100)]));
    }
    let status = child(object, "status");
    set(status, "desiredReplicas", 0);
    if let Some(map) = status.as_object_mut() {
        map.entry("currentMetrics").or_insert(Value::Null);
    }
}

fn network_policy(object: &mut Value) {
    let spec = child(object, "spec");
    let has_egress = spec["egress"].as_array().is_some_and(|e| !e.is_empty());
    set(spec, "policyTypes", if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    for side in ["ingress", "egress"] {
        for rule in each(spec, side) {
            each(rule, "ports").for_each(|p| set(p, "protocol", "TCP"));
        }
    }
}

fn binding(object: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    set(child(object, "roleRef"), "apiGroup", RBAC);
    for subject in each(object, "subjects") {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", RBAC);
        }
    }
}

/// What a policy or a binding is about.
fn constraints(constraints: &mut Value) {
    set(constraints, "matchPolicy", "Equivalent");
    set(constraints, "namespaceSelector", json!({}));
    set(constraints, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        each(constraints, key).for_each(|r| set(r, "scope", "*"));
    }
}

fn webhooks(object: &mut Value, mutating: bool) {
    for webhook in each(object, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", 10);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        each(webhook, "rules").for_each(|r| set(r, "scope", "*"));
        if let Some(service) = webhook.pointer_mut("/clientConfig/service").filter(|s| s.is_object()) {
            set(service, "port", 443);
        }
    }
}
