//! Validation of requests, limits and claims.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::status::Cause;

use super::super::{
    amounts::{self, amount},
    fields::{list, quoted, text},
};

/// The claims of a pod for devices; answers their names.
pub(super) fn claims<'a>(spec: &'a Value, path: &str, out: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (i, claim) in list(spec, "/resourceClaims").iter().enumerate() {
        let field = format!("{path}[{i}]");
        let name = text(claim, "/name");
        match name {
            "" => out.push(Cause::required(format!("{field}.name"), "")),
            name if !names.insert(name) => {
                out.push(Cause::duplicate(format!("{field}.name"), &json!(name)));
            }
            name => super::super::fields::label(name, &format!("{field}.name"), out),
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|key| &claim[key]);
        let why = match sources.map(Value::is_null) {
            [true, true] => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            [false, false] => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            _ => continue,
        };
        let quote = [
            ("Name", json!(name)),
            ("ResourceClaimName", sources[0].clone()),
            ("ResourceClaimTemplateName", sources[1].clone()),
        ];
        out.push(Cause::invalid_quoted(field, &quoted(&quote), why));
    }
    names
}

/// Limits first, then requests, which stay within them.
pub(super) fn of_container(resources: &Value, path: &str, claims: &BTreeSet<&str>, out: &mut Vec<Cause>) {
    let none = Map::new();
    let side = |name: &str| resources[name].as_object().unwrap_or(&none);
    let (limits, requests) = (side("limits"), side("requests"));
    let (mut basic, mut huge) = (false, false);
    let mut count = |name: &str| {
        basic |= name == "cpu" || name == "memory";
        huge |= name.starts_with("hugepages-");
    };
    for (name, value) in limits {
        let field = format!("{path}.limits[{name}]");
        amounts::container_resource_name(name, &field, out);
        amounts::of_resource(name, value, &field, out);
        count(name);
    }
    for (name, value) in requests {
        let field = format!("{path}.requests[{name}]");
        amounts::container_resource_name(name, &field, out);
        amounts::of_resource(name, value, &field, out);
        within(name, value, limits.get(name), path, out);
        count(name);
    }
    if huge && !basic {
        out.push(Cause::forbidden(path, "HugePages require cpu or memory"));
    }
    for (i, claim) in list(resources, "/claims").iter().enumerate() {
        let (name, field) = (text(claim, "/name"), format!("{path}.claims[{i}]"));
        if name.is_empty() {
            out.push(Cause::required(format!("{field}.name"), ""));
        } else if !claims.contains(name) {
            let which = if claims.is_empty() { " which is empty" } else { "" };
            let mut cause = Cause::not_found(field, &json!(name));
            cause.message.push_str(&format!(": must be one of the names in pod.spec.resourceClaims{which}"));
            out.push(cause);
        }
    }
}

/// A request is no more than its limit; what can't be shared is exactly it.
fn within(name: &str, request: &Value, limit: Option<&Value>, path: &str, out: &mut Vec<Cause>) {
    let shared = amounts::may_overcommit(name);
    let Some(limit) = limit else {
        if !shared {
            let why = "Limit must be set for non overcommitable resources";
            out.push(Cause::required(format!("{path}.limits"), why));
        }
        return;
    };
    let shown = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
    let field = format!("{path}.requests");
    if !shared && amount(request) != amount(limit) {
        out.push(Cause::invalid(field, request, format!("must be equal to {name} limit of {shown}")));
    } else if shared && amount(request) > amount(limit) {
        out.push(Cause::invalid(field, request, format!("must be less than or equal to {name} limit of {shown}")));
    }
}
