//! Nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            amounts,
            columns::{AGE, NAME, created, items, name, or_none},
            defaults::{child, set},
            fields::{at, list, text},
            formats::{self, Network, supported, wrong},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            default_pod_ranges(o);
            let status = child(o, "status");
            if status["capacity"].is_object() {
                let capacity = status["capacity"].clone();
                set(status, "allocatable", capacity);
            }
        },
        // A kubelet registers a node with its status.
        prepare_create: Some(|_| {}),
        validate,
        columns: &[
            NAME,
            ("Status", "string", 0),
            ("Roles", "string", 0),
            AGE,
            ("Version", "string", 0),
            ("Internal-IP", "string", 1),
            ("External-IP", "string", 1),
            ("OS-Image", "string", 1),
            ("Kernel-Version", "string", 1),
            ("Container-Runtime", "string", 1),
        ],
        cells,
        selectable_fields: &["spec.unschedulable"],
        ..Strategy::NONE
    },
    ..Kind::new("v1 nodes Node C short=no +proxy +status")
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The addresses of a node's pods: the one field holds the first of the other.
fn default_pod_ranges(node: &mut Value) {
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

/// Validates a node; the taints of a changed one twice, as a kube-apiserver does.
fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const POD_CIDRS: &str = "spec.podCIDRs";
    let mut tainted = Vec::new();
    taints(object, &mut tainted);
    out.extend(tainted.clone());
    for key in ["capacity", "allocatable"] {
        for (name, amount) in at(object, &format!("/status/{key}")).as_object().into_iter().flatten() {
            amounts::of_resource(name, amount, &format!("status.{key}.{name}"), out);
        }
    }
    let ranges: Vec<&str> = list(object, "/spec/podCIDRs").iter().filter_map(Value::as_str).collect();
    for (i, range) in ranges.iter().enumerate() {
        formats::cidr(range, &format!("{POD_CIDRS}[{i}]"), out);
    }
    if let [first, second, rest @ ..] = ranges.as_slice() {
        let is_v4 = |range: &str| Network::parse(range).map(|n| n.is_ipv4());
        if is_v4(first) == is_v4(second) || !rest.is_empty() {
            let why = "may specify no more than one CIDR for each IP family";
            out.push(Cause::invalid(POD_CIDRS, at(object, "/spec/podCIDRs"), why));
        }
    }
    let Some(old) = old else { return };
    let mut seen = Vec::new();
    for (i, address) in list(object, "/status/addresses").iter().enumerate() {
        let one = (text(address, "/type"), text(address, "/address"));
        if seen.contains(&one) {
            // Here, and below, a kube-apiserver names the fields as Go does.
            let message = format!("Duplicate value: {{\"Type\":{},\"Address\":{}}}", json!(one.0), json!(one.1));
            out.push(duplicate(format!("status.addresses[{i}]"), message));
        }
        seen.push(one);
    }
    let was = list(old, "/spec/podCIDRs");
    if !was.is_empty() && was != list(object, "/spec/podCIDRs") {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        out.push(Cause::forbidden(POD_CIDRS, why));
    }
    let was = text(old, "/spec/providerID");
    if !was.is_empty() && was != text(object, "/spec/providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        out.push(Cause::forbidden("spec.providerID", why));
    }
    out.append(&mut tainted);
}

fn duplicate(field: String, message: String) -> Cause {
    Cause { reason: "FieldValueDuplicate".into(), message, field }
}

fn taints(object: &Value, out: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (i, taint) in list(object, "/spec/taints").iter().enumerate() {
        let field = format!("metadata.taints[{i}]");
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        formats::qualified(key, &format!("{field}.key"), out);
        let errors = names::label_value(value);
        if !errors.is_empty() {
            wrong(&format!("{field}.value"), value, [errors.join(";")], out);
        }
        match effect {
            "" => out.push(Cause::required(format!("{field}.effect"), "")),
            effect => supported(effect, &format!("{field}.effect"), &EFFECTS, out),
        }
        if !seen.insert((key, effect)) {
            let (key, value, effect, added) = (json!(key), json!(value), json!(effect), &taint["timeAdded"]);
            let given = format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":{added}}}");
            let message = format!("Duplicate value: {given}: taints must be unique by key and effect pair");
            out.push(duplicate(field, message));
        }
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let ready = items(o, "/status/conditions").find(|c| c["type"] == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if o.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status += ",SchedulingDisabled";
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in o.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role),
            _ if key == "kubernetes.io/role" => roles.extend(value.as_str()),
            _ => {}
        }
    }
    let address = |kind: &str| {
        let found = items(o, "/status/addresses").find(|a| a["type"] == kind);
        or_none(found.map_or("", |a| text(a, "/address")))
    };
    let info = |key: &str| match text(o, &format!("/status/nodeInfo/{key}")) {
        "" => json!("<unknown>"),
        text => json!(text),
    };
    vec![
        name(o),
        json!(status),
        or_none(roles.join(",")),
        created(o, now),
        json!(text(o, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}
