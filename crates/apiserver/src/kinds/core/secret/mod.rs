//! Secrets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::data::{DATA_BYTES_MAX, validate_immutable, validate_keys};
use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, name},
            defaults::{child, set},
            fields::{at, immutable, text},
        },
    },
    object,
    registry::strategy::Strategy,
    status::Cause,
};

mod json_syntax;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults,
        validate,
        columns: &[NAME, ("Type", "string", 0), ("Data", "string", 0), AGE],
        cells: |o, now| {
            let count = o["data"].as_object().map_or(0, Map::len);
            vec![name(o), json!(text(o, "/type")), json!(count), created(o, now)]
        },
        selectable_fields: &["type"],
        ..Strategy::NONE
    },
    ..Kind::new("v1 secrets Secret N")
};

fn defaults(object: &mut Value) {
    set(object, "type", "Opaque");
    let Some(Value::Object(plain)) = object.as_object_mut().and_then(|m| m.remove("stringData")) else { return };
    if plain.is_empty() {
        return;
    }
    let data = child(object, "data");
    for (key, value) in plain {
        data[key] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    immutable(object, old, "/type", out);
    validate_immutable(object, old, &["data"], out);
    if validate_keys(object, "data", out) / 4 * 3 > DATA_BYTES_MAX {
        out.push(Cause::too_long("data", DATA_BYTES_MAX));
    }
    let data = at(object, "/data");
    let missing = |key: &str| Cause::required(format!("data[{key}]"), "");
    match text(object, "/type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let account = object::metadata(object).get("annotations").and_then(|a| a[ACCOUNT].as_str());
            if account.is_none_or(str::is_empty) {
                out.push(Cause::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            }
        }
        "kubernetes.io/tls" => {
            out.extend(["tls.crt", "tls.key"].into_iter().filter(|key| data.get(key).is_none()).map(missing));
        }
        "kubernetes.io/dockerconfigjson" => registry_credentials(data, ".dockerconfigjson", out),
        "kubernetes.io/dockercfg" => registry_credentials(data, ".dockercfg", out),
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            if keys.iter().all(|key| data.get(key).is_none()) {
                out.extend(keys.map(missing));
            }
        }
        "kubernetes.io/ssh-auth" if text(data, "/ssh-privatekey").is_empty() => out.push(missing("ssh-privatekey")),
        _ => {}
    }
}

/// Credentials for registries of images are a JSON object.
fn registry_credentials(data: &Value, key: &str, out: &mut Vec<Cause>) {
    let field = format!("data[{key}]");
    let Some(encoded) = data.get(key).and_then(Value::as_str) else {
        return out.push(Cause::required(field, ""));
    };
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    if let Err(why) = json_syntax::object(&bytes) {
        out.push(Cause::invalid(field, &json!("<secret contents redacted>"), why));
    }
}
