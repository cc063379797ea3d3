//! MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::constraints::{FAILURE_POLICIES, MATCH_POLICIES, conditions, one_of, with_operations};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, items, name},
            defaults::{each, set},
            fields::{list, text},
            formats,
        },
    },
    names,
    registry::strategy::Strategy,
    status::Cause,
    webhooks::ConditionVariables,
};

pub(in crate::kinds) const MUTATING: Kind = Kind {
    strategy: Strategy {
        defaults: |o| defaults(o, true),
        validate: |o, _, out| validate(o, out),
        columns: &[NAME, ("Webhooks", "integer", 0), AGE],
        cells: |o, now| vec![name(o), json!(items(o, "/webhooks").count()), created(o, now)],
        ..Strategy::NONE
    },
    hooks: Hooks { after_write: super::changed, ..Hooks::NONE },
    ..Kind::new(
        "admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration C ext gen rv",
    )
};

pub(in crate::kinds) const VALIDATING: Kind = Kind {
    strategy: Strategy { defaults: |o| defaults(o, false), ..MUTATING.strategy },
    hooks: MUTATING.hooks,
    ..Kind::new(
        "admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration C ext gen rv",
    )
};

/// The versions of reviews that this server speaks, and a kube-apiserver names.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

fn defaults(object: &mut Value, mutating: bool) {
    for webhook in each(object, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", 10);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        each(webhook, "rules").for_each(|r| set(r, "scope", "*"));
        if let Some(service) = webhook.pointer_mut("/clientConfig/service").filter(|s| s.is_object()) {
            set(service, "port", 443);
        }
    }
}

/// The webhooks of a configuration.
fn validate(object: &Value, out: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (i, hook) in list(object, "/webhooks").iter().enumerate() {
        let field = format!("webhooks[{i}]");
        webhook(hook, &field, out);
        if !seen.insert(text(hook, "/name")) {
            out.push(Cause::duplicate(format!("{field}.name"), &hook["name"]));
        }
    }
}

fn webhook(hook: &Value, field: &str, out: &mut Vec<Cause>) {
    let name = text(hook, "/name");
    let at_name = format!("{field}.name");
    if name.is_empty() {
        out.push(Cause::required(&at_name, ""));
    } else {
        let wrong = names::dns_subdomain(name);
        if wrong.is_empty() && name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            out.push(Cause::invalid(&at_name, &json!(name), why));
        }
        out.extend(wrong.iter().map(|why| Cause::invalid(&at_name, &json!(name), why)));
    }
    for (i, rule) in list(hook, "/rules").iter().enumerate() {
        with_operations(rule, &format!("{field}.rules[{i}]"), out);
    }
    one_of(&hook["failurePolicy"], &format!("{field}.failurePolicy"), &FAILURE_POLICIES, out);
    one_of(&hook["matchPolicy"], &format!("{field}.matchPolicy"), &MATCH_POLICIES, out);
    let side_effects = format!("{field}.sideEffects");
    match hook["sideEffects"].is_null() {
        true => out.push(Cause::required(side_effects, "must specify one of None, NoneOnDryRun")),
        false => one_of(&hook["sideEffects"], &side_effects, &["None", "NoneOnDryRun"], out),
    }
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|s| !(1..=30).contains(s)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        out.push(Cause::invalid(format!("{field}.timeoutSeconds"), &json!(seconds), why));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        formats::label_selector(&hook[key], &format!("{field}.{key}"), out);
    }
    one_of(&hook["reinvocationPolicy"], &format!("{field}.reinvocationPolicy"), &["IfNeeded", "Never"], out);
    client(&hook["clientConfig"], &format!("{field}.clientConfig"), out);
    conditions(&hook["matchConditions"], &format!("{field}.matchConditions"), ConditionVariables::Request, out);
    review_versions(&hook["admissionReviewVersions"], &format!("{field}.admissionReviewVersions"), out);
}

fn review_versions(versions: &Value, field: &str, out: &mut Vec<Cause>) {
    let given: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if given.is_empty() {
        let why = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        return out.push(Cause::required(field, &why));
    }
    let mut seen = BTreeSet::new();
    let before = out.len();
    for (i, version) in given.iter().enumerate() {
        let at = format!("{field}[{i}]");
        if !seen.insert(*version) {
            out.push(Cause::invalid(at, &json!(version), "duplicate version"));
            continue;
        }
        let wrong = ironclad_patch::names::dns1035_label(version);
        out.extend(wrong.iter().map(|why| Cause::invalid(&at, &json!(version), why)));
    }
    if before == out.len() && !given.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        out.push(Cause::invalid(field, versions, why));
    }
}

fn client(config: &Value, field: &str, out: &mut Vec<Cause>) {
    let url = config["url"].as_str();
    let service = Some(&config["service"]).filter(|service| service.is_object());
    match (url, service) {
        (Some(url), None) => out.extend(wrong_url(url, &format!("{field}.url"))),
        (None, Some(service)) => reached(service, &format!("{field}.service"), out),
        _ => out.push(Cause::required(field, "exactly one of url or service is required")),
    }
}

/// Validates a webhook's URL, in the order of a kube-apiserver.
fn wrong_url(url: &str, field: &str) -> Vec<Cause> {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').map_or((url, ""), |(rest, fragment)| (rest, fragment));
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let (scheme, rest) = rest.split_once("://").map_or(("", rest), |(scheme, rest)| (scheme, rest));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let mut out = Vec::new();
    let mut wrong = |value: &str, why: String| out.push(Cause::invalid(field, &json!(value), why));
    if scheme != "https" {
        wrong(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() || scheme.is_empty() {
        wrong(if scheme.is_empty() { "" } else { host }, format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        wrong(user, "user information is not permitted in the URL".to_owned());
    }
    if !fragment.is_empty() {
        wrong(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !query.is_empty() {
        wrong(query, "query parameters are not permitted in the URL".to_owned());
    }
    if out.is_empty()
        && let Err(why) = parsed(url)
    {
        out.push(Cause::invalid(field, &json!(url), format!("url must be a valid URL: {why}{FORM}")));
    }
    out
}

/// Parses a URL as the caller of webhooks does: one that fails there would refuse, or let through, every request.
fn parsed(url: &str) -> Result<(), String> {
    let parsed: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let authority = parsed.authority().ok_or("it has no host")?;
    let behind = &authority.as_str()[authority.host().len()..];
    match behind.strip_prefix(':') {
        Some("") | None => Ok(()),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
        Some(port) => Err(format!("invalid port {port:?}")),
    }
}

fn reached(service: &Value, field: &str, out: &mut Vec<Cause>) {
    for key in ["name", "namespace"] {
        if service[key].as_str().is_none_or(str::is_empty) {
            out.push(Cause::required(format!("{field}.{key}"), &format!("service {key} is required")));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        out.push(Cause::invalid(format!("{field}.port"), &service["port"], why));
    }
    let Some(path) = service["path"].as_str() else { return };
    let field = format!("{field}.path");
    let Some(inside) = path.strip_prefix('/') else {
        out.push(Cause::invalid(field, &json!(path), "must start with a '/'"));
        return;
    };
    if inside.is_empty() {
        return;
    }
    let segments: Vec<&str> = inside.strip_suffix('/').unwrap_or(inside).split('/').collect();
    for (i, segment) in segments.iter().enumerate() {
        if segment.is_empty() {
            out.push(Cause::invalid(&field, &json!(path), format!("segment[{i}] may not be empty")));
            continue;
        }
        let wrong = names::dns_subdomain(segment);
        out.extend(wrong.iter().map(|why| Cause::invalid(&field, &json!(path), format!("segment[{i}]: {why}"))));
    }
}
