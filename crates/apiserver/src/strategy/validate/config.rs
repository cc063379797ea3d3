//! ConfigMaps and Secrets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{names, object, status::Cause};

use super::{at, immutable, json_syntax, text};

/// All keys and values together.
const DATA_BYTES_MAX: usize = 1024 * 1024;

fn keys(object: &Value, field: &str, out: &mut Vec<Cause>) -> usize {
    let mut bytes = 0;
    for (key, value) in at(object, &format!("/{field}")).as_object().into_iter().flatten() {
        let messages = names::config_key(key);
        out.extend(messages.iter().map(|m| Cause::invalid(format!("{field}[{key}]"), &json!(key), m)));
        bytes += value.as_str().map_or(0, str::len);
    }
    bytes
}

/// `immutable` once true stays true, and so does the data.
fn frozen(object: &Value, old: Option<&Value>, fields: &[&str], out: &mut Vec<Cause>) {
    const WHY: &str = "field is immutable when `immutable` is set";
    let Some(old) = old.filter(|o| at(o, "/immutable") == &json!(true)) else { return };
    if at(object, "/immutable") != &json!(true) {
        out.push(Cause::forbidden("immutable", WHY));
    }
    for field in fields {
        let pointer = format!("/{field}");
        if at(object, &pointer) != at(old, &pointer) {
            out.push(Cause::forbidden(*field, WHY));
        }
    }
}

pub(super) fn config_map(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    // Base64 is a third longer than what it says.
    let bytes = keys(object, "data", out) + keys(object, "binaryData", out) / 4 * 3;
    if bytes > DATA_BYTES_MAX {
        out.push(Cause::too_long("[]", DATA_BYTES_MAX));
    }
    for key in at(object, "/binaryData").as_object().into_iter().flatten().map(|(k, _)| k) {
        if at(object, "/data").get(key).is_some() {
            out.push(Cause::invalid(format!("data[{key}]"), &json!(key), "duplicate of key present in binaryData"));
        }
    }
    frozen(object, old, &["data", "binaryData"], out);
}

pub(super) fn secret(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    immutable(object, old, "/type", out);
    frozen(object, old, &["data"], out);
    if keys(object, "data", out) / 4 * 3 > DATA_BYTES_MAX {
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
