//! PersistentVolumes.

use crate::kinds::shared::warnings;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::persistent_volume_claim::{access_modes, class_and_mode, spec_twice, volume_mode_is_unchanged};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            amounts,
            columns::{AGE, NAME, access_modes_cell, attributes_class_cell, created, name, phase_cell},
            defaults::{child, set},
            fields::{at, is_new, label, list, text},
            formats::{self, supported, wrong},
            node_selector,
        },
    },
    object,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            let spec = child(o, "spec");
            set(spec, "persistentVolumeReclaimPolicy", "Retain");
            set(spec, "volumeMode", "Filesystem");
            if let Some(path) = spec.get_mut("hostPath").and_then(Value::as_object_mut) {
                path.entry("type").or_insert_with(|| json!(""));
            }
        },
        prepare_create: Some(|o| {
            let Some(map) = o.as_object_mut() else { return };
            let now = map.get("metadata").map(|m| m["creationTimestamp"].clone()).unwrap_or_default();
            map.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }),
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, old, out);
            }
        },
        warnings: |o, old| if warnings::is_status_update(o, old) { vec![] } else { warn(o) },
        columns: &[
            NAME,
            ("Capacity", "string", 0),
            ("Access Modes", "string", 0),
            ("Reclaim Policy", "string", 0),
            ("Status", "string", 0),
            ("Claim", "string", 0),
            ("StorageClass", "string", 0),
            ("VolumeAttributesClass", "string", 0),
            ("Reason", "string", 0),
            AGE,
            ("VolumeMode", "string", 1),
        ],
        cells,
        ..Strategy::NONE
    },
    hooks: Hooks {
        admit_create: |_, o| {
            object::add_finalizer(o, "kubernetes.io/pv-protection");
            Ok(())
        },
        ..Hooks::NONE
    },
    ..Kind::new("v1 persistentvolumes PersistentVolume C short=pv +status")
};

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The sources of a volume: the field, and its name in error messages.
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

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    spec_twice(spec, object, old, out);
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
    volume_mode_is_unchanged(object, old, out);
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

fn warn(volume: &Value) -> Vec<String> {
    let mut out = warnings::volume_annotations(volume, &warnings::VOLUME_ANNOTATIONS);
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
        out.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    out
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match text(o, "/spec/claimRef/name") {
        "" => String::new(),
        claim => format!("{}/{claim}", text(o, "/spec/claimRef/namespace")),
    };
    vec![
        name(o),
        json!(text(o, "/spec/capacity/storage")),
        access_modes_cell(o, "/spec/accessModes"),
        json!(text(o, "/spec/persistentVolumeReclaimPolicy")),
        phase_cell(o),
        json!(claim),
        json!(text(o, "/spec/storageClassName")),
        attributes_class_cell(o),
        json!(text(o, "/status/reason")),
        created(o, now),
        json!(text(o, "/spec/volumeMode")),
    ]
}
