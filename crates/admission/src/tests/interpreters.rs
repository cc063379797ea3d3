//! Interpreter webhooks and customizations (specification/admission.md 5.6).

use ironclad_interpreter::{Operation, ScriptError};
use serde_json::{Value, json};

use super::{Write, with};
use crate::{needs, table::Phase};

const GROUP: &str = "config.karmada.io";

#[test]
fn interpreter_webhook_rules() {
    let configuration = |fields: Value| {
        let webhook = json!({
            "name": "a.example.com", "clientConfig": {"url": "https://example.com/x"}, "timeoutSeconds": 5,
            "rules": [{"operations": ["InterpretReplica"], "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["Pod"]}],
            "interpreterContextVersions": ["v1alpha1"],
        });
        json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "c"}, "webhooks": [with(&webhook, &fields)],
        })
    };
    let rule = |fields: Value| {
        let base = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]});
        json!({"rules": [with(&base, &fields)]})
    };
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    let service = |fields: Value| json!({"clientConfig": {"url": null, "service": with(&json!({"namespace": "n", "name": "s"}), &fields)}});
    let at = "webhooks[0]";
    for (name, fields, want) in [
        ("a plain one", json!({}), String::new()),
        ("no name", json!({"name": ""}), format!("{at}.name: Required value")),
        (
            "one word",
            json!({"name": "a"}),
            format!(
                r#"{at}.name: Invalid value: "a": should be a domain with at least two segments separated by dots"#
            ),
        ),
        ("a dot at the end", json!({"name": "a.b."}), String::new()),
        ("everything", rule(json!({})), String::new()),
        ("no operation", rule(json!({"operations": []})), format!("{at}.rules[0].operations: Required value")),
        (
            "all and one",
            rule(json!({"operations": ["*", "Retain"]})),
            format!(
                r#"{at}.rules[0].operations: Invalid value: ["*","Retain"]: if '*' is present, must not specify other operations"#
            ),
        ),
        (
            "an unknown operation",
            rule(json!({"operations": ["Guess"]})),
            format!(
                r#"{at}.rules[0].operations[0]: Unsupported value: "Guess": supported values: "*", "AggregateStatus", "InterpretComponent", "InterpretDependency", "InterpretHealth", "InterpretReplica", "InterpretStatus", "Retain", "ReviseReplica""#
            ),
        ),
        ("no group", rule(json!({"apiGroups": []})), format!("{at}.rules[0].apiGroups: Required value")),
        (
            "all groups and one",
            rule(json!({"apiGroups": ["*", "apps"]})),
            format!(
                r#"{at}.rules[0].apiGroups: Invalid value: ["*","apps"]: if '*' is present, must not specify others"#
            ),
        ),
        ("the core group", rule(json!({"apiGroups": [""]})), String::new()),
        ("no version", rule(json!({"apiVersions": []})), format!("{at}.rules[0].apiVersions: Required value")),
        (
            "an empty version",
            rule(json!({"apiVersions": [""]})),
            format!("{at}.rules[0].apiVersions[0]: Required value"),
        ),
        (
            "all versions and one",
            rule(json!({"apiVersions": ["v1", "*"]})),
            format!(
                r#"{at}.rules[0].apiVersions: Invalid value: ["v1","*"]: if '*' is present, must not specify others"#
            ),
        ),
        ("no kind", rule(json!({"kinds": []})), format!("{at}.rules[0].kinds: Required value")),
        (
            "all kinds and one",
            rule(json!({"kinds": ["*", "Pod"]})),
            format!(r#"{at}.rules[0].kinds: Invalid value: ["*","Pod"]: if '*' is present, must not specify others"#),
        ),
        ("an empty kind", rule(json!({"kinds": ["Pod", ""]})), format!("{at}.rules[0].kinds[1]: Required value")),
        (
            "no time",
            json!({"timeoutSeconds": 0}),
            format!("{at}.timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"),
        ),
        ("half a minute", json!({"timeoutSeconds": 30}), String::new()),
        (
            "too long",
            json!({"timeoutSeconds": 31}),
            format!("{at}.timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
        ),
        (
            "nowhere",
            json!({"clientConfig": {"url": null}}),
            format!("{at}.clientConfig: Required value: exactly one of url or service is required"),
        ),
        (
            "two places",
            json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}}),
            format!("{at}.clientConfig: Required value: exactly one of url or service is required"),
        ),
        (
            "in the clear",
            url("http://a"),
            format!(
                r#"{at}.clientConfig.url: Invalid value: "http://a": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#
            ),
        ),
        (
            "no host",
            url("https:///x"),
            format!(
                r#"{at}.clientConfig.url: Invalid value: "https:///x": host must be specified; desired format: https://host[/path]"#
            ),
        ),
        (
            "a user",
            url("https://u@a"),
            format!(
                r#"{at}.clientConfig.url: Invalid value: "https://u@a": user information is not permitted in the URL"#
            ),
        ),
        (
            "a fragment",
            url("https://a#b"),
            format!(r#"{at}.clientConfig.url: Invalid value: "https://a#b": fragments are not permitted in the URL"#),
        ),
        (
            "a query",
            url("https://a?b"),
            format!(
                r#"{at}.clientConfig.url: Invalid value: "https://a?b": query parameters are not permitted in the URL"#
            ),
        ),
        ("a service, without port", service(json!({})), String::new()),
        (
            "a service without name",
            service(json!({"name": ""})),
            format!("{at}.clientConfig.service.name: Required value: service name is required"),
        ),
        (
            "a service without namespace",
            service(json!({"namespace": ""})),
            format!("{at}.clientConfig.service.namespace: Required value: service namespace is required"),
        ),
        (
            "port zero",
            service(json!({"port": 0})),
            format!("{at}.clientConfig.service.port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ),
        ("a path", service(json!({"path": "/a/b/"})), String::new()),
        (
            "a relative path",
            service(json!({"path": "a"})),
            format!(r#"{at}.clientConfig.service.path: Invalid value: "a": must start with a '/'"#),
        ),
        (
            "an empty step",
            service(json!({"path": "/a//b"})),
            format!(r#"{at}.clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty"#),
        ),
        (
            "the first port that is none",
            service(json!({"port": 65_536})),
            format!("{at}.clientConfig.service.port: Invalid value: 65536: must be between 1 and 65535, inclusive"),
        ),
        (
            "a step of no name",
            service(json!({"path": "/a/B"})),
            format!(
                "{at}.clientConfig.service.path: Invalid value: \"/a/B\": segment[1]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
        ),
        (
            "no payload",
            json!({"interpreterContextVersions": []}),
            format!("{at}.interpreterContextVersions: Required value: must specify one of v1alpha1"),
        ),
        (
            "a payload twice",
            json!({"interpreterContextVersions": ["v1alpha1", "v1alpha1"]}),
            format!(r#"{at}.interpreterContextVersions[1]: Invalid value: "v1alpha1": duplicate version"#),
        ),
        (
            "a payload of no name",
            json!({"interpreterContextVersions": ["v1alpha1", "1"]}),
            format!(
                "{at}.interpreterContextVersions[1]: Invalid value: \"1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ),
        ),
        (
            "an unknown payload version",
            json!({"interpreterContextVersions": ["v2"]}),
            format!(r#"{at}.interpreterContextVersions: Invalid value: ["v2"]: must include at least one of v1alpha1"#),
        ),
    ] {
        let write = Write::create(GROUP, "resourceinterpreterwebhookconfigurations", configuration(fields));
        assert_eq!(write.refusal(), want, "{name}");
    }
    let mut twice = configuration(json!({}));
    let again = twice["webhooks"][0].clone();
    twice["webhooks"].as_array_mut().unwrap().push(again);
    let write = Write::create(GROUP, "resourceinterpreterwebhookconfigurations", twice);
    assert_eq!(write.refusal(), r#"webhooks[1].name: Duplicate value: "a.example.com""#);
}

fn customization(name: &str, scripts: Value) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": name},
        "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": scripts},
    })
}

fn script(text: &str) -> Value {
    json!({ "luaScript": text })
}

/// Stand-in for the script engine, which the core lacks: it only requires the function's name in the text.
fn wants_name(operation: Operation, text: &str) -> Result<(), ScriptError> {
    let message = format!("it does not define the function {}", operation.function());
    if text.contains(operation.function()) { Ok(()) } else { Err(ScriptError { operation, line: None, message }) }
}

fn reviewed(object: Value, old: Option<Value>, others: &[Value]) -> Write {
    let mut write = match old {
        Some(old) => Write::update(GROUP, "resourceinterpretercustomizations", old, object),
        None => Write::create(GROUP, "resourceinterpretercustomizations", object),
    };
    write.config.check_script = Some(std::sync::Arc::new(wants_name));
    for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
        write.lookups.found.insert(need, others.to_vec());
    }
    write
}

#[test]
fn customization_rules() {
    let replicas = || json!({"replicaResource": script("function GetReplicas(o) end")});
    let dependencies = || json!({"dependencyInterpretation": script("function GetDependencies(o) end")});
    let health = || json!({"healthInterpretation": script("function InterpretHealth(o) end")});
    let elsewhere = with(&customization("b", replicas()), &json!({"spec": {"target": {"kind": "StatefulSet"}}}));
    let conflict = "conflicting with ResourceInterpreterCustomization(b): both have a script of InterpretReplica for apps/v1 Deployment; remove one";
    let wrong = r#"spec.customizations.replicaResource.luaScript: Invalid value: "function Replicas(o) end": script InterpretReplica: it does not define the function GetReplicas"#;
    for (name, object, others, want) in [
        ("alone", customization("a", replicas()), vec![], ""),
        ("itself", customization("a", replicas()), vec![customization("a", replicas())], ""),
        ("another with the same", customization("a", replicas()), vec![customization("b", replicas())], conflict),
        ("another with something else", customization("a", replicas()), vec![customization("b", health())], ""),
        ("another of another kind", customization("a", replicas()), vec![elsewhere], ""),
        ("dependencies are merged", customization("a", dependencies()), vec![customization("b", dependencies())], ""),
        (
            "another with an empty script",
            customization("a", replicas()),
            vec![customization("b", json!({"replicaResource": script("")}))],
            "",
        ),
        (
            "a function of another name",
            customization("a", json!({"replicaResource": script("function Replicas(o) end")})),
            vec![],
            wrong,
        ),
        (
            "no kind",
            with(&customization("a", replicas()), &json!({"spec": {"target": {"kind": ""}}})),
            vec![],
            "spec.target.kind: Required value",
        ),
        (
            "no version",
            with(&customization("a", replicas()), &json!({"spec": {"target": {"apiVersion": ""}}})),
            vec![],
            "spec.target.apiVersion: Required value",
        ),
        (
            "all kinds",
            with(&customization("a", replicas()), &json!({"spec": {"target": {"kind": "*"}}})),
            vec![],
            r#"spec.target.kind: Invalid value: "*": must name one kind: patterns are not possible"#,
        ),
    ] {
        assert_eq!(reviewed(object, None, &others).refusal(), want, "{name}");
    }
    let idle = reviewed(customization("a", json!({})), None, &[]).validated();
    assert_eq!(idle.warnings, ["spec.customizations has no script: the customization has no effect"]);
    let row = |text: &str| {
        let annotations = json!({"metadata": {"annotations": {"interpreter.ironclad.io/autoscaler": text}}});
        with(&customization("a", json!({})), &annotations)
    };
    let good = r#"{"scaleTargetRef": "/spec/target", "maxReplicas": "/spec/most"}"#;
    assert_eq!(reviewed(row(good), None, &[]).validated(), crate::Verdict::default(), "a row needs no script");
    for old in [None, Some(row(good))] {
        let refusal = reviewed(row(r#"{"scaleTargetRef": "/spec/target"}"#), old, &[]).refusal();
        let want = "metadata.annotations[interpreter.ironclad.io/autoscaler]: Invalid value: ";
        assert!(refusal.starts_with(want) && refusal.contains("give maxReplicas or totals"), "{refusal}");
    }
    let bad = customization("a", json!({"replicaResource": script("x")}));
    let labelled = with(&bad, &json!({"metadata": {"labels": {"a": "b"}}}));
    let write = reviewed(labelled, Some(bad.clone()), &[customization("b", replicas())]);
    assert_eq!(write.validated(), crate::Verdict::default(), "its metadata can always be changed");
    let mut blind = reviewed(customization("a", replicas()), None, &[]);
    blind.lookups.found.clear();
    assert_eq!(blind.validated().denial.map(|d| d.code), Some(500), "others that can't be listed");
}
