//! FederatedHPA, CronFederatedHPA and distributed HorizontalPodAutoscalers (specification/admission.md 4).

use ironclad_fleet::gates::{Gate, Gates};
use serde_json::{Value, json};

use super::{Write, with, with_spec};
use crate::{needs, table::Phase};

const GROUP: &str = "autoscaling.karmada.io";

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "metadata": {"namespace": "shop", "name": "a"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3},
    })
}

#[test]
fn what_is_filled_in() {
    let made =
        |spec: Value| Write::create(GROUP, "federatedhpas", with_spec(&autoscaler(), &spec)).mutated()["spec"].clone();
    let cpu = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    for (name, spec, pointer, want) in [
        ("one replica at least", json!({"minReplicas": null}), "/minReplicas", json!(1)),
        ("a set minimum is kept", json!({"minReplicas": 2}), "/minReplicas", json!(2)),
        ("cpu", json!({}), "/metrics", cpu.clone()),
        ("cpu for an empty list", json!({"metrics": []}), "/metrics", cpu),
        ("no behavior is added", json!({}), "/behavior", Value::Null),
        (
            "up",
            json!({"behavior": {}}),
            "/behavior/scaleUp",
            json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]}),
        ),
        (
            "down, without a window",
            json!({"behavior": {}}),
            "/behavior/scaleDown",
            json!({"selectPolicy": "Max", "policies": [percent]}),
        ),
        (
            "what is given wins",
            json!({"behavior": {"scaleDown": {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]}}}),
            "/behavior/scaleDown",
            json!({"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]}),
        ),
    ] {
        assert_eq!(made(spec).pointer(pointer).cloned().unwrap_or_default(), want, "{name}");
    }
}

#[test]
fn federated_hpa_rules() {
    let metric = |metric: Value| json!({"metrics": [metric]});
    let resource = |target: Value| metric(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    let rules = |rules: Value| {
        let base = json!({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}]});
        json!({"behavior": {"scaleUp": with(&base, &rules)}})
    };
    let policy = |policy: Value| rules(json!({"policies": [policy]}));
    let at = "spec.metrics[0]";
    let up = "spec.behavior.scaleUp";
    for (name, spec, want) in [
        ("a plain one", json!({}), String::new()),
        (
            "no replicas",
            json!({"minReplicas": 0}),
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1".into(),
        ),
        (
            "no replicas at most",
            json!({"minReplicas": null, "maxReplicas": 0}),
            "spec.maxReplicas: Invalid value: 0: must be greater than 0".into(),
        ),
        (
            "bounds crossed",
            json!({"minReplicas": 4}),
            "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`".into(),
        ),
        ("no kind", json!({"scaleTargetRef": {"kind": ""}}), "spec.scaleTargetRef.kind: Required value".into()),
        ("no name", json!({"scaleTargetRef": {"name": ""}}), "spec.scaleTargetRef.name: Required value".into()),
        (
            "a path for a name",
            json!({"scaleTargetRef": {"name": "a/b"}}),
            r#"spec.scaleTargetRef.name: Invalid value: "a/b": may not contain '/'"#.into(),
        ),
        (
            "a percent sign",
            json!({"scaleTargetRef": {"name": "a%b"}}),
            r#"spec.scaleTargetRef.name: Invalid value: "a%b": may not contain '%'"#.into(),
        ),
        (
            "up one step",
            json!({"scaleTargetRef": {"name": ".."}}),
            r#"spec.scaleTargetRef.name: Invalid value: "..": may not be '..'"#.into(),
        ),
        (
            "a metric of no type",
            metric(json!({"type": ""})),
            format!("{at}.type: Required value: must specify a metric source type"),
        ),
        (
            "an unknown type, reported once",
            metric(json!({"type": "Weather"})),
            format!(
                r#"{at}.type: Unsupported value: "Weather": supported values: "ContainerResource", "External", "Object", "Pods", "Resource""#
            ),
        ),
        (
            "a type without its block",
            metric(json!({"type": "Pods"})),
            format!(r#"{at}.pods: Required value: must populate information for the given metric source "Pods""#),
        ),
        (
            "a block of another type",
            metric(
                json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 1}}, "pods": {"metric": {"name": "a"}, "target": {"type": "Value"}}}),
            ),
            format!(r#"{at}.pods: Forbidden: must populate the given metric source only, which is "Resource""#),
        ),
        (
            "no resource",
            metric(
                json!({"type": "Resource", "resource": {"name": "", "target": {"type": "Utilization", "averageUtilization": 1}}}),
            ),
            format!("{at}.resource.name: Required value: must specify a resource name"),
        ),
        (
            "a resource that containers don't have",
            metric(
                json!({"type": "Resource", "resource": {"name": "pods", "target": {"type": "Utilization", "averageUtilization": 1}}}),
            ),
            format!(r#"{at}.resource.name: Invalid value: "pods": must be a standard resource for containers"#),
        ),
        (
            "a resource with a domain",
            metric(
                json!({"type": "Resource", "resource": {"name": "a.io/gpu", "target": {"type": "Utilization", "averageUtilization": 1}}}),
            ),
            String::new(),
        ),
        (
            "no target type",
            resource(json!({"type": "", "averageUtilization": 1})),
            format!("{at}.resource.target.type: Required value: must specify a metric target type"),
        ),
        (
            "an unknown target type",
            resource(json!({"type": "Most", "averageUtilization": 1})),
            format!(
                r#"{at}.resource.target.type: Invalid value: "Most": must be either Utilization, Value, or AverageValue"#
            ),
        ),
        (
            "a value of zero",
            resource(json!({"type": "AverageValue", "averageValue": "0"})),
            format!(r#"{at}.resource.target.averageValue: Invalid value: "0": must be positive"#),
        ),
        (
            "no percent",
            resource(json!({"type": "Utilization", "averageUtilization": 0})),
            format!("{at}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0"),
        ),
        (
            "no target",
            resource(json!({"type": "Utilization"})),
            format!(
                "{at}.resource.target.averageUtilization: Required value: must specify either a raw averageValue or averageUtilization"
            ),
        ),
        (
            "two targets",
            resource(json!({"type": "Utilization", "averageUtilization": 1, "averageValue": "1"})),
            format!(
                "{at}.resource.target.averageValue: Forbidden: may not set both averageValue and averageUtilization"
            ),
        ),
        (
            "a container's resource without container",
            metric(
                json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "", "target": {"type": "Utilization", "averageUtilization": 1}}}),
            ),
            format!("{at}.containerResource.container: Required value: must specify a container"),
        ),
        (
            "a container of no name",
            metric(
                json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "a.b", "target": {"type": "Utilization", "averageUtilization": 1}}}),
            ),
            format!(r#"{at}.containerResource.container: Invalid value: "a.b": must not contain dots"#),
        ),
        (
            "pods without average",
            metric(
                json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "Value", "value": "1"}}}),
            ),
            format!("{at}.pods.target.averageValue: Required value: must specify a positive target averageValue"),
        ),
        (
            "a metric without name",
            metric(
                json!({"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "AverageValue", "averageValue": "1"}}}),
            ),
            format!("{at}.pods.metric.name: Required value"),
        ),
        (
            "an object without value",
            metric(
                json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"}, "metric": {"name": "qps"}, "target": {"type": "Value"}}}),
            ),
            format!("{at}.object.target.averageValue: Required value: must specify either value or averageValue"),
        ),
        (
            "an object without kind",
            metric(
                json!({"type": "Object", "object": {"describedObject": {"kind": "", "name": "i"}, "metric": {"name": "qps"}, "target": {"type": "Value", "value": "1"}}}),
            ),
            format!("{at}.object.describedObject.kind: Required value"),
        ),
        (
            "an object of no name",
            metric(
                json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "a/b"}, "metric": {"name": "qps"}, "target": {"type": "Value", "value": "1"}}}),
            ),
            format!(r#"{at}.object.describedObject.name: Invalid value: "a/b": may not contain '/'"#),
        ),
        (
            "an object without name",
            metric(
                json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": ""}, "metric": {"name": "qps"}, "target": {"type": "Value", "value": "1"}}}),
            ),
            format!("{at}.object.describedObject.name: Required value"),
        ),
        (
            "an external one",
            metric(
                json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}),
            ),
            String::new(),
        ),
        (
            "an external one without value",
            metric(json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value"}}})),
            format!(
                "{at}.external.target.averageValue: Required value: must specify either a target for metric or a per-pod target"
            ),
        ),
        (
            "an external one with two",
            metric(
                json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}}),
            ),
            format!(
                "{at}.external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"
            ),
        ),
        (
            "a window before now",
            rules(json!({"stabilizationWindowSeconds": -1})),
            format!("{up}.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"),
        ),
        ("a window of an hour", rules(json!({"stabilizationWindowSeconds": 3600})), String::new()),
        (
            "a longer one",
            rules(json!({"stabilizationWindowSeconds": 3601})),
            format!("{up}.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"),
        ),
        (
            "a negative tolerance",
            rules(json!({"tolerance": "-1m"})),
            format!(r#"{up}.tolerance: Invalid value: "-1m": must be greater than or equal to zero"#),
        ),
        (
            "an unknown choice",
            rules(json!({"selectPolicy": "All"})),
            format!(r#"{up}.selectPolicy: Unsupported value: "All": supported values: "Disabled", "Max", "Min""#),
        ),
        (
            "no policy",
            rules(json!({"policies": []})),
            format!("{up}.policies: Required value: must specify at least one Policy"),
        ),
        (
            "an unknown policy",
            policy(json!({"type": "Nodes", "value": 1, "periodSeconds": 1})),
            format!(r#"{up}.policies[0].type: Unsupported value: "Nodes": supported values: "Percent", "Pods""#),
        ),
        (
            "a policy of zero",
            policy(json!({"type": "Pods", "value": 0, "periodSeconds": 1})),
            format!("{up}.policies[0].value: Invalid value: 0: must be greater than zero"),
        ),
        (
            "a policy for no time",
            policy(json!({"type": "Pods", "value": 1, "periodSeconds": 0})),
            format!("{up}.policies[0].periodSeconds: Invalid value: 0: must be greater than zero"),
        ),
        (
            "a policy for half an hour",
            policy(json!({"type": "Pods", "value": 1, "periodSeconds": 1800})),
            String::new(),
        ),
        (
            "and longer",
            policy(json!({"type": "Pods", "value": 1, "periodSeconds": 1801})),
            format!("{up}.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"),
        ),
    ] {
        assert_eq!(Write::create(GROUP, "federatedhpas", with_spec(&autoscaler(), &spec)).refusal(), want, "{name}");
    }
    let counted = with(&autoscaler(), &json!({"status": {"currentReplicas": -1, "desiredReplicas": -2}}));
    assert_eq!(
        Write::create(GROUP, "federatedhpas", counted).refusal(),
        "[status.currentReplicas: Invalid value: -1: must be greater than or equal to 0, status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0]"
    );
    let named = with(&autoscaler(), &json!({"metadata": {"name": "A"}}));
    assert!(
        Write::create(GROUP, "federatedhpas", named)
            .refusal()
            .starts_with("metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain")
    );
    let external = json!({"metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}]});
    let to_zero = with_spec(&autoscaler(), &json!({"minReplicas": 0}));
    for (object, want) in [
        (with_spec(&to_zero, &external), ""),
        (
            to_zero,
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ),
    ] {
        let mut zero = Write::create(GROUP, "federatedhpas", object);
        zero.config.gates = Gates::default().with(Gate::HPAScaleToZero, true);
        assert_eq!(zero.refusal(), want, "with its gate zero is valid beside a metric that can wake it");
    }
    let mut off = Write::create(GROUP, "federatedhpas", with_spec(&autoscaler(), &external));
    off.config.gates = Gates::default().with(Gate::FederatedHPAExternalMetrics, false);
    assert_eq!(
        off.refusal(),
        r#"spec.metrics[0].type: Unsupported value: "External": supported values: "ContainerResource", "Object", "Pods", "Resource""#
    );
}

fn distributed(name: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": name, "labels": {"federatedhpa.karmada.io/enabled": "true"}},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
    })
}

/// Answers all needs of the write: autoscalers of both kinds.
fn beside(mut write: Write, federated: &[Value], others: &[Value]) -> Write {
    for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
        let is_ours = format!("{need:?}").contains("federatedhpas");
        write.lookups.found.insert(need, if is_ours { federated.to_vec() } else { others.to_vec() });
    }
    write
}

#[test]
fn target_that_nothing_can_scale_is_warned_of() {
    let warnings = |target: Value, found: Option<Value>| {
        let mut write =
            Write::create(GROUP, "federatedhpas", with_spec(&autoscaler(), &json!({"scaleTargetRef": target})));
        for need in write.with_request(|request| needs(Phase::Validating, request, &write.config)) {
            let is_target = format!("{need:?}").contains("plural: \"deployments\"");
            write.lookups.found.insert(need, found.iter().filter(|_| is_target).cloned().collect());
        }
        let verdict = write.validated();
        assert_eq!(verdict.denial, None);
        verdict.warnings
    };
    let there = Some(json!({"metadata": {"name": "web"}}));
    let missing = "spec.scaleTargetRef: there is no Deployment \"web\": nothing is scaled until it is created";
    let daemon = "spec.scaleTargetRef: DaemonSet has no scale subresource: nothing is ever scaled";
    for (name, target, found, want) in [
        ("it exists", json!({"kind": "Deployment", "name": "web"}), there.clone(), vec![]),
        ("it does not exist", json!({"kind": "Deployment", "name": "web"}), None, vec![missing]),
        ("without a scale subresource", json!({"kind": "DaemonSet", "name": "web"}), None, vec![daemon]),
        ("of another group", json!({"apiVersion": "a.io/v1", "kind": "DaemonSet", "name": "web"}), None, vec![]),
    ] {
        assert_eq!(warnings(target, found), want, "{name}");
    }
    let write = Write::create(GROUP, "federatedhpas", autoscaler());
    assert_eq!(write.validated().warnings, Vec::<String>::new(), "a look-up that failed says nothing");
}

#[test]
fn second_autoscaler_of_a_target_is_refused() {
    let plain = with(&distributed("b"), &json!({"metadata": {"labels": null}}));
    let elsewhere = with_spec(&distributed("b"), &json!({"scaleTargetRef": {"name": "other"}}));
    let newer = with_spec(&distributed("b"), &json!({"scaleTargetRef": {"apiVersion": "apps/v2"}}));
    let target = r#"{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}"#;
    let federated =
        |others: &[Value]| beside(Write::create(GROUP, "federatedhpas", autoscaler()), &[], others).refusal();
    let refused = format!(
        "spec.scaleTargetRef: Invalid value: {target}: the target has the distributed HorizontalPodAutoscaler \"b\": two autoscalers would fight; remove its label federatedhpa.karmada.io/enabled first"
    );
    for (name, other, want) in [
        ("a distributed one", distributed("b"), refused.as_str()),
        ("in another version", newer, &refused),
        ("one that is not distributed", plain.clone(), ""),
        ("one of another target", elsewhere.clone(), ""),
    ] {
        assert_eq!(federated(&[other]), want, "{name}");
    }
    let own = |federated: &[Value], others: &[Value]| {
        beside(Write::create("autoscaling", "horizontalpodautoscalers", distributed("a")), federated, others).refusal()
    };
    let refused = |by: &str| format!("spec.scaleTargetRef: Invalid value: {target}: the target has the {by}");
    for (name, federated, others, want) in [
        ("alone", vec![], vec![distributed("a")], String::new()),
        (
            "beside a federated one",
            vec![autoscaler()],
            vec![],
            refused("FederatedHPA \"a\": two autoscalers would fight; delete one of them"),
        ),
        (
            "beside another",
            vec![],
            vec![distributed("b")],
            refused("HorizontalPodAutoscaler \"b\": two autoscalers would fight; take the label off one of them"),
        ),
        ("beside a plain one", vec![], vec![plain, elsewhere], String::new()),
    ] {
        assert_eq!(own(&federated, &others), want, "{name}");
    }
}

#[test]
fn annotations_of_distributed_autoscalers() {
    let path = "metadata.annotations[federatedhpa.karmada.io";
    let split = r#"must be {"mode":"Weighted"}, {"mode":"Even"}, {"mode":"PerCluster"} or {"mode":"Static","weights":{"cluster":1}}"#;
    for (key, value, want) in [
        ("strict-max", "true", String::new()),
        (
            "strict-max",
            "yes",
            format!(r#"{path}/strict-max]: Unsupported value: "yes": supported values: "false", "true""#),
        ),
        ("rebalance", "false", String::new()),
        (
            "rebalance",
            "no",
            format!(r#"{path}/rebalance]: Unsupported value: "no": supported values: "false", "true""#),
        ),
        ("on-delete", "Reset", String::new()),
        ("on-delete", "Keep", format!(r#"{path}/on-delete]: Unsupported value: "Keep": supported values: "Reset""#)),
        ("split", r#"{"mode":"Weighted"}"#, String::new()),
        ("split", r#"{"mode":"Even"}"#, String::new()),
        ("split", r#"{"mode":"PerCluster"}"#, String::new()),
        ("split", r#"{"mode":"Static","weights":{"a":3,"b":1}}"#, String::new()),
        (
            "split",
            r#"{"mode":"Static"}"#,
            format!(r#"{path}/split]: Invalid value: "{{\"mode\":\"Static\"}}": {split}"#),
        ),
        (
            "split",
            r#"{"mode":"Even","x":1}"#,
            format!(r#"{path}/split]: Invalid value: "{{\"mode\":\"Even\",\"x\":1}}": {split}"#),
        ),
        ("split", "even", format!(r#"{path}/split]: Invalid value: "even": {split}"#)),
    ] {
        let annotated = with(
            &distributed("a"),
            &json!({"metadata": {"annotations": {format!("federatedhpa.karmada.io/{key}"): value}}}),
        );
        let write = Write::create("autoscaling", "horizontalpodautoscalers", annotated.clone());
        assert_eq!(write.refusal(), want, "{key} {value}");
        let plain = with(&annotated, &json!({"metadata": {"labels": null}}));
        assert_eq!(
            Write::create("autoscaling", "horizontalpodautoscalers", plain).refusal(),
            "",
            "{key} {value}, not distributed"
        );
    }
}

#[test]
fn cron_federated_hpa_rules() {
    let cron = |target: Value, rules: Value| {
        json!({
            "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA", "metadata": {"namespace": "shop", "name": "c"},
            "spec": {"scaleTargetRef": target, "rules": rules},
        })
    };
    let workload = || json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let ours = || json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "a"});
    let rule =
        |fields: Value| json!([with(&json!({"name": "r", "schedule": "0 9 * * 1-5", "targetReplicas": 1}), &fields)]);
    let bounds = |fields: Value| json!([with(&json!({"name": "r", "schedule": "@daily"}), &fields)]);
    let at = "spec.rules[0]";
    for (name, target, rules, want) in [
        ("a workload", workload(), rule(json!({})), String::new()),
        ("nothing, at night", workload(), rule(json!({"targetReplicas": 0})), String::new()),
        (
            "another kind of ours stops the review",
            json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA", "name": ""}),
            rule(json!({"schedule": "never"})),
            r#"spec.scaleTargetRef.kind: Invalid value: "CronFederatedHPA": of this apiVersion only FederatedHPA can be scaled"#.to_owned(),
        ),
        ("no name", json!({"kind": "Deployment", "name": ""}), rule(json!({})), "spec.scaleTargetRef.name: Required value".into()),
        (
            "a rule twice",
            workload(),
            json!([rule(json!({}))[0], rule(json!({}))[0]]),
            r#"spec.rules[1].name: Duplicate value: "r""#.into(),
        ),
        ("no schedule", workload(), rule(json!({"schedule": "never"})), format!(r#"{at}.schedule: Invalid value: "never": expected exactly 5 fields, found 1: [never]"#)),
        ("six fields", workload(), rule(json!({"schedule": "0 0 9 * * *"})), format!(r#"{at}.schedule: Invalid value: "0 0 9 * * *": expected exactly 5 fields, found 6: [0 0 9 * * *]"#)),
        ("a start with a step", workload(), rule(json!({"schedule": "0/1 * * * *"})), String::new()),
        ("a period", workload(), rule(json!({"schedule": "@every 1m"})), String::new()),
        ("the last day", workload(), rule(json!({"schedule": "0 0 L * *"})), format!(r#"{at}.schedule: Invalid value: "0 0 L * *": failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax"#)),
        ("the nearest weekday", workload(), rule(json!({"schedule": "0 0 15W * *"})), format!(r#"{at}.schedule: Invalid value: "0 0 15W * *": failed to parse int from 15W: strconv.Atoi: parsing "15W": invalid syntax"#)),
        ("the second Monday", workload(), rule(json!({"schedule": "0 0 * * 1#2"})), format!(r#"{at}.schedule: Invalid value: "0 0 * * 1#2": failed to parse int from 1#2: strconv.Atoi: parsing "1#2": invalid syntax"#)),
        ("another Sunday", workload(), rule(json!({"schedule": "0 0 * * 7"})), String::new()),
        ("a day after it", workload(), rule(json!({"schedule": "0 0 * * 8"})), format!(r#"{at}.schedule: Invalid value: "0 0 * * 8": end of range (8) above maximum (7): 8"#)),
        ("a zone in other letters", workload(), rule(json!({"timeZone": "europe/berlin"})), format!(r#"{at}.timeZone: Invalid value: "europe/berlin": unknown time zone europe/berlin"#)),
        ("a macro", workload(), rule(json!({"schedule": "@hourly"})), String::new()),
        ("a zone", workload(), rule(json!({"timeZone": "Europe/Berlin"})), String::new()),
        ("an unknown zone", workload(), rule(json!({"timeZone": "Moon/Tycho"})), format!(r#"{at}.timeZone: Invalid value: "Moon/Tycho": unknown time zone Moon/Tycho"#)),
        ("an empty zone", workload(), rule(json!({"timeZone": ""})), format!(r#"{at}.timeZone: Invalid value: "": unknown time zone "#)),
        ("the local zone", workload(), rule(json!({"timeZone": "Local"})), format!(r#"{at}.timeZone: Invalid value: "Local": unknown time zone Local"#)),
        ("no replicas said", workload(), rule(json!({"targetReplicas": null})), format!("{at}.targetReplicas: Invalid value: null: targetReplicas cannot be nil if you want to scale a workload")),
        ("fewer than none", workload(), rule(json!({"targetReplicas": -1})), format!("{at}.targetReplicas: Invalid value: -1: should be larger than or equal to 0")),
        ("bounds of a workload", workload(), rule(json!({"targetMinReplicas": 1})), format!("{at}.targetMinReplicas: Forbidden: only a FederatedHPA has bounds: set targetReplicas")),
        ("an upper bound of a workload", workload(), rule(json!({"targetMaxReplicas": 1})), format!("{at}.targetMaxReplicas: Forbidden: only a FederatedHPA has bounds: set targetReplicas")),
        ("bounds", ours(), bounds(json!({"targetMinReplicas": 1, "targetMaxReplicas": 1})), String::new()),
        ("one bound", ours(), bounds(json!({"targetMinReplicas": 1})), String::new()),
        (
            "no bound",
            ours(),
            bounds(json!({})),
            format!("{at}.targetMaxReplicas: Invalid value: null: targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA"),
        ),
        ("an upper bound of zero", ours(), bounds(json!({"targetMaxReplicas": 0})), format!("{at}.targetMaxReplicas: Invalid value: 0: should be larger than 0")),
        ("a lower bound of zero", ours(), bounds(json!({"targetMinReplicas": 0})), format!("{at}.targetMinReplicas: Invalid value: 0: should be larger than 0")),
        ("bounds crossed", ours(), bounds(json!({"targetMinReplicas": 2, "targetMaxReplicas": 1})), format!("{at}.targetMinReplicas: Invalid value: 2: should not be larger than targetMaxReplicas")),
        ("replicas of an autoscaler", ours(), bounds(json!({"targetMinReplicas": 1, "targetReplicas": 1})), format!("{at}.targetReplicas: Forbidden: a FederatedHPA has bounds: set targetMinReplicas and targetMaxReplicas")),
    ] {
        assert_eq!(Write::create(GROUP, "cronfederatedhpas", cron(target, rules)).refusal(), want, "{name}");
    }
    for (schedule, want) in [
        ("0 0 30 2 *", &[r#"spec.rules[0].schedule "0 0 30 2 *" names no time: the rule is never executed"#][..]),
        ("0 0 29 2 *", &[]),
        ("0 0 31 4,6 1", &[]),
    ] {
        let rules = rule(json!({"schedule": schedule}));
        let verdict = Write::create(GROUP, "cronfederatedhpas", cron(workload(), rules)).validated();
        assert_eq!(verdict.warnings, want, "{schedule}");
    }
    let empty = Write::create(GROUP, "cronfederatedhpas", cron(workload(), json!([]))).validated();
    assert_eq!(empty.denial, None);
    assert_eq!(empty.warnings, ["spec.rules is empty: nothing is ever scaled",]);
    let wrong =
        Write::create(GROUP, "cronfederatedhpas", cron(workload(), rule(json!({"schedule": "61 * * * *"})))).refusal();
    assert!(wrong.starts_with(r#"spec.rules[0].schedule: Invalid value: "61 * * * *": "#), "{wrong}");
}
