//! ConfigMaps and Secrets.

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{at, immutable, text};

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
    if keys(object, "data", out) / 4 * 3 > DATA_BYTES_MAX {
        out.push(Cause::too_long("data", DATA_BYTES_MAX));
    }
    let required: &[&str] = match text(object, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required {
        if at(object, "/data").get(*key).is_none() {
            out.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    immutable(object, old, "/type", out);
    frozen(object, old, &["data"], out);
}
/// What a quota counts is a standard resource or somebody's own, with a domain.
pub(super) fn quota(object: &Value, out: &mut Vec<Cause>) {
    const STANDARD: [&str; 19] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "requests.storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ];
    for (name, _) in at(object, "/spec/hard").as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        if name.contains('/')
            || STANDARD.contains(&name.as_str())
            || name.starts_with("requests.hugepages-")
            || name.starts_with("hugepages-")
        {
            continue;
        }
        let given = Value::String(name.clone());
        out.push(Cause::invalid(&field, &given, "must be a standard resource type or fully qualified"));
        out.push(Cause::invalid(field, &given, "must be a standard resource for quota"));
    }
}
