//! Endpoints and EndpointSlices.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{
    at,
    formats::{self, wrong},
    immutable, label, list, text,
};

const ENDPOINTS_MAX: usize = 1_000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;

pub(super) fn endpoints(object: &Value, out: &mut Vec<Cause>) {
    for (i, subset) in list(object, "/subsets").iter().enumerate() {
        let field = format!("subsets[{i}]");
        let ports = list(subset, "/ports");
        if list(subset, "/addresses").is_empty() && list(subset, "/notReadyAddresses").is_empty() {
            out.push(Cause::required(&field, "must specify `addresses` or `notReadyAddresses`"));
        }
        for key in ["addresses", "notReadyAddresses"] {
            for (j, one) in list(subset, &format!("/{key}")).iter().enumerate() {
                address(one, &format!("{field}.{key}[{j}]"), out);
            }
        }
        for (j, port) in ports.iter().enumerate() {
            let field = format!("{field}.ports[{j}]");
            match text(port, "/name") {
                "" if ports.len() > 1 => out.push(Cause::required(format!("{field}.name"), "")),
                "" => {}
                name => label(name, &format!("{field}.name"), out),
            }
            formats::port_number(at(port, "/port"), &format!("{field}.port"), out);
            spoken(port, &field, out);
        }
    }
}

fn address(address: &Value, field: &str, out: &mut Vec<Cause>) {
    let (ip, at_ip) = (text(address, "/ip"), format!("{field}.ip"));
    formats::ip(ip, &at_ip, out);
    let host = text(address, "/hostname");
    if !host.is_empty() {
        label(host, &format!("{field}.hostname"), out);
    }
    if let Some(node) = address["nodeName"].as_str() {
        formats::subdomain(node, &format!("{field}.nodeName"), out);
    }
    formats::endpoint_ip(ip, &at_ip, out);
}

/// What a port speaks.
fn spoken(port: &Value, field: &str, out: &mut Vec<Cause>) {
    formats::protocol(text(port, "/protocol"), &format!("{field}.protocol"), out);
    if let Some(protocol) = port["appProtocol"].as_str() {
        formats::qualified(protocol, &format!("{field}.appProtocol"), out);
    }
}

/// A slice; `same` when its endpoints are those that it had.
pub(super) fn slice(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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
        spoken(port, &field, out);
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
