//! The environment of a container.

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{
    super::{
        fields::{at, list, text},
        formats::{self, supported, wrong},
    },
    container::Pod,
};

/// Fields of a pod that a variable can show.
const SHOWN: [&str; 9] = [
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
];
/// Fields that have a name, whether or not this place can show them.
const NAMED: [&str; 6] = [
    "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host",
];
/// Amounts of a container that a variable or file can show.
const AMOUNTS: [&str; 6] = [
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
];

const NAME_RULE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

fn variable_name(name: &str, field: &str, out: &mut Vec<Cause>) {
    if !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        wrong(field, name, [NAME_RULE], out);
    }
}

/// Variables one by one, and those that come from a whole ConfigMap or Secret.
pub(super) fn variables(container: &Value, path: &str, pod: &Pod<'_>, out: &mut Vec<Cause>) {
    for (i, variable) in list(container, "/env").iter().enumerate() {
        let field = format!("{path}.env[{i}]");
        match text(variable, "/name") {
            "" => out.push(Cause::required(format!("{field}.name"), "")),
            name => variable_name(name, &format!("{field}.name"), out),
        }
        if variable["valueFrom"].is_object() {
            let full = !text(variable, "/value").is_empty();
            value_from(&variable["valueFrom"], full, &format!("{field}.valueFrom"), pod, out);
        }
    }
    for (i, source) in list(container, "/envFrom").iter().enumerate() {
        let field = format!("{path}.envFrom[{i}]");
        let prefix = text(source, "/prefix");
        if !prefix.is_empty() {
            variable_name(prefix, &format!("{field}.prefix"), out);
        }
        let mut sources = 0;
        for key in ["configMapRef", "secretRef"] {
            if !source[key].is_object() {
                continue;
            }
            sources += 1;
            match text(source, &format!("/{key}/name")) {
                "" => out.push(Cause::required(format!("{field}.{key}.name"), "")),
                name => formats::subdomain(name, &format!("{field}.{key}.name"), out),
            }
        }
        // The real one names the list here, not the element.
        one_source(sources, &format!("{path}.envFrom"), "must specify one of: `configMapRef` or `secretRef`", out);
    }
}

fn one_source(sources: usize, field: &str, none: &str, out: &mut Vec<Cause>) {
    match sources {
        0 => wrong(field, "", [none], out),
        1 => {}
        _ => wrong(field, "", ["may not have more than one field specified at a time"], out),
    }
}

fn value_from(source: &Value, full: bool, field: &str, pod: &Pod<'_>, out: &mut Vec<Cause>) {
    let mut sources = 0;
    if source["fieldRef"].is_object() {
        sources += 1;
        field_ref(&source["fieldRef"], &format!("{field}.fieldRef"), &SHOWN, out);
    }
    if source["resourceFieldRef"].is_object() {
        sources += 1;
        amount_ref(&source["resourceFieldRef"], &format!("{field}.resourceFieldRef"), false, out);
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if source[key].is_object() {
            sources += 1;
            formats::subdomain(text(source, &format!("/{key}/name")), &format!("{field}.{key}.name"), out);
            key_of(text(source, &format!("/{key}/key")), &format!("{field}.{key}.key"), out);
        }
    }
    if source["fileKeyRef"].is_object() {
        sources += 1;
        let volume = text(source, "/fileKeyRef/volumeName");
        if !pod.volumes.contains_key(volume) {
            out.push(Cause::not_found(format!("{field}.fileKeyRef.volumeName"), &json!(volume)));
        }
    }
    if sources > 0 && full {
        return wrong(field, "", ["may not be specified when `value` is not empty"], out);
    }
    let none = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
    one_source(sources, field, none, out);
}

/// A key of a ConfigMap or Secret.
fn key_of(key: &str, field: &str, out: &mut Vec<Cause>) {
    match key {
        "" => out.push(Cause::required(field, "")),
        key => wrong(field, key, names::config_key(key), out),
    }
}

/// A field of the pod, among those which this place can show.
pub(super) fn field_ref(reference: &Value, field: &str, shown: &[&str], out: &mut Vec<Cause>) {
    let path = text(reference, "/fieldPath");
    if path.is_empty() {
        return out.push(Cause::required(format!("{field}.fieldPath"), ""));
    }
    let at_path = format!("{field}.fieldPath");
    let version = text(reference, "/apiVersion");
    if !["", "v1"].contains(&version) {
        return wrong(&at_path, path, [format!("error converting fieldPath: unsupported pod version: {version}")], out);
    }
    let subscript = path.strip_suffix("']").and_then(|p| p.split_once("['"));
    if let Some((whole, key)) = subscript
        && ["metadata.labels", "metadata.annotations"].contains(&whole)
    {
        let key_to_judge = if whole == "metadata.labels" { key.to_owned() } else { key.to_lowercase() };
        return wrong(field, key, names::qualified_name(&key_to_judge), out);
    }
    if !SHOWN.contains(&path) && !NAMED.contains(&path) {
        return wrong(&at_path, path, [format!("error converting fieldPath: field label not supported: {path}")], out);
    }
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    supported(path, &at_path, shown, out);
}

/// Validates a reference to a resource of a container; in a volume it names the container.
pub(super) fn amount_ref(reference: &Value, field: &str, of_volume: bool, out: &mut Vec<Cause>) {
    let resource = text(reference, "/resource");
    if of_volume && text(reference, "/containerName").is_empty() {
        return out.push(Cause::required(format!("{field}.containerName"), ""));
    }
    if resource.is_empty() {
        return out.push(Cause::required(format!("{field}.resource"), ""));
    }
    if !resource.contains("hugepages-") {
        supported(resource, &format!("{field}.resource"), &AMOUNTS, out);
    }
    let divisor = at(reference, "/divisor");
    let (known, unit): (&[&str], &str) = if resource.ends_with(".cpu") {
        (&["1m", "1"], "cpu")
    } else {
        (&["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"], "memory")
    };
    let given = divisor.as_str().map(str::to_owned).unwrap_or_else(|| divisor.to_string());
    if !divisor.is_null() && !["0", ""].contains(&given.as_str()) && !known.contains(&given.as_str()) {
        let why = if unit == "cpu" {
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()
        } else {
            let unit = if resource.ends_with("ephemeral-storage") { "local ephemeral storage" } else { unit };
            format!("only divisor's values {} are supported with the {unit} resource", known.join(", "))
        };
        wrong(&format!("{field}.divisor"), resource, [why], out);
    }
}
