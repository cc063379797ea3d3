//! Pods and pod templates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::status::Cause;

use super::{at, label, list, text};

const UPDATE_RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn pod(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    spec(at(object, "/spec"), "spec", &["Always", "OnFailure", "Never"], out);
    let Some(old) = old else { return };
    let (was, is) = (at(old, "/spec/activeDeadlineSeconds"), at(object, "/spec/activeDeadlineSeconds"));
    match (was.as_i64(), is.as_i64()) {
        (Some(was), Some(now)) if now > was => {
            let why = "must be less than or equal to previous value";
            out.push(Cause::invalid("spec.activeDeadlineSeconds", is, why));
        }
        (Some(_), None) => {
            let why = "must not update from a positive integer to nil value";
            out.push(Cause::invalid("spec.activeDeadlineSeconds", is, why));
        }
        _ => {}
    }
    if essence(at(object, "/spec"), at(old, "/spec")) != essence(at(old, "/spec"), at(old, "/spec")) {
        out.push(Cause::forbidden("spec", UPDATE_RULE));
    }
}

/// A pod's spec without what an update may change. The node is set by binding; gates and resources have ways of their own.
fn essence(spec: &Value, old: &Value) -> Value {
    let mut out = spec.clone();
    for containers in ["containers", "initContainers"] {
        for container in out.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(map) = container.as_object_mut() {
                map.remove("image");
                map.remove("resources");
            }
        }
    }
    if let Some(map) = out.as_object_mut() {
        for key in [
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "schedulingGates",
            "ephemeralContainers",
            "resources",
        ] {
            map.remove(key);
        }
        if at(old, "/nodeName").is_null() || text(old, "/nodeName").is_empty() {
            map.remove("nodeName");
        }
        // Tolerations may be added.
        let kept = list(old, "/tolerations").iter().all(|t| list(spec, "/tolerations").contains(t));
        map.insert("tolerations".into(), json!(kept));
    }
    out
}

/// What is wrong with a template; jobs allow other restart policies than services do.
pub(super) fn template(template: &Value, path: &str, policies: &[&str], out: &mut Vec<Cause>) {
    spec(at(template, "/spec"), &format!("{path}.spec"), policies, out);
}

fn spec(spec: &Value, path: &str, policies: &[&str], out: &mut Vec<Cause>) {
    let mut volumes = BTreeSet::new();
    for (i, volume) in list(spec, "/volumes").iter().enumerate() {
        let (name, field) = (text(volume, "/name"), format!("{path}.volumes[{i}].name"));
        if name.is_empty() {
            out.push(Cause::required(&field, ""));
        } else {
            label(name, &field, out);
        }
        if !volumes.insert(name) {
            out.push(Cause::duplicate(field, &json!(name)));
        }
    }
    if list(spec, "/containers").is_empty() {
        out.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for kind in ["initContainers", "containers"] {
        for (i, one) in list(spec, &format!("/{kind}")).iter().enumerate() {
            container(one, &format!("{path}.{kind}[{i}]"), &mut names, &volumes, out);
        }
    }
    let policy = text(spec, "/restartPolicy");
    if !policies.contains(&policy) && !list(spec, "/containers").is_empty() {
        let field = format!("{path}.restartPolicy");
        out.push(match policies {
            // Jobs don't take the default.
            ["OnFailure", "Never"] if policy == "Always" => {
                Cause::required(field, "valid values: \"OnFailure\", \"Never\"")
            }
            _ => Cause::unsupported(field, &json!(policy), policies),
        });
    }
    let grace = at(spec, "/terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|g| g < 0) {
        out.push(Cause::invalid(
            format!("{path}.terminationGracePeriodSeconds"),
            grace,
            "must be greater than or equal to 0",
        ));
    }
}

fn container<'a>(
    container: &'a Value,
    path: &str,
    names: &mut BTreeSet<&'a str>,
    volumes: &BTreeSet<&str>,
    out: &mut Vec<Cause>,
) {
    let (name, field) = (text(container, "/name"), format!("{path}.name"));
    if name.is_empty() {
        out.push(Cause::required(&field, ""));
    } else {
        label(name, &field, out);
    }
    let image = text(container, "/image");
    if image.is_empty() {
        out.push(Cause::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        out.push(Cause::invalid(
            format!("{path}.image"),
            &json!(image),
            "must not have leading or trailing whitespace",
        ));
    }
    for (i, port) in list(container, "/ports").iter().enumerate() {
        let (number, field) = (at(port, "/containerPort"), format!("{path}.ports[{i}].containerPort"));
        match number.as_i64() {
            None | Some(0) => out.push(Cause::required(field, "")),
            Some(1..=65_535) => {}
            Some(_) => out.push(Cause::invalid(field, number, "must be between 1 and 65535, inclusive")),
        }
    }
    for (i, variable) in list(container, "/env").iter().enumerate() {
        if text(variable, "/name").is_empty() {
            out.push(Cause::required(format!("{path}.env[{i}].name"), ""));
        }
    }
    for (i, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let volume = text(mount, "/name");
        if !volumes.contains(volume) {
            out.push(Cause::not_found(format!("{path}.volumeMounts[{i}].name"), &json!(volume)));
        }
        if text(mount, "/mountPath").is_empty() {
            out.push(Cause::required(format!("{path}.volumeMounts[{i}].mountPath"), ""));
        }
    }
    let policy = text(container, "/imagePullPolicy");
    if !["", "Always", "IfNotPresent", "Never"].contains(&policy) {
        let supported = ["Always", "IfNotPresent", "Never"];
        out.push(Cause::unsupported(format!("{path}.imagePullPolicy"), &json!(policy), &supported));
    }
    resources(container, path, out);
    if !name.is_empty() && !names.insert(name) {
        out.push(Cause::duplicate(field, &json!(name)));
    }
}

/// Requests stay within limits.
fn resources(container: &Value, path: &str, out: &mut Vec<Cause>) {
    use ironclad_patch::quantity::Quantity;
    let requests = at(container, "/resources/requests").as_object();
    for (name, request) in requests.into_iter().flatten() {
        let limit = at(container, "/resources/limits").get(name).and_then(Value::as_str);
        let amount = |text: &str| Quantity::parse(text).ok();
        let (Some(asked), Some(text)) = (request.as_str().and_then(amount), limit) else { continue };
        if amount(text).is_some_and(|limit| asked > limit) {
            let message = format!("must be less than or equal to {name} limit of {text}");
            out.push(Cause::invalid(format!("{path}.resources.requests"), request, message));
        }
    }
}
