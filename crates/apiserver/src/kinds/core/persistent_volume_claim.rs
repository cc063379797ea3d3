//! PersistentVolumeClaims.

use crate::kinds::shared::warnings;
use ironclad_quantity::Quantity;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::limit_range::enforce;
use crate::{
    admission::review::Operation,
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            amounts,
            columns::{AGE, NAME, access_modes_cell, attributes_class_cell, created, name, phase_cell},
            defaults::{child, set},
            fields::{at, is_new, label, list, text},
            formats::{self, supported},
        },
    },
    object,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            set(child(o, "spec"), "volumeMode", "Filesystem");
            set(child(o, "status"), "phase", "Pending");
        },
        prepare_create: Some(|o| {
            let Some(map) = o.as_object_mut() else { return };
            map.insert("status".into(), json!({"phase": "Pending"}));
            data_sources(None, o);
        }),
        prepare_update: |old, new| data_sources(Some(old), new),
        validate: |o, old, out| {
            if is_new(o, old) {
                validate(o, old, out);
            }
        },
        warnings: |o, old| if warnings::is_status_update(o, old) { vec![] } else { warn(o) },
        columns: &[
            NAME,
            ("Status", "string", 0),
            ("Volume", "string", 0),
            ("Capacity", "string", 0),
            ("Access Modes", "string", 0),
            ("StorageClass", "string", 0),
            ("VolumeAttributesClass", "string", 0),
            AGE,
            ("VolumeMode", "string", 1),
        ],
        cells,
        ..Strategy::NONE
    },
    hooks: Hooks {
        admit_create: |_, o| {
            object::add_finalizer(o, "kubernetes.io/pvc-protection");
            Ok(())
        },
        admit_valid: |cx, operation, old, new| match (operation, cx.subresource()) {
            (Operation::Create | Operation::Update, None) => enforce::validate_claim(cx, old, new),
            _ => Ok(()),
        },
        ..Hooks::NONE
    },
    ..Kind::new("v1 persistentvolumeclaims PersistentVolumeClaim N short=pvc +status")
};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

pub(super) fn access_modes(object: &Value, out: &mut Vec<Cause>) {
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
pub(super) fn class_and_mode(object: &Value, out: &mut Vec<Cause>) {
    let class = text(object, "/spec/storageClassName");
    if !class.is_empty() {
        formats::subdomain(class, "spec.storageClassName", out);
    }
    if let Some(mode) = at(object, "/spec/volumeMode").as_str() {
        supported(mode, "spec.volumeMode", &VOLUME_MODES, out);
    }
}

/// Validates the spec of a claim or volume. Errors in a changed spec are reported twice, as by a kube-apiserver, which
/// validates it twice.
pub(super) fn spec_twice(spec: fn(&Value, &mut Vec<Cause>), object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let mut causes = Vec::new();
    spec(object, &mut causes);
    if old.is_some() {
        out.extend(causes.clone());
    }
    out.append(&mut causes);
}

pub(super) fn volume_mode_is_unchanged(object: &Value, old: &Value, out: &mut Vec<Cause>) {
    if at(object, "/spec/volumeMode") != at(old, "/spec/volumeMode") {
        out.push(Cause::invalid("volumeMode", at(object, "/spec/volumeMode"), "field is immutable"));
    }
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    spec_twice(claimed, object, old, out);
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
    volume_mode_is_unchanged(object, old, out);
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

/// Validates the data source of a claim.
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

/// A claim that names its source in one of the two fields names it in both. The older field takes claims and snapshots
/// only: in a new claim anything else there is dropped without a word.
fn data_sources(old: Option<&Value>, claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let kept = old.is_some_and(|old| old.pointer("/spec/dataSource").is_some_and(Value::is_object));
    if !kept && spec.get("dataSource").is_some_and(|source| !is_claim_or_snapshot(source)) {
        spec.remove("dataSource");
    }
    let source = |spec: &serde_json::Map<String, Value>, key: &str| spec.get(key).filter(|s| s.is_object()).cloned();
    match (source(spec, "dataSource"), source(spec, "dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) if source["namespace"].as_str().is_none_or(str::is_empty) => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source["apiGroup"].as_str().unwrap_or_default(), source["kind"].as_str().unwrap_or_default()),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

fn warn(claim: &Value) -> Vec<String> {
    let mut out = warnings::volume_annotations(claim, &warnings::VOLUME_ANNOTATIONS[..1]);
    let asked = claim.pointer("/spec/resources/requests/storage").and_then(Value::as_str);
    if let Some(text) = asked.filter(|text| Quantity::parse(text).is_ok_and(|n| n.milli_value() % 1_000 != 0)) {
        out.push(format!(
            "spec.resources.requests[storage]: fractional byte value {text:?} is invalid, must be an integer"
        ));
    }
    out
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(o, "/spec/volumeName").is_empty();
    vec![
        name(o),
        phase_cell(o),
        json!(text(o, "/spec/volumeName")),
        json!(if bound { text(o, "/status/capacity/storage") } else { "" }),
        if bound { access_modes_cell(o, "/status/accessModes") } else { json!("") },
        json!(text(o, "/spec/storageClassName")),
        attributes_class_cell(o),
        created(o, now),
        json!(text(o, "/spec/volumeMode")),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_fields_say_the_same() {
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let other = json!({"apiGroup": "x.io", "kind": "Thing", "name": "a"});
        let far = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"});
        for (name, given, want) in [
            ("the older field", json!({"dataSource": claim}), json!({"dataSource": claim, "dataSourceRef": claim})),
            ("the newer field", json!({"dataSourceRef": other}), json!({"dataSource": other, "dataSourceRef": other})),
            ("the older one takes not everything", json!({"dataSource": other}), json!({})),
            ("another namespace is for the newer one", json!({"dataSourceRef": far}), json!({"dataSourceRef": far})),
        ] {
            let mut object = json!({"spec": given});
            data_sources(None, &mut object);
            assert_eq!(object["spec"], want, "{name}");
        }
    }
}
