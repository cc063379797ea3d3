//! Validation of updates of pods: the fields that may change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::status::Cause;

use super::super::fields::{at, list, text};

const RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates a change of the spec.
pub(super) fn changed(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    for kind in ["containers", "initContainers"] {
        let pointer = format!("/{kind}");
        if list(new, &pointer).len() != list(old, &pointer).len() {
            let why = "pod updates may not add or remove containers";
            return out.push(Cause::forbidden(format!("spec.{kind}"), why));
        }
        // A kube-apiserver validates mutable fields a second time.
        for (i, container) in list(new, &pointer).iter().enumerate() {
            if text(container, "/image").is_empty() {
                out.push(Cause::required(format!("spec.{kind}[{i}].image"), ""));
            }
        }
    }
    deadline(new, old, out);
    gates(new, old, out);
    let rest = essence(new, old);
    if !tolerations(new, old, out) {
        return;
    }
    if rest != essence(old, old) {
        out.push(Cause::forbidden("spec", RULE));
    }
}

fn deadline(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let (was, is) = (at(old, "/activeDeadlineSeconds"), at(new, "/activeDeadlineSeconds"));
    match (was.as_i64(), is.as_i64()) {
        (Some(was), Some(now)) if now > was => {
            out.push(Cause::invalid(FIELD, is, "must be less than or equal to previous value"));
        }
        (Some(_), None) => {
            out.push(Cause::invalid(FIELD, is, "must not update from a positive integer to nil value"));
        }
        _ => {}
    }
}

/// Gates can only be opened.
fn gates(new: &Value, old: &Value, out: &mut Vec<Cause>) {
    let had = list(old, "/schedulingGates");
    for (i, gate) in list(new, "/schedulingGates").iter().enumerate().filter(|(_, gate)| !had.contains(gate)) {
        let why = format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "/name"));
        out.push(Cause::forbidden(format!("spec.schedulingGates[{i}].name"), why));
    }
}

/// Tolerations are kept, but for how long they last; answers whether they were, and judges those that came.
fn tolerations(new: &Value, old: &Value, out: &mut Vec<Cause>) -> bool {
    let plain = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(map) = toleration.as_object_mut() {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let is: BTreeSet<String> = list(new, "/tolerations").iter().map(|t| plain(t).to_string()).collect();
    if !list(old, "/tolerations").iter().all(|t| is.contains(&plain(t).to_string())) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        out.push(Cause::forbidden("spec.tolerations", why));
        return false;
    }
    super::affinity::tolerations(new, "spec.tolerations", out);
    true
}

/// A spec without what an update may change. The node is set by binding; gates and resources have ways of their own.
fn essence(spec: &Value, old: &Value) -> Value {
    let mut out = spec.clone();
    for containers in ["containers", "initContainers"] {
        for container in out.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(map) = container.as_object_mut() {
                map.remove("image");
            }
        }
    }
    let Some(map) = out.as_object_mut() else { return out };
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        map.remove(key);
    }
    let grace = |spec: &Value| at(spec, "/terminationGracePeriodSeconds").as_i64();
    if grace(old).is_some_and(|n| n < 0) && [Some(1), grace(old)].contains(&grace(spec)) {
        map.remove("terminationGracePeriodSeconds");
    }
    // Before it may be scheduled at all, where a pod may run can be narrowed.
    if !list(old, "/schedulingGates").is_empty() {
        let kept = |pointer: &str| {
            at(old, pointer).as_object().is_none_or(|was| was.iter().all(|(k, v)| at(spec, pointer).get(k) == Some(v)))
        };
        map.insert("nodeSelector".into(), json!(kept("/nodeSelector")));
        let nodes = at(old, "/affinity/nodeAffinity").is_null();
        if nodes && let Some(affinity) = map.get_mut("affinity").and_then(Value::as_object_mut) {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                map.remove("affinity");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(new: Value, old: &Value) -> Vec<String> {
        let mut out = Vec::new();
        changed(&new, old, &mut out);
        out.into_iter().map(|c| c.field).collect()
    }

    #[test]
    fn changes() {
        let with = |patch: Value| {
            let mut spec = json!({"containers": [{"name": "c", "image": "i"}], "tolerations": [{"key": "a", "operator": "Exists"}], "schedulingGates": [{"name": "x.io/a"}], "nodeSelector": {"a": "b"}});
            ironclad_patch::merge_patch(&mut spec, &patch);
            spec
        };
        let old = with(json!({}));
        for (name, patch, want) in [
            ("another image", json!({"containers": [{"name": "c", "image": "j"}]}), vec![]),
            ("another name", json!({"containers": [{"name": "d", "image": "i"}]}), vec!["spec"]),
            ("one container more", json!({"containers": [{"name": "c"}, {"name": "d"}]}), vec!["spec.containers"]),
            ("gates open", json!({"schedulingGates": null}), vec![]),
            ("gates close", json!({"schedulingGates": [{"name": "x.io/b"}]}), vec!["spec.schedulingGates[0].name"]),
            ("a toleration goes", json!({"tolerations": []}), vec!["spec.tolerations"]),
            (
                "a toleration comes",
                json!({"tolerations": [{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]}),
                vec!["spec.tolerations"],
            ),
            ("a gated pod is placed more closely", json!({"nodeSelector": {"c": "d"}}), vec![]),
            ("or elsewhere", json!({"nodeSelector": {"a": "d"}}), vec!["spec"]),
            ("or by its affinity", json!({"affinity": {"nodeAffinity": {}}}), vec![]),
            ("its end is fixed", json!({"terminationGracePeriodSeconds": 5}), vec!["spec"]),
        ] {
            assert_eq!(messages(with(patch), &old), want, "{name}");
        }
        let negative = json!({"terminationGracePeriodSeconds": -1});
        assert!(messages(json!({"terminationGracePeriodSeconds": 1}), &negative).is_empty());
        assert_eq!(messages(json!({"terminationGracePeriodSeconds": 2}), &negative), ["spec"]);
    }
}
