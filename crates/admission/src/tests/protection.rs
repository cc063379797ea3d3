//! Deletion protection, and classes of priority (specification/admission.md 5.4, 2.4).

use serde_json::{Value, json};

use super::{Write, with};
use crate::{Need, needs, table::Phase};

const LABEL: &str = "resourcetemplate.karmada.io/deletion-protected";

fn object(kind: &str, label: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "shop", "name": "a", "labels": {LABEL: label}}})
}

#[test]
fn protected_objects_are_not_deleted() {
    let protected = "This resource is protected, please make sure to remove the label: resourcetemplate.karmada.io/deletion-protected";
    for (name, group, resource, label, want) in [
        ("in a namespace", "apps", "deployments", json!("Always"), protected),
        ("of the cluster", "cluster.karmada.io", "clusters", json!("Always"), protected),
        ("of any CRD", "example.com", "widgets", json!("Always"), protected),
        ("another value", "apps", "deployments", json!("always"), ""),
        ("no label", "apps", "deployments", Value::Null, ""),
    ] {
        let write = Write::delete(group, resource, object("Deployment", label));
        assert_eq!(write.refusal(), want, "{name}");
    }
    let mut own = Write::delete("apps", "deployments", object("Deployment", json!("Always")));
    (own.user, own.field_manager) = ("ironclad", "ironclad-gc");
    own.config.own_user = Some("ironclad".into());
    assert_eq!(own.refusal(), protected, "our own controllers cannot delete it either");
    let mut change =
        Write::update("apps", "deployments", object("Deployment", json!("Always")), object("Deployment", Value::Null));
    assert_eq!(change.refusal(), "", "updates are admitted");
    change.operation = crate::Operation::Delete;
    change.groups = vec![crate::BYPASS_GROUP.to_owned()];
    assert_eq!(change.refusal(), protected, "the break-glass group cannot overrule it");
}

#[test]
fn namespaces_with_protected_objects_are_not_deleted() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let write = Write::delete("", "namespaces", namespace.clone());
    let need = write.with_request(|request| needs(Phase::Validating, request, &write.config));
    let need = need.into_iter().collect::<Vec<_>>();
    assert!(matches!(need.as_slice(), [Need::Labelled { namespace, at_most: 6, .. }] if namespace == "shop"));
    let protected = |n: usize| -> Vec<Value> {
        (0..n)
            .map(|i| with(&object("Secret", json!("Always")), &json!({"metadata": {"name": format!("s{i}")}})))
            .collect()
    };
    let refused = |list: &str| {
        format!("This namespace holds protected resources: {list}; please make sure to remove the label: {LABEL}")
    };
    for (name, contents, want) in [
        ("nothing", protected(0), String::new()),
        ("one", protected(1), refused("Secret s0")),
        ("five", protected(5), refused("Secret s0, Secret s1, Secret s2, Secret s3, Secret s4")),
        ("more", protected(6), refused("Secret s0, Secret s1, Secret s2, Secret s3, Secret s4, more")),
    ] {
        let mut write = write.clone();
        write.lookups.found.insert(need[0].clone(), contents);
        assert_eq!(write.refusal(), want, "{name}");
    }
    let unknown = write.validated().denial.expect("a namespace whose contents are unknown was deleted");
    assert_eq!((unknown.code, unknown.reason), (500, "InternalError"), "{}", unknown.message);
    let mut off = write.clone();
    off.config.protect_namespace_contents = false;
    assert!(off.with_request(|request| needs(Phase::Validating, request, &off.config)).is_empty(), "switched off");
    assert_eq!(off.refusal(), "", "switched off");
    let going = with(&namespace, &json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}));
    let going = Write::delete("", "namespaces", going);
    assert!(going.with_request(|request| needs(Phase::Validating, request, &going.config)).is_empty(), "going already");
    assert_eq!(going.refusal(), "", "going already");
}

#[test]
fn priority_class_rules() {
    let class = |fields: Value| {
        with(
            &json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}),
            &fields,
        )
    };
    const GROUP: &str = "scheduling.k8s.io";
    for (name, old, new, want) in [
        ("nothing", json!({}), json!({}), ""),
        ("its description", json!({}), json!({"description": "x"}), ""),
        (
            "its value",
            json!({}),
            json!({"value": 6}),
            "value: Invalid value: 6: field is immutable: make another class",
        ),
        (
            "its preemption",
            json!({}),
            json!({"preemptionPolicy": "Never"}),
            "preemptionPolicy: Invalid value: \"Never\": field is immutable: make another class",
        ),
        ("its preemption to the default", json!({}), json!({"preemptionPolicy": "PreemptLowerPriority"}), ""),
        (
            "whether it is the default",
            json!({}),
            json!({"globalDefault": true}),
            "globalDefault: Invalid value: true: field is immutable: make another class",
        ),
    ] {
        let write = Write::update(GROUP, "priorityclasses", class(old), class(new));
        assert_eq!(write.refusal(), want, "{name}");
    }
    let high = Write::create(GROUP, "priorityclasses", class(json!({"value": 1_000_000_001})));
    assert_eq!(
        high.refusal(),
        "value: Invalid value: 1000000001: maximum allowed value of a user defined priority is 1000000000"
    );
    let highest = Write::create(GROUP, "priorityclasses", class(json!({"value": 1_000_000_000})));
    assert_eq!(highest.refusal(), "");
    let system = class(json!({"metadata": {"name": "system-x"}, "value": 1_000_000_001}));
    assert_eq!(Write::create(GROUP, "priorityclasses", system).refusal(), "");
    let mut second = Write::create(GROUP, "priorityclasses", class(json!({"globalDefault": true})));
    let need = second.with_request(|request| needs(Phase::Validating, request, &second.config));
    let first = class(json!({"metadata": {"name": "first"}, "globalDefault": true}));
    second.lookups.found.insert(need.into_iter().next().unwrap(), vec![first, class(json!({"globalDefault": true}))]);
    assert_eq!(
        second.validated().warnings,
        ["PriorityClass \"first\" is the global default already: of several, the one of the smallest value counts"]
    );
}
