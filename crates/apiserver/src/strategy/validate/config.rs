//! ConfigMaps, Secrets and quotas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{at, immutable, list, text};

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

/// Resources that Kubernetes itself counts.
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
const SCOPES: &str = "/spec/scopes";

/// What a quota counts is a standard resource or somebody's own, with a domain.
pub(super) fn quota(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
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
    scopes(object, out);
    let set = |of: &Value| list(of, "/spec/scopes").iter().map(Value::to_string).collect::<BTreeSet<_>>();
    if old.is_some_and(|old| set(old) != set(object)) {
        out.push(Cause::invalid("spec.scopes", at(object, "/spec/scopes"), "field is immutable"));
    }
}

/// Which pods a quota counts, and whether what it counts is of pods.
fn scopes(object: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.scopes";
    const OF_PODS: [&str; 7] =
        ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
    let all = at(object, SCOPES);
    let given: Vec<&str> = list(object, SCOPES).iter().filter_map(Value::as_str).collect();
    for scope in &given {
        let counted: &[&str] = match *scope {
            "BestEffort" => &OF_PODS[..1],
            "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
                &OF_PODS
            }
            "VolumeAttributesClass" => &OF_CLAIMS,
            _ => {
                out.push(Cause::invalid(FIELD, all, "unsupported scope"));
                continue;
            }
        };
        for (name, _) in at(object, "/spec/hard").as_object().into_iter().flatten() {
            if STANDARD.contains(&name.as_str()) && !counted.contains(&name.as_str()) {
                out.push(Cause::invalid(FIELD, all, "unsupported scope applied to resource"));
            }
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            out.push(Cause::invalid(FIELD, all, "conflicting scopes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_quotas() {
        let quota = |scopes: Value, hard: Value| json!({"spec": {"scopes": scopes, "hard": hard}});
        let told = |object: &Value, old: Option<&Value>| {
            let mut out = Vec::new();
            super::quota(object, old, &mut out);
            out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
        };
        let unsupported = "spec.scopes: Invalid value: [\"Nothing\"]: unsupported scope";
        for (name, scopes, hard, want) in [
            ("none", json!([]), json!({"services": "1"}), vec![]),
            ("one that there isn't", json!(["Nothing"]), json!({"pods": "1"}), vec![unsupported]),
            ("pods alone can be of the best effort", json!(["BestEffort"]), json!({"pods": "1"}), vec![]),
            (
                "what they ask for can't",
                json!(["BestEffort"]),
                json!({"cpu": "1"}),
                vec!["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"],
            ),
            ("what others ask for can", json!(["NotBestEffort"]), json!({"cpu": "1", "pods": "1"}), vec![]),
            (
                "Services are no pods",
                json!(["Terminating"]),
                json!({"services": "1"}),
                vec!["spec.scopes: Invalid value: [\"Terminating\"]: unsupported scope applied to resource"],
            ),
            ("somebody's own resource is let be", json!(["Terminating"]), json!({"example.com/x": "1"}), vec![]),
            (
                "one and its opposite",
                json!(["Terminating", "NotTerminating"]),
                json!({}),
                vec!["spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes"],
            ),
        ] {
            assert_eq!(told(&quota(scopes, hard), None), want, "{name}");
        }
        let old = quota(json!(["Terminating", "BestEffort"]), json!({}));
        assert!(told(&quota(json!(["BestEffort", "Terminating"]), json!({})), Some(&old)).is_empty(), "a set");
        let want = "spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable";
        assert_eq!(told(&quota(json!(["BestEffort"]), json!({})), Some(&old)), [want]);
    }
}
