//! What is allowed and unwise (apiserver.md 14).

mod config;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::registry::Resource;

/// Where a kind has the spec of its pods.
fn pod_spec(resource: &Resource) -> Option<(&'static str, &'static str)> {
    resource.builtin()?;
    Some(match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => ("/spec", "spec"),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job")
        | ("", "ReplicationController") => ("/spec/template/spec", "spec.template.spec"),
        ("batch", "CronJob") => ("/spec/jobTemplate/spec/template/spec", "spec.jobTemplate.spec.template.spec"),
        _ => return None,
    })
}

/// Texts for whoever wrote this object; on an update only about a spec that it changes.
pub(crate) fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    let Some((pointer, path)) = pod_spec(resource) else {
        return match resource.builtin() {
            Some(_) => config::warnings(&resource.kind, object, old),
            None => out,
        };
    };
    if old.is_some_and(|old| old.get("spec") == object.get("spec")) {
        return out;
    }
    for kind in ["initContainers", "containers"] {
        let containers = object.pointer(&format!("{pointer}/{kind}")).and_then(Value::as_array);
        for (i, container) in containers.into_iter().flatten().enumerate() {
            doubles(container, &format!("{path}.{kind}[{i}]"), &mut out);
        }
    }
    out
}

fn doubles(container: &Value, path: &str, out: &mut Vec<String>) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn doubles_are_told() {
        let mut out = Vec::new();
        let container = json!({
            "env": [{"name": "A"}, {"name": "B"}, {"name": "A"}],
            "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}],
        });
        doubles(&container, "c", &mut out);
        assert_eq!(
            out,
            [
                "c.env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                "c.ports[2]: duplicate port definition with c.ports[0]",
            ]
        );
    }
}
