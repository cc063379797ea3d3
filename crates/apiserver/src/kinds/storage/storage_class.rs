//! StorageClasses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, name},
            defaults::set,
            fields::{at, immutable, list, text},
            formats::{self, supported, wrong},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            set(o, "reclaimPolicy", "Delete");
            set(o, "volumeBindingMode", "Immediate");
        },
        validate,
        columns: &[
            NAME,
            ("Provisioner", "string", 0),
            ("ReclaimPolicy", "string", 0),
            ("VolumeBindingMode", "string", 0),
            ("AllowVolumeExpansion", "string", 0),
            AGE,
        ],
        cells: |o, now| {
            let cell = |pointer| json!(text(o, pointer));
            let expansion = json!(o["allowVolumeExpansion"] == true);
            let (reclaim, binding) = (cell("/reclaimPolicy"), cell("/volumeBindingMode"));
            vec![name(o), cell("/provisioner"), reclaim, binding, expansion, created(o, now)]
        },
        ..Strategy::NONE
    },
    ..Kind::new("storage.k8s.io/v1 storageclasses StorageClass C short=sc")
};

const PARAMETERS_MAX: usize = 512;

const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    // A class is immutable, except for metadata (which marks the default class) and volume expansion.
    for field in ["/parameters", "/provisioner", "/reclaimPolicy", "/volumeBindingMode"] {
        immutable(object, old, field, out);
    }
    if old.is_some() {
        return;
    }
    let provisioner = text(object, "/provisioner");
    match provisioner {
        "" => out.push(Cause::required("provisioner", "")),
        given => formats::qualified(&given.to_lowercase(), "provisioner", out),
    }
    parameters(at(object, "/parameters"), out);
    supported(text(object, "/reclaimPolicy"), "reclaimPolicy", &["Delete", "Retain"], out);
    supported(text(object, "/volumeBindingMode"), "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], out);
    for (i, term) in list(object, "/allowedTopologies").iter().enumerate() {
        let mut seen = BTreeSet::new();
        for (j, one) in list(term, "/matchLabelExpressions").iter().enumerate() {
            let field = format!("allowedTopologies[{i}].matchLabelExpressions[{j}]");
            let values = list(one, "/values");
            if values.is_empty() {
                out.push(Cause::required(format!("{field}.values"), ""));
            }
            let mut given = BTreeSet::new();
            for (k, value) in values.iter().filter_map(Value::as_str).enumerate() {
                if !given.insert(value) {
                    out.push(Cause::duplicate(format!("{field}.values[{k}]"), &json!(value)));
                }
            }
            let (key, field) = (text(one, "/key"), format!("{field}.key"));
            formats::qualified(key, &field, out);
            if !seen.insert(key) {
                out.push(Cause::duplicate(field, &json!(key)));
            }
        }
    }
}

fn parameters(parameters: &Value, out: &mut Vec<Cause>) {
    let Some(parameters) = parameters.as_object() else { return };
    if parameters.len() > PARAMETERS_MAX {
        return out.push(Cause::too_long("parameters", PARAMETERS_MAX));
    }
    if parameters.contains_key("") {
        wrong("parameters", "", ["field can not be empty."], out);
    }
    let bytes: usize = parameters.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if bytes > PARAMETERS_BYTES_MAX {
        out.push(Cause::too_long("parameters", PARAMETERS_BYTES_MAX));
    }
}
