//! Names and ports of a pod on the network.

use serde_json::{Value, json};

use crate::status::Cause;

use super::super::{
    fields::{at, list, text},
    formats::{self, supported, wrong},
};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARS_MAX: usize = 2_048;

pub(super) fn policy(spec: &Value, field: &str, out: &mut Vec<Cause>) {
    let policy = text(spec, "/dnsPolicy");
    if !policy.is_empty() {
        supported(policy, field, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], out);
    }
}

/// Validates `dnsConfig`; the policy `None` requires nameservers.
pub(super) fn dns(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let config = at(spec, "/dnsConfig");
    let nameservers = list(config, "/nameservers");
    if text(spec, "/dnsPolicy") == "None" {
        if !config.is_object() {
            return out.push(Cause::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
        }
        if nameservers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return out.push(Cause::required(format!("{path}.nameservers"), why));
        }
    }
    if nameservers.len() > NAMESERVERS_MAX {
        let why = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        out.push(Cause::invalid(format!("{path}.nameservers"), &json!(nameservers), why));
    }
    for (i, server) in nameservers.iter().filter_map(Value::as_str).enumerate() {
        formats::ip(server, &format!("{path}.nameservers[{i}]"), out);
    }
    searches(list(config, "/searches"), &format!("{path}.searches"), out);
    for (i, option) in list(config, "/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            out.push(Cause::required(format!("{path}.options[{i}]"), "must not be empty"));
        }
    }
}

fn searches(searches: &[Value], path: &str, out: &mut Vec<Cause>) {
    if searches.len() > SEARCHES_MAX {
        let why = format!("must not have more than {SEARCHES_MAX} search paths");
        out.push(Cause::invalid(path, &json!(searches), why));
    }
    let texts = || searches.iter().filter_map(Value::as_str);
    if texts().map(str::len).sum::<usize>() + searches.len().saturating_sub(1) > SEARCH_CHARS_MAX {
        let why =
            format!("must not have more than {SEARCH_CHARS_MAX} characters (including spaces) in the search list");
        out.push(Cause::invalid(path, &json!(searches), why));
    }
    for (i, search) in texts().enumerate() {
        // The root alone is a domain, and any domain may end with it.
        let name = if search == "." { search } else { search.strip_suffix('.').unwrap_or(search) };
        if name != "." && !is_search(name) {
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
            wrong(&format!("{path}[{i}]"), name, [why], out);
        }
    }
}

/// True for a domain; its labels may contain underscores.
fn is_search(name: &str) -> bool {
    const CHARS_MAX: usize = 253;
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= CHARS_MAX
        && name.split('.').all(|label| {
            let label = label.strip_prefix('_').unwrap_or(label).as_bytes();
            let ends = label.first().zip(label.last());
            ends.is_some_and(|(a, b)| alphanumeric(*a) && alphanumeric(*b))
                && label.iter().all(|b| alphanumeric(*b) || matches!(b, b'-' | b'_'))
        })
}

/// On the network of its host, a container's port is the host's.
pub(super) fn host_ports(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    if at(spec, "/hostNetwork") != &json!(true) {
        return;
    }
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(spec, &format!("/{kind}")).iter().enumerate() {
            for (j, port) in list(container, "/ports").iter().enumerate() {
                let host = at(port, "/hostPort");
                if host != at(port, "/containerPort") {
                    let why = "must match `containerPort` when `hostNetwork` is true";
                    out.push(Cause::invalid(format!("{path}.{kind}[{i}].ports[{j}].hostPort"), host, why));
                }
            }
        }
    }
}

/// Lines of `/etc/hosts`.
pub(super) fn aliases(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    for (i, alias) in list(spec, "/hostAliases").iter().enumerate() {
        formats::ip(text(alias, "/ip"), &format!("{path}[{i}].ip"), out);
        for (j, name) in list(alias, "/hostnames").iter().filter_map(Value::as_str).enumerate() {
            formats::subdomain(name, &format!("{path}[{i}].hostnames[{j}]"), out);
        }
    }
}
