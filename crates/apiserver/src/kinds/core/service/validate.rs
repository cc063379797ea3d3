//! Services.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Value, json};

use super::defaults::{drop_of_other_types, is_reached_from_outside, needs_health_check};
use crate::{
    kinds::shared::{
        fields::{at, label, list, text},
        formats::{self, supported, wrong},
        load_balancer,
    },
    object,
    status::Cause,
};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn service(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if let Some(old) = old {
        if old["status"] != object["status"] {
            status(object, out);
        }
        let annotations = |of: &Value| object::metadata(of).get("annotations").cloned();
        if old["spec"] == object["spec"] && annotations(old) == annotations(object) {
            return;
        }
        changed(object, old, out);
    }
    // Fields that are dropped with the old type are not validated.
    let object = match old {
        Some(old) if is_of_another_kind(old, object) => {
            let mut rest = object.clone();
            drop_of_other_types(old, &mut rest);
            Cow::Owned(rest)
        }
        _ => Cow::Borrowed(object),
    };
    // A kube-apiserver allocates addresses first: errors in them are reported alone.
    if text(&object, "/spec/type") != "ExternalName" {
        let mut wrong = Vec::new();
        addresses(&object, &mut wrong);
        if !wrong.is_empty() {
            *out = wrong;
            return;
        }
    }
    spec(&object, out);
}

/// True for an ExternalName or headless Service.
fn is_of_another_kind(old: &Value, object: &Value) -> bool {
    text(old, "/spec/type") != text(object, "/spec/type")
        || is_reached_from_outside(old) != is_reached_from_outside(object)
        || needs_health_check(old) != needs_health_check(object)
}

fn is_headless(object: &Value) -> bool {
    text(object, "/spec/clusterIP") == "None"
}

fn spec(object: &Value, out: &mut Vec<Cause>) {
    let (kind, ports) = (text(object, "/spec/type"), list(object, "/spec/ports"));
    let headless = is_headless(object);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        out.push(Cause::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            wrong("spec.clusterIPs[0]", "None", [why], out);
        }
        "ExternalName" => external_name(object, out),
        _ => {}
    }
    let mut names = BTreeSet::new();
    for (i, one) in ports.iter().enumerate() {
        let field = format!("spec.ports[{i}]");
        match text(one, "/name") {
            "" if ports.len() > 1 => out.push(Cause::required(format!("{field}.name"), "")),
            "" => {}
            name => {
                label(name, &format!("{field}.name"), out);
                if !names.insert(name) {
                    out.push(Cause::duplicate(format!("{field}.name"), &json!(name)));
                }
            }
        }
        port(one, &field, out);
    }
    formats::labels(at(object, "/spec/selector"), "spec.selector", out);
    affinity(object, out);
    for (i, ip) in list(object, "/spec/externalIPs").iter().filter_map(Value::as_str).enumerate() {
        let (field, before) = (format!("spec.externalIPs[{i}]"), out.len());
        formats::ip(ip, &field, out);
        if out.len() == before {
            formats::endpoint_ip(ip, &field, out);
        }
    }
    supported(kind, "spec.type", &TYPES, out);
    unique_ports(kind, ports, out);
    balanced(object, kind, out);
    traffic(object, kind, out);
}

/// Validates an ExternalName Service.
fn external_name(object: &Value, out: &mut Vec<Cause>) {
    const WHY: &str = "may not be set for ExternalName services";
    if !text(object, "/spec/clusterIP").is_empty() || !list(object, "/spec/clusterIPs").is_empty() {
        out.push(Cause::forbidden("spec.clusterIPs", WHY));
    }
    if !list(object, "/spec/ipFamilies").is_empty() {
        out.push(Cause::forbidden("spec.ipFamilies", WHY));
    }
    if !at(object, "/spec/ipFamilyPolicy").is_null() {
        out.push(Cause::forbidden("spec.ipFamilyPolicy", WHY));
    }
    let name = text(object, "/spec/externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => out.push(Cause::required("spec.externalName", "")),
        name => formats::subdomain(name, "spec.externalName", out),
    }
}

fn port(port: &Value, field: &str, out: &mut Vec<Cause>) {
    formats::port_number(at(port, "/port"), &format!("{field}.port"), out);
    formats::protocol(text(port, "/protocol"), &format!("{field}.protocol"), out);
    formats::port(at(port, "/targetPort"), &format!("{field}.targetPort"), out);
    if let Some(protocol) = port["appProtocol"].as_str() {
        formats::qualified(protocol, &format!("{field}.appProtocol"), out);
    }
}

fn affinity(object: &Value, out: &mut Vec<Cause>) {
    let (affinity, config) = (text(object, "/spec/sessionAffinity"), at(object, "/spec/sessionAffinityConfig"));
    supported(affinity, "spec.sessionAffinity", &["ClientIP", "None"], out);
    let seconds = at(config, "/clientIP/timeoutSeconds");
    if affinity == "ClientIP" && !seconds.as_i64().is_some_and(|n| (1..=AFFINITY_SECONDS_MAX).contains(&n)) {
        let why = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
        out.push(Cause::invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, why));
    }
    if affinity == "None" && !config.is_null() {
        let why = "must not be set when session affinity is None";
        out.push(Cause::forbidden("spec.sessionAffinityConfig", why));
    }
}

/// Validates the cluster addresses of a Service and their families.
fn addresses(object: &Value, out: &mut Vec<Cause>) {
    const IPS: &str = "spec.clusterIPs";
    let (first, all) = (text(object, "/spec/clusterIP"), at(object, "/spec/clusterIPs"));
    let given: Vec<&str> = list(object, "/spec/clusterIPs").iter().filter_map(Value::as_str).collect();
    // A single address need not be said twice.
    let ips = if given.is_empty() && !first.is_empty() { vec![first] } else { given };
    if first.is_empty() && !ips.is_empty() {
        out.push(Cause::invalid(IPS, all, "must be empty when `clusterIP` is not specified"));
    } else if ips.first().is_some_and(|ip| *ip != first) {
        out.push(Cause::invalid(IPS, all, "first value must match `clusterIP`"));
    }
    let families: Vec<&str> = list(object, "/spec/ipFamilies").iter().filter_map(Value::as_str).collect();
    let mut seen = BTreeSet::new();
    for (i, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        supported(family, &field, &["IPv4", "IPv6"], out);
        if !seen.insert(*family) {
            out.push(Cause::duplicate(field, &json!(family)));
        }
    }
    if let Some(policy) = at(object, "/spec/ipFamilyPolicy").as_str() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        supported(policy, "spec.ipFamilyPolicy", &policies, out);
    }
    let before = out.len();
    for (i, ip) in ips.iter().enumerate() {
        if i > 0 || *ip != "None" {
            formats::ip(ip, &format!("{IPS}[{i}]"), out);
        } else if ips.len() > 1 {
            out.push(Cause::invalid(IPS, all, "'None' must be the first and only value"));
        }
    }
    let bad = out.len() > before;
    if ips.len() > 2 {
        out.push(Cause::invalid(IPS, all, "may only hold up to 2 values"));
    }
    if bad {
        return;
    }
    let is_v4 = |ip: &&str| formats::ip_of(ip).is_some_and(|ip| ip.is_ipv4());
    if ips.len() > 1 && (ips.iter().all(is_v4) || !ips.iter().any(is_v4)) {
        out.push(Cause::invalid(IPS, all, "may specify no more than one IP for each IP family"));
    }
    if is_headless(object) {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(&families).enumerate() {
        if ["IPv4", "IPv6"].contains(family) && is_v4(ip) != (*family == "IPv4") {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            wrong(&format!("{IPS}[{i}]"), ip, [why], out);
        }
    }
}

fn unique_ports(kind: &str, ports: &[Value], out: &mut Vec<Cause>) {
    let node_port = |port: &Value| port["nodePort"].as_i64().filter(|n| *n != 0);
    for (i, port) in ports.iter().enumerate() {
        if kind == "ClusterIP" && node_port(port).is_some() {
            let why = "may not be used when `type` is 'ClusterIP'";
            out.push(Cause::forbidden(format!("spec.ports[{i}].nodePort"), why));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let Some(number) = node_port(port) else { continue };
        if !seen.insert((text(port, "/protocol"), number)) {
            out.push(Cause::duplicate(format!("spec.ports[{i}].nodePort"), &json!(number)));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(port, "/protocol"), port["port"].as_i64().unwrap_or(0));
        if !seen.insert((protocol, number)) {
            // A kube-apiserver shows its own structure.
            let message = format!(
                "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol)
            );
            out.push(Cause { reason: "FieldValueDuplicate".into(), message, field: format!("spec.ports[{i}]") });
        }
    }
}

/// Validates the fields of load balancers.
fn balanced(object: &Value, kind: &str, out: &mut Vec<Cause>) {
    let is_balanced = kind == "LoadBalancer";
    let ranges = list(object, "/spec/loadBalancerSourceRanges");
    let annotated = object::metadata(object).get("annotations").and_then(|a| a[RANGES_ANNOTATION].as_str());
    if !ranges.is_empty() {
        const FIELD: &str = "spec.LoadBalancerSourceRanges";
        if !is_balanced {
            out.push(Cause::forbidden(FIELD, ONLY_BALANCED));
        }
        for (i, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
            formats::cidr(range.trim(), &format!("{FIELD}[{i}]"), out);
        }
    } else if let Some(annotated) = annotated {
        let field = format!("metadata.annotations[{RANGES_ANNOTATION}]");
        if !is_balanced {
            out.push(Cause::forbidden(&field, ONLY_BALANCED));
        }
        if !annotated.trim().is_empty() {
            annotated.split(',').for_each(|range| formats::cidr(range.trim(), &field, out));
        }
    }
    if !is_balanced && !at(object, "/spec/allocateLoadBalancerNodePorts").is_null() {
        out.push(Cause::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED));
    }
    match at(object, "/spec/loadBalancerClass").as_str() {
        Some(class) if is_balanced => formats::qualified(class, "spec.loadBalancerClass", out),
        Some(_) => out.push(Cause::forbidden("spec.loadBalancerClass", ONLY_BALANCED)),
        None => {}
    }
}

/// Validates traffic policies.
fn traffic(object: &Value, kind: &str, out: &mut Vec<Cause>) {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let external = text(object, "/spec/externalTrafficPolicy");
    if is_reached_from_outside(object) {
        match external {
            "" => out.push(Cause::required("spec.externalTrafficPolicy", "")),
            policy => supported(policy, "spec.externalTrafficPolicy", &POLICIES, out),
        }
    } else if !external.is_empty() {
        let why = "may only be set for externally-accessible services";
        wrong("spec.externalTrafficPolicy", external, [why], out);
    }
    let health = at(object, "/spec/healthCheckNodePort");
    if health.as_i64().is_some_and(|n| n != 0) {
        if needs_health_check(object) {
            formats::port_number(health, "spec.healthCheckNodePort", out);
        } else {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            out.push(Cause::invalid("spec.healthCheckNodePort", health, why));
        }
    }
    match at(object, "/spec/internalTrafficPolicy").as_str() {
        Some(policy) => supported(policy, "spec.internalTrafficPolicy", &POLICIES, out),
        None if kind != "ExternalName" && TYPES.contains(&kind) => {
            out.push(Cause::required("spec.internalTrafficPolicy", ""));
        }
        None => {}
    }
    if let Some(distribution) = at(object, "/spec/trafficDistribution").as_str() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        supported(distribution, "spec.trafficDistribution", &known, out);
    }
}

/// Validates immutable fields.
fn changed(object: &Value, old: &Value, out: &mut Vec<Cause>) {
    let (kind, before) = (text(object, "/spec/type"), text(old, "/spec/type"));
    if kind != "ExternalName" && before != "ExternalName" && !(is_headless(object) && is_headless(old)) {
        let was = text(old, "/spec/clusterIP");
        if !was.is_empty() && was != text(object, "/spec/clusterIP") {
            out.push(Cause::invalid("spec.clusterIPs[0]", at(object, "/spec/clusterIPs"), "may not change once set"));
        }
    }
    let class = |of: &Value| at(of, "/spec/loadBalancerClass").clone();
    if kind == "LoadBalancer" && before == kind && class(old) != class(object) {
        out.push(Cause::invalid("spec.loadBalancerClass", &class(object), "may not change once set"));
    }
    let health = |of: &Value| at(of, "/spec/healthCheckNodePort").clone();
    if needs_health_check(old) && needs_health_check(object) && health(old) != health(object) {
        out.push(Cause::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
}

/// The addresses that a load balancer gave.
fn status(object: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "status.loadBalancer.ingress";
    let given = list(object, "/status/loadBalancer/ingress");
    if text(object, "/spec/type") != "LoadBalancer" {
        if !given.is_empty() {
            out.push(Cause::forbidden(FIELD, "may only be used when `spec.type` is 'LoadBalancer'"));
        }
        return;
    }
    for (i, one) in given.iter().enumerate() {
        let field = format!("{FIELD}[{i}]");
        let (ip, at_mode) = (text(one, "/ip"), format!("{field}.ipMode"));
        load_balancer::validate_ingress(one, &field, out, |out| match one["ipMode"].as_str() {
            None if !ip.is_empty() => out.push(Cause::required(at_mode, "must be specified when `ip` is set")),
            None => {}
            Some(_) if ip.is_empty() => {
                out.push(Cause::forbidden(at_mode, "may not be specified when `ip` is not set"));
            }
            Some(mode) => supported(mode, &at_mode, &["Proxy", "VIP"], out),
        });
    }
}
