//! The roles and bindings that every cluster has from its first start (specification/apiserver.md 19).
//!
//! `bootstrap.jsonl` is what kube-apiserver v1.36 makes in an empty cluster, one object in each line, without the roles
//! of kube-controller-manager's own loops (`system:controller:*`): the controllers here are members of
//! `system:masters`.

use std::sync::OnceLock;

use ironclad_store::{Compare, Op, StoreError};
use serde_json::{Value, json};

use crate::{object, state::State};

use super::{escalation, rbac};

/// The annotation that protects an object from updates by the server when it is `false`.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The objects, read once for all servers of the process.
fn objects() -> &'static [Value] {
    static OBJECTS: OnceLock<Vec<Value>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let lines = include_str!("bootstrap.jsonl").lines();
        lines
            .map(|line| serde_json::from_str(line).expect("the file in the program is JSON, a test reads it"))
            .collect()
    })
}

fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// Makes what is missing, and gives what is there the rules and subjects that it lacks; in one transaction, or none.
pub(crate) async fn run(state: &State) -> Result<(), StoreError> {
    let (mut compares, mut ops) = (Vec::new(), Vec::new());
    let uids = state.seam.rng.stream("bootstrap");
    let now = state.now();
    for wanted in objects() {
        let kind = wanted["kind"].as_str().unwrap_or_default();
        let Some(resource) = state.registry.builtin(rbac::GROUP, &plural(kind)) else { continue };
        let key = resource.key(object::meta_str(wanted, "namespace"), object::meta_str(wanted, "name"));
        let value = match state.store.get(&key) {
            None => {
                let mut value = wanted.clone();
                let metadata = object::metadata_mut(&mut value);
                metadata.insert("uid".into(), json!(uids.uuid()));
                metadata.insert("creationTimestamp".into(), json!(now));
                compares.push(Compare::absent(key.as_str()));
                value
            }
            Some(entry) => {
                let Ok(is) = object::decode(&entry.value, entry.modified) else { continue };
                let Some(value) = reconciled(is, wanted) else { continue };
                compares.push(Compare::modified(key.as_str(), entry.modified));
                value
            }
        };
        ops.push(Op::put(key, object::encode(&value)));
    }
    if !ops.is_empty() {
        state.store.txn(compares, ops).await?;
    }
    Ok(())
}

/// The object with what it lacks; `None` when it lacks nothing, or isn't to be touched.
fn reconciled(mut is: Value, wanted: &Value) -> Option<Value> {
    if is.pointer("/metadata/annotations").and_then(|a| a.get(AUTO_UPDATE)).and_then(Value::as_str) == Some("false") {
        return None;
    }
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let (key, lacking) = match wanted["subjects"].as_array() {
        Some(subjects) => {
            let has = list(&is, "subjects");
            ("subjects", subjects.iter().filter(|s| !has.contains(s)).cloned().collect::<Vec<_>>())
        }
        None => ("rules", escalation::uncovered(&list(&is, "rules"), &list(wanted, "rules"))),
    };
    if lacking.is_empty() {
        return None;
    }
    let mut all = list(&is, key);
    all.extend(lacking);
    is[key] = Value::Array(all);
    Some(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_objects_are_complete() {
        let names: Vec<String> = objects()
            .iter()
            .map(|o| format!("{}/{}", o["kind"].as_str().unwrap(), object::meta_str(o, "name")))
            .collect();
        for wanted in [
            "ClusterRole/cluster-admin",
            "ClusterRole/admin",
            "ClusterRole/edit",
            "ClusterRole/view",
            "ClusterRole/system:aggregate-to-view",
            "ClusterRole/system:discovery",
            "ClusterRole/system:basic-user",
            "ClusterRole/system:public-info-viewer",
            "ClusterRole/system:monitoring",
            "ClusterRole/system:auth-delegator",
            "ClusterRoleBinding/cluster-admin",
            "ClusterRoleBinding/system:discovery",
            "ClusterRoleBinding/system:service-account-issuer-discovery",
            "Role/extension-apiserver-authentication-reader",
        ] {
            assert!(names.iter().any(|n| n == wanted), "{wanted}");
        }
        for object in objects() {
            let kind = object["kind"].as_str().unwrap();
            assert!(
                crate::kinds::groups()
                    .iter()
                    .any(|g| g.name == rbac::GROUP && g.version("v1").is_some_and(|r| r.contains_key(&plural(kind)))),
                "{kind}"
            );
        }
    }

    #[test]
    fn later_start_adds_missing_rules() {
        let role = |verbs: &[&str]| json!({"kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
        let binding = |names: &[&str]| {
            let subjects: Vec<Value> = names.iter().map(|n| json!({"kind": "Group", "name": n})).collect();
            json!({"kind": "ClusterRoleBinding", "subjects": subjects})
        };
        let kept = json!({"kind": "ClusterRole", "metadata": {"annotations": {AUTO_UPDATE: "false"}}, "rules": []});
        let rules = |value: &Value| value["rules"].as_array().map_or(0, Vec::len);
        assert_eq!(reconciled(role(&["get", "list"]), &role(&["get"])), None, "it has more than it needs");
        assert_eq!(
            reconciled(role(&["get"]), &role(&["get", "list"])).as_ref().map(rules),
            Some(2),
            "a verb is lacking"
        );
        assert_eq!(reconciled(binding(&["a", "b"]), &binding(&["b"])), None);
        assert_eq!(reconciled(binding(&["a"]), &binding(&["b"])), Some(binding(&["a", "b"])), "a subject is lacking");
        assert_eq!(reconciled(kept, &role(&["get"])), None, "whoever keeps his own keeps it");
    }
}
