//! ResourceInterpreterWebhookConfiguration (specification/admission.md 5.6).

use std::{collections::BTreeSet, net::Ipv6Addr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_api::config::ResourceInterpreterWebhookConfiguration;
use ironclad_interpreter::Operation as Interpretation;
use ironclad_patch::names;
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use serde_json::Value;

use crate::{
    Denial,
    field::{Findings, Path},
    request::{Cx, decode},
};

/// Version of the payload that Ironclad sends.
const PAYLOAD_VERSION: &str = "v1alpha1";

pub(crate) fn validate(object: &Value, _: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let configuration: ResourceInterpreterWebhookConfiguration = decode(object)?;
    let mut seen = BTreeSet::new();
    for (i, webhook) in configuration.webhooks.iter().enumerate() {
        let path = Path::new("webhooks").index(i);
        domain(&webhook.name, &path.child("name"), out);
        if !seen.insert(webhook.name.as_str()) {
            out.duplicate(path.child("name"), &webhook.name);
        }
        for (j, rule) in webhook.rules.iter().enumerate() {
            let path = path.child("rules").index(j);
            operations(&rule.operations, &path.child("operations"), out);
            patterns(&rule.api_groups, Empty::Core, &path.child("apiGroups"), out);
            patterns(&rule.api_versions, Empty::Missing, &path.child("apiVersions"), out);
            patterns(&rule.kinds, Empty::Missing, &path.child("kinds"), out);
        }
        if let Some(seconds) = webhook.timeout_seconds.filter(|seconds| !(1..=30).contains(seconds)) {
            out.invalid(path.child("timeoutSeconds"), &seconds, "the timeout value must be between 1 and 30 seconds");
        }
        client(&webhook.client_config, &path.child("clientConfig"), out);
        if let Some(bundle) = &webhook.client_config.ca_bundle {
            ca_bundle(&bundle.0, &path.child("clientConfig.caBundle"), out);
        }
        versions(&webhook.interpreter_context_versions, &path.child("interpreterContextVersions"), out);
    }
    Ok(())
}

/// Validates a fully qualified domain name. One trailing dot is allowed.
fn domain(name: &str, path: &Path, out: &mut Findings) {
    if name.is_empty() {
        return out.required(path, "");
    }
    let bare = name.strip_suffix('.').unwrap_or(name);
    let mistakes = names::dns1123_subdomain(bare);
    if mistakes.is_empty() && !bare.contains('.') {
        out.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
    out.texts(path, name, mistakes);
}

fn operations(operations: &[String], path: &Path, out: &mut Findings) {
    if operations.is_empty() {
        out.required(path, "");
    }
    if operations.len() > 1 && operations.iter().any(|operation| operation == "*") {
        out.invalid(path, operations, "if '*' is present, must not specify other operations");
    }
    let known: Vec<&str> = std::iter::once("*").chain(Interpretation::ALL.iter().map(|o| o.name())).collect();
    for (k, operation) in operations.iter().enumerate().filter(|(_, operation)| !known.contains(&operation.as_str())) {
        out.not_supported(path.index(k), operation, &known);
    }
}

/// Meaning of an empty text.
#[derive(PartialEq, Eq)]
enum Empty {
    /// The core group.
    Core,
    /// A required value is missing.
    Missing,
}

fn patterns(patterns: &[String], empty: Empty, path: &Path, out: &mut Findings) {
    if patterns.is_empty() {
        out.required(path, "");
    }
    if patterns.len() > 1 && patterns.iter().any(|pattern| pattern == "*") {
        out.invalid(path, patterns, "if '*' is present, must not specify others");
    }
    for (k, _) in patterns.iter().enumerate().filter(|(_, text)| text.is_empty() && empty == Empty::Missing) {
        out.required(path.index(k), "");
    }
}

fn client(config: &WebhookClientConfig, path: &Path, out: &mut Findings) {
    match (&config.url, &config.service) {
        (None, None) | (Some(_), Some(_)) => out.required(path, "exactly one of url or service is required"),
        (Some(url), None) => self::url(url, &path.child("url"), out),
        (None, Some(service)) => self::service(service, &path.child("service"), out),
    }
}

fn url(url: &str, path: &Path, out: &mut Findings) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some(rest) = url.strip_prefix("https://") else {
        return out.invalid(path, url, &format!("'https' is the only allowed URL scheme{FORM}"));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority_mistake(host.rsplit_once('@').map_or(host, |(_, host)| host)) {
        None => {}
        Some(Mistake::NoHost) => out.invalid(path, url, &format!("host must be specified{FORM}")),
        Some(Mistake::Malformed(why)) => out.invalid(path, url, &format!("url must be a valid URL: {why}{FORM}")),
    }
    if host.contains('@') {
        out.invalid(path, url, "user information is not permitted in the URL");
    }
    if url.contains('#') {
        out.invalid(path, url, "fragments are not permitted in the URL");
    }
    if url.contains('?') {
        out.invalid(path, url, "query parameters are not permitted in the URL");
    }
}

/// Reason why no server can be reached by a host and port.
enum Mistake {
    NoHost,
    Malformed(String),
}

/// Validates `host`, `host:port` or `[IPv6]:port`.
fn authority_mistake(text: &str) -> Option<Mistake> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<Ipv6Addr>().is_ok() => (host, port),
            Some((host, _)) => return Some(Mistake::Malformed(format!("{host:?} is no IPv6 address"))),
            None => return Some(Mistake::Malformed("missing ']' in host".to_owned())),
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if host.is_empty() {
        return Some(Mistake::NoHost);
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some(Mistake::Malformed("invalid character in host name".to_owned()));
    }
    let is_port = port.strip_prefix(':').map_or(port.is_empty(), |port| port.is_empty() || port.parse::<u16>().is_ok());
    (!is_port).then(|| Mistake::Malformed(format!("invalid port {port:?} after host")))
}

/// Validates a bundle of certificates. Without one that can be read each call fails.
fn ca_bundle(bundle: &[u8], path: &Path, out: &mut Findings) {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let is_certificate = |block: &str| {
        let body: String = block.split_whitespace().collect();
        !body.is_empty() && STANDARD.decode(body).is_ok()
    };
    let text = String::from_utf8_lossy(bundle);
    let mut blocks =
        text.split(BEGIN).skip(1).map(|rest| rest.split_once(END).map_or("", |(block, _)| block)).peekable();
    if !bundle.is_empty() && (blocks.peek().is_none() || !blocks.all(is_certificate)) {
        let detail = "unable to load root certificates: must be certificates in PEM";
        out.invalid(path, &format!("({} bytes)", bundle.len()), detail);
    }
}

fn service(service: &ServiceReference, path: &Path, out: &mut Findings) {
    for (field, text) in [("name", &service.name), ("namespace", &service.namespace)] {
        if text.is_empty() {
            out.required(path.child(field), &format!("service {field} is required"));
        }
    }
    // The default port is 443.
    if let Some(port) = service.port.filter(|port| !(1..=65_535).contains(port)) {
        out.invalid(path.child("port"), &port, "must be between 1 and 65535, inclusive");
    }
    let Some(given) = &service.path else { return };
    let at = path.child("path");
    let Some(rest) = given.strip_prefix('/') else {
        return out.invalid(&at, given, "must start with a '/'");
    };
    if rest.is_empty() {
        return;
    }
    let steps: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    for (i, step) in steps.iter().enumerate() {
        if step.is_empty() {
            out.invalid(&at, given, &format!("segment[{i}] may not be empty"));
            continue;
        }
        for mistake in names::dns1123_subdomain(step) {
            out.invalid(&at, given, &format!("segment[{i}]: {mistake}"));
        }
    }
}

fn versions(versions: &[String], path: &Path, out: &mut Findings) {
    if versions.is_empty() {
        return out.required(path, &format!("must specify one of {PAYLOAD_VERSION}"));
    }
    let mut seen = BTreeSet::new();
    for (k, version) in versions.iter().enumerate() {
        if !seen.insert(version.as_str()) {
            out.invalid(path.index(k), version, "duplicate version");
        }
        out.texts(path.index(k), version, names::dns1035_label(version));
    }
    if !seen.contains(PAYLOAD_VERSION) {
        out.invalid(path, versions, &format!("must include at least one of {PAYLOAD_VERSION}"));
    }
}
