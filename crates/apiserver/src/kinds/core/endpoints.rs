//! Endpoints of Services.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    kinds::{
        discovery::endpoint_slice::port_protocol,
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, items, name, or_none, plain},
            defaults::{each, set},
            fields::{at, is_new, label, list, text},
            formats,
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            for subset in each(o, "subsets") {
                each(subset, "ports").for_each(|p| set(p, "protocol", "TCP"));
            }
        },
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, out);
            }
        },
        deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        columns: &[NAME, ("Endpoints", "string", 0), AGE],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("v1 endpoints Endpoints N short=ep put")
};

fn validate(object: &Value, out: &mut Vec<Cause>) {
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
            port_protocol(port, &field, out);
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

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let mut addresses = Vec::new();
    for subset in items(o, "/subsets") {
        for address in items(subset, "/addresses") {
            let ip = text(address, "/ip");
            let ports: Vec<String> = items(subset, "/ports").map(|p| format!("{ip}:{}", plain(&p["port"]))).collect();
            if ports.is_empty() { addresses.push(ip.to_owned()) } else { addresses.extend(ports) }
        }
    }
    if addresses.len() > 3 {
        let more = format!(" + {} more...", addresses.len() - 3);
        addresses.truncate(3);
        addresses[2] += &more;
    }
    vec![name(o), or_none(addresses.join(",")), created(o, now)]
}
