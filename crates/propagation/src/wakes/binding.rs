//! Wake rules of the binding controller.

use ironclad_api::{
    ObjectMeta,
    cluster::Cluster,
    policy::OverrideSpec,
    work::{ObjectReference, Work},
};

use super::changes;
use crate::overrides;

/// Returns true if the Works of a binding have to be compared with it again, because one of them was deleted or
/// changed. A new Work and a status are no reason.
#[must_use]
pub fn work(old: Option<&Work>, new: Option<&Work>) -> bool {
    let Some(old) = old else { return false };
    new.is_none_or(|new| changes::work(Some(&old.metadata), &new.metadata))
}

/// Returns true if a changed override policy concerns the template of a binding: its old or its new spec may select it.
#[must_use]
pub fn override_policy(old: Option<&OverrideSpec>, new: Option<&OverrideSpec>, template: &ObjectReference) -> bool {
    old != new && [old, new].into_iter().flatten().any(|spec| overrides::may_take(spec, template))
}

/// Returns true if a cluster changed in what override policies may select clusters by. Its status is not.
#[must_use]
pub fn cluster(old: &Cluster, new: &Cluster) -> bool {
    old.metadata.labels != new.metadata.labels || old.spec != new.spec
}

/// Returns true if the Works of a template may differ although its content does not, which has a wake of its own: a
/// node port got an owner, or lost its last. The cache of templates has no other entries in `managedFields`.
#[must_use]
pub fn owners(old: Option<&ObjectMeta>, new: &ObjectMeta) -> bool {
    old.is_some_and(|old| old.managed_fields != new.managed_fields)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::node_ports;

    #[test]
    fn a_node_port_that_gets_an_owner_wakes_the_bindings_of_its_template() {
        let service = |entries: &[(&str, Value)]| {
            let entry = |(manager, fields): &(&str, Value)| json!({"manager": manager, "fieldsV1": {"f:spec": fields}});
            let entries: Vec<Value> = entries.iter().map(entry).collect();
            let mut metadata: ObjectMeta = serde_json::from_value(json!({"managedFields": entries})).unwrap();
            node_ports::reduce(&mut metadata);
            metadata
        };
        let port = |field: &str| json!({"f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {field: {}}}});
        let allocated = service(&[("kubectl", port("f:port"))]);
        let chosen = service(&[("kubectl", port("f:port")), ("kubectl", port("f:nodePort"))]);
        let of_another = service(&[("helm", port("f:nodePort"))]);
        let health = service(&[("kubectl", json!({"f:healthCheckNodePort": {}}))]);
        let selector = service(&[("kubectl", json!({"f:selector": {}, "f:ports": {}}))]);
        for (name, old, new, want) in [
            ("created", None, &chosen, false),
            ("unchanged", Some(&chosen), &chosen, false),
            ("the allocated number is applied", Some(&allocated), &chosen, true),
            ("its only owner gives it up", Some(&chosen), &allocated, true),
            ("one owner in the place of another", Some(&chosen), &of_another, false),
            ("the port of health checks", Some(&allocated), &health, true),
            ("another field's owner", Some(&allocated), &selector, false),
            ("no entries any more", Some(&allocated), &ObjectMeta::default(), true),
        ] {
            assert_eq!(owners(old, new), want, "{name}");
        }
    }

    fn work_of(extra: Value) -> Work {
        let mut base = json!({"metadata": {"name": "w", "generation": 1}, "spec": {"workload": {}}});
        crate::testkit::merge(&mut base, &extra);
        serde_json::from_value(base).unwrap()
    }

    #[test]
    fn only_deleted_and_changed_works_wake_their_binding() {
        let base = work_of(json!({}));
        for (name, old, new, want) in [
            ("created", None, Some(base.clone()), false),
            ("status", Some(base.clone()), Some(work_of(json!({"status": {"conditions": []}}))), false),
            ("spec", Some(base.clone()), Some(work_of(json!({"metadata": {"generation": 2}}))), true),
            ("deleted", Some(base.clone()), None, true),
        ] {
            assert_eq!(work(old.as_ref(), new.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn clusters_that_override_policies_select_otherwise_wake_the_bindings_there() {
        let base = crate::testkit::patched(
            &crate::testkit::cluster("m1", "True"),
            &json!({"metadata": {"labels": {"tier": "gold"}}, "spec": {"provider": "p", "region": "r", "zones": ["z"]}}),
        );
        let spec = |target: Value| -> OverrideSpec {
            let rule = |target: &Value| json!({"targetCluster": target, "overriders": {"plaintext": [{"path": "/a", "operator": "remove"}]}});
            serde_json::from_value(json!({"overrideRules": [rule(&target), rule(&json!({"clusterNames": ["m1"]}))]}))
                .unwrap()
        };
        let field = |key: &str, value: &str| {
            spec(json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}))
        };
        let policies = [
            ("label", spec(json!({"labelSelector": {"matchLabels": {"tier": "gold"}}}))),
            (
                "absent label",
                spec(json!({"labelSelector": {"matchExpressions": [{"key": "new", "operator": "DoesNotExist"}]}})),
            ),
            ("provider", field("provider", "p")),
            ("region", field("region", "r")),
            ("zone", field("zone", "z")),
            ("name", spec(json!({"clusterNames": ["m1"]}))),
            ("exclude", spec(json!({"exclude": ["m1"]}))),
            ("all", spec(Value::Null)),
        ];
        let deprecated: OverrideSpec = serde_json::from_value(json!({
            "targetCluster": {"labelSelector": {"matchLabels": {"tier": "gold"}}},
            "overriders": {"plaintext": [{"path": "/a", "operator": "remove"}]},
        }))
        .unwrap();
        for (name, change, want) in [
            ("a label goes", json!({"metadata": {"labels": {"tier": null}}}), vec!["label", "deprecated"]),
            ("a label comes", json!({"metadata": {"labels": {"new": "x"}}}), vec!["absent label"]),
            ("provider", json!({"spec": {"provider": "q"}}), vec!["provider"]),
            ("region", json!({"spec": {"region": null}}), vec!["region"]),
            ("zones", json!({"spec": {"zones": ["y"]}}), vec!["zone"]),
            ("another zone besides", json!({"spec": {"zones": ["z", "y"]}}), vec![]),
            ("a taint", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}), vec![]),
            ("a status", json!({"status": {"kubernetesVersion": "v9"}}), vec![]),
        ] {
            let new = crate::testkit::patched(&base, &change);
            let all = policies.iter().map(|(name, spec)| (*name, spec)).chain([("deprecated", &deprecated)]);
            let differ = all.filter(|(_, spec)| overrides::differ(spec, &base, &new)).map(|(name, _)| name);
            assert_eq!(differ.collect::<Vec<_>>(), want, "{name}");
            assert!(want.is_empty() || cluster(&base, &new), "{name}");
        }
        assert!(!cluster(&base, &crate::testkit::patched(&base, &json!({"status": {"kubernetesVersion": "v9"}}))));
    }

    #[test]
    fn override_policies_wake_bindings_whose_template_they_selected_or_select() {
        let spec = |kind: &str| -> OverrideSpec {
            serde_json::from_value(
                json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": kind}], "overrideRules": []}),
            )
            .unwrap()
        };
        let template = ObjectReference {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ..ObjectReference::default()
        };
        let (selects, other) = (spec("Deployment"), spec("StatefulSet"));
        for (name, old, new, want) in [
            ("created", None, Some(&selects), true),
            ("deleted", Some(&selects), None, true),
            ("unchanged", Some(&selects), Some(&selects), false),
            ("no longer selects it", Some(&selects), Some(&other), true),
            ("selects it now", Some(&other), Some(&selects), true),
            ("never selects it", None, Some(&other), false),
        ] {
            assert_eq!(override_policy(old, new, &template), want, "{name}");
        }
    }
}
