//! The changes of a pod that its subresources `ephemeralcontainers` and `resize` make (specification/apiserver.md 17).

use serde_json::{Map, Value};

use crate::{
    kinds::shared::{
        fields::{at, list, text},
        pod,
        pod_defaults::quality,
    },
    status::Cause,
};

const ONLY: &str = "only cpu and memory resources are mutable";

/// Puts back all that the subresource is not for.
pub(super) fn restrict(subresource: &str, old: &Value, new: &mut Value) {
    let mut spec = at(old, "/spec").clone();
    match subresource {
        "ephemeralcontainers" => {
            let joined = at(new, "/spec/ephemeralContainers").clone();
            if let Some(map) = spec.as_object_mut() {
                map.insert("ephemeralContainers".into(), joined);
                map.retain(|key, value| key != "ephemeralContainers" || !value.is_null());
            }
        }
        "resize" => {
            for kind in ["containers", "initContainers"] {
                let asked = list(new, &format!("/spec/{kind}"));
                let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    let same = asked.iter().find(|other| text(other, "/name") == text(container, "/name"));
                    if let (Some(same), Some(map)) = (same, container.as_object_mut()) {
                        resize(same, map);
                    }
                }
            }
        }
        _ => return,
    }
    if let Some(map) = new.as_object_mut() {
        map.insert("spec".into(), spec);
        keep(old, map, "status");
    }
    if let (Some(was), Some(is)) = (old.get("metadata"), new.get_mut("metadata").and_then(Value::as_object_mut)) {
        for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
            keep(was, is, key);
        }
    }
}

fn keep(old: &Value, new: &mut Map<String, Value>, key: &str) {
    match old.get(key) {
        Some(value) => drop(new.insert(key.into(), value.clone())),
        None => drop(new.remove(key)),
    }
}

fn resize(asked: &Value, container: &mut Map<String, Value>) {
    for key in ["resources", "resizePolicy"] {
        keep(asked, container, key);
    }
}

/// Validates the pod that the subresource makes, and the change.
pub(super) fn validate(subresource: &str, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    pod::whole(new, &mut causes);
    match subresource {
        "ephemeralcontainers" => joined(new, old, &mut causes),
        "resize" => resized(at(new, "/spec"), at(old, "/spec"), &mut causes),
        _ => {}
    }
    causes
}

/// Ephemeral containers may be added, not changed or removed.
fn joined(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.ephemeralContainers";
    let is = list(new, "/spec/ephemeralContainers");
    for before in list(old, "/spec/ephemeralContainers") {
        let name = text(before, "/name");
        match is.iter().find(|one| text(one, "/name") == name) {
            None => {
                let why = format!("existing ephemeral containers {name:?} may not be removed\n");
                out.push(Cause::forbidden(FIELD, why));
            }
            Some(now) if now != before => {
                out.push(Cause::forbidden(FIELD, format!("existing ephemeral containers {name:?} may not be changed")));
            }
            Some(_) => {}
        }
    }
}

/// A pod gets more or less of what it has, and stays of its quality.
fn resized(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    let (is, was) = (quality(new), quality(old));
    if is != was {
        let why = "Pod QOS Class may not change as a result of resizing";
        out.push(Cause::invalid("spec", &Value::from(was), why));
    }
    for kind in ["containers", "initContainers"] {
        let pairs = list(new, &format!("/{kind}")).iter().zip(list(old, &format!("/{kind}")));
        for (i, (new, old)) in pairs.enumerate() {
            for side in ["requests", "limits"] {
                let of = |container: &Value| container["resources"][side].as_object().cloned().unwrap_or_default();
                let (is, was) = (of(new), of(old));
                if was.keys().any(|name| ["cpu", "memory"].contains(&name.as_str()) && !is.contains_key(name)) {
                    let field = format!("spec.{kind}[{i}].resources.{side}");
                    out.push(Cause::forbidden(field, format!("resource {side} cannot be removed")));
                }
            }
        }
    }
    if fixed(new) != fixed(old) {
        out.push(Cause::forbidden("spec", ONLY));
    }
}

/// A spec without the amounts that can change.
fn fixed(spec: &Value) -> Value {
    let mut out = spec.clone();
    for kind in ["containers", "initContainers"] {
        for container in out.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { continue };
            for side in ["requests", "limits"] {
                if let Some(amounts) = resources.get_mut(side).and_then(Value::as_object_mut) {
                    amounts.remove("cpu");
                    amounts.remove("memory");
                    if amounts.is_empty() {
                        resources.remove(side);
                    }
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(resources: Value, joined: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}], "ephemeralContainers": joined,
        }})
    }

    #[test]
    fn each_subresource_changes_its_own_fields() {
        let old = with(json!({"requests": {"cpu": "1"}}), json!([]));
        let mut asked = with(json!({"requests": {"cpu": "2"}}), json!([{"name": "e", "image": "i"}]));
        asked["spec"]["containers"][0]["image"] = json!("j");
        asked["spec"]["hostname"] = json!("x");
        let after = |subresource: &str| {
            let mut new = asked.clone();
            restrict(subresource, &old, &mut new);
            new
        };
        assert_eq!(after("resize"), with(json!({"requests": {"cpu": "2"}}), json!([])));
        let joined = with(json!({"requests": {"cpu": "1"}}), json!([{"name": "e", "image": "i"}]));
        assert_eq!(after("ephemeralcontainers"), joined);
    }

    #[test]
    fn changes() {
        let e = json!([{"name": "e", "image": "i"}]);
        let half = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
        let old = with(half.clone(), e.clone());
        let messages = |subresource: &str, new: &Value| {
            let causes = validate(subresource, new, &old);
            causes.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect::<Vec<_>>()
        };
        for (name, subresource, new, want) in [
            (
                "another joins",
                "ephemeralcontainers",
                with(half.clone(), json!([e[0], {"name": "f", "image": "i"}])),
                vec![],
            ),
            (
                "one leaves",
                "ephemeralcontainers",
                with(half.clone(), json!([])),
                vec!["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"],
            ),
            (
                "one with a port",
                "ephemeralcontainers",
                with(
                    half,
                    json!([e[0], {"name": "f", "image": "i", "ports": [{"containerPort": 1, "protocol": "TCP"}]}]),
                ),
                vec!["spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container"],
            ),
            ("more", "resize", with(json!({"requests": {"cpu": "2", "memory": "1Gi"}}), e.clone()), vec![]),
            (
                "of another quality",
                "resize",
                with(
                    json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
                    e.clone(),
                ),
                vec!["spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"],
            ),
            (
                "other resources",
                "resize",
                with(json!({"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}}), e.clone()),
                vec!["spec: Forbidden: only cpu and memory resources are mutable"],
            ),
            (
                "none of one",
                "resize",
                with(json!({"requests": {"cpu": "1"}}), e),
                vec!["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
            ),
        ] {
            assert_eq!(messages(subresource, &new), want, "{name}");
        }
    }
}
