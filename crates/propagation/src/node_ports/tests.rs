use super::*;
use crate::testkit::merge;

/// A Service of type NodePort with ports 80 and 81/UDP, whose node ports are 30080 and 30081, and these fields owned by
/// managers.
fn service(owned: &[Value]) -> Value {
    let entries: Vec<Value> =
        owned.iter().map(|fields| json!({"manager": "m", "operation": "Update", "fieldsV1": fields})).collect();
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "managedFields": entries},
        "spec": {"type": "NodePort", "ports": [
            {"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 81, "protocol": "UDP", "nodePort": 30081},
        ]},
    })
}

fn of_port(key: &str, fields: &[&str]) -> Value {
    let fields: serde_json::Map<_, _> = fields.iter().map(|field| ((*field).to_owned(), json!({}))).collect();
    json!({"f:spec": {"f:ports": {".": {}, key: fields}}})
}

/// The node ports of the manifest that is made of the template.
fn left(template: &Value, manifest: &Value) -> String {
    let mut manifest = manifest.clone();
    leave_out(template, &mut manifest);
    let number = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), ToString::to_string);
    let ports = ports(&manifest).map(|port| number(port.get("nodePort")));
    let health = manifest.pointer("/spec/healthCheckNodePort");
    ports.chain(health.map(|health| format!("health {health}"))).collect::<Vec<_>>().join(" ")
}

#[test]
fn ports_that_nobody_owns_are_the_servers() {
    let (tcp, udp) = (r#"k:{"port":80,"protocol":"TCP"}"#, r#"k:{"port":81,"protocol":"UDP"}"#);
    let made = of_port(tcp, &["f:port", "f:protocol", "f:targetPort"]);
    let set = of_port(tcp, &["f:port", "f:nodePort"]);
    let applied = |config: Value| json!({"metadata": {"annotations": {LAST_APPLIED: config.to_string()}}});
    let balanced = json!({"spec": {"type": "LoadBalancer", "healthCheckNodePort": 30999}});
    let and = |one: &Value, more: Value| {
        let mut both = one.clone();
        merge(&mut both, &more);
        both
    };
    for (name, owned, template, expected) in [
        ("made without ports", vec![made.clone()], json!({}), "- -"),
        ("made with one port", vec![set.clone()], json!({}), "30080 -"),
        ("a manager who took one port over", vec![made.clone(), set.clone()], json!({}), "30080 -"),
        ("both ports", vec![set.clone(), of_port(udp, &["f:nodePort"])], json!({}), "30080 30081"),
        ("no entries", vec![], json!({}), "30080 30081"),
        ("entries that were removed", vec![], json!({"metadata": {"managedFields": null}}), "30080 30081"),
        ("an entry of the status alone", vec![json!({"f:status": {}})], json!({}), "- -"),
        (
            "kubectl apply of the number that was allocated",
            vec![made.clone()],
            applied(json!({"spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 81, "protocol": "UDP"}]}})),
            "30080 -",
        ),
        (
            "of another protocol",
            vec![made.clone()],
            applied(json!({"spec": {"ports": [{"port": 81, "nodePort": 30081}]}})),
            "- -",
        ),
        ("an annotation that is no JSON", vec![made.clone()], applied(json!("{")), "- -"),
        ("a load balancer", vec![made.clone()], balanced.clone(), "- -"),
        (
            "its health port was set",
            vec![made.clone(), json!({"f:spec": {"f:healthCheckNodePort": {}}})],
            balanced.clone(),
            "- - health 30999",
        ),
        (
            "its health port was applied",
            vec![made.clone()],
            and(&balanced, applied(json!({"spec": {"healthCheckNodePort": 30999}}))),
            "- - health 30999",
        ),
        (
            "one for which no ports are allocated",
            vec![made.clone()],
            and(&balanced, json!({"spec": {"allocateLoadBalancerNodePorts": false}})),
            "30080 30081",
        ),
        ("a kind of this name in another group", vec![made], json!({"apiVersion": "x.io/v1"}), "30080 30081"),
    ] {
        let template = and(&service(&owned), template);
        assert_eq!(left(&template, &template), expected, "{name}");
        let mut metadata: ObjectMeta = serde_json::from_value(template["metadata"].clone()).unwrap();
        reduce(&mut metadata);
        assert!(metadata.managed_fields.iter().flatten().count() <= 1, "{name}");
        let reduced = and(&template, json!({"metadata": null, "spec": template["spec"]}));
        let reduced = and(&reduced, json!({"metadata": metadata}));
        assert_eq!(left(&reduced, &template), expected, "{name}: as a cache has it");
    }
}

#[test]
fn ports_of_overrides_stay() {
    let template = service(&[of_port(r#"k:{"port":80,"protocol":"TCP"}"#, &["f:port"])]);
    let with = |spec: Value| {
        let mut manifest = template.clone();
        merge(&mut manifest, &json!({ "spec": spec }));
        manifest
    };
    for (name, spec, expected) in [
        (
            "another number",
            json!({"ports": [{"port": 80, "nodePort": 31000}, {"port": 9, "nodePort": 30081}]}),
            "31000 30081",
        ),
        ("another port number", json!({"ports": [{"port": 9, "nodePort": 30080}]}), "-"),
        ("no ports", json!({"ports": null}), ""),
        ("a health port", json!({"healthCheckNodePort": 31999}), "- - health 31999"),
    ] {
        assert_eq!(left(&template, &with(spec)), expected, "{name}");
    }
}
