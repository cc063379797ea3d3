//! Amounts of resources, and the names of what is counted.

use ironclad_quantity::{Format, Quantity};
use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::formats::wrong;

/// Resources that Kubernetes itself knows, where any may be named.
const STANDARD: [&str; 20] = [
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services",
    "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "storage", "requests.storage",
    "services.nodeports", "services.loadbalancers",
];

/// Resources of which there are no parts.
const WHOLE: [&str; 9] = [
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
];

/// An amount; none where there is none.
pub(crate) fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

fn zero() -> Quantity {
    Quantity::new(0, Format::DecimalSi)
}

/// The amount may not be below zero.
pub(crate) fn not_negative(value: &Value, field: &str, out: &mut Vec<Cause>) {
    if amount(value).is_some_and(|n| n < zero()) {
        out.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
    }
}

/// True for an amount above zero.
pub(crate) fn is_positive(value: &Value) -> bool {
    amount(value).is_some_and(|n| n > zero())
}

/// The amount must fit what is counted.
pub(crate) fn of_resource(name: &str, value: &Value, field: &str, out: &mut Vec<Cause>) {
    not_negative(value, field, out);
    let parts = amount(value).is_some_and(|n| n.milli_value() % 1_000 != 0);
    if parts && (WHOLE.contains(&name) || is_extended(name)) {
        out.push(Cause::invalid(field, value, "must be an integer"));
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// True for an extended resource, such as a GPU.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// True for resources whose limits may exceed their requests.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// True for the names of Kubernetes' own resources that a quota can count.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    (STANDARD.contains(&name) && name != "storage") || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// The name of any resource.
pub(crate) fn resource_name(name: &str, field: &str, out: &mut Vec<Cause>) {
    let errors = names::qualified_name(name);
    if !errors.is_empty() {
        return wrong(field, name, errors, out);
    }
    let known = STANDARD.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-");
    if !name.contains('/') && !known {
        wrong(field, name, ["must be a standard resource type or fully qualified"], out);
    }
}

/// The name of a resource that containers ask for.
pub(crate) fn container_resource_name(name: &str, field: &str, out: &mut Vec<Cause>) {
    resource_name(name, field, out);
    if !name.contains('/') {
        if !["cpu", "memory", "ephemeral-storage"].contains(&name) && !is_huge_pages(name) {
            wrong(field, name, ["must be a standard resource for containers"], out);
        }
    } else if !is_native(name) && !is_extended(name) {
        wrong(field, name, ["doesn't follow extended resource name standard"], out);
    }
}

/// The name of a resource that a quota counts.
pub(crate) fn quota_resource_name(name: &str, field: &str, out: &mut Vec<Cause>) {
    resource_name(name, field, out);
    if !name.contains('/') && !is_standard_for_quota(name) {
        wrong(field, name, ["must be a standard resource for quota"], out);
    }
}

/// Validates the overhead of pods beside the requests of their containers.
pub(crate) fn limits(limits: &Value, field: &str, out: &mut Vec<Cause>) {
    let limits = limits.as_object();
    for (name, value) in limits.into_iter().flatten() {
        let field = format!("{field}.limits[{name}]");
        container_resource_name(name, &field, out);
        of_resource(name, value, &field, out);
    }
    let names = || limits.into_iter().flatten().map(|(name, _)| name.as_str());
    if names().any(is_huge_pages) && !names().any(|n| n == "cpu" || n == "memory") {
        out.push(Cause::forbidden(field, "HugePages require cpu or memory"));
    }
}

/// A number as Kubernetes prints it where it takes it out of its quantity.
pub(crate) fn plain(value: &Value) -> Value {
    json!(amount(value).map_or(0, |n| n.value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources() {
        let messages = |check: fn(&str, &str, &mut Vec<Cause>), name: &str| {
            let mut out = Vec::new();
            check(name, "f", &mut out);
            out.into_iter().map(|c| c.message).collect::<Vec<_>>()
        };
        for (name, any, container, quota) in [
            ("cpu", 0, 0, 0),
            ("storage", 0, 1, 1),
            ("hugepages-2Mi", 0, 0, 0),
            ("requests.hugepages-2Mi", 0, 1, 0),
            ("odd", 1, 2, 2),
            ("example.com/gpu", 0, 0, 0),
            ("requests.example.com/gpu", 0, 1, 0),
            ("kubernetes.io/odd", 0, 0, 0),
        ] {
            let counts =
                [resource_name as fn(&str, &str, &mut Vec<Cause>), container_resource_name, quota_resource_name]
                    .map(|check| messages(check, name).len());
            assert_eq!(counts, [any, container, quota], "{name}");
        }
    }

    #[test]
    fn amounts_fit_what_is_counted() {
        for (name, value, want) in [
            ("cpu", json!("1500m"), vec![]),
            ("cpu", json!("-1"), vec!["Invalid value: \"-1\": must be greater than or equal to 0"]),
            ("pods", json!("1500m"), vec!["Invalid value: \"1500m\": must be an integer"]),
            ("example.com/gpu", json!("1500m"), vec!["Invalid value: \"1500m\": must be an integer"]),
        ] {
            let mut out = Vec::new();
            of_resource(name, &value, "f", &mut out);
            assert_eq!(out.into_iter().map(|c| c.message).collect::<Vec<_>>(), want, "{name} {value}");
        }
    }
}
