//! EndpointSlices.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, items, name, plain},
            defaults::{each, set},
            fields::{immutable, is_new, label, list, text},
            formats::{self, wrong},
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            for port in each(o, "ports") {
                if let Some(map) = port.as_object_mut() {
                    map.entry("name").or_insert_with(|| json!(""));
                }
                set(port, "protocol", "TCP");
            }
            each(o, "endpoints").for_each(|e| set(e, "conditions", json!({})));
        },
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, old, out);
            }
        },
        warnings: |o, old| {
            let deprecated = o["addressType"] == "FQDN" && old.is_none();
            deprecated.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned()).into_iter().collect()
        },
        columns: &[NAME, ("AddressType", "string", 0), ("Ports", "string", 0), ("Endpoints", "string", 0), AGE],
        cells,
        // Its readers select by labels.
        generation_counts: Some("labels"),
        ..Strategy::NONE
    },
    ..Kind::new("discovery.k8s.io/v1 endpointslices EndpointSlice N gen")
};

const ENDPOINTS_MAX: usize = 1_000;

const ADDRESSES_MAX: usize = 100;

const PORTS_MAX: usize = 20_000;

const HINTS_MAX: usize = 8;

/// Validates the application protocol of a port.
pub(in crate::kinds) fn port_protocol(port: &Value, field: &str, out: &mut Vec<Cause>) {
    formats::protocol(text(port, "/protocol"), &format!("{field}.protocol"), out);
    if let Some(protocol) = port["appProtocol"].as_str() {
        formats::qualified(protocol, &format!("{field}.appProtocol"), out);
    }
}

/// A slice; `same` when its endpoints are those that it had.
fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let kind = text(object, "/addressType");
    match kind {
        "" => out.push(Cause::required("addressType", "")),
        kind => formats::supported(kind, "addressType", &["FQDN", "IPv4", "IPv6"], out),
    }
    ports(list(object, "/ports"), out);
    if old.is_none_or(|old| old["endpoints"] != object["endpoints"]) {
        addressed(list(object, "/endpoints"), kind, out);
    }
    immutable(object, old, "/addressType", out);
}

fn ports(ports: &[Value], out: &mut Vec<Cause>) {
    if ports.len() > PORTS_MAX {
        return out.push(formats::too_many("ports", ports.len(), PORTS_MAX));
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let (name, field) = (text(port, "/name"), format!("ports[{i}]"));
        let at_name = format!("{field}.name");
        if !name.is_empty() {
            label(name, &at_name, out);
        }
        if !seen.insert(name) {
            out.push(Cause::duplicate(at_name, &json!(name)));
        }
        port_protocol(port, &field, out);
    }
}

fn addressed(endpoints: &[Value], kind: &str, out: &mut Vec<Cause>) {
    if endpoints.len() > ENDPOINTS_MAX {
        return out.push(formats::too_many("endpoints", endpoints.len(), ENDPOINTS_MAX));
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let field = format!("endpoints[{i}]");
        let (given, whole) = (list(endpoint, "/addresses"), format!("{field}.addresses"));
        if given.is_empty() {
            out.push(Cause::required(&whole, "must contain at least 1 address"));
        } else if given.len() > ADDRESSES_MAX {
            out.push(formats::too_many(&whole, given.len(), ADDRESSES_MAX));
        }
        for (j, address) in given.iter().filter_map(Value::as_str).enumerate() {
            let field = format!("{whole}[{j}]");
            let before = out.len();
            match kind {
                "IPv4" => formats::ip(address, &field, out),
                "IPv6" => formats::canonical_ip(address, &field, out),
                "FQDN" => formats::domain_name(address, &field, out),
                _ => {}
            }
            if matches!(kind, "IPv4" | "IPv6") && out.len() == before {
                if formats::ip_of(address).is_some_and(|ip| ip.is_ipv4() != (kind == "IPv4")) {
                    wrong(&whole, address, [format!("must be an {kind} address")], out);
                }
                formats::endpoint_ip(address, &field, out);
            }
        }
        if let Some(node) = endpoint["nodeName"].as_str() {
            formats::subdomain(node, &format!("{field}.nodeName"), out);
        }
        if let Some(host) = endpoint["hostname"].as_str() {
            label(host, &format!("{field}.hostname"), out);
        }
        for (key, check) in
            [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::dns_subdomain)]
        {
            let hints = list(endpoint, &format!("/hints/{key}"));
            let field = format!("{field}.hints.{key}");
            if hints.len() > HINTS_MAX {
                out.push(formats::too_many(&field, hints.len(), HINTS_MAX));
                break;
            }
            let mut seen = BTreeSet::new();
            for (j, hint) in hints.iter().enumerate() {
                let (name, field) = (text(hint, "/name"), format!("{field}[{j}].name"));
                if !seen.insert(name) {
                    out.push(Cause::duplicate(&field, &json!(name)));
                }
                wrong(&field, name, check(name), out);
            }
        }
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(o, "/ports").map(|p| plain(&p["port"])).collect();
    let addresses: Vec<&str> =
        items(o, "/endpoints").flat_map(|e| items(e, "/addresses")).filter_map(Value::as_str).collect();
    let unset = |text: String| json!(if text.is_empty() { "<unset>".to_owned() } else { text });
    let (ports, addresses) = (unset(ports.join(",")), unset(addresses.join(",")));
    vec![name(o), json!(text(o, "/addressType")), ports, addresses, created(o, now)]
}
