//! No override changes which object a copy is.

use proptest::prelude::*;

use super::*;
fn names(object: &Value) -> [Option<&Value>; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(|path| object.pointer(path))
}

/// Paths at, above, below and beside the identity, also written with escapes.
fn path() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "", "/", "/metadata", "/metadata/", "/metadata/name", "/metadata/namespace", "/metadata/labels",
        "/metadata/labels/app", "/metadata/annotations/conf", "/meta~0data", "/metadata~1name", "/apiVersion", "/kind",
        "/data", "/data/key", "/spec",
    ])
    .prop_map(str::to_owned)
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["add", "replace", "remove"])
}

/// Values that fit the paths: texts, maps, metadata of others, whole objects of others.
fn value() -> impl Strategy<Value = Value> {
    let other = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "taken"}});
    prop::sample::select(vec![
        Value::Null,
        json!(""),
        json!("kube-system"),
        json!("v2"),
        json!(3),
        json!({}),
        json!({"key": "value"}),
        json!({"name": "c"}),
        json!({"name": "c", "namespace": "shop"}),
        json!({"name": "c", "namespace": "kube-system"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}}),
        other,
    ])
}

fn overriders() -> impl Strategy<Value = Value> {
    let plaintext = (path(), operator(), value()).prop_map(
        |(path, operator, value)| json!({"plaintext": [{"path": path, "operator": operator, "value": value}]}),
    );
    let component = prop::sample::select(vec!["Registry", "Repository", "Tag"]);
    let texts = prop::sample::select(vec!["", "kube-system", "v2", "x.io"]);
    let image = (path(), component, operator(), texts.clone()).prop_map(|(path, component, operator, value)| {
        json!({"imageOverrider": [{"predicate": {"path": path}, "component": component, "operator": operator, "value": value}]})
    });
    let format = prop::sample::select(vec!["json", "yaml"]);
    let field = (path(), format, path(), operator(), value()).prop_map(|(path, format, sub_path, operator, value)| {
        json!({"fieldOverrider": [{"fieldPath": path, format: [{"subPath": sub_path, "operator": operator, "value": value}]}]})
    });
    let map = prop::sample::select(vec!["labelsOverrider", "annotationsOverrider"]);
    let labels = (map, operator(), texts)
        .prop_map(|(map, operator, value)| json!({map: [{"operator": operator, "value": {"name": value}}]}));
    prop_oneof![4 => plaintext, 3 => image, 2 => field, 1 => labels]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn copy_keeps_the_identity_of_its_template_under_any_override(
        by_tenant in prop::collection::vec(overriders(), 0..4),
        by_admin in prop::collection::vec(overriders(), 0..2),
    ) {
        let template = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": "c", "labels": {"app": "a"}, "annotations": {"conf": "{}"}},
            "data": {"key": "value"}});
        let rules = |list: Vec<Value>| {
            json!({"overrideRules": list.into_iter().map(|o| json!({"overriders": o})).collect::<Vec<_>>()})
        };
        let (cop, op) = (cop("c", rules(by_admin)), op("o", rules(by_tenant)));
        if let Ok(got) = run(template.clone(), &[cop], &[op]) {
            prop_assert_eq!(names(&got.manifest), names(&template));
        }
    }
}

#[test]
fn override_that_changes_the_identity_fails_and_names_the_policy() {
    let template = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "c"}});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}});
    for (name, overriders, overrider) in [
        ("the whole object", json!({"plaintext": [{"path": "", "operator": "replace", "value": role}]}), "plaintext"),
        (
            "the metadata",
            json!({"plaintext": [{"path": "/metadata", "operator": "replace", "value": {"name": "c", "namespace": "kube-system"}}]}),
            "plaintext",
        ),
        (
            "another version of the kind",
            json!({"plaintext": [{"path": "/apiVersion", "operator": "replace", "value": "v2"}]}),
            "plaintext",
        ),
        (
            "a namespace taken for an image",
            json!({"imageOverrider": [{"predicate": {"path": "/metadata/namespace"}, "component": "Repository", "operator": "replace", "value": "kube-system"}]}),
            "imageOverrider",
        ),
    ] {
        let error = run(template(), &[], &[op("o", rule(overriders.clone()))]).unwrap_err();
        assert_eq!((error.policy.as_str(), error.overrider), ("OverridePolicy shop/o", overrider), "{name}");
        assert!(error.message.contains("can't be overridden"), "{name}: {error}");
        assert!(run(template(), &[cop("c", rule(overriders))], &[]).is_err(), "{name}, by an administrator");
    }
    let same = json!({"plaintext": [{"path": "/metadata", "operator": "replace", "value": {"name": "c", "namespace": "shop", "labels": {"a": "b"}}}]});
    assert!(run(template(), &[], &[op("o", rule(same))]).is_ok(), "metadata with the same names");
}
