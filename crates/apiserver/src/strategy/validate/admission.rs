//! Configurations of webhooks, policies and their bindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{at, formats, list, text};
use crate::{names, policies, status::Cause, webhooks};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
/// The versions of reviews that this server speaks, and a kube-apiserver names.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The most match conditions of one webhook or policy.
const CONDITIONS_MAX: usize = 64;

fn one_of(value: &Value, field: &str, supported: &[&str], out: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|given| !supported.contains(&given)) {
        out.push(Cause::unsupported(field, value, supported));
    }
}

/// The webhooks of a configuration.
pub(super) fn configuration(object: &Value, out: &mut Vec<Cause>) {
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
    conditions(&hook["matchConditions"], &format!("{field}.matchConditions"), out);
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

/// What a webhook's URL may not have, in the order in which a kube-apiserver looks.
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
    out
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

fn conditions(conditions: &Value, field: &str, out: &mut Vec<Cause>) {
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
        match webhooks::condition_type(expression) {
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

fn strings<'a>(rule: &'a Value, key: &str) -> Vec<&'a str> {
    rule[key].as_array().into_iter().flatten().map(|v| v.as_str().unwrap_or_default()).collect()
}

fn with_operations(rule: &Value, field: &str, out: &mut Vec<Cause>) {
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

fn resources(rule: &Value, field: &str, out: &mut Vec<Cause>) {
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

/// A ValidatingAdmissionPolicy.
pub(super) fn policy(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    one_of(&spec["failurePolicy"], "spec.failurePolicy", &FAILURE_POLICIES, out);
    if spec["paramKind"].is_object() {
        for key in ["apiVersion", "kind"] {
            if spec["paramKind"][key].as_str().is_none_or(str::is_empty) {
                out.push(Cause::required(format!("spec.paramKind.{key}"), ""));
            }
        }
    }
    match spec["matchConstraints"].is_object() {
        false => out.push(Cause::required("spec.matchConstraints", "")),
        true => constraints(&spec["matchConstraints"], "spec.matchConstraints", true, out),
    }
    conditions(&spec["matchConditions"], "spec.matchConditions", out);
    for (i, variable) in list(spec, "/variables").iter().enumerate() {
        let (name, field) = (text(variable, "/name"), format!("spec.variables[{i}].name"));
        if name.is_empty() {
            out.push(Cause::required(field, "name is not specified"));
        } else if !is_identifier(name) {
            out.push(Cause::invalid(field, &json!(name), "must be a valid CEL identifier"));
        }
    }
    let validations = list(spec, "/validations");
    if validations.is_empty() && list(spec, "/auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        out.push(Cause::required("spec.validations", why));
        out.push(Cause::required("spec.auditAnnotations", why));
    }
    for (i, validation) in validations.iter().enumerate() {
        let field = format!("spec.validations[{i}]");
        if text(validation, "/message").trim().contains('\n') {
            let why = "must not contain line breaks";
            out.push(Cause::invalid(format!("{field}.message"), &validation["message"], why));
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        one_of(&validation["reason"], &format!("{field}.reason"), &reasons, out);
    }
    policies::check_expressions(spec, out);
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What a policy or a binding is about; a policy must say it.
fn constraints(constraints: &Value, field: &str, is_policy: bool, out: &mut Vec<Cause>) {
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

/// A ValidatingAdmissionPolicyBinding.
pub(super) fn binding(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    if text(spec, "/policyName").is_empty() {
        out.push(Cause::required("spec.policyName", ""));
    }
    let reference = &spec["paramRef"];
    if reference.is_object() {
        match (reference["name"].as_str().is_some_and(|n| !n.is_empty()), !reference["selector"].is_null()) {
            (true, true) => {
                let why = "name and selector are mutually exclusive";
                out.push(Cause::forbidden("spec.paramRef.name", why));
            }
            (false, false) => {
                out.push(Cause::required("spec.paramRef", "one of name or selector must be specified"));
            }
            _ => {}
        }
        let (action, field) = (&reference["parameterNotFoundAction"], "spec.paramRef.parameterNotFoundAction");
        match action.is_null() {
            true => out.push(Cause::required(field, "")),
            false => one_of(action, field, &["Deny", "Allow"], out),
        }
    }
    if spec["matchResources"].is_object() {
        constraints(&spec["matchResources"], "spec.matchResources", false, out);
    }
    let actions = strings(spec, "validationActions");
    if actions.is_empty() {
        let why = "at least one validation action is required";
        return out.push(Cause::required("spec.validationActions", why));
    }
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        let field = format!("spec.validationActions[{i}]");
        one_of(&json!(action), &field, &["Audit", "Deny", "Warn"], out);
        if !seen.insert(*action) {
            out.push(Cause::duplicate(field, &json!(action)));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        out.push(Cause::invalid("spec.validationActions", &json!(["Deny", "Warn"]), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(check: fn(&Value, &mut Vec<Cause>), object: &Value) -> Vec<String> {
        let mut out = Vec::new();
        check(object, &mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    fn hook(more: Value) -> Value {
        let mut hook = json!({"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://h/x"}});
        for (key, value) in more.as_object().unwrap() {
            hook[key] = value.clone();
        }
        json!({"webhooks": [hook]})
    }

    #[test]
    fn webhooks() {
        let rule = |resources: &[&str]| json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources});
        for (more, want) in [
            (json!({}), vec![]),
            (
                json!({"name": "nodots"}),
                vec![
                    ".name: Invalid value: \"nodots\": should be a domain with at least three segments separated by dots",
                ],
            ),
            (
                json!({"sideEffects": null, "clientConfig": null, "admissionReviewVersions": null}),
                vec![
                    ".sideEffects: Required value: must specify one of None, NoneOnDryRun",
                    ".clientConfig: Required value: exactly one of url or service is required",
                    ".admissionReviewVersions: Required value: must specify one of v1, v1beta1",
                ],
            ),
            (
                json!({"clientConfig": {"url": "http://user@h/x?q=1#f"}}),
                vec![
                    ".clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                    ".clientConfig.url: Invalid value: \"user\": user information is not permitted in the URL",
                    ".clientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL",
                    ".clientConfig.url: Invalid value: \"q=1\": query parameters are not permitted in the URL",
                ],
            ),
            (
                json!({"clientConfig": {"url": "https:///x"}}),
                vec![
                    ".clientConfig.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
                ],
            ),
            (
                json!({"clientConfig": {"service": {"name": "x", "namespace": "y", "path": "/a//b"}}}),
                vec![".clientConfig.service.path: Invalid value: \"/a//b\": segment[1] may not be empty"],
            ),
            (json!({"clientConfig": {"service": {"name": "x", "namespace": "y", "path": "/a/b/"}}}), vec![]),
            (
                json!({"timeoutSeconds": 0, "admissionReviewVersions": ["v2"]}),
                vec![
                    ".timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds",
                    ".admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
                ],
            ),
            (json!({"timeoutSeconds": 30, "rules": [rule(&["*", "*/status"])]}), vec![]),
            (
                json!({"rules": [rule(&["pods/*", "pods/status"])]}),
                vec![
                    ".rules[0].resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
                ],
            ),
            (
                json!({"rules": [rule(&["*/status", "pods/status"])]}),
                vec![
                    ".rules[0].resources[1]: Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status",
                ],
            ),
            (
                json!({"rules": [rule(&["*", "pods"])]}),
                vec![
                    ".rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
                ],
            ),
            (
                json!({"matchConditions": [{"name": "a", "expression": "'text'"}, {"name": "a", "expression": "true"}]}),
                vec![
                    ".matchConditions[0].expression: Invalid value: \"'text'\": must evaluate to bool but got string",
                    ".matchConditions[1].name: Duplicate value: \"a\"",
                ],
            ),
        ] {
            let want: Vec<String> = want.iter().map(|text| format!("webhooks[0]{text}")).collect();
            assert_eq!(told(configuration, &hook(more.clone())), want, "{more}");
        }
        let mut twice = hook(json!({}));
        twice["webhooks"] = json!([twice["webhooks"][0], twice["webhooks"][0]]);
        assert_eq!(told(configuration, &twice), ["webhooks[1].name: Duplicate value: \"a.b.c\""]);
    }

    #[test]
    fn policies_and_bindings() {
        let empty = told(policy, &json!({"spec": {}}));
        assert_eq!(
            empty,
            [
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ]
        );
        let both = json!({"spec": {"policyName": "p", "validationActions": ["Deny", "Warn"], "paramRef": {}}});
        assert_eq!(
            told(binding, &both),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same \
                 validation failure information in the API response and headers serves no purpose)",
            ]
        );
        let named = json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}});
        assert_eq!(told(binding, &named), Vec::<String>::new());
    }
}
