//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{
    amounts, at,
    formats::{self, Network, supported, wrong},
    list, text,
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A node. Taints are looked at twice where it changes, as a kube-apiserver does.
pub(super) fn node(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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
