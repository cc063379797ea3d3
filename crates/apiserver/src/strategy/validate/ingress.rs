//! Ingresses and their classes.

use serde_json::{Value, json};

use crate::{names, object, status::Cause};

use super::{
    at,
    formats::{self, wrong},
    immutable, list, text,
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const CONTROLLER_BYTES_MAX: usize = 250;

/// What an exact path or a prefix may neither contain nor end with: it could be read in two ways.
const AMBIGUOUS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const AMBIGUOUS_ENDS: [&str; 2] = ["/..", "/."];

/// The spec of an Ingress; what concerns a new one alone with `creating`.
pub(super) fn ingress(object: &Value, creating: bool, out: &mut Vec<Cause>) {
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

/// What answers: a Service or some other object.
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
fn reference(reference: &Value, field: &str, out: &mut Vec<Cause>) {
    if let Some(group) = reference["apiGroup"].as_str() {
        formats::subdomain(group, &format!("{field}.apiGroup"), out);
    }
    for key in ["kind", "name"] {
        formats::path_segment(text(reference, &format!("/{key}")), &format!("{field}.{key}"), out);
    }
}

/// The addresses under which an Ingress is reached.
pub(super) fn status(object: &Value, out: &mut Vec<Cause>) {
    for (i, one) in list(object, "/status/loadBalancer/ingress").iter().enumerate() {
        let field = format!("status.loadBalancer.ingress[{i}]");
        reached_at(one, &field, out, |_| {});
    }
}

/// An address or a host name of a load balancer, with `between` said between the two.
pub(super) fn reached_at(at: &Value, field: &str, out: &mut Vec<Cause>, between: impl FnOnce(&mut Vec<Cause>)) {
    let (ip, host) = (text(at, "/ip"), text(at, "/hostname"));
    if !ip.is_empty() {
        formats::ip(ip, &format!("{field}.ip"), out);
    }
    between(out);
    if !host.is_empty() {
        let field = format!("{field}.hostname");
        formats::subdomain(host, &field, out);
        if formats::is_ip(host) {
            wrong(&field, host, ["must be a DNS name, not an IP address"], out);
        }
    }
}

pub(super) fn class(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    immutable(object, old, "/spec/controller", out);
    let controller = text(object, "/spec/controller");
    if controller.len() > CONTROLLER_BYTES_MAX {
        out.push(Cause::too_long("spec.controller", CONTROLLER_BYTES_MAX));
    }
    formats::domain_prefixed_path(controller, "spec.controller", out);
    let parameters = at(object, "/spec/parameters");
    if !parameters.is_object() {
        return;
    }
    reference(parameters, "spec.parameters", out);
    let (scope, namespace) = (text(parameters, "/scope"), parameters["namespace"].as_str());
    let field = "spec.parameters.namespace";
    match (scope, namespace) {
        ("Namespace", None) => out.push(Cause::required(field, "`parameters.scope` is set to 'Namespace'")),
        ("Namespace", Some(namespace)) => wrong(field, namespace, names::dns_label(namespace), out),
        ("Cluster", Some(_)) => out.push(Cause::forbidden(field, "`parameters.scope` is set to 'Cluster'")),
        ("Cluster", None) => {}
        (other, _) => {
            out.push(Cause::unsupported("spec.parameters.scope", &json!(other), &["Cluster", "Namespace"]));
        }
    }
}
