//! ConfigMaps.

use serde_json::{Map, Value, json};

use super::data::{DATA_BYTES_MAX, validate_immutable, validate_keys};
use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, name},
            fields::at,
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        validate,
        columns: &[NAME, ("Data", "string", 0), AGE],
        cells: |o, now| {
            let count = |key: &str| o[key].as_object().map_or(0, Map::len);
            vec![name(o), json!(count("data") + count("binaryData")), created(o, now)]
        },
        ..Strategy::NONE
    },
    ..Kind::new("v1 configmaps ConfigMap N short=cm")
};

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    // Base64 is a third longer than what it says.
    let bytes = validate_keys(object, "data", out) + validate_keys(object, "binaryData", out) / 4 * 3;
    if bytes > DATA_BYTES_MAX {
        out.push(Cause::too_long("[]", DATA_BYTES_MAX));
    }
    for key in at(object, "/binaryData").as_object().into_iter().flatten().map(|(k, _)| k) {
        if at(object, "/data").get(key).is_some() {
            out.push(Cause::invalid(format!("data[{key}]"), &json!(key), "duplicate of key present in binaryData"));
        }
    }
    validate_immutable(object, old, &["data", "binaryData"], out);
}
