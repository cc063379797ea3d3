//! OverridePolicy and ClusterOverridePolicy (specification/admission.md 2.6, 2.7).

use serde_json::{Value, json};

use super::{Write, with_spec};

const GROUP: &str = "policy.karmada.io";

fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"namespace": "shop", "name": "o"}, "spec": {},
    })
}

#[test]
fn selectors_get_the_namespace() {
    let spec = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}, {"apiVersion": "v1", "kind": "Secret", "namespace": "x"}]});
    let write = Write::create(GROUP, "overridepolicies", with_spec(&policy(), &spec));
    let made = write.mutated();
    assert_eq!(made["spec"]["resourceSelectors"][0]["namespace"], "shop");
    assert_eq!(made["spec"]["resourceSelectors"][1]["namespace"], "x");
    assert_eq!(made["spec"].get("overriders"), None, "nothing else is written into it");
    let cluster = Write::create(GROUP, "clusteroverridepolicies", with_spec(&policy(), &spec));
    assert_eq!(Some(&cluster.mutated()), cluster.object.as_ref(), "a cluster policy has no mutating webhook");
}

#[test]
fn override_policy_rules() {
    let rule = |overriders: Value| json!({"overrideRules": [{"overriders": overriders}]});
    let pointer = |path: &str, text: &str| {
        format!(
            "{path}: Invalid value: {text:?}: JSON pointer must be empty or start with a \"/\": write /{}",
            text.replace('.', "/")
        )
    };
    let at = "spec.overrideRules[0].overriders";
    let identity = |field: &str, path: &str| {
        format!(
            "{at}.{field}: Invalid value: {path:?}: name, namespace, kind and apiVersion of a copy can't be overridden: \
             name a field below /metadata/labels, /metadata/annotations or outside of metadata"
        )
    };
    let add = |value: Value| json!([{"subPath": "/a", "operator": "add", "value": value}]);
    for (name, spec, want) in [
        ("nothing", json!({}), String::new()),
        (
            "both forms of target",
            json!({"overrideRules": [{"overriders": {}}], "targetCluster": {"clusterNames": ["m1"]}}),
            r#"spec.targetCluster: Invalid value: {"clusterNames":["m1"]}: overrideRules and targetCluster can't co-exist: put it into a rule"#.into(),
        ),
        (
            "both forms of change",
            json!({"overrideRules": [{"overriders": {}}], "overriders": {"argsOverrider": [{"containerName": "c", "operator": "add", "value": ["-v"]}]}}),
            r#"spec.overriders: Invalid value: {"argsOverrider":[{"containerName":"c","operator":"add","value":["-v"]}]}: overrideRules and overriders can't co-exist: put them into a rule"#.into(),
        ),
        (
            "also if the deprecated one has only fields",
            json!({"overrideRules": [{"overriders": {}}], "overriders": {"fieldOverrider": [{"fieldPath": "/data/a", "json": add(json!(1))}]}}),
            r#"spec.overriders: Invalid value: {"fieldOverrider":[{"fieldPath":"/data/a","json":[{"operator":"add","subPath":"/a","value":1}]}]}: overrideRules and overriders can't co-exist: put them into a rule"#.into(),
        ),
        ("the deprecated form alone", json!({"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [{"path": "/spec/a", "operator": "remove"}]}}), String::new()),
        (
            "the deprecated form is validated as well",
            json!({"overriders": {"plaintext": [{"path": "spec.a", "operator": "remove"}]}}),
            pointer("spec.overriders.plaintext[0].path", "spec.a"),
        ),
        (
            "a field selector of the deprecated target",
            json!({"targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "x", "operator": "In"}]}}}),
            r#"spec.targetCluster.fieldSelector: Invalid value: {"matchExpressions":[{"key":"x","operator":"In"}]}: unsupported key "x", must be provider, region, or zone"#.into(),
        ),
        (
            "a field selector of a rule",
            json!({"overrideRules": [{"targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "Gt"}]}}, "overriders": {}}]}),
            r#"spec.overrideRules[0].targetCluster.fieldSelector: Invalid value: {"matchExpressions":[{"key":"zone","operator":"Gt"}]}: unsupported operator "Gt", must be In or NotIn"#.into(),
        ),
        (
            "an annotation of no name",
            rule(json!({"annotationsOverrider": [{"operator": "add", "value": {"/a": "b"}}]})),
            format!(r#"{at}.annotationsOverrider[0].value: Invalid value: "/a": prefix part must be non-empty"#),
        ),
        ("annotations may be written in capitals", rule(json!({"annotationsOverrider": [{"operator": "add", "value": {"Example.com/A": "b c"}}]})), String::new()),
        (
            "too much annotation",
            rule(json!({"annotationsOverrider": [{"operator": "add", "value": {"a": "b".repeat(256 * 1024)}}]})),
            format!("{at}.annotationsOverrider[0].value: Invalid value: 262145: may not be more than 262144 bytes together"),
        ),
        ("just not too much", rule(json!({"annotationsOverrider": [{"operator": "add", "value": {"a": "b".repeat(256 * 1024 - 1)}}]})), String::new()),
        (
            "a label of no name",
            rule(json!({"labelsOverrider": [{"operator": "add", "value": {"/a": "b"}}]})),
            format!(r#"{at}.labelsOverrider[0].value: Invalid value: "/a": prefix part must be non-empty"#),
        ),
        (
            "a label of no value",
            rule(json!({"labelsOverrider": [{"operator": "add", "value": {"a": "b c"}}]})),
            format!("{at}.labelsOverrider[0].value: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"),
        ),
        (
            "the path of an image",
            rule(json!({"imageOverrider": [{"predicate": {"path": "spec"}, "component": "Tag", "operator": "replace", "value": "1"}]})),
            pointer(&format!("{at}.imageOverrider[0].predicate.path"), "spec"),
        ),
        (
            "a document in two formats",
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/a", "json": add(json!(1)), "yaml": add(json!(1))}]})),
            format!(r#"{at}.fieldOverrider[0]: Invalid value: {{"fieldPath":"/data/a","json":[{{"operator":"add","subPath":"/a","value":1}}],"yaml":[{{"operator":"add","subPath":"/a","value":1}}]}}: FieldOverrider has both YAML and JSON set. Only one is allowed"#),
        ),
        (
            "a document in none",
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/a"}]})),
            format!("{at}.fieldOverrider[0]: Required value: one of json and yaml must be set"),
        ),
        (
            "the path of a document",
            rule(json!({"fieldOverrider": [{"fieldPath": "data", "json": add(json!(1))}]})),
            pointer(&format!("{at}.fieldOverrider[0].fieldPath"), "data"),
        ),
        (
            "the path in a JSON document",
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/a", "json": [{"subPath": "a.b", "operator": "remove"}]}]})),
            pointer(&format!("{at}.fieldOverrider[0].json[0].subPath"), "a.b"),
        ),
        (
            "the path in a YAML document",
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/a", "yaml": [{"subPath": "a", "operator": "remove"}]}]})),
            pointer(&format!("{at}.fieldOverrider[0].yaml[0].subPath"), "a"),
        ),
        (
            "nothing to put there",
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/a", "json": [{"subPath": "/a", "operator": "replace"}]}]})),
            format!("{at}.fieldOverrider[0].json[0].value: Invalid value: null: value is required for add or replace operation"),
        ),
        ("a null to put there", rule(json!({"fieldOverrider": [{"fieldPath": "/data/a", "json": [{"subPath": "/a", "operator": "replace", "value": null}]}]})), String::new()),
        (
            "something to remove there",
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/a", "yaml": [{"subPath": "/a", "operator": "remove", "value": 1}]}]})),
            format!("{at}.fieldOverrider[0].yaml[0].value: Invalid value: 1: value is not allowed for remove operation"),
        ),
        (
            "a plain patch without value",
            rule(json!({"plaintext": [{"path": "/spec/a", "operator": "add"}]})),
            format!("{at}.plaintext[0].value: Invalid value: null: value is required for add or replace operation"),
        ),
        (
            "a plain removal with value",
            rule(json!({"plaintext": [{"path": "/spec/a", "operator": "remove", "value": 1}]})),
            format!("{at}.plaintext[0].value: Invalid value: 1: value is not allowed for remove operation"),
        ),
        (
            "another name for the copy",
            rule(json!({"plaintext": [{"path": "/metadata/name", "operator": "replace", "value": "x"}]})),
            identity("plaintext[0].path", "/metadata/name"),
        ),
        (
            "another kind",
            rule(json!({"plaintext": [{"path": "/kind", "operator": "replace", "value": "x"}]})),
            identity("plaintext[0].path", "/kind"),
        ),
        (
            "the whole copy",
            rule(json!({"plaintext": [{"path": "", "operator": "replace", "value": {"kind": "ClusterRoleBinding"}}]})),
            identity("plaintext[0].path", ""),
        ),
        (
            "all metadata",
            rule(json!({"plaintext": [{"path": "/metadata", "operator": "replace", "value": {"name": "c"}}]})),
            identity("plaintext[0].path", "/metadata"),
        ),
        (
            "a namespace as an image",
            rule(json!({"imageOverrider": [{"predicate": {"path": "/metadata/namespace"}, "component": "Repository", "operator": "replace", "value": "x"}]})),
            identity("imageOverrider[0].predicate.path", "/metadata/namespace"),
        ),
        (
            "a kind as a document",
            rule(json!({"fieldOverrider": [{"fieldPath": "/kind", "json": [{"subPath": "", "operator": "replace", "value": "x"}]}]})),
            identity("fieldOverrider[0].fieldPath", "/kind"),
        ),
        ("what only begins like it", rule(json!({"plaintext": [{"path": "/metadata/namespaceHint", "operator": "replace", "value": "x"}]})), String::new()),
    ] {
        let mut object = policy();
        object["spec"] = spec;
        assert_eq!(Write::create(GROUP, "overridepolicies", object.clone()).refusal(), want, "{name}");
        assert_eq!(Write::create(GROUP, "clusteroverridepolicies", object).refusal(), want, "{name}, of a cluster policy");
    }
    let other = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]});
    let other = with_spec(&policy(), &other);
    assert_eq!(
        Write::create(GROUP, "overridepolicies", other.clone()).refusal(),
        r#"spec.resourceSelectors[0].namespace: Invalid value: "other": must be the policy's own namespace "shop"; a cluster policy reaches others"#
    );
    assert_eq!(Write::create(GROUP, "clusteroverridepolicies", other).refusal(), "", "a cluster policy reaches all");
    let labels = rule(json!({"plaintext": [{"path": "/metadata/labels", "operator": "replace", "value": {}}]}));
    let verdict = Write::create(GROUP, "overridepolicies", with_spec(&policy(), &labels)).validated();
    assert_eq!(
        verdict.warnings,
        [format!(
            "{at}.plaintext[0] replaces the whole map: what other override policies set there is lost; set the keys one by one"
        )]
    );
}
