use serde_json::json;

use super::*;
use crate::testkit::{cluster, deployment, merge};

fn op(name: &str, spec: Value) -> Arc<OverridePolicy> {
    Arc::new(serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec})).unwrap())
}

fn cop(name: &str, spec: Value) -> Arc<ClusterOverridePolicy> {
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
}

fn rule(overriders: Value) -> Value {
    json!({"overrideRules": [{"overriders": overriders}]})
}

fn annotate(value: &str) -> Value {
    json!({"annotationsOverrider": [{"operator": "add", "value": {"by": value}}]})
}

fn run(
    manifest: Value,
    cops: &[Arc<ClusterOverridePolicy>],
    ops: &[Arc<OverridePolicy>],
) -> Result<Overridden, OverrideError> {
    apply(manifest, &cluster("m1", "True"), cops, ops)
}

#[test]
fn every_overrider() {
    let manifest = || {
        let mut manifest = deployment();
        merge(
            &mut manifest,
            &json!({
                "metadata": {"annotations": {"conf": "{\"a\": {\"b\": 1}}", "conf.yaml": "# note\na:\n  b: 1\n", "number": "x"}},
                "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:1", "args": ["-v", "-x", "-v"]}, {"name": "d", "image": "r.io/d"}],
                    "initContainers": [{"name": "i", "image": "init:1"}]}}},
            }),
        );
        manifest
    };
    for (name, overriders, pointer, want) in [
        (
            "images of all containers",
            json!({"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "h.io"}]}),
            "/spec/template/spec/containers/0/image",
            json!("h.io/nginx:1"),
        ),
        (
            "the second too",
            json!({"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "h.io"}]}),
            "/spec/template/spec/containers/1/image",
            json!("h.io/d"),
        ),
        (
            "not of init containers",
            json!({"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "h.io"}]}),
            "/spec/template/spec/initContainers/0/image",
            json!("init:1"),
        ),
        (
            "but by path",
            json!({"imageOverrider": [{"predicate": {"path": "/spec/template/spec/initContainers/0/image"}, "component": "Tag", "operator": "replace", "value": "2"}]}),
            "/spec/template/spec/initContainers/0/image",
            json!("init:2"),
        ),
        (
            "command, made where it is missing",
            json!({"commandOverrider": [{"containerName": "c", "operator": "add", "value": ["run", "it"]}]}),
            "/spec/template/spec/containers/0/command",
            json!(["run", "it"]),
        ),
        (
            "args, every equal one removed",
            json!({"argsOverrider": [{"containerName": "c", "operator": "remove", "value": ["-v"]}]}),
            "/spec/template/spec/containers/0/args",
            json!(["-x"]),
        ),
        (
            "removing from a missing list makes it",
            json!({"commandOverrider": [{"containerName": "d", "operator": "remove", "value": ["x"]}]}),
            "/spec/template/spec/containers/1/command",
            json!([]),
        ),
        (
            "a label added",
            json!({"labelsOverrider": [{"operator": "add", "value": {"app": "y", "e/f": "g"}}]}),
            "/metadata/labels",
            json!({"app": "y", "e/f": "g"}),
        ),
        (
            "a label replaced only where it is",
            json!({"labelsOverrider": [{"operator": "replace", "value": {"app": "y", "no": "z"}}]}),
            "/metadata/labels",
            json!({"app": "y"}),
        ),
        (
            "a label removed",
            json!({"labelsOverrider": [{"operator": "remove", "value": {"app": "whatever"}}]}),
            "/metadata/labels",
            json!({}),
        ),
        (
            "a JSON document in a field",
            json!({"fieldOverrider": [{"fieldPath": "/metadata/annotations/conf", "json": [{"subPath": "/a/b", "operator": "replace", "value": 2}]}]}),
            "/metadata/annotations/conf",
            json!("{\"a\":{\"b\":2}}"),
        ),
        (
            "neither JSON nor YAML: emptied",
            json!({"fieldOverrider": [{"fieldPath": "/metadata/annotations/conf"}]}),
            "/metadata/annotations/conf",
            json!(""),
        ),
        (
            "plaintext",
            json!({"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 7}, {"path": "/spec/paused", "operator": "add", "value": true}]}),
            "/spec/replicas",
            json!(7),
        ),
        (
            "plaintext of a null",
            json!({"plaintext": [{"path": "/spec/x", "operator": "add", "value": null}]}),
            "/spec/x",
            json!(null),
        ),
        (
            "plaintext removal",
            json!({"plaintext": [{"path": "/spec/template", "operator": "remove"}]}),
            "/spec",
            json!({"replicas": 3}),
        ),
    ] {
        let got = run(manifest(), &[], &[op("o", rule(overriders))]).unwrap();
        assert_eq!(got.manifest.pointer(pointer), Some(&want), "{name}");
        assert_eq!(got.warnings, Vec::<String>::new(), "{name}");
    }
    let yaml = json!({"fieldOverrider": [{"fieldPath": "/metadata/annotations/conf.yaml", "yaml": [{"subPath": "/a/b", "operator": "replace", "value": "x"}], "json": [{"subPath": "/no", "operator": "remove"}]}]});
    let got = run(manifest(), &[], &[op("o", rule(yaml))]).unwrap();
    let text = got.manifest.pointer("/metadata/annotations/conf.yaml").unwrap().as_str().unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(text).unwrap(), json!({"a": {"b": "x"}}), "YAML goes before JSON");
}

#[test]
fn the_order_inside_a_rule() {
    // Labels come after images and before plaintext, whatever the order in which they were written.
    let overriders = json!({
        "plaintext": [{"path": "/metadata/labels/by", "operator": "replace", "value": "plaintext"}, {"path": "/metadata/annotations", "operator": "add", "value": {}}],
        "labelsOverrider": [{"operator": "add", "value": {"by": "label"}}],
        "annotationsOverrider": [{"operator": "add", "value": {"a": "b"}}],
    });
    let got = run(deployment(), &[], &[op("o", rule(overriders))]).unwrap();
    assert_eq!(got.manifest.pointer("/metadata/labels/by"), Some(&json!("plaintext")));
    assert_eq!(got.manifest.pointer("/metadata/annotations"), Some(&json!({})));
}

#[test]
fn failures_name_policy_and_field() {
    for (overriders, want) in [
        (
            json!({"imageOverrider": [{"predicate": {"path": "/spec/nope"}, "component": "Tag", "operator": "remove"}]}),
            "OverridePolicy shop/o: imageOverrider: there is no field /spec/nope",
        ),
        (
            json!({"fieldOverrider": [{"fieldPath": "/spec/nope", "json": [{"subPath": "/a", "operator": "remove"}]}]}),
            "OverridePolicy shop/o: fieldOverrider: there is no field /spec/nope",
        ),
        (
            json!({"fieldOverrider": [{"fieldPath": "/spec/replicas", "json": [{"subPath": "/a", "operator": "remove"}]}]}),
            "OverridePolicy shop/o: fieldOverrider: /spec/replicas is not a string",
        ),
    ] {
        assert_eq!(run(deployment(), &[], &[op("o", rule(overriders))]).unwrap_err().to_string(), want);
    }
    for bad in [
        json!({"path": "/spec/nope", "operator": "replace", "value": 1}),
        json!({"path": "/spec/nope", "operator": "remove"}),
        json!({"path": "/spec/nope/deeper", "operator": "add", "value": 1}),
    ] {
        let error = run(deployment(), &[], &[op("o", rule(json!({"plaintext": [bad]})))]).unwrap_err();
        assert_eq!((error.policy.as_str(), error.overrider), ("OverridePolicy shop/o", "plaintext"));
    }
}

#[test]
fn nothing_to_change_is_a_warning() {
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "shop", "name": "c"}});
    let image = rule(json!({"imageOverrider": [{"component": "Tag", "operator": "remove"}]}));
    assert_eq!(
        run(cron, &[], &[op("o", image)]).unwrap().warnings,
        ["OverridePolicy shop/o: imageOverrider: no container to change; name the field by predicate.path"]
    );
    let args = rule(json!({"argsOverrider": [{"containerName": "nope", "operator": "add", "value": ["x"]}]}));
    assert_eq!(
        run(deployment(), &[], &[op("o", args)]).unwrap().warnings,
        ["OverridePolicy shop/o: argsOverrider: there is no container \"nope\""]
    );
}

#[test]
fn who_wins() {
    let select = |selector: Value, by: &str| {
        let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        merge(&mut full, &selector);
        let mut spec = rule(annotate(by));
        spec["resourceSelectors"] = json!([full]);
        spec
    };
    let by_name = op("a", select(json!({"name": "web"}), "name"));
    let by_label = op("b", select(json!({"labelSelector": {"matchLabels": {"app": "web"}}}), "label"));
    let all = op("c", rule(annotate("all")));
    let kind = op("d", select(json!({}), "kind"));
    let mut scaler = (*op("0", rule(annotate("scaler")))).clone();
    scaler.metadata.labels = Some([(labels::FEDERATED_HPA_MANAGED.to_owned(), "true".to_owned())].into());
    let scaler = Arc::new(scaler);
    let cluster_wide = cop("z", select(json!({"name": "web"}), "cluster"));
    for (name, cops, ops, want) in [
        ("by name after by label after all", vec![], vec![by_name.clone(), by_label.clone(), all.clone()], "name"),
        ("by label after all", vec![], vec![by_label.clone(), all.clone()], "label"),
        ("the later name among equals", vec![], vec![kind.clone(), all.clone()], "kind"),
        ("the namespace's after the cluster's", vec![cluster_wide.clone()], vec![all.clone()], "all"),
        ("the autoscaler's last of all", vec![], vec![scaler, by_name.clone()], "scaler"),
        ("the cluster's alone", vec![cluster_wide.clone()], vec![], "cluster"),
    ] {
        let got = run(deployment(), &cops, &ops).unwrap();
        assert_eq!(got.manifest.pointer("/metadata/annotations/by"), Some(&json!(want)), "{name}");
    }
}

#[test]
fn what_matches_a_level_is_settled_before_it_begins() {
    let relabel = rule(json!({"labelsOverrider": [{"operator": "add", "value": {"app": "changed"}}]}));
    let mut by_new_label = rule(annotate("late"));
    by_new_label["resourceSelectors"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "changed"}}}]);
    let got = run(deployment(), &[cop("a", relabel.clone()), cop("b", by_new_label.clone())], &[]).unwrap();
    assert_eq!(got.manifest.pointer("/metadata/annotations/by"), None, "not another of the same level");
    let got = run(deployment(), &[cop("a", relabel)], &[op("b", by_new_label)]).unwrap();
    assert_eq!(got.manifest.pointer("/metadata/annotations/by"), Some(&json!("late")), "but one of the next");
}

#[test]
fn where_rules_apply() {
    let target = |affinity: Value| json!({"overrideRules": [{"targetCluster": affinity, "overriders": annotate("x")}]});
    for (name, spec, want) in [
        ("no target: everywhere", rule(annotate("x")), true),
        ("named", target(json!({"clusterNames": ["m1"]})), true),
        ("another one named", target(json!({"clusterNames": ["m2"]})), false),
        ("excluded", target(json!({"exclude": ["m1"]})), false),
        ("the deprecated pair", json!({"targetCluster": {"clusterNames": ["m1"]}, "overriders": annotate("x")}), true),
        (
            "the deprecated pair elsewhere",
            json!({"targetCluster": {"clusterNames": ["m2"]}, "overriders": annotate("x")}),
            false,
        ),
        (
            "rules go before the deprecated pair",
            json!({"overriders": annotate("x"), "overrideRules": [{"overriders": {}}]}),
            false,
        ),
    ] {
        let got = run(deployment(), &[], &[op("o", spec)]).unwrap();
        assert_eq!(got.manifest.pointer("/metadata/annotations/by").is_some(), want, "{name}");
    }
    let mut elsewhere = (*op("o", rule(annotate("x")))).clone();
    elsewhere.metadata.namespace = Some("other".into());
    assert_eq!(run(deployment(), &[], &[Arc::new(elsewhere)]).unwrap().applied, None, "of another namespace");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
    let got = run(role, &[cop("c", rule(annotate("x")))], &[op("o", rule(annotate("y")))]).unwrap();
    assert_eq!(
        got.manifest.pointer("/metadata/annotations/by"),
        Some(&json!("x")),
        "cluster-scoped objects have no OverridePolicy"
    );
}

#[test]
fn what_is_recorded() {
    let two = json!({"overrideRules": [{"overriders": annotate("1")}, {"overriders": annotate("2")}]});
    let got =
        run(deployment(), &[cop("c", rule(annotate("0")))], &[op("b", rule(annotate("3"))), op("a", two)]).unwrap();
    let names = |record: &Option<String>| -> Vec<String> {
        let list: Vec<Value> = serde_json::from_str(record.as_ref().unwrap()).unwrap();
        list.iter().map(|item| item["policyName"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&got.applied), ["a", "a", "b"]);
    assert_eq!(
        got.applied_cluster.unwrap(),
        r#"[{"overriders":{"annotationsOverrider":[{"operator":"add","value":{"by":"0"}}]},"policyName":"c"}]"#
    );
    let none = run(deployment(), &[], &[]).unwrap();
    assert_eq!((none.applied, none.applied_cluster), (None, None));
}
