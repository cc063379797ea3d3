//! The volumes of a pod.

use std::collections::{BTreeMap, BTreeSet};

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
const CSI_DRIVER_BYTES_MAX: usize = 63;
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
        "cinder" => {
            needed(source, &["volumeID"], path, out);
            secret_reference(source, path, out);
        }
        "flocker" => flocker(source, path, out),
        "cephfs" => needed(source, &["monitors"], path, out),
        "quobyte" => quobyte(source, path, out),
        "scaleIO" => needed(source, &["gateway", "system", "volumeName"], path, out),
        "storageos" => {
            needed(source, &["volumeName"], path, out);
            for key in ["volumeName", "volumeNamespace"] {
                let name = text(source, &format!("/{key}"));
                if !name.is_empty() {
                    label(name, &field(key), out);
                }
            }
            secret_reference(source, path, out);
        }
        "downwardAPI" => {
            mode(&source["defaultMode"], &field("defaultMode"), out);
            list(source, "/items").iter().for_each(|item| downward(item, path, out));
        }
        "fc" => {
            let (names, ids) = (list(source, "/targetWWNs").is_empty(), list(source, "/wwids").is_empty());
            match (names, ids) {
                (true, true) => {
                    let why = "must specify either targetWWNs or wwids, but not both";
                    out.push(Cause::required(field("targetWWNs"), why));
                }
                (false, false) => {
                    let why = "targetWWNs and wwids can not be specified simultaneously";
                    out.push(Cause::invalid(field("targetWWNs"), &source["targetWWNs"], why));
                }
                _ => {}
            }
            if !names && source["lun"].is_null() {
                out.push(Cause::required(field("lun"), "lun is required if targetWWNs is specified"));
            } else if !names {
                unit_number(&source["lun"], &field("lun"), out);
            }
        }
        "flexVolume" => {
            needed(source, &["driver"], path, out);
            for key in source["options"].as_object().into_iter().flat_map(|options| options.keys()) {
                let domain = format!(".{}", key.split_once('/').map_or(&**key, |(domain, _)| domain).to_lowercase());
                if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
                    let why = "kubernetes.io and k8s.io namespaces are reserved";
                    wrong(&format!("{path}.options[{key}]"), key, [why], out);
                }
            }
        }
        "azureFile" => needed(source, &["secretName", "shareName"], path, out),
        "azureDisk" => {
            needed(source, &["diskName", "diskURI"], path, out);
            for (key, known) in
                [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
            {
                if let Some(given) = source[key].as_str() {
                    supported(given, &field(key), &known, out);
                }
            }
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
    if !name.is_empty() {
        iscsi_name(name, &format!("{path}.iqn"), out);
    }
    unit_number(&source["lun"], &format!("{path}.lun"), out);
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|key| source[*key] == json!(true));
    if authenticates && source["secretRef"].is_null() {
        out.push(Cause::required(format!("{path}.secretRef"), ""));
    }
    if let Some(initiator) = source["initiatorName"].as_str() {
        iscsi_name(initiator, &format!("{path}.initiatorname"), out);
    }
}

/// The number of a unit of a SCSI target.
fn unit_number(unit: &Value, field: &str, out: &mut Vec<Cause>) {
    if unit.as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        out.push(Cause::invalid(field, unit, "must be between 0 and 255, inclusive"));
    }
}

/// A name of a target or an initiator: `iqn.2001-04.com.example:disk`, `eui.` with 16 or `naa.` with 32 characters.
fn iscsi_name(name: &str, field: &str, out: &mut Vec<Cause>) {
    let of_length = |rest: &str, length: usize| rest.len() == length + 1 && rest.bytes().skip(1).all(is_alphanumeric);
    let good = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => of_length(&name[3..], 16),
        Some("naa") => of_length(&name[3..], 32),
        _ => return wrong(field, name, ["must be valid format starting with iqn, eui, or naa"], out),
    };
    if !good {
        wrong(field, name, ["must be valid format"], out);
    }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// `iqn.`, year and month of a domain, the domain reversed, a colon, and what its owner chose.
fn is_iqn(name: &str) -> bool {
    let parts = || {
        let (month, rest) = name.strip_prefix("iqn.")?.split_once('.')?;
        let (domain, own) = rest.split_once(':')?;
        let (year, month) = month.split_once('-')?;
        Some((year, month, domain, own))
    };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    parts().is_some_and(|(year, month, domain, own)| {
        digits(year, 4)
            && digits(month, 2)
            && !domain.is_empty()
            && domain.bytes().all(|b| is_alphanumeric(b) || matches!(b, b'-' | b'.'))
            && !own.is_empty()
            && !own.contains(|c: char| ",;*&$|".contains(c) || c.is_ascii_whitespace())
    })
}

/// A reference to a Secret names it, if there is one.
fn secret_reference(source: &Value, path: &str, out: &mut Vec<Cause>) {
    let reference = &source["secretRef"];
    if reference.is_object() {
        needed(reference, &["name"], &format!("{path}.secretRef"), out);
    }
}

fn flocker(source: &Value, path: &str, out: &mut Vec<Cause>) {
    let (name, uuid) = (text(source, "/datasetName"), text(source, "/datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => out.push(Cause::required(path, "one of datasetName and datasetUUID is required")),
        (false, false) => {
            wrong(path, "resource", ["datasetName and datasetUUID can not be specified simultaneously"], out);
        }
        _ => {}
    }
    if name.contains('/') {
        wrong(&format!("{path}.datasetName"), name, ["must not contain '/'"], out);
    }
}

fn quobyte(source: &Value, path: &str, out: &mut Vec<Cause>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, field) = (text(source, "/registry"), format!("{path}.registry"));
    if registry.is_empty() {
        out.push(Cause::required(field, PAIRS));
    } else if text(source, "/tenant").len() > 64 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        out.push(Cause::required(format!("{path}.tenant"), why));
    } else {
        let bad = registry.split(',').filter(|pair| !is_host_and_port(pair));
        bad.for_each(|_| wrong(&field, registry, [PAIRS], out));
    }
    needed(source, &["volume"], path, out);
}

/// True for a host and a port with one colon between them; hosts with colons are in brackets.
fn is_host_and_port(pair: &str) -> bool {
    let (host, port) = match pair.strip_prefix('[').map(|rest| rest.split_once("]:")) {
        Some(Some((host, port))) if !host.contains('[') => ("", port),
        Some(_) => return false,
        None => match pair.split_once(':') {
            Some(parts) => parts,
            None => return false,
        },
    };
    !host.contains(['[', ']']) && !port.contains([':', '[', ']'])
}

fn csi(source: &Value, path: &str, out: &mut Vec<Cause>) {
    match text(source, "/driver") {
        "" => out.push(Cause::required(format!("{path}.driver"), "")),
        driver => {
            let field = format!("{path}.driver");
            if driver.len() > CSI_DRIVER_BYTES_MAX {
                out.push(Cause::too_long(&field, CSI_DRIVER_BYTES_MAX));
            }
            wrong(&field, driver, crate::names::dns_subdomain(&driver.to_lowercase()), out);
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
    for (i, one) in list(source, "/items").iter().enumerate() {
        item(one, &format!("{path}.items[{i}]"), out);
    }
}

fn item(item: &Value, path: &str, out: &mut Vec<Cause>) {
    needed(item, &["key"], path, out);
    match text(item, "/path") {
        "" => out.push(Cause::required(format!("{path}.path"), "")),
        file => own_file(file, &format!("{path}.path"), out),
    }
    mode(&item["mode"], &format!("{path}.mode"), out);
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
    let mut taken = BTreeSet::new();
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
            projection(key, &source[key], path, &format!("{field}.{key}"), &mut taken, out);
        }
    }
}

/// Validates one source of a projected volume. Two files of one path are refused, unless one of them is a token.
fn projection<'a>(
    key: &str,
    source: &'a Value,
    volume: &str,
    path: &str,
    taken: &mut BTreeSet<&'a str>,
    out: &mut Vec<Cause>,
) {
    // The volume is refused with the name of the source, or with the path of a field.
    let mut take = |item: &'a Value, name: &str, out: &mut Vec<Cause>| {
        let file = text(item, "/path");
        if !file.is_empty() && !taken.insert(file) {
            wrong(volume, name, ["conflicting duplicate paths"], out);
        }
    };
    match key {
        "secret" | "configMap" => {
            needed(source, &["name"], path, out);
            for (i, one) in list(source, "/items").iter().enumerate() {
                item(one, &format!("{path}.items[{i}]"), out);
                take(one, text(source, "/name"), out);
            }
        }
        "downwardAPI" => {
            for item in list(source, "/items") {
                downward(item, path, out);
                take(item, text(item, "/path"), out);
            }
        }
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
