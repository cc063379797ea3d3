//! Ingresses.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, either, items, name, or_none},
            defaults::child,
            fields::{at, is_new, list, text},
            formats::{self, wrong},
            load_balancer, warnings,
        },
    },
    names, object,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            child(child(o, "status"), "loadBalancer");
        },
        validate: |o, old, out| if is_new(o, old) { validate(o, old.is_none(), out) } else { validate_status(o, out) },
        warnings: |o, old| {
            let deprecated = old.is_none() && warnings::annotated(o, CLASS_ANNOTATION);
            let why = "is deprecated, please use 'spec.ingressClassName' instead";
            deprecated.then(|| format!("annotation {CLASS_ANNOTATION:?} {why}")).into_iter().collect()
        },
        columns: &[
            NAME,
            ("Class", "string", 0),
            ("Hosts", "string", 0),
            ("Address", "string", 0),
            ("Ports", "string", 0),
            AGE,
        ],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("networking.k8s.io/v1 ingresses Ingress N short=ing gen +status")
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Sequences that make an exact path or a prefix ambiguous.
const AMBIGUOUS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];

const AMBIGUOUS_ENDS: [&str; 2] = ["/..", "/."];

/// The spec of an Ingress; what concerns a new one alone with `creating`.
fn validate(object: &Value, creating: bool, out: &mut Vec<Cause>) {
    let (rules, backend_) = (list(object, "/spec/rules"), at(object, "/spec/defaultBackend"));
    if rules.is_empty() && !backend_.is_object() {
        let message = "either `defaultBackend` or `rules` must be specified";
        out.push(Cause::invalid("spec", &Value::Null, message));
    }
    if backend_.is_object() {
        backend(backend_, "spec.defaultBackend", out);
    }
    for (i, one) in rules.iter().enumerate() {
        rule(one, &format!("spec.rules[{i}]"), out);
    }
    for (i, tls) in list(object, "/spec/tls").iter().enumerate() {
        for (j, host) in list(tls, "/hosts").iter().filter_map(Value::as_str).enumerate() {
            wrong(&format!("spec.tls[{i}].hosts[{j}]"), host, formats::host(host), out);
        }
        let secret = text(tls, "/secretName");
        if !secret.is_empty() {
            formats::subdomain(secret, &format!("spec.tls[{i}].secretName"), out);
        }
    }
    let class = at(object, "/spec/ingressClassName").as_str();
    if let Some(class) = class {
        formats::subdomain(class, "spec.ingressClassName", out);
    }
    if creating {
        let annotated = object::metadata(object).get("annotations").and_then(|a| a[CLASS_ANNOTATION].as_str());
        if let (Some(annotated), Some(class)) = (annotated, class)
            && annotated != class
        {
            let why = "must match `ingressClassName` when both are specified";
            wrong(&format!("annotations.{CLASS_ANNOTATION}"), annotated, [why], out);
        }
    }
}

fn rule(rule: &Value, field: &str, out: &mut Vec<Cause>) {
    let host = text(rule, "/host");
    if !host.is_empty() {
        let field = format!("{field}.host");
        if formats::is_ip(host) {
            wrong(&field, host, ["must be a DNS name, not an IP address"], out);
        }
        wrong(&field, host, formats::host(host), out);
    }
    if !rule["http"].is_object() {
        return;
    }
    let paths = list(rule, "/http/paths");
    let field = format!("{field}.http.paths");
    if paths.is_empty() {
        out.push(Cause::required(&field, ""));
    }
    for (i, one) in paths.iter().enumerate() {
        path(one, &format!("{field}[{i}]"), out);
    }
}

fn path(path: &Value, field: &str, out: &mut Vec<Cause>) {
    let (given, at_path, at_type) = (text(path, "/path"), format!("{field}.path"), format!("{field}.pathType"));
    let kind = match path["pathType"].as_str() {
        Some(kind) => kind,
        None => return out.push(Cause::required(at_type, "pathType must be specified")),
    };
    let exact = matches!(kind, "Exact" | "Prefix");
    if (exact || kind == "ImplementationSpecific" && !given.is_empty()) && !given.starts_with('/') {
        wrong(&at_path, given, ["must be an absolute path"], out);
    }
    if exact {
        let contained = AMBIGUOUS.iter().filter(|p| given.contains(**p)).map(|p| format!("must not contain '{p}'"));
        wrong(&at_path, given, contained, out);
        let ends = AMBIGUOUS_ENDS.iter().filter(|p| given.ends_with(**p)).map(|p| format!("cannot end with '{p}'"));
        wrong(&at_path, given, ends, out);
    }
    formats::supported(kind, &at_type, &["Exact", "ImplementationSpecific", "Prefix"], out);
    backend(&path["backend"], &format!("{field}.backend"), out);
}

/// Validates a backend: a Service or another object.
fn backend(backend: &Value, field: &str, out: &mut Vec<Cause>) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => wrong(field, "", ["cannot set both resource and service backends"], out),
        (false, false) => wrong(field, "", ["resource or service backend is required"], out),
        (false, true) => reference(resource, &format!("{field}.resource"), out),
        (true, false) => {
            let name = text(service, "/name");
            match name {
                "" => out.push(Cause::required(format!("{field}.service.name"), "")),
                name => wrong(&format!("{field}.service.name"), name, names::dns_label(name), out),
            }
            let (name, number) = (text(service, "/port/name"), at(service, "/port/number"));
            let numbered = number.as_i64().is_some_and(|n| n != 0);
            match (name.is_empty(), numbered) {
                (false, true) => wrong(field, "", ["cannot set both port name & port number"], out),
                (false, false) => {
                    wrong(&format!("{field}.service.port.name"), name, formats::port_name(name), out);
                }
                (true, true) => formats::port_number(number, &format!("{field}.service.port.number"), out),
                (true, false) => out.push(Cause::required(field, "port name or number is required")),
            }
        }
    }
}

/// An object by its group, kind and name.
pub(super) fn reference(reference: &Value, field: &str, out: &mut Vec<Cause>) {
    if let Some(group) = reference["apiGroup"].as_str() {
        formats::subdomain(group, &format!("{field}.apiGroup"), out);
    }
    for key in ["kind", "name"] {
        formats::path_segment(text(reference, &format!("/{key}")), &format!("{field}.{key}"), out);
    }
}

/// The addresses under which an Ingress is reached.
fn validate_status(object: &Value, out: &mut Vec<Cause>) {
    for (i, one) in list(object, "/status/loadBalancer/ingress").iter().enumerate() {
        let field = format!("status.loadBalancer.ingress[{i}]");
        load_balancer::validate_ingress(one, &field, out, |_| {});
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let hosts: Vec<&str> = items(o, "/spec/rules").filter_map(|r| r["host"].as_str()).collect();
    let addresses: Vec<&str> =
        items(o, "/status/loadBalancer/ingress").map(|i| either(i, "/ip", "/hostname")).collect();
    let tls = items(o, "/spec/tls").next().is_some();
    vec![
        name(o),
        or_none(text(o, "/spec/ingressClassName")),
        json!(if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }),
        json!(addresses.join(",")),
        json!(if tls { "80, 443" } else { "80" }),
        created(o, now),
    ]
}
