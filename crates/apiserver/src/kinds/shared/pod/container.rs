//! Containers of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::status::Cause;

use super::{
    super::{
        fields::{at, label, list, text},
        formats,
        formats::supported,
    },
    environment, handlers, mounts, resources, security,
};

const CONTAINER_RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

/// The parts of a pod that its containers refer to.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: &'a BTreeMap<&'a str, &'a Value>,
    pub(super) claims: &'a BTreeSet<&'a str>,
}

/// Validates all containers: main, init and ephemeral ones.
pub(super) fn containers<'a>(
    spec: &'a Value,
    path: &str,
    volumes: &'a BTreeMap<&'a str, &'a Value>,
    claims: &'a BTreeSet<&'a str>,
    out: &mut Vec<Cause>,
) {
    let pod = Pod { spec, volumes, claims };
    let mut names = BTreeSet::new();
    let running = list(spec, "/containers");
    if running.is_empty() {
        out.push(Cause::required(format!("{path}.containers"), ""));
    }
    for (i, one) in running.iter().enumerate() {
        let field = format!("{path}.containers[{i}]");
        container(&pod, one, &field, out);
        unique(one, &field, &mut names, out);
        handlers::lifecycle(spec, one, &field, out);
        handlers::probes(one, &field, out);
        restart_policy(one, &field, out);
    }
    host_ports(running, &format!("{path}.containers"), out);
    for (i, one) in list(spec, "/initContainers").iter().enumerate() {
        let field = format!("{path}.initContainers[{i}]");
        container(&pod, one, &field, out);
        restart_policy(one, &field, out);
        unique(one, &field, &mut names, out);
        if text(one, "/restartPolicy") == "Always" {
            handlers::lifecycle(spec, one, &field, out);
            handlers::probes(one, &field, out);
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if one[key].is_object() {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    out.push(Cause::forbidden(format!("{field}.{key}"), why));
                }
            }
        }
    }
    for (i, one) in list(spec, "/ephemeralContainers").iter().enumerate() {
        let field = format!("{path}.ephemeralContainers[{i}]");
        container(&pod, one, &field, out);
        unique(one, &field, &mut names, out);
        for_a_look(spec, one, &field, out);
    }
}

/// Refuses fields that ephemeral containers may not have.
fn for_a_look(spec: &Value, container: &Value, path: &str, out: &mut Vec<Cause>) {
    const NOT_ITS: [&str; 8] = [
        "ports", "resources", "resizePolicy", "restartPolicy", "livenessProbe", "readinessProbe", "startupProbe",
        "lifecycle",
    ];
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let target = text(container, "/targetContainerName");
    let known = |kind: &str| list(spec, kind).iter().any(|other| text(other, "/name") == target);
    if !target.is_empty() && !known("/containers") && !known("/initContainers") {
        out.push(Cause::not_found(format!("{path}.targetContainerName"), &json!(target)));
    }
    for key in NOT_ITS {
        let given = match &container[key] {
            Value::Null => false,
            // Without a policy the default applies.
            Value::Object(map) if key == "resources" => !map.is_empty(),
            _ => true,
        };
        if given {
            out.push(Cause::forbidden(format!("{path}.{key}"), WHY));
        }
    }
    for (i, mount) in list(container, "/volumeMounts").iter().enumerate() {
        for key in ["subPath", "subPathExpr"].into_iter().filter(|key| !text(mount, &format!("/{key}")).is_empty()) {
            out.push(Cause::forbidden(format!("{path}.volumeMounts[{i}].{key}"), WHY));
        }
    }
}

fn unique<'a>(container: &'a Value, path: &str, names: &mut BTreeSet<&'a str>, out: &mut Vec<Cause>) {
    let name = text(container, "/name");
    if !name.is_empty() && !names.insert(name) {
        out.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
    }
}

fn restart_policy(container: &Value, path: &str, out: &mut Vec<Cause>) {
    let policy = text(container, "/restartPolicy");
    if !policy.is_empty() {
        supported(policy, &format!("{path}.restartPolicy"), &CONTAINER_RESTART_POLICIES, out);
    }
}

/// Validates the fields that containers of all sorts have.
fn container(pod: &Pod<'_>, container: &Value, path: &str, out: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    match text(container, "/name") {
        "" => out.push(Cause::required(field("name"), "")),
        name => label(name, &field("name"), out),
    }
    if text(container, "/image").is_empty() {
        out.push(Cause::required(field("image"), ""));
    }
    let policy = text(container, "/terminationMessagePolicy");
    if !policy.is_empty() {
        supported(policy, &field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"], out);
    }
    ports(container, &field("ports"), out);
    environment::variables(container, path, pod, out);
    mounts::mounts(container, path, pod.volumes, out);
    let policy = text(container, "/imagePullPolicy");
    if !policy.is_empty() {
        supported(policy, &field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"], out);
    }
    resources::of_container(at(container, "/resources"), &field("resources"), pod.claims, out);
    resize_policy(container, &field("resizePolicy"), out);
    security::of_container(pod.spec, at(container, "/securityContext"), &field("securityContext"), out);
}

fn ports(container: &Value, path: &str, out: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for (i, port) in list(container, "/ports").iter().enumerate() {
        let field = |name: &str| format!("{path}[{i}].{name}");
        let name = text(port, "/name");
        if !name.is_empty() {
            let errors = formats::port_name(name);
            if !errors.is_empty() {
                formats::wrong(&field("name"), name, errors, out);
            } else if !names.insert(name) {
                out.push(Cause::duplicate(field("name"), &json!(name)));
            }
        }
        match at(port, "/containerPort").as_i64() {
            None | Some(0) => out.push(Cause::required(field("containerPort"), "")),
            Some(_) => formats::port_number(at(port, "/containerPort"), &field("containerPort"), out),
        }
        if at(port, "/hostPort").as_i64().unwrap_or(0) != 0 {
            formats::port_number(at(port, "/hostPort"), &field("hostPort"), out);
        }
        formats::protocol(text(port, "/protocol"), &field("protocol"), out);
    }
}

/// A port of the host is one container's alone.
fn host_ports(containers: &[Value], path: &str, out: &mut Vec<Cause>) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in list(container, "/ports").iter().enumerate() {
            let number = at(port, "/hostPort").as_i64().unwrap_or(0);
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", text(port, "/protocol"), text(port, "/hostIP"));
            if !taken.insert(key.clone()) {
                out.push(Cause::duplicate(format!("{path}[{i}].ports[{j}].hostPort"), &json!(key)));
            }
        }
    }
}

fn resize_policy(container: &Value, path: &str, out: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (i, policy) in list(container, "/resizePolicy").iter().enumerate() {
        let resource = text(policy, "/resourceName");
        if seen.contains(resource) {
            out.push(Cause::duplicate(format!("{path}[{i}]"), &json!(resource)));
        }
        seen.insert(resource);
        match resource {
            "" => out.push(Cause::required(path, "")),
            resource => supported(resource, path, &["cpu", "memory"], out),
        }
        match text(policy, "/restartPolicy") {
            "" => out.push(Cause::required(path, "")),
            policy => supported(policy, path, &["NotRequired", "RestartContainer"], out),
        }
    }
}
