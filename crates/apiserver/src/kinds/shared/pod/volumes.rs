//! The volumes of a pod.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::status::Cause;

use super::{
    super::{
        amounts,
        fields::{at, label, list, text},
        formats::{self, supported, wrong},
    },
    environment::{amount_ref, field_ref},
};

/// The sources of volumes in the order of validation: the first one counts.
const SOURCES: [&str; 30] = [
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// Fields of a pod that a file can show.
const SHOWN: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const MODE_MAX: i64 = 0o777;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// Judges the volumes; answers them by their names.
pub(super) fn volumes<'a>(spec: &'a Value, path: &str, out: &mut Vec<Cause>) -> BTreeMap<&'a str, &'a Value> {
    let mut found = BTreeMap::new();
    for (i, volume) in list(spec, "/volumes").iter().enumerate() {
        let (name, field) = (text(volume, "/name"), format!("{path}[{i}]"));
        sources(volume, &field, out);
        let named = format!("{field}.name");
        match name {
            "" => out.push(Cause::required(named, "")),
            _ if !crate::names::dns_label(name).is_empty() => label(name, &named, out),
            _ if found.contains_key(name) => out.push(Cause::duplicate(named, &json!(name))),
            _ => {}
        }
        found.entry(name).or_insert(volume);
    }
    found
}

fn sources(volume: &Value, path: &str, out: &mut Vec<Cause>) {
    let mut any = false;
    for key in SOURCES {
        let source = &volume[key];
        if !source.is_object() {
            continue;
        }
        let field = format!("{path}.{key}");
        if any {
            out.push(Cause::forbidden(field, "may not specify more than 1 volume type"));
            continue;
        }
        any = true;
        self::source(key, source, &field, out);
    }
}

/// Something of it must be said.
fn needed(source: &Value, keys: &[&str], path: &str, out: &mut Vec<Cause>) {
    for key in keys {
        let empty = match &source[*key] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if empty {
            out.push(Cause::required(format!("{path}.{key}"), ""));
        }
    }
}

fn source(key: &str, source: &Value, path: &str, out: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    match key {
        "emptyDir" if amounts::amount(&source["sizeLimit"]).is_some_and(|n| n.value() < 0) => {
            let why = "SizeLimit field must be a valid resource quantity";
            out.push(Cause::forbidden(field("sizeLimit"), why));
        }
        "hostPath" => {
            needed(source, &["path"], path, out);
            let source_path = text(source, "/path");
            if source_path.is_empty() {
                return;
            }
            if source_path.split('/').any(|part| part == "..") {
                wrong(&field("path"), source_path, ["must not contain '..'"], out);
            }
            supported(text(source, "/type"), &field("type"), &HOST_PATH_TYPES, out);
        }
        "gitRepo" => {
            needed(source, &["repository"], path, out);
            let directory = text(source, "/directory");
            if !directory.is_empty() {
                relative(directory, &field("directory"), out);
            }
        }
        "awsElasticBlockStore" | "gcePersistentDisk" => {
            // The real one has a name of its own for the second.
            let path = &path.replace("gcePersistentDisk", "persistentDisk");
            needed(source, &[if key == "gcePersistentDisk" { "pdName" } else { "volumeID" }], path, out);
            let partition = &source["partition"];
            if partition.as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
                let why = "must be between 1 and 255, inclusive";
                out.push(Cause::invalid(format!("{path}.partition"), partition, why));
            }
        }
        "secret" => {
            needed(source, &["secretName"], path, out);
            files(source, path, out);
        }
        "configMap" => {
            needed(source, &["name"], path, out);
            files(source, path, out);
        }
        "nfs" => {
            needed(source, &["server", "path"], path, out);
            let source_path = text(source, "/path");
            if !source_path.starts_with('/') {
                wrong(&field("path"), source_path, ["must be an absolute path"], out);
            }
        }
        "iscsi" => iscsi(source, path, out),
        "glusterfs" => needed(source, &["endpoints", "path"], path, out),
        "persistentVolumeClaim" => needed(source, &["claimName"], path, out),
        "rbd" => needed(source, &["monitors", "image"], path, out),
        "cinder" => needed(source, &["volumeID"], path, out),
        "cephfs" => needed(source, &["monitors"], path, out),
        "quobyte" => needed(source, &["registry", "volume"], path, out),
        "downwardAPI" => {
            mode(&source["defaultMode"], &field("defaultMode"), out);
            list(source, "/items").iter().for_each(|item| downward(item, path, out));
        }
        "fc" => {
            let (names, ids) = (list(source, "/targetWWNs").is_empty(), list(source, "/wwids").is_empty());
            if names == ids {
                let why = "must specify either targetWWNs or wwids, but not both";
                out.push(Cause::required(field("targetWWNs"), why));
            }
            if !names && source["lun"].is_null() {
                out.push(Cause::required(field("lun"), "lun is required if targetWWNs is specified"));
            }
        }
        "flexVolume" => needed(source, &["driver"], path, out),
        "azureFile" => needed(source, &["secretName", "shareName"], path, out),
        "azureDisk" => {
            needed(source, &["diskName", "diskURI"], path, out);
            let (uri, managed) = (text(source, "/diskURI"), text(source, "/kind") == "Managed");
            let form = if managed {
                "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
            } else {
                "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
            };
            if !uri.starts_with(if managed { "/subscriptions/" } else { "https://" }) {
                supported(uri, &field("diskURI"), &[form], out);
            }
        }
        "vsphereVolume" => needed(source, &["volumePath"], path, out),
        "photonPersistentDisk" => needed(source, &["pdID"], path, out),
        "portworxVolume" => needed(source, &["volumeID"], path, out),
        "projected" => projected(source, path, out),
        "csi" => csi(source, path, out),
        "ephemeral" => {
            let template = &source["volumeClaimTemplate"];
            let path = field("volumeClaimTemplate");
            if template.is_object() {
                claim_template(at(template, "/spec"), &format!("{path}.spec"), out);
            } else {
                out.push(Cause::required(path, ""));
            }
        }
        "image" => {
            needed(source, &["reference"], path, out);
            let policy = text(source, "/pullPolicy");
            if !policy.is_empty() {
                supported(policy, &field("pullPolicy"), &["Always", "IfNotPresent", "Never"], out);
            }
        }
        _ => {}
    }
}

fn iscsi(source: &Value, path: &str, out: &mut Vec<Cause>) {
    needed(source, &["targetPortal", "iqn"], path, out);
    let name = text(source, "/iqn");
    if !name.is_empty() && !["iqn", "eui", "naa"].iter().any(|kind| name.starts_with(kind)) {
        wrong(&format!("{path}.iqn"), name, ["must be valid format"], out);
    }
    let unit = &source["lun"];
    if unit.as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        out.push(Cause::invalid(format!("{path}.lun"), unit, "must be between 0 and 255, inclusive"));
    }
}

fn csi(source: &Value, path: &str, out: &mut Vec<Cause>) {
    match text(source, "/driver") {
        "" => out.push(Cause::required(format!("{path}.driver"), "")),
        driver => {
            let errors = crate::names::dns_subdomain(&driver.to_lowercase());
            wrong(&format!("{path}.driver"), driver, errors, out);
        }
    }
    let secret = &source["nodePublishSecretRef"];
    if secret.is_object() {
        needed(secret, &["name"], &format!("{path}.nodePublishSecretRef"), out);
    }
}

/// A claim that a volume or a workload makes of each of its pods.
pub(crate) fn claim_template(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    if list(spec, "/accessModes").is_empty() {
        out.push(Cause::required(format!("{path}.accessModes"), "at least 1 access mode is required"));
    }
    formats::label_selector(at(spec, "/selector"), &format!("{path}.selector"), out);
    let storage = at(spec, "/resources/requests/storage");
    if storage.is_null() {
        out.push(Cause::required(format!("{path}.resources[storage]"), ""));
    } else if !amounts::is_positive(storage) {
        out.push(Cause::invalid(format!("{path}.resources[storage]"), storage, "must be greater than zero"));
    }
}

/// A path below where it is mounted.
pub(super) fn relative(path: &str, field: &str, out: &mut Vec<Cause>) {
    if path.starts_with('/') {
        wrong(field, path, ["must be a relative path"], out);
    }
    if path.split('/').any(|part| part == "..") {
        wrong(field, path, ["must not contain '..'"], out);
    }
}

/// The path of a file: the kubelet keeps those that begin with two dots for itself.
fn own_file(path: &str, field: &str, out: &mut Vec<Cause>) {
    relative(path, field, out);
    if path.starts_with("..") && !path.starts_with("../") {
        wrong(field, path, ["must not start with '..'"], out);
    }
}

fn mode(value: &Value, field: &str, out: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|n| !(0..=MODE_MAX).contains(&n)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        out.push(Cause::invalid(field, value, why));
    }
}

/// Keys that become files.
fn files(source: &Value, path: &str, out: &mut Vec<Cause>) {
    mode(&source["defaultMode"], &format!("{path}.defaultMode"), out);
    items(source, path, out);
}

fn items(source: &Value, path: &str, out: &mut Vec<Cause>) {
    for (i, item) in list(source, "/items").iter().enumerate() {
        let field = |name: &str| format!("{path}.items[{i}].{name}");
        needed(item, &["key"], &format!("{path}.items[{i}]"), out);
        match text(item, "/path") {
            "" => out.push(Cause::required(field("path"), "")),
            file => own_file(file, &field("path"), out),
        }
        mode(&item["mode"], &field("mode"), out);
    }
}

/// A file that shows a field of the pod or an amount of a container.
fn downward(item: &Value, path: &str, out: &mut Vec<Cause>) {
    match text(item, "/path") {
        "" => out.push(Cause::required(format!("{path}.path"), "")),
        file => own_file(file, &format!("{path}.path"), out),
    }
    let (of_pod, of_container) = (&item["fieldRef"], &item["resourceFieldRef"]);
    match (of_pod.is_object(), of_container.is_object()) {
        (true, both) => {
            field_ref(of_pod, &format!("{path}.fieldRef"), &SHOWN, out);
            if both {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                wrong(path, "resource", [why], out);
            }
        }
        (false, true) => amount_ref(of_container, &format!("{path}.resourceFieldRef"), true, out),
        (false, false) => out.push(Cause::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    mode(&item["mode"], &format!("{path}.mode"), out);
}

fn projected(source: &Value, path: &str, out: &mut Vec<Cause>) {
    mode(&source["defaultMode"], &format!("{path}.defaultMode"), out);
    for (i, source) in list(source, "/sources").iter().enumerate() {
        let field = format!("{path}.sources[{i}]");
        let keys =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        for (n, key) in keys.into_iter().filter(|key| source[*key].is_object()).enumerate() {
            if n > 0 {
                // The second is named by the element as a whole.
                out.push(Cause::forbidden(&field, "may not specify more than 1 volume type per source"));
                continue;
            }
            projection(key, &source[key], path, &format!("{field}.{key}"), out);
        }
    }
}

fn projection(key: &str, source: &Value, volume: &str, path: &str, out: &mut Vec<Cause>) {
    match key {
        "secret" | "configMap" => {
            needed(source, &["name"], path, out);
            items(source, path, out);
        }
        "downwardAPI" => list(source, "/items").iter().for_each(|item| downward(item, path, out)),
        "serviceAccountToken" => {
            let (seconds, field) = (&source["expirationSeconds"], format!("{path}.expirationSeconds"));
            if seconds.as_i64().is_some_and(|n| n < TOKEN_SECONDS_MIN) {
                out.push(Cause::invalid(&field, seconds, "may not specify a duration less than 10 minutes"));
            }
            if seconds.as_i64().is_some_and(|n| n > TOKEN_SECONDS_MAX) {
                out.push(Cause::invalid(field, seconds, "may not specify a duration larger than 2^32 seconds"));
            }
            match text(source, "/path") {
                "" => out.push(Cause::required(format!("{volume}.path"), "")),
                file => own_file(file, &format!("{volume}.path"), out),
            }
        }
        _ => {}
    }
}
