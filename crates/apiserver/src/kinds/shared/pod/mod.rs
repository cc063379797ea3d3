//! Validation of pods and pod templates, in the order of a kube-apiserver.

mod affinity;
pub(crate) mod annotations;
mod container;
mod environment;
mod handlers;
mod mounts;
mod network;
mod resources;
mod security;
#[cfg(test)]
mod tests;
mod update;
mod volumes;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{
    amounts,
    fields::{at, label, list, text},
    formats::{self, supported, wrong},
};

pub(crate) use affinity::toleration;
pub(crate) use volumes::claim_template;

/// The values of `restartPolicy`.
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const DEADLINE_SECONDS_MAX: i64 = i32::MAX as i64;

pub(crate) fn pod(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    match old {
        Some(old) => {
            annotations::validate(at(object, "/metadata"), at(object, "/spec"), "metadata.annotations", out);
            // An unchanged spec was validated when it was stored.
            if old["spec"] != object["spec"] {
                of_spec(object, out);
            }
            annotations::changed(at(object, "/metadata"), at(old, "/metadata"), at(object, "/spec"), out);
            if old["spec"] != object["spec"] {
                update::changed(at(object, "/spec"), at(old, "/spec"), out);
            }
        }
        None => {
            let wish = at(object, "/spec");
            whole(object, out);
            annotations::app_armor_agrees(object, out);
            if !list(wish, "/ephemeralContainers").is_empty() {
                out.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
            }
            if !list(wish, "/schedulingGates").is_empty() && !text(wish, "/nodeName").is_empty() {
                let why = "cannot be set until all schedulingGates have been cleared";
                out.push(Cause::forbidden("spec.nodeName", why));
            }
        }
    }
}

/// A pod whatever it was before.
pub(crate) fn whole(object: &Value, out: &mut Vec<Cause>) {
    annotations::validate(at(object, "/metadata"), at(object, "/spec"), "metadata.annotations", out);
    of_spec(object, out);
}

fn of_spec(object: &Value, out: &mut Vec<Cause>) {
    spec(at(object, "/spec"), "spec", &[], out);
    of_running(at(object, "/spec"), out);
}

/// Validates what templates of pods may have and pods may not.
fn of_running(spec: &Value, out: &mut Vec<Cause>) {
    if text(spec, "/serviceAccountName").is_empty() {
        for (i, volume) in list(spec, "/volumes").iter().enumerate() {
            for (k, source) in list(volume, "/projected/sources").iter().enumerate() {
                if source["serviceAccountToken"].is_object() {
                    let field = format!("spec.volumes[{i}].projected.sources[{k}].serviceAccountToken");
                    out.push(Cause::forbidden(field, "must not be specified when serviceAccountName is not set"));
                }
            }
        }
    }
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(spec, &format!("/{kind}")).iter().enumerate() {
            let image = text(container, "/image");
            if image.trim() != image {
                let field = format!("spec.{kind}[{i}].image");
                wrong(&field, image, ["must not have leading or trailing whitespace"], out);
            }
        }
    }
}

/// Validates a template at this path; its restart policy is the caller's to validate.
pub(crate) fn template(template: &Value, path: &str, out: &mut Vec<Cause>) {
    template_with(template, path, &[], out);
}

/// The same where each pod gets claims of its own, which are volumes of their names.
fn template_with(template: &Value, path: &str, claims: &[Value], out: &mut Vec<Cause>) {
    formats::labels(at(template, "/metadata/labels"), &format!("{path}.labels"), out);
    for key in at(template, "/metadata/annotations").as_object().into_iter().flat_map(|map| map.keys()) {
        wrong(&format!("{path}.annotations"), key, names::qualified_name(&key.to_lowercase()), out);
    }
    let annotated = format!("{path}.annotations");
    annotations::validate(at(template, "/metadata"), at(template, "/spec"), &annotated, out);
    spec(at(template, "/spec"), &format!("{path}.spec"), claims, out);
    if !list(template, "/spec/ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        out.push(Cause::forbidden(format!("{path}.spec.ephemeralContainers"), why));
    }
}

/// A template of pods that its owner keeps running for good, perhaps with claims of their own.
pub(crate) fn validate_always_restart_template(template: &Value, owner: &str, claims: &[Value], out: &mut Vec<Cause>) {
    let path = "spec.template";
    template_with(template, path, claims, out);
    let policy = text(template, "/spec/restartPolicy");
    if !["", "Always"].contains(&policy) {
        out.push(Cause::unsupported(format!("{path}.spec.restartPolicy"), &json!(policy), &["Always"]));
    }
    if !at(template, "/spec/activeDeadlineSeconds").is_null() {
        let why = format!("activeDeadlineSeconds in {owner} is not Supported");
        out.push(Cause::forbidden(format!("{path}.spec.activeDeadlineSeconds"), why));
    }
}

fn spec(spec: &Value, path: &str, own_claims: &[Value], out: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    let mut volumes = volumes::volumes(spec, &field("volumes"), out);
    for claim in own_claims {
        volumes.entry(text(claim, "/metadata/name")).or_insert(claim);
    }
    let claims = resources::claims(spec, &field("resourceClaims"), out);
    container::containers(spec, path, &volumes, &claims, out);
    let policy = text(spec, "/restartPolicy");
    if !policy.is_empty() {
        supported(policy, &field("restartPolicy"), &RESTART_POLICIES, out);
    }
    network::policy(spec, &field("dnsPolicy"), out);
    formats::labels(at(spec, "/nodeSelector"), &field("nodeSelector"), out);
    network::host_ports(spec, path, out);
    security::of_pod(spec, path, out);
    for (i, secret) in list(spec, "/imagePullSecrets").iter().enumerate() {
        let name = text(secret, "/name");
        if !name.is_empty() && !names::dns_subdomain(name).is_empty() {
            formats::subdomain(name, &field(&format!("imagePullSecrets[{i}].name")), out);
        }
    }
    affinity::affinity(at(spec, "/affinity"), &field("affinity"), out);
    network::dns(spec, &field("dnsConfig"), out);
    for (i, gate) in list(spec, "/readinessGates").iter().enumerate() {
        formats::qualified(text(gate, "/conditionType"), &field(&format!("readinessGates[{i}].conditionType")), out);
    }
    gates(spec, &field("schedulingGates"), out);
    affinity::spread(spec, &field("topologySpreadConstraints"), out);
    security::host_processes(spec, path, out);
    security::host_users(spec, path, out);
    subdomain(spec, "serviceAccountName", path, out);
    subdomain(spec, "nodeName", path, out);
    let deadline = at(spec, "/activeDeadlineSeconds");
    if deadline.as_i64().is_some_and(|n| !(1..=DEADLINE_SECONDS_MAX).contains(&n)) {
        let why = format!("must be between 1 and {DEADLINE_SECONDS_MAX}, inclusive");
        out.push(Cause::invalid(field("activeDeadlineSeconds"), deadline, why));
    }
    for key in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{key}"));
        if !name.is_empty() {
            label(name, &field(key), out);
        }
    }
    affinity::tolerations(spec, &field("tolerations"), out);
    network::aliases(spec, &field("hostAliases"), out);
    subdomain(spec, "priorityClassName", path, out);
    subdomain(spec, "runtimeClassName", path, out);
    if let Some(policy) = at(spec, "/preemptionPolicy").as_str() {
        supported(policy, &field("preemptionPolicy"), &["PreemptLowerPriority", "Never"], out);
    }
    amounts::limits(at(spec, "/overhead"), &field("overhead"), out);
    let system = text(spec, "/os/name");
    if at(spec, "/os").is_object() {
        match system {
            "" => out.push(Cause::required(field("os.name"), "cannot be empty")),
            name => supported(name, &field("os"), &["linux", "windows"], out),
        }
    }
    if system == "windows" {
        security::on_windows(spec, path, out);
    }
}

/// The name of another object; none is fine.
fn subdomain(spec: &Value, key: &str, path: &str, out: &mut Vec<Cause>) {
    let name = text(spec, &format!("/{key}"));
    if !name.is_empty() {
        formats::subdomain(name, &format!("{path}.{key}"), out);
    }
}

fn gates(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (i, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let (name, field) = (text(gate, "/name"), format!("{path}[{i}]"));
        formats::qualified(name, &field, out);
        if !seen.insert(name) {
            out.push(Cause::duplicate(field, &json!(name)));
        }
    }
}
