//! Additions of a pod's RuntimeClass: overhead, labels of nodes and tolerations (specification/apiserver.md 21).

use serde_json::{Map, Value};

use crate::{
    context::Cx,
    kinds::shared::{amounts, fields::text},
    status::ApiError,
};

fn refused(pod: &str, why: &str) -> ApiError {
    ApiError::forbidden("pods", "", pod, why)
}

/// Adds to a new pod what its RuntimeClass says.
///
/// # Errors
/// The class does not exist, or the pod contradicts it.
pub(super) fn apply(cx: &Cx, pod: &str, spec: &mut Value) -> Result<(), ApiError> {
    let name = text(spec, "/runtimeClassName").to_owned();
    if name.is_empty() {
        return Ok(());
    }
    let Some(class) = cx.state.builtin_object("node.k8s.io", "runtimeclasses", "", &name) else {
        return Err(refused(pod, &format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    add(&class, spec).map_err(|why| refused(pod, &why))
}

fn add(class: &Value, spec: &mut Value) -> Result<(), String> {
    if let Some(overhead) = class.pointer("/overhead/podFixed") {
        if !spec["overhead"].is_null() && !same_amounts(&spec["overhead"], overhead) {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        spec["overhead"] = overhead.clone();
    }
    let labels = class.pointer("/scheduling/nodeSelector").and_then(Value::as_object);
    if let Some(labels) = labels.filter(|labels| !labels.is_empty()) {
        if !spec["nodeSelector"].is_object() {
            spec["nodeSelector"] = Value::Object(Map::new());
        }
        for (key, value) in labels {
            let (wanted, given) = (value.as_str().unwrap_or_default(), spec["nodeSelector"][key].as_str());
            if let Some(given) = given.filter(|given| *given != wanted) {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
                ));
            }
            spec["nodeSelector"][key] = value.clone();
        }
    }
    if let Some(more) = class.pointer("/scheduling/tolerations").and_then(Value::as_array) {
        let own = spec["tolerations"].as_array().cloned().unwrap_or_default();
        spec["tolerations"] = Value::Array(merged([own, more.clone()].concat()));
    }
    Ok(())
}

/// Refuses the overhead of a valid pod whose class has none.
///
/// # Errors
/// As said.
pub(super) fn check_overhead(cx: &Cx, pod: &str, spec: &Value) -> Result<(), ApiError> {
    let class = match text(spec, "/runtimeClassName") {
        "" => None,
        name => cx.state.builtin_object("node.k8s.io", "runtimeclasses", "", name),
    };
    let defines = class.is_some_and(|class| class.pointer("/overhead/podFixed").is_some());
    if !defines && !spec["overhead"].is_null() {
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(refused(pod, why));
    }
    Ok(())
}

fn same_amounts(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    one.len() == other.len()
        && one.iter().all(|(key, value)| other.get(key).map(amounts::amount) == Some(amounts::amount(value)))
}

/// Tolerations without those that another one includes.
fn merged(all: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let is_included = out.iter().any(|other| includes(other, one))
            || all[i + 1..].iter().any(|other| other != one && includes(other, one));
        if !is_included {
            out.push(one.clone());
        }
    }
    out
}

/// True if a toleration tolerates all that another one does.
fn includes(one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    let operator = text(one, "/operator");
    let everything = text(one, "/key").is_empty() && operator == "Exists";
    if text(one, "/key") != text(other, "/key") && !everything {
        return false;
    }
    let effect = text(one, "/effect");
    if text(other, "/effect") != effect && !effect.is_empty() {
        return false;
    }
    let (most, seconds) = (one["tolerationSeconds"].as_i64(), other["tolerationSeconds"].as_i64());
    if effect == "NoExecute" && most.is_some_and(|most| seconds.is_none_or(|seconds| seconds > most)) {
        return false;
    }
    match operator {
        "" | "Equal" => text(other, "/operator") == operator && text(other, "/value") == text(one, "/value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn class_adds_to_a_pod_or_contradicts_it() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "c"}]},
        });
        let of_class = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "value": "c"}]);
        for (name, spec, want) in [
            (
                "all of it",
                json!({}),
                Ok(json!({"overhead": {"cpu": "100m"}, "nodeSelector": {"a": "b"}, "tolerations": of_class})),
            ),
            (
                "besides the pod's own",
                json!({"overhead": {"cpu": "0.1"}, "nodeSelector": {"z": "y"}, "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "x"}]}),
                Ok(json!({"overhead": {"cpu": "100m"}, "nodeSelector": {"a": "b", "z": "y"},
                    "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "x"}, {"key": "b", "value": "c"}]})),
            ),
            (
                "narrower tolerations go",
                json!({"tolerations": [{"key": "a", "value": "v", "effect": "NoSchedule"}, {"key": "b", "value": "d"}]}),
                Ok(json!({"overhead": {"cpu": "100m"}, "nodeSelector": {"a": "b"},
                    "tolerations": [{"key": "b", "value": "d"}, {"key": "a", "operator": "Exists"}, {"key": "b", "value": "c"}]})),
            ),
            (
                "another node",
                json!({"nodeSelector": {"a": "c"}}),
                Err("conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c".to_owned()),
            ),
            (
                "another overhead",
                json!({"overhead": {"cpu": "200m"}}),
                Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()),
            ),
        ] {
            let mut got = spec;
            let done = add(&class, &mut got);
            assert_eq!(done.map(|()| got), want, "{name}");
        }
    }
}
