//! Validation of probes and lifecycle hooks.

use serde_json::Value;

use crate::status::Cause;

use super::super::{
    fields::{at, list, text},
    formats::{self, supported, wrong},
};

const GRACE_SECONDS: i64 = 30;

/// Hooks; they may sleep no longer than the pod has at its end.
pub(super) fn lifecycle(spec: &Value, container: &Value, path: &str, out: &mut Vec<Cause>) {
    let grace = at(spec, "/terminationGracePeriodSeconds").as_i64().unwrap_or(GRACE_SECONDS);
    for hook in ["postStart", "preStop"] {
        let handler = at(container, &format!("/lifecycle/{hook}"));
        if handler.is_object() {
            self::handler(handler, &format!("{path}.lifecycle.{hook}"), Some(grace), out);
        }
    }
}

/// One of the ways to act, and only one. Hooks may sleep for so long; probes don't, and speak gRPC.
fn handler(handler: &Value, path: &str, grace: Option<i64>, out: &mut Vec<Cause>) {
    let last = if grace.is_some() { "sleep" } else { "grpc" };
    let mut any = false;
    for key in ["exec", "httpGet", "tcpSocket", last] {
        let action = &handler[key];
        if !action.is_object() {
            continue;
        }
        let field = format!("{path}.{key}");
        if any {
            out.push(Cause::forbidden(field, "may not specify more than 1 handler type"));
            continue;
        }
        any = true;
        match key {
            "exec" if list(action, "/command").is_empty() => {
                out.push(Cause::required(format!("{field}.command"), ""));
            }
            "exec" => {}
            "httpGet" => http_get(action, &field, out),
            "tcpSocket" => formats::port(at(action, "/port"), &format!("{field}.port"), out),
            "grpc" => formats::port_number(at(action, "/port"), &format!("{field}.port"), out),
            _ => {
                let (seconds, most) = (at(action, "/seconds"), grace.unwrap_or(GRACE_SECONDS));
                let asked = seconds.as_i64().unwrap_or(0);
                if asked < 0 || asked > most {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({most})");
                    out.push(Cause::invalid(field, seconds, why));
                }
            }
        }
    }
    if !any {
        out.push(Cause::required(path, "must specify a handler type"));
    }
}

fn http_get(get: &Value, path: &str, out: &mut Vec<Cause>) {
    if text(get, "/path").is_empty() {
        out.push(Cause::required(format!("{path}.path"), ""));
    }
    formats::port(at(get, "/port"), &format!("{path}.port"), out);
    supported(text(get, "/scheme"), &format!("{path}.scheme"), &["HTTP", "HTTPS"], out);
    for header in list(get, "/httpHeaders") {
        let name = text(header, "/name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            wrong(&format!("{path}.httpHeaders"), name, [why], out);
        }
    }
}

/// Is it alive, ready, started?
pub(super) fn probes(container: &Value, path: &str, out: &mut Vec<Cause>) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[key];
        if probe.is_object() {
            self::probe(probe, key, &format!("{path}.{key}"), out);
        }
    }
}

fn probe(probe: &Value, key: &str, path: &str, out: &mut Vec<Cause>) {
    handler(probe, path, None, out);
    for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        let value = &probe[number];
        if value.as_i64().is_some_and(|n| n < 0) {
            out.push(Cause::invalid(format!("{path}.{number}"), value, "must be greater than or equal to 0"));
        }
    }
    let grace = &probe["terminationGracePeriodSeconds"];
    let field = format!("{path}.terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|n| n <= 0) {
        out.push(Cause::invalid(&field, grace, "must be greater than 0"));
    }
    if key == "readinessProbe" {
        if !grace.is_null() {
            out.push(Cause::invalid(field, grace, "must not be set for readinessProbes"));
        }
        return;
    }
    let successes = &probe["successThreshold"];
    if successes.as_i64().is_some_and(|n| n != 1) {
        out.push(Cause::invalid(format!("{path}.successThreshold"), successes, "must be 1"));
    }
}
