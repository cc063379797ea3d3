//! NetworkPolicies.

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, label_text, name, or_none},
            defaults::{child, each, set},
            fields::{at, is_new, list, text},
            formats::{self, Network, wrong},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, out);
            }
        },
        columns: &[NAME, ("Pod-Selector", "string", 0), AGE],
        cells: |o, now| {
            let selector = label_text(o.pointer("/spec/podSelector/matchLabels"));
            vec![name(o), or_none(selector), created(o, now)]
        },
        ..Strategy::NONE
    },
    ..Kind::new("networking.k8s.io/v1 networkpolicies NetworkPolicy N short=netpol gen")
};

const TYPES: [&str; 2] = ["Ingress", "Egress"];

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    let has_egress = spec["egress"].as_array().is_some_and(|e| !e.is_empty());
    set(spec, "policyTypes", if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    for side in ["ingress", "egress"] {
        for rule in each(spec, side) {
            each(rule, "ports").for_each(|p| set(p, "protocol", "TCP"));
        }
    }
}

fn validate(object: &Value, out: &mut Vec<Cause>) {
    formats::label_selector(at(object, "/spec/podSelector"), "spec.podSelector", out);
    for (side, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in list(object, &format!("/spec/{side}")).iter().enumerate() {
            let field = format!("spec.{side}[{i}]");
            for (j, one) in list(rule, "/ports").iter().enumerate() {
                port(one, &format!("{field}.ports[{j}]"), out);
            }
            for (j, one) in list(rule, &format!("/{peers}")).iter().enumerate() {
                peer(one, &format!("{field}.{peers}[{j}]"), out);
            }
        }
    }
    let types = list(object, "/spec/policyTypes");
    if types.len() > TYPES.len() {
        let given = at(object, "/spec/policyTypes");
        return out.push(Cause::invalid("spec.policyTypes", given, "may not specify more than two policyTypes"));
    }
    for (i, one) in types.iter().filter_map(Value::as_str).enumerate() {
        formats::supported(one, &format!("spec.policyTypes[{i}]"), &TYPES, out);
    }
}

fn port(port: &Value, field: &str, out: &mut Vec<Cause>) {
    let protocol = text(port, "/protocol");
    if !protocol.is_empty() {
        formats::supported(protocol, &format!("{field}.protocol"), &["TCP", "UDP", "SCTP"], out);
    }
    let (number, last) = (at(port, "/port"), at(port, "/endPort"));
    let (at_port, at_last) = (format!("{field}.port"), format!("{field}.endPort"));
    match number {
        Value::Null if last.is_null() => {}
        Value::Null => out.push(Cause::invalid(at_last, last, "may not be specified when `port` is not specified")),
        Value::String(name) => {
            if !last.is_null() {
                out.push(Cause::invalid(at_last, last, "may not be specified when `port` is non-numeric"));
            }
            wrong(&at_port, name, formats::port_name(name), out);
        }
        number => {
            formats::port_number(number, &at_port, out);
            if !last.is_null() {
                if last.as_i64() < number.as_i64() {
                    out.push(Cause::invalid(&at_last, number, "must be greater than or equal to `port`"));
                }
                formats::port_number(last, &at_last, out);
            }
        }
    }
}

/// Validates a peer: pods, namespaces, or a range of addresses.
fn peer(peer: &Value, field: &str, out: &mut Vec<Cause>) {
    let mut selects = false;
    for key in ["podSelector", "namespaceSelector"] {
        if peer[key].is_object() {
            selects = true;
            formats::label_selector(&peer[key], &format!("{field}.{key}"), out);
        }
    }
    let block = &peer["ipBlock"];
    match (block.is_object(), selects) {
        (true, selects) => {
            range(block, &format!("{field}.ipBlock"), out);
            if selects {
                out.push(Cause::forbidden(field, "may not specify both ipBlock and another peer"));
            }
        }
        (false, true) => {}
        (false, false) => out.push(Cause::required(field, "must specify a peer")),
    }
}

fn range(block: &Value, field: &str, out: &mut Vec<Cause>) {
    let cidr = text(block, "/cidr");
    if cidr.is_empty() {
        return out.push(Cause::required(format!("{field}.cidr"), ""));
    }
    formats::cidr(cidr, &format!("{field}.cidr"), out);
    let Some(whole) = Network::parse(cidr) else { return };
    for (i, except) in list(block, "/except").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("{field}.except[{i}]");
        formats::cidr(except, &field, out);
        if Network::parse(except).is_some_and(|part| !whole.strictly_contains(&part)) {
            wrong(&field, except, ["must be a strict subset of `cidr`"], out);
        }
    }
}
