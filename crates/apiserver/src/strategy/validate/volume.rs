//! PersistentVolumes and the claims for them.

use serde_json::{Value, json};

use crate::status::Cause;

use super::{
    amounts, at,
    formats::{self, supported, wrong},
    label, list, node_selector, text,
};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// What a volume can be made of: its field, and that by which refusals name it.
const SOURCES: [(&str, &str); 22] = [
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

fn access_modes(object: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.accessModes";
    let (mut alone, mut others) = (false, false);
    for mode in list(object, "/spec/accessModes").iter().filter_map(Value::as_str) {
        supported(mode, FIELD, &ACCESS_MODES, out);
        alone |= mode == "ReadWriteOncePod";
        others |= mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode);
    }
    if alone && others {
        out.push(Cause::forbidden(FIELD, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// The name of a class, and how the volume is used.
fn class_and_mode(object: &Value, out: &mut Vec<Cause>) {
    let class = text(object, "/spec/storageClassName");
    if !class.is_empty() {
        formats::subdomain(class, "spec.storageClassName", out);
    }
    if let Some(mode) = at(object, "/spec/volumeMode").as_str() {
        supported(mode, "spec.volumeMode", &VOLUME_MODES, out);
    }
}

/// A volume. What is wrong with the spec is told twice of a changed one, as a kube-apiserver looks at it twice.
pub(super) fn volume(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let mut causes = Vec::new();
    spec(object, &mut causes);
    if old.is_some() {
        out.extend(causes.clone());
    }
    out.append(&mut causes);
    let Some(old) = old else { return };
    let sources = |of: &Value| SOURCES.map(|(key, _)| at(of, &format!("/spec/{key}")).clone());
    let (was, is) = (sources(old), sources(object));
    let secret_added = |was: &Value, is: &Value| {
        // A secret for expansion may be named later.
        was["controllerExpandSecretRef"].is_null() && {
            let mut is = is.clone();
            is.as_object_mut().map(|map| map.remove("controllerExpandSecretRef"));
            is == *was
        }
    };
    if was.iter().zip(&is).any(|(was, is)| was != is && !secret_added(was, is)) {
        out.push(Cause::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    if at(object, "/spec/volumeMode") != at(old, "/spec/volumeMode") {
        out.push(Cause::invalid("volumeMode", at(object, "/spec/volumeMode"), "field is immutable"));
    }
    let attributes = |of: &Value| at(of, "/spec/volumeAttributesClassName").is_null();
    if !attributes(old) && attributes(object) {
        out.push(Cause::forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"));
    }
}

fn spec(object: &Value, out: &mut Vec<Cause>) {
    if list(object, "/spec/accessModes").is_empty() {
        out.push(Cause::required("spec.accessModes", ""));
    }
    access_modes(object, out);
    let capacity = at(object, "/spec/capacity");
    let entries = capacity.as_object();
    if entries.is_none_or(serde_json::Map::is_empty) {
        out.push(Cause::required("spec.capacity", ""));
    }
    if capacity.get("storage").is_none() || entries.is_some_and(|e| e.len() > 1) {
        out.push(Cause::unsupported("spec.capacity", capacity, &["storage"]));
    }
    for (name, amount) in entries.into_iter().flatten() {
        let field = format!("spec.capacity[{name}]");
        if amounts::plain(amount).as_i64() < Some(0) {
            out.push(Cause::invalid(&field, &amounts::plain(amount), "must be a valid resource quantity"));
        }
        if !amounts::is_positive(amount) {
            out.push(Cause::invalid(field, amount, "must be greater than zero"));
        }
    }
    let reclaim = text(object, "/spec/persistentVolumeReclaimPolicy");
    if !reclaim.is_empty() {
        supported(reclaim, "spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], out);
    }
    let affinity = at(object, "/spec/nodeAffinity");
    if affinity.is_object() {
        match &affinity["required"] {
            Value::Null => {
                out.push(Cause::required("spec.nodeAffinity.required", "must specify required node constraints"));
            }
            required => node_selector::node_selector(required, "spec.nodeAffinity.required", out),
        }
    }
    sources(object, affinity.is_object(), out);
    let path = text(object, "/spec/hostPath/path");
    if reclaim == "Recycle" && path.starts_with('/') && path.split('/').all(|p| p.is_empty() || p == ".") {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        out.push(Cause::forbidden("spec.persistentVolumeReclaimPolicy", why));
    }
    class_and_mode(object, out);
    if let Some(class) = at(object, "/spec/volumeAttributesClassName").as_str() {
        match class {
            "" => out.push(Cause::required("spec.volumeAttributesClassName", "an empty string is disallowed")),
            class => formats::subdomain(class, "spec.volumeAttributesClassName", out),
        }
        if !at(object, "/spec/csi").is_object() {
            out.push(Cause::required("spec.csi", "has to be specified when using volumeAttributesClassName"));
        }
    }
}

/// A volume is made of one thing.
fn sources(object: &Value, placed: bool, out: &mut Vec<Cause>) {
    let mut any = false;
    for (key, name) in SOURCES {
        let source = at(object, &format!("/spec/{key}"));
        if !source.is_object() {
            continue;
        }
        if any && key != "flexVolume" {
            out.push(Cause::forbidden(format!("spec.{name}"), "may not specify more than 1 volume type"));
            continue;
        }
        any = true;
        self::source(key, source, out);
        if key == "local" && !placed {
            out.push(Cause::required("spec.nodeAffinity", "Local volume requires node affinity"));
        }
    }
    if !any {
        out.push(Cause::required("spec", "must specify a volume type"));
    }
}

fn source(key: &str, source: &Value, out: &mut Vec<Cause>) {
    let field = |name: &str| format!("spec.{key}.{name}");
    let needed = |name: &str, out: &mut Vec<Cause>| {
        if text(source, &format!("/{name}")).is_empty() {
            out.push(Cause::required(field(name), ""));
        }
    };
    let path = text(source, "/path");
    match key {
        "hostPath" | "local" => {
            needed("path", out);
            if path.is_empty() {
                return;
            }
            if path.split('/').any(|part| part == "..") {
                wrong(&field("path"), path, ["must not contain '..'"], out);
            }
            if key == "hostPath" {
                supported(text(source, "/type"), &field("type"), &HOST_PATH_TYPES, out);
            }
        }
        "nfs" => {
            needed("server", out);
            needed("path", out);
            if !path.starts_with('/') {
                wrong(&field("path"), path, ["must be an absolute path"], out);
            }
        }
        "iscsi" => {
            needed("targetPortal", out);
            needed("iqn", out);
            let name = text(source, "/iqn");
            if !name.is_empty() && !["iqn", "eui", "naa"].iter().any(|kind| name.starts_with(kind)) {
                wrong(&field("iqn"), name, ["must be valid format"], out);
            }
        }
        "csi" => csi(source, out),
        _ => {}
    }
}

fn csi(csi: &Value, out: &mut Vec<Cause>) {
    const DRIVER_BYTES_MAX: usize = 63;
    let driver = text(csi, "/driver");
    match driver {
        "" => out.push(Cause::required("spec.csi.driver", "")),
        driver => {
            if driver.len() > DRIVER_BYTES_MAX {
                out.push(Cause::too_long("spec.csi.driver", DRIVER_BYTES_MAX));
            }
            formats::subdomain(&driver.to_lowercase(), "spec.csi.driver", out);
        }
    }
    if text(csi, "/volumeHandle").is_empty() {
        out.push(Cause::required("spec.csi.volumeHandle", ""));
    }
    for key in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let secret = &csi[key];
        if !secret.is_object() {
            continue;
        }
        let field = |name: &str| format!("spec.csi.{key}.{name}");
        match text(secret, "/name") {
            "" => out.push(Cause::required(field("name"), "")),
            name => formats::subdomain(name, &field("name"), out),
        }
        match text(secret, "/namespace") {
            "" => out.push(Cause::required(field("namespace"), "")),
            namespace => label(namespace, &field("namespace"), out),
        }
    }
}

/// A claim. What is wrong with the spec is told twice of a changed one, as a kube-apiserver looks at it twice.
pub(super) fn claim(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let mut causes = Vec::new();
    claimed(object, &mut causes);
    if old.is_some() {
        out.extend(causes.clone());
    }
    out.append(&mut causes);
    let Some(old) = old else { return };
    let bound = text(old, "/status/phase") == "Bound";
    let fixed = |o: &Value| {
        let mut spec = at(o, "/spec").clone();
        if let Some(map) = spec.as_object_mut() {
            if bound {
                map.remove("resources");
                map.remove("volumeAttributesClassName");
            }
            // The binder sets these once.
            for key in ["volumeName", "storageClassName"] {
                if text(old, &format!("/spec/{key}")).is_empty() {
                    map.remove(key);
                }
            }
        }
        spec
    };
    if fixed(object) != fixed(old) {
        out.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let storage = |of: &Value, pointer: &str| amounts::amount(at(of, pointer));
    const REQUESTED: &str = "/spec/resources/requests/storage";
    let asked = storage(object, REQUESTED);
    if asked < storage(old, REQUESTED) && asked <= storage(old, "/status/capacity/storage") {
        let why = "field can not be less than status.capacity";
        out.push(Cause::forbidden("spec.resources.requests.storage", why));
    }
    if at(object, "/spec/volumeMode") != at(old, "/spec/volumeMode") {
        out.push(Cause::invalid("volumeMode", at(object, "/spec/volumeMode"), "field is immutable"));
    }
}

fn claimed(object: &Value, out: &mut Vec<Cause>) {
    if list(object, "/spec/accessModes").is_empty() {
        out.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    formats::label_selector(at(object, "/spec/selector"), "spec.selector", out);
    access_modes(object, out);
    let storage = at(object, "/spec/resources/requests/storage");
    if storage.is_null() {
        out.push(Cause::required("spec.resources[storage]", ""));
    } else if !amounts::is_positive(storage) {
        out.push(Cause::invalid("spec.resources[storage]", storage, "must be greater than zero"));
    }
    class_and_mode(object, out);
    for key in ["dataSource", "dataSourceRef"] {
        let from = at(object, &format!("/spec/{key}"));
        if from.is_object() {
            data_source(from, &format!("spec.{key}"), out);
        }
    }
    let class = text(object, "/spec/volumeAttributesClassName");
    if !class.is_empty() {
        formats::subdomain(class, "spec.volumeAttributesClassName", out);
    }
}

/// What a claim's volume is filled from.
fn data_source(from: &Value, field: &str, out: &mut Vec<Cause>) {
    for key in ["name", "kind"] {
        if text(from, &format!("/{key}")).is_empty() {
            out.push(Cause::required(format!("{field}.{key}"), ""));
        }
    }
    let (group, kind) = (text(from, "/apiGroup"), text(from, "/kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        out.push(Cause::invalid(field, &json!(kind), why));
    }
    if !group.is_empty() {
        formats::subdomain(group, &format!("{field}.apiGroup"), out);
    }
    let namespace = text(from, "/namespace");
    if !namespace.is_empty() {
        label(namespace, &format!("{field}.namespace"), out);
    }
}
