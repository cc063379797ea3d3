mod identity;

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
fn overriders_apply_in_fixed_order() {
    // Labels are applied after images and before plaintext, in whatever order they were written.
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
fn override_errors_name_policy_and_field() {
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
        json!({"path": "/spec/template/spec/containers/1", "operator": "replace", "value": {}}),
        json!({"path": "/spec/template/spec/containers/-1", "operator": "remove"}),
        json!({"path": "/spec/template/spec/containers/2", "operator": "add", "value": {}}),
        json!({"path": "/spec/template/spec/containers/01", "operator": "add", "value": {}}),
        json!({"path": "spec/paused", "operator": "add", "value": true}),
    ] {
        let error = run(deployment(), &[], &[op("o", rule(json!({"plaintext": [bad]})))]).unwrap_err();
        assert_eq!((error.policy.as_str(), error.overrider), ("OverridePolicy shop/o", "plaintext"));
    }
}

#[test]
fn override_without_effect_is_a_warning() {
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
fn later_policy_overrides_earlier() {
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
fn matches_of_a_level_are_computed_first() {
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
fn rules_apply_to_matching_clusters() {
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
fn applied_overrides_are_recorded() {
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

/// A workload of this kind with one container, if the kind has containers.
fn workload(api_version: &str, kind: &str) -> Value {
    let pod = json!({"containers": [{"name": "c", "image": "web:1", "command": ["run"], "args": ["-v"]}]});
    let spec = match kind {
        "Pod" => pod,
        "CronJob" => json!({"jobTemplate": {"spec": {"template": {"spec": pod}}}}),
        _ => json!({"template": {"spec": pod}}),
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "shop", "name": "w"}, "spec": spec})
}

#[test]
fn containers_of_six_kinds_are_overridden() {
    let rule = rule(json!({
        "imageOverrider": [{"component": "Tag", "operator": "replace", "value": "2"}],
        "commandOverrider": [{"containerName": "c", "operator": "add", "value": ["it"]}],
        "argsOverrider": [{"containerName": "c", "operator": "remove", "value": ["-v"]}],
    }));
    for (api_version, kind, containers) in [
        ("v1", "Pod", Some("/spec/containers/0")),
        ("apps/v1", "ReplicaSet", Some("/spec/template/spec/containers/0")),
        ("apps/v1", "Deployment", Some("/spec/template/spec/containers/0")),
        ("apps/v1", "DaemonSet", Some("/spec/template/spec/containers/0")),
        ("apps/v1", "StatefulSet", Some("/spec/template/spec/containers/0")),
        ("batch/v1", "Job", Some("/spec/template/spec/containers/0")),
        // Matched by kind alone, as upstream: a StatefulSet of another project is changed as well.
        ("apps.kruise.io/v1beta1", "StatefulSet", Some("/spec/template/spec/containers/0")),
        ("batch/v1", "CronJob", None),
        ("apps.kruise.io/v1alpha1", "CloneSet", None),
        ("v1", "ReplicationController", None),
        ("v1", "ConfigMap", None),
    ] {
        let before = workload(api_version, kind);
        let got = run(before.clone(), &[], &[op("o", rule.clone())]).unwrap();
        match containers {
            Some(pointer) => {
                let want = json!({"name": "c", "image": "web:2", "command": ["run", "it"], "args": []});
                assert_eq!(got.manifest.pointer(pointer), Some(&want), "{kind}");
                assert_eq!(got.warnings.len(), 0, "{kind}");
            }
            None => {
                assert_eq!(got.manifest, before, "{kind}");
                assert_eq!(got.warnings.len(), 3, "{kind}: each of the three is reported");
            }
        }
    }
    let by_path = json!({"imageOverrider": [{"predicate": {"path": "/spec/jobTemplate/spec/template/spec/containers/0/image"}, "component": "Tag", "operator": "replace", "value": "2"}]});
    let got = run(workload("batch/v1", "CronJob"), &[], &[op("o", super::tests::rule(by_path))]).unwrap();
    let image = "/spec/jobTemplate/spec/template/spec/containers/0/image";
    assert_eq!(got.manifest.pointer(image), Some(&json!("web:2")), "a CronJob by its path");
}

#[test]
fn image_overrides_of_the_specification() {
    let mut manifest = workload("v1", "Pod");
    manifest["spec"]["containers"][0]["image"] = json!("registry.k8s.io/pause:3.9");
    let steps = json!([
        {"component": "Registry", "operator": "replace", "value": "harbor.local"},
        {"component": "Repository", "operator": "add", "value": "-arm"},
        {"component": "Tag", "operator": "remove"},
    ]);
    for (so_many, want) in
        [(1, "harbor.local/pause:3.9"), (2, "harbor.local/pause-arm:3.9"), (3, "harbor.local/pause-arm")]
    {
        let list: Vec<Value> = steps.as_array().unwrap()[..so_many].to_vec();
        let got = run(manifest.clone(), &[], &[op("o", rule(json!({"imageOverrider": list})))]).unwrap();
        assert_eq!(
            got.manifest.pointer("/spec/containers/0/image"),
            Some(&json!(want)),
            "in order, each on what is there"
        );
    }
}

#[test]
fn label_and_annotation_overrides() {
    for (field, map) in [("labelsOverrider", "labels"), ("annotationsOverrider", "annotations")] {
        for (name, before, operator, want) in [
            ("add makes the map", json!(null), "add", json!({"k": "v"})),
            ("add to an empty one", json!({}), "add", json!({"k": "v"})),
            ("add overwrites", json!({"k": "old", "x": "y"}), "add", json!({"k": "v", "x": "y"})),
            ("replace", json!({"k": "old"}), "replace", json!({"k": "v"})),
            ("replace of what is not there", json!({"x": "y"}), "replace", json!({"x": "y"})),
            ("replace without a map", json!(null), "replace", json!(null)),
            ("remove, whatever its value", json!({"k": "old", "x": "y"}), "remove", json!({"x": "y"})),
            ("remove of what is not there", json!({"x": "y"}), "remove", json!({"x": "y"})),
            ("remove without a map", json!(null), "remove", json!(null)),
        ] {
            let mut manifest = workload("v1", "ConfigMap");
            if !before.is_null() {
                manifest["metadata"][map] = before;
            }
            let overrider = json!({field: [{"operator": operator, "value": {"k": "v"}}]});
            let got = run(manifest, &[], &[op("o", rule(overrider))]).unwrap();
            let after = got.manifest["metadata"].get(map).cloned().unwrap_or_default();
            assert_eq!(after, want, "{map}: {name}");
        }
    }
    let mut template = workload("apps/v1", "Deployment");
    template["spec"]["template"]["metadata"] = json!({"labels": {"k": "old"}});
    let overrider = json!({"labelsOverrider": [{"operator": "add", "value": {"k": "v"}}]});
    let got = run(template, &[], &[op("o", rule(overrider))]).unwrap();
    assert_eq!(got.manifest.pointer("/spec/template/metadata/labels/k"), Some(&json!("old")), "the object's own alone");
}

#[test]
fn document_overrides() {
    let conf = |data: Value| {
        let mut manifest = workload("v1", "ConfigMap");
        manifest["data"] = data;
        manifest
    };
    let patch =
        |language: &str, patches: Value| json!({"fieldOverrider": [{"fieldPath": "/data/f", language: patches}]});
    for (name, before, overrider, want) in [
        (
            "JSON add",
            r#"{"a":{}}"#,
            patch("json", json!([{"subPath": "/a/b", "operator": "add", "value": [1]}])),
            r#"{"a":{"b":[1]}}"#,
        ),
        (
            "JSON add over what is there",
            r#"{"a":1}"#,
            patch("json", json!([{"subPath": "/a", "operator": "add", "value": 2}])),
            r#"{"a":2}"#,
        ),
        ("JSON append", r#"[1]"#, patch("json", json!([{"subPath": "/-", "operator": "add", "value": 2}])), "[1,2]"),
        (
            "JSON remove",
            r#"{"a":1,"b":2}"#,
            patch("json", json!([{"subPath": "/a", "operator": "remove"}])),
            r#"{"b":2}"#,
        ),
        (
            "several, in order",
            r#"{"a":1}"#,
            patch(
                "json",
                json!([{"subPath": "/b", "operator": "add", "value": 1}, {"subPath": "/b", "operator": "replace", "value": 2}]),
            ),
            r#"{"a":1,"b":2}"#,
        ),
        (
            "YAML add",
            "a: {}\n",
            patch("yaml", json!([{"subPath": "/a/b", "operator": "add", "value": 1}])),
            "a:\n  b: 1\n",
        ),
        (
            "YAML remove",
            "# why\na: 1\nb: 2\n",
            patch("yaml", json!([{"subPath": "/a", "operator": "remove"}])),
            "b: 2\n",
        ),
        (
            "YAML of a list",
            "- a\n- b\n",
            patch("yaml", json!([{"subPath": "/0", "operator": "replace", "value": "c"}])),
            "- c\n- b\n",
        ),
    ] {
        let got = run(conf(json!({"f": before})), &[], &[op("o", rule(overrider))]).unwrap();
        assert_eq!(got.manifest.pointer("/data/f"), Some(&json!(want)), "{name}");
    }
    for (name, before, overrider) in [
        ("no JSON", json!("{a"), patch("json", json!([{"subPath": "/a", "operator": "remove"}]))),
        ("no YAML", json!("a: ["), patch("yaml", json!([{"subPath": "/a", "operator": "remove"}]))),
        (
            "no such place in it",
            json!("{}"),
            patch("json", json!([{"subPath": "/a", "operator": "replace", "value": 1}])),
        ),
        ("not a string", json!({"a": 1}), patch("json", json!([{"subPath": "/a", "operator": "remove"}]))),
        (
            "too long",
            json!("x".repeat(1024 * 1024 + 1)),
            patch("json", json!([{"subPath": "/a", "operator": "remove"}])),
        ),
    ] {
        let error = run(conf(json!({"f": before})), &[], &[op("o", rule(overrider))]).unwrap_err();
        assert_eq!(error.overrider, "fieldOverrider", "{name}: {error}");
    }
}

#[test]
fn plaintext_is_one_patch_all_or_nothing() {
    let items = |list: Value| rule(json!({"plaintext": list}));
    let manifest = workload("v1", "ConfigMap");
    let both = items(json!([
        {"path": "/data", "operator": "add", "value": {"a": "1"}},
        {"path": "/data/b", "operator": "add", "value": "2"},
        {"path": "/data/a", "operator": "remove"},
    ]));
    let got = run(manifest.clone(), &[], &[op("o", both)]).unwrap();
    assert_eq!(got.manifest["data"], json!({"b": "2"}), "each sees what the one before made");
    let half = items(json!([
        {"path": "/data", "operator": "add", "value": {}},
        {"path": "/data/none", "operator": "remove"},
    ]));
    assert!(run(manifest, &[], &[op("o", half)]).is_err());
}

#[test]
fn rules_apply_in_order_and_deletion_excludes_no_policy() {
    let rules = json!({"overrideRules": [
        {"overriders": annotate("first")},
        {"targetCluster": {"clusterNames": ["m2"]}, "overriders": annotate("elsewhere")},
        {"targetCluster": {"labelSelector": {"matchLabels": {"zone": "a"}}}, "overriders": annotate("by label")},
        {"targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "Exists"}]}}, "overriders": annotate("by field")},
        {"targetCluster": {"clusterNames": ["m1"]}, "overriders": annotate("last")},
    ]});
    let by = |got: &Overridden| got.manifest.pointer("/metadata/annotations/by").cloned().unwrap();
    let got = run(deployment(), &[], &[op("o", rules)]).unwrap();
    assert_eq!(by(&got), "last");
    let recorded: Vec<Value> = serde_json::from_str(&got.applied.unwrap()).unwrap();
    assert_eq!(recorded.len(), 2, "the first and the last: {recorded:?}");

    let mut going = (*op("o", rule(annotate("going")))).clone();
    going.metadata.deletion_timestamp = Some(ironclad_api::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(by(&run(deployment(), &[], &[Arc::new(going)]).unwrap()), "going");
}

#[test]
fn best_selector_decides_the_order_of_policies() {
    let select = |selectors: Value, by: &str| {
        let mut spec = rule(annotate(by));
        spec["resourceSelectors"] = selectors;
        spec
    };
    let kind = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let with = |more: Value| {
        let mut full = kind.clone();
        merge(&mut full, &more);
        full
    };
    for (name, a, z, want) in [
        (
            "an empty label selector is one by label",
            select(json!([with(json!({"labelSelector": {}}))]), "a"),
            select(json!([kind]), "z"),
            "a",
        ),
        (
            "the best of several selectors counts",
            select(json!([kind, with(json!({"name": "web"}))]), "a"),
            select(json!([with(json!({"labelSelector": {}}))]), "z"),
            "a",
        ),
        (
            "a name that differs is no match, whatever the labels",
            select(json!([with(json!({"name": "other", "labelSelector": {}}))]), "a"),
            select(json!([kind]), "z"),
            "z",
        ),
        ("of equals the later name", select(json!([kind]), "a"), select(json!([kind]), "z"), "z"),
    ] {
        let got = run(deployment(), &[], &[op("a", a), op("z", z)]).unwrap();
        assert_eq!(got.manifest.pointer("/metadata/annotations/by"), Some(&json!(want)), "{name}");
    }
}
