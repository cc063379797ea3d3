//! MultiClusterIngress, validated as Kubernetes validates Ingress (specification/admission.md 5.2).

use std::net::IpAddr;

use ironclad_api::networking::MultiClusterIngress;
use ironclad_patch::names;
use serde_json::Value;

use super::{
    federated_hpa,
    lens::{at, list, text},
};
use crate::{
    Denial, Operation,
    field::{Findings, Path},
    request::{Cx, decode},
};

/// Sequences that a path must not contain, unless its type is ImplementationSpecific.
const FORBIDDEN_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// Sequences that such a path must not end with.
const FORBIDDEN_SUFFIXES: [&str; 2] = ["/..", "/."];

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    decode::<MultiClusterIngress>(object)?;
    federated_hpa::object_name(object, out);
    let spec = at(object, "/spec");
    let path = Path::new("spec");
    let (rules, default) = (list(spec, "/rules"), at(spec, "/defaultBackend"));
    if rules.is_empty() && default.is_null() {
        out.invalid(&path, &Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if !default.is_null() {
        backend(default, &path.child("defaultBackend"), out);
    }
    for (i, rule) in rules.iter().enumerate() {
        self::rule(rule, &path.child("rules").index(i), out);
    }
    for (i, tls) in list(spec, "/tls").iter().enumerate() {
        let at = path.child("tls").index(i);
        for (j, name) in list(tls, "/hosts").iter().enumerate() {
            host(name.as_str().unwrap_or_default(), &at.child("hosts").index(j), out);
        }
        let secret = text(tls, "/secretName");
        if !secret.is_empty() {
            out.texts(at.child("secretName"), secret, names::dns1123_subdomain(secret));
        }
    }
    let class = text(spec, "/ingressClassName");
    if !class.is_empty() {
        out.texts(path.child("ingressClassName"), class, names::dns1123_subdomain(class));
    }
    if cx.request.operation == Operation::Update {
        load_balancer(at(object, "/status/loadBalancer"), out);
    }
    Ok(())
}

fn rule(rule: &Value, path: &Path, out: &mut Findings) {
    let name = text(rule, "/host");
    if !name.is_empty() {
        host(name, &path.child("host"), out);
    }
    if at(rule, "/http").is_null() {
        return;
    }
    let paths = list(rule, "/http/paths");
    if paths.is_empty() {
        out.required(path.child("http.paths"), "");
    }
    for (j, item) in paths.iter().enumerate() {
        let at_path = path.child("http.paths").index(j);
        http_path(item, &at_path, out);
        backend(at(item, "/backend"), &at_path.child("backend"), out);
    }
}

fn http_path(item: &Value, path: &Path, out: &mut Findings) {
    let (kind, given) = (text(item, "/pathType"), text(item, "/path"));
    let at = path.child("path");
    match kind {
        "" => out.required(path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !given.starts_with('/') {
                out.invalid(&at, given, "must be an absolute path");
            }
            for bad in FORBIDDEN_SEQUENCES.iter().filter(|bad| given.contains(**bad)) {
                out.invalid(&at, given, &format!("must not contain '{bad}'"));
            }
            for bad in FORBIDDEN_SUFFIXES.iter().filter(|bad| given.ends_with(**bad)) {
                out.invalid(&at, given, &format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {
            if !given.is_empty() && !given.starts_with('/') {
                out.invalid(&at, given, "must be an absolute path");
            }
        }
        other => out.not_supported(path.child("pathType"), other, &["Exact", "Prefix", "ImplementationSpecific"]),
    }
}

fn backend(backend: &Value, path: &Path, out: &mut Findings) {
    let (resource, service) = (at(backend, "/resource"), at(backend, "/service"));
    match (resource.is_null(), service.is_null()) {
        (false, false) => out.invalid(path, &"", "cannot set both resource and service backends"),
        (true, true) => out.invalid(path, &"", "resource or service backend is required"),
        (false, true) => {
            for field in ["kind", "name"] {
                if text(resource, &format!("/{field}")).is_empty() {
                    out.required(path.child("resource").child(field), "");
                }
            }
        }
        (true, false) => {
            let name = text(service, "/name");
            if name.is_empty() {
                out.required(path.child("service.name"), "");
            } else {
                out.texts(path.child("service.name"), name, names::dns1035_label(name));
            }
            port(at(service, "/port"), &path.child("service.port"), out);
        }
    }
}

fn port(port: &Value, path: &Path, out: &mut Findings) {
    let (name, number) = (text(port, "/name"), at(port, "/number").as_i64().unwrap_or(0));
    match (name.is_empty(), number) {
        (false, 0) => out.texts(path.child("name"), name, port_name(name)),
        (true, 0) => out.required(path, "port name or number is required"),
        (true, number) if !(1..=65_535).contains(&number) => {
            out.invalid(path.child("number"), &number, "must be between 1 and 65535, inclusive");
        }
        (true, _) => {}
        (false, _) => out.invalid(path, port, "cannot set both port name & port number"),
    }
}

/// Returns why a text is not a port name: at most 15 characters, lower case, at least one letter.
fn port_name(name: &str) -> Vec<String> {
    let mut mistakes = Vec::new();
    if name.len() > 15 {
        mistakes.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        mistakes.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        mistakes.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        mistakes.push("must not begin or end with a hyphen, nor contain two in a row".to_owned());
    }
    mistakes
}

fn host(name: &str, path: &Path, out: &mut Findings) {
    if name.parse::<IpAddr>().is_ok() {
        out.invalid(path, name, "must be a DNS name, not an IP address");
    } else if let Some(rest) = name.strip_prefix("*.") {
        out.texts(path, name, names::dns1123_subdomain(rest));
    } else {
        out.texts(path, name, names::dns1123_subdomain(name));
    }
}

/// Validates the load balancer status.
pub(crate) fn load_balancer(status: &Value, out: &mut Findings) {
    for (i, point) in list(status, "/ingress").iter().enumerate() {
        let at = Path::new("status.loadBalancer.ingress").index(i);
        let (ip, hostname) = (text(point, "/ip"), text(point, "/hostname"));
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            out.invalid(at.child("ip"), ip, "must be a valid IP address");
        }
        if !hostname.is_empty() {
            out.texts(at.child("hostname"), hostname, names::dns1123_subdomain(hostname));
            if hostname.parse::<IpAddr>().is_ok() {
                out.invalid(at.child("hostname"), hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}
