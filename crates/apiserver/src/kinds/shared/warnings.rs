//! Advice about what is allowed and unwise (specification/apiserver.md 14).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object;

/// Warns about the containers of a pod or a template whose spec is at `pointer`, which warnings call `path`; on an
/// update only about a spec that it changes.
pub(crate) fn containers(pointer: &str, path: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    if old.is_some_and(|old| old.get("spec") == object.get("spec")) {
        return out;
    }
    for kind in ["initContainers", "containers"] {
        let containers = object.pointer(&format!("{pointer}/{kind}")).and_then(Value::as_array);
        for (i, container) in containers.into_iter().flatten().enumerate() {
            duplicates(container, &format!("{path}.{kind}[{i}]"), &mut out);
        }
    }
    out
}

/// Warns about the containers of the template in `spec.template`.
pub(crate) fn template(object: &Value, old: Option<&Value>) -> Vec<String> {
    containers("/spec/template/spec", "spec.template.spec", object, old)
}

fn duplicates(container: &Value, path: &str, out: &mut Vec<String>) {
    let mut variables = BTreeMap::new();
    for (i, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let name = variable["name"].as_str().unwrap_or_default();
        if variables.insert(name, i).is_some() {
            out.push(format!(
                "{path}.env[{i}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
    let mut ports: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    for (i, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        let key = (port["containerPort"].as_u64().unwrap_or_default(), port["protocol"].as_str().unwrap_or("TCP"));
        if let Some(first) = ports.get(&key) {
            out.push(format!("{path}.ports[{i}]: duplicate port definition with {path}.ports[{first}]"));
        } else {
            ports.insert(key, i);
        }
    }
}

/// True for an update of the status alone, which warns of nothing.
pub(crate) fn is_status_update(object: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| old["spec"] == object["spec"] && old["status"] != object["status"])
}

pub(crate) fn annotated(object: &Value, key: &str) -> bool {
    object::metadata(object).get("annotations").is_some_and(|a| a.get(key).is_some())
}

pub(crate) const VOLUME_ANNOTATIONS: [(&str, &str); 2] = [
    ("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead"),
    ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];

pub(crate) fn volume_annotations(object: &Value, deprecated: &[(&str, &str)]) -> Vec<String> {
    let given = deprecated.iter().filter(|(key, _)| annotated(object, key));
    given.map(|(key, why)| format!("metadata.annotations[{key}]: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_reported() {
        let mut out = Vec::new();
        let container = json!({
            "env": [{"name": "A"}, {"name": "B"}, {"name": "A"}],
            "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}],
        });
        duplicates(&container, "c", &mut out);
        assert_eq!(
            out,
            [
                "c.env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                "c.ports[2]: duplicate port definition with c.ports[0]",
            ]
        );
    }
}
