//! Annotations of pods that have a meaning: static pods, the cost of a deletion, and the profiles that are fields now.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::status::Cause;

use super::{
    super::{
        fields::{at, list, text},
        formats::wrong,
    },
    volumes::relative,
};

/// Annotation of the API's copy of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

fn annotations(metadata: &Value) -> impl Iterator<Item = (&str, &str)> {
    let map = metadata["annotations"].as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn annotation<'a>(metadata: &'a Value, key: &str) -> Option<&'a str> {
    annotations(metadata).find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// Validates the annotations in the metadata of a pod or template; `path` is that of the annotations.
pub(super) fn validate(metadata: &Value, spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let field = |key: &str| format!("{path}[{key}]");
    if let Some(value) = annotation(metadata, MIRROR)
        && text(spec, "/nodeName").is_empty()
    {
        wrong(&field(MIRROR), value, ["must set spec.nodeName if mirror pod annotation is set"], out);
    }
    if let Some(cost) = annotation(metadata, DELETION_COST).filter(|cost| !is_deletion_cost(cost)) {
        wrong(&field(DELETION_COST), cost, ["must be a 32bit integer"], out);
    }
    if let Some(profile) = annotation(metadata, SECCOMP) {
        seccomp(profile, &format!("{path}.{SECCOMP}"), out);
    }
    for (key, profile) in annotations(metadata).filter(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER)) {
        seccomp(profile, &format!("{path}.{key}"), out);
    }
    for (key, profile) in annotations(metadata) {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        let has_it = |list_name: &&str| list(spec, &format!("/{list_name}")).iter().any(|c| c["name"] == container);
        if !CONTAINERS.iter().any(has_it) {
            wrong(&field(key), container, ["container not found"], out);
        }
        if !["", "runtime/default", "unconfined"].contains(&profile) && !profile.starts_with("localhost/") {
            wrong(&field(key), profile, [format!("invalid AppArmor profile name: {profile:?}")], out);
        }
    }
}

/// True for an integer of 32 bits as Go writes it: without leading zeros or a plus.
fn is_deletion_cost(cost: &str) -> bool {
    let starts = cost == "0" || cost.starts_with('-') || cost.starts_with(|first| ('1'..='9').contains(&first));
    starts && cost.parse::<i32>().is_ok()
}

fn seccomp(profile: &str, field: &str, out: &mut Vec<Cause>) {
    match (profile, profile.strip_prefix("localhost/")) {
        ("runtime/default" | "docker/default" | "unconfined", _) => {}
        (_, Some(file)) => relative(file, field, out),
        _ => wrong(field, profile, ["must be a valid seccomp profile"], out),
    }
}

/// Validates a change of a pod's annotations.
pub(super) fn changed(new: &Value, old: &Value, spec: &Value, out: &mut Vec<Cause>) {
    const NAMES: [(&str, &str); 2] = [(APP_ARMOR, "AppArmor annotations"), (MIRROR, "mirror pod annotation")];
    let fixed = |key: &str| NAMES.into_iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, name)| name);
    let mut refuse = |key: &str, verb: &str| {
        if let Some(name) = fixed(key) {
            out.push(Cause::forbidden(format!("metadata.annotations[{key}]"), format!("may not {verb} {name}")));
        }
    };
    for (key, _) in annotations(old).filter(|(key, value)| annotation(new, key) != Some(*value)) {
        refuse(key, "remove or update");
    }
    for (key, _) in annotations(new).filter(|(key, _)| annotation(old, key).is_none()) {
        refuse(key, "add");
    }
    validate(new, spec, "metadata.annotations", out);
}

/// The annotations about AppArmor, by container.
fn app_armor_annotations(pod: &Value) -> BTreeMap<String, String> {
    let all = annotations(at(pod, "/metadata"));
    all.filter_map(|(key, value)| Some((key.strip_prefix(APP_ARMOR)?.to_owned(), value.to_owned()))).collect()
}

/// Sets the AppArmor profiles of a new pod that its annotations name and its fields do not.
pub(crate) fn set_app_armor_profiles(pod: &mut Value) {
    let annotations = app_armor_annotations(pod);
    if annotations.is_empty() || at(pod, "/spec/os/name") == "windows" {
        return;
    }
    let of_pod = at(pod, "/spec/securityContext/appArmorProfile").clone();
    for list_name in CONTAINERS {
        let containers = pod.pointer_mut(&format!("/spec/{list_name}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let annotation = annotations.get(text(container, "/name"));
            let Some(profile) = annotation.and_then(|annotation| app_armor_profile(annotation)) else { continue };
            if at(container, "/securityContext/appArmorProfile").is_null() && profile != of_pod {
                if !container["securityContext"].is_object() {
                    container["securityContext"] = Value::Object(Map::new());
                }
                container["securityContext"]["appArmorProfile"] = profile;
            }
        }
    }
}

/// The field that means the same as an annotation; `None` if there is none.
fn app_armor_profile(annotation: &str) -> Option<Value> {
    match (annotation, annotation.strip_prefix("localhost/")) {
        ("runtime/default", _) => Some(json!({"type": "RuntimeDefault"})),
        ("unconfined", _) => Some(json!({"type": "Unconfined"})),
        (_, Some(name)) if !name.is_empty() && name.trim() == name => {
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
        _ => None,
    }
}

/// Refuses profiles in fields of a new pod that differ from those in its annotations.
pub(super) fn app_armor_agrees(pod: &Value, out: &mut Vec<Cause>) {
    let annotations = app_armor_annotations(pod);
    for list_name in CONTAINERS.iter().filter(|_| !annotations.is_empty()) {
        for (i, container) in list(pod, &format!("/spec/{list_name}")).iter().enumerate() {
            let own = at(container, "/securityContext/appArmorProfile");
            let annotation = annotations.get(text(container, "/name"));
            let Some(profile) = annotation.and_then(|annotation| app_armor_profile(annotation)) else { continue };
            if own.is_null() || text(own, "/type") == text(&profile, "/type") {
                continue;
            }
            let field = format!("spec.{list_name}[{i}].securityContext.appArmorProfile.type");
            out.push(Cause::forbidden(field, "apparmor type in annotation and field must match"));
        }
    }
}

/// Warns of annotations of a new pod for which there are fields.
pub(crate) fn warnings(pod: &Value) -> Vec<String> {
    let annotations = app_armor_annotations(pod);
    if annotations.is_empty() || at(pod, "/spec/os/name") == "windows" {
        return Vec::new();
    }
    let containers = CONTAINERS.iter().flat_map(|list_name| list(pod, &format!("/spec/{list_name}")));
    let annotated = containers.map(|c| text(c, "/name")).filter(|name| annotations.contains_key(*name));
    annotated
        .map(|name| {
            format!(
                "metadata.annotations[{APP_ARMOR}{name}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            )
        })
        .collect()
}
