//! Rules that webhook configurations and admission policies share.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    kinds::shared::{
        defaults::{each, set},
        fields::{list, text},
        formats,
    },
    names,
    status::Cause,
    webhooks::{self, ConditionVariables},
};

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];

pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// The most match conditions of one webhook or policy.
const CONDITIONS_MAX: usize = 64;

pub(super) fn one_of(value: &Value, field: &str, supported: &[&str], out: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|given| !supported.contains(&given)) {
        out.push(Cause::unsupported(field, value, supported));
    }
}

pub(super) fn conditions(conditions: &Value, field: &str, variables: ConditionVariables, out: &mut Vec<Cause>) {
    let conditions = conditions.as_array().map_or(&[][..], Vec::as_slice);
    if conditions.len() > CONDITIONS_MAX {
        let message = format!("Too many: {}: must have at most {CONDITIONS_MAX} items", conditions.len());
        out.push(Cause { reason: "FieldValueTooMany".into(), message, field: field.to_owned() });
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let (name, expression) = (text(condition, "/name"), text(condition, "/expression").trim());
        let field = format!("{field}[{i}]");
        let at = format!("{field}.expression");
        match webhooks::condition_type(expression, variables) {
            _ if expression.is_empty() => out.push(Cause::required(&at, "")),
            Err(why) => out.push(Cause::invalid(&at, &json!(expression), format!("compilation failed: {why}"))),
            Ok("bool" | "dyn") => {}
            Ok(other) => {
                out.push(Cause::invalid(&at, &json!(expression), format!("must evaluate to bool but got {other}")));
            }
        }
        let at = format!("{field}.name");
        if name.is_empty() {
            out.push(Cause::required(at, ""));
            continue;
        }
        out.extend(names::qualified_name(name).iter().map(|why| Cause::invalid(&at, &json!(name), why)));
        if !seen.insert(name) {
            out.push(Cause::duplicate(at, &json!(name)));
        }
    }
}

pub(super) fn strings<'a>(rule: &'a Value, key: &str) -> Vec<&'a str> {
    rule[key].as_array().into_iter().flatten().map(|v| v.as_str().unwrap_or_default()).collect()
}

pub(super) fn with_operations(rule: &Value, field: &str, out: &mut Vec<Cause>) {
    let operations = strings(rule, "operations");
    let at = format!("{field}.operations");
    if operations.is_empty() {
        out.push(Cause::required(&at, ""));
    }
    if operations.len() > 1 && operations.contains(&"*") {
        out.push(Cause::invalid(&at, &rule["operations"], "if '*' is present, must not specify other operations"));
    }
    for (i, operation) in operations.iter().enumerate() {
        one_of(&json!(operation), &format!("{at}[{i}]"), &OPERATIONS, out);
    }
    for (key, what, may_be_empty) in [("apiGroups", "API groups", true), ("apiVersions", "API versions", false)] {
        let given = strings(rule, key);
        let at = format!("{field}.{key}");
        if given.is_empty() {
            out.push(Cause::required(&at, ""));
        }
        if given.len() > 1 && given.contains(&"*") {
            let why = format!("if '*' is present, must not specify other {what}");
            out.push(Cause::invalid(&at, &rule[key], why));
        }
        for (i, _) in given.iter().enumerate().filter(|(_, text)| text.is_empty() && !may_be_empty) {
            out.push(Cause::required(format!("{at}[{i}]"), ""));
        }
    }
    resources(rule, &format!("{field}.resources"), out);
    one_of(&rule["scope"], &format!("{field}.scope"), &SCOPES, out);
}

pub(super) fn resources(rule: &Value, field: &str, out: &mut Vec<Cause>) {
    let given = strings(rule, "resources");
    if given.is_empty() {
        return out.push(Cause::required(field, ""));
    }
    // `a/*` covers the subresources of a, `*/b` those that are called so.
    let (mut with_all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    for (i, resource) in given.iter().enumerate() {
        let at = format!("{field}[{i}]");
        if resource.is_empty() {
            out.push(Cause::required(at, ""));
            continue;
        }
        let (name, below) = resource.split_once('/').map_or((*resource, None), |(name, below)| (name, Some(below)));
        let Some(below) = below else { continue };
        let covering = match (with_all_below.contains(name), below_all.contains(below)) {
            (true, _) => Some(format!("{name}/*")),
            (false, true) => Some(format!("*/{below}")),
            _ => None,
        };
        if let Some(covering) = covering {
            let why = format!("if '{covering}' is present, must not specify {resource}");
            out.push(Cause::invalid(at, &json!(resource), why));
        }
        if below == "*" {
            with_all_below.insert(name);
        }
        if name == "*" {
            below_all.insert(below);
        }
    }
    if given.len() > 1 && given.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        out.push(Cause::invalid(field, &rule["resources"], why));
    }
    if given.contains(&"*") && given.iter().any(|resource| !resource.contains('/') && *resource != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        out.push(Cause::invalid(field, &rule["resources"], why));
    }
}

pub(super) fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Validates `matchConstraints` or `matchResources`; a policy requires resource rules.
pub(super) fn constraints(constraints: &Value, field: &str, is_policy: bool, out: &mut Vec<Cause>) {
    one_of(&constraints["matchPolicy"], &format!("{field}.matchPolicy"), &MATCH_POLICIES, out);
    for key in ["namespaceSelector", "objectSelector"] {
        formats::label_selector(&constraints[key], &format!("{field}.{key}"), out);
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in list(constraints, &format!("/{key}")).iter().enumerate() {
            with_operations(rule, &format!("{field}.{key}[{i}]"), out);
        }
    }
    if is_policy && list(constraints, "/resourceRules").is_empty() {
        out.push(Cause::required(format!("{field}.resourceRules"), ""));
    }
}

/// Defaults of `matchConstraints` and `matchResources`.
pub(super) fn default_constraints(constraints: &mut Value) {
    set(constraints, "matchPolicy", "Equivalent");
    set(constraints, "namespaceSelector", json!({}));
    set(constraints, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        each(constraints, key).for_each(|r| set(r, "scope", "*"));
    }
}
