//! Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::status::Cause;

use super::{at, label, list, one_of, text};

const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

pub(super) fn service(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let kind = text(object, "/spec/type");
    one_of(object, "/spec/type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], out);
    one_of(object, "/spec/sessionAffinity", &["ClientIP", "None"], out);
    let ports = list(object, "/spec/ports");
    let headless = text(object, "/spec/clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        out.push(Cause::required("spec.ports", ""));
    }
    if kind == "ExternalName" && text(object, "/spec/externalName").is_empty() {
        out.push(Cause::required("spec.externalName", ""));
    }
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{i}].{name}");
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            out.push(Cause::required(field("name"), ""));
        } else if !name.is_empty() {
            label(name, &field("name"), out);
            if !names.insert(name) {
                out.push(Cause::duplicate(field("name"), &json!(name)));
            }
        }
        let number = at(port, "/port");
        if !number.as_i64().is_some_and(|n| (1..=65_535).contains(&n)) {
            out.push(Cause::invalid(field("port"), number, "must be between 1 and 65535, inclusive"));
        }
        let target = at(port, "/targetPort");
        if target.as_i64().is_some_and(|n| !(1..=65_535).contains(&n)) {
            out.push(Cause::invalid(field("targetPort"), target, "must be between 1 and 65535, inclusive"));
        }
        let node = at(port, "/nodePort");
        if node.as_i64().is_some_and(|n| n != 0 && !NODE_PORTS.contains(&n)) {
            let message = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            out.push(Cause::invalid(field("nodePort"), node, message));
        }
    }
    if let Some(old) = old
        && kind != "ExternalName"
        && text(old, "/spec/type") != "ExternalName"
        && !text(old, "/spec/clusterIP").is_empty()
        && text(old, "/spec/clusterIP") != text(object, "/spec/clusterIP")
    {
        out.push(Cause::invalid("spec.clusterIPs[0]", at(object, "/spec/clusterIPs"), "may not change once set"));
    }
}
