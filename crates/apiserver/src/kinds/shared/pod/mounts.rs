//! Validation of volume mounts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::status::Cause;

use super::{
    super::{
        fields::{at, list, text},
        formats::{supported, wrong},
    },
    volumes::relative,
};

pub(super) fn mounts(container: &Value, path: &str, volumes: &BTreeMap<&str, &Value>, out: &mut Vec<Cause>) {
    let (mounts, devices) = (list(container, "/volumeMounts"), list(container, "/volumeDevices"));
    let mut mount_paths = BTreeSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let field = |name: &str| format!("{path}.volumeMounts[{i}].{name}");
        let (name, mount_path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            out.push(Cause::required(field("name"), ""));
        }
        if !volumes.contains_key(name) {
            out.push(Cause::not_found(field("name"), &json!(name)));
        }
        if mount_path.is_empty() {
            out.push(Cause::required(field("mountPath"), ""));
        }
        if !mount_paths.insert(mount_path) {
            wrong(&field("mountPath"), mount_path, ["must be unique"], out);
        }
        if devices.iter().any(|d| text(d, "/name") == name) {
            wrong(&field("name"), name, ["must not already exist in volumeDevices"], out);
        }
        if devices.iter().any(|d| text(d, "/devicePath") == mount_path) {
            wrong(&field("mountPath"), mount_path, ["must not already exist as a path in volumeDevices"], out);
        }
        // In the following errors a kube-apiserver names the list, not the element.
        part(mount, &format!("{path}.volumeMounts"), &field("subPathExpr"), out);
        propagation(container, mount, &format!("{path}.volumeMounts"), out);
    }
    self::devices(devices, mounts, &format!("{path}.volumeDevices"), volumes, out);
}

/// A part of the volume, by its path or by what variables make of one.
fn part(mount: &Value, path: &str, expression_field: &str, out: &mut Vec<Cause>) {
    let (sub, expression) = (text(mount, "/subPath"), text(mount, "/subPathExpr"));
    if !sub.is_empty() {
        relative(sub, &format!("{path}.subPath"), out);
    }
    if !expression.is_empty() {
        if !sub.is_empty() {
            wrong(expression_field, expression, ["subPathExpr and subPath are mutually exclusive"], out);
        }
        relative(expression, &format!("{path}.subPathExpr"), out);
    }
}

/// Validates mount propagation and recursive read-only mounts.
fn propagation(container: &Value, mount: &Value, path: &str, out: &mut Vec<Cause>) {
    let mode = text(mount, "/mountPropagation");
    let field = format!("{path}.mountPropagation");
    if !mode.is_empty() {
        supported(mode, &field, &["Bidirectional", "HostToContainer", "None"], out);
    }
    if mode == "Bidirectional" && at(container, "/securityContext/privileged") != &json!(true) {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        out.push(Cause::forbidden(field, why));
    }
    let field = format!("{path}.recursiveReadOnly");
    match text(mount, "/recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if at(mount, "/readOnly") != &json!(true) {
                out.push(Cause::forbidden(&field, "may only be specified when readOnly is true"));
            }
            if !["", "None"].contains(&mode) {
                let why = "may only be specified when mountPropagation is None or not specified";
                out.push(Cause::forbidden(field, why));
            }
        }
        other => supported(other, &field, &["Disabled", "Enabled", "IfPossible"], out),
    }
}

/// Volumes that a container has as block devices.
fn devices(devices: &[Value], mounts: &[Value], path: &str, volumes: &BTreeMap<&str, &Value>, out: &mut Vec<Cause>) {
    let (mut names, mut mount_paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in devices.iter().enumerate() {
        let field = |name: &str| format!("{path}[{i}].{name}");
        let (name, mount_path) = (text(device, "/name"), text(device, "/devicePath"));
        if name.is_empty() {
            out.push(Cause::required(field("name"), ""));
        }
        if !names.insert(name) {
            wrong(&field("name"), name, ["must be unique"], out);
        }
        match volumes.get(name) {
            None => out.push(Cause::not_found(field("name"), &json!(name))),
            // The last is a claim that a StatefulSet makes of each pod.
            Some(volume)
                if ["persistentVolumeClaim", "ephemeral", "metadata"].iter().any(|kind| volume[*kind].is_object()) => {}
            Some(_) => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                wrong(&field("name"), name, [why], out);
            }
        }
        if mount_path.is_empty() {
            out.push(Cause::required(field("devicePath"), ""));
        }
        if !mount_paths.insert(mount_path) {
            wrong(&field("devicePath"), mount_path, ["must be unique"], out);
        }
        if mount_path.split('/').any(|part| part == "..") {
            wrong(&field("devicePath"), mount_path, ["can not contain backsteps ('..')"], out);
        }
        if mounts.iter().any(|m| text(m, "/name") == name) {
            wrong(&field("name"), name, ["must not already exist in volumeMounts"], out);
        }
        if mounts.iter().any(|m| text(m, "/mountPath") == mount_path) {
            wrong(&field("devicePath"), mount_path, ["must not already exist as a path in volumeMounts"], out);
        }
    }
}
