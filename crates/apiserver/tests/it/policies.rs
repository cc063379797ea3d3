//! ValidatingAdmissionPolicies, with what a real kube-apiserver v1.36 said of the same (specification/apiserver.md 21).

use serde_json::{Value, json};

use crate::support::{World, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(name: &str, validations: &Value, more: &Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
        "validations": validations,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

fn binding(name: &str, policy: &str, actions: &[&str], more: &Value) -> Value {
    let mut spec = json!({"policyName": policy, "validationActions": actions});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn policy_with_invalid_expressions_is_refused() {
    let world = World::new().await;
    for (validation, want) in [
        (
            json!({"expression": "foo == 1"}),
            "spec.validations[0].expression: Invalid value: \"foo == 1\": compilation failed: ERROR: <input>:1:1: undeclared \
             reference to 'foo' (in container '')\n | foo == 1\n | ^",
        ),
        (
            json!({"expression": "'a'"}),
            "spec.validations[0].expression: Invalid value: \"'a'\": must evaluate to bool but got string",
        ),
        (
            json!({"expression": "object.data.a == 'x'", "messageExpression": "1"}),
            "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
        ),
        (json!({"expression": ""}), "spec.validations[0].expression: Required value: expression is not specified"),
    ] {
        let refused = world.post(POLICIES, policy("bad", &json!([validation]), &json!({}))).await.expect(422);
        let head = "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"bad\" is invalid: ";
        assert_eq!(refused.message(), format!("{head}{want}"), "{validation}");
    }
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn bound_policy_refuses_failing_writes() {
    let world = World::new().await;
    let validations = json!([
        {"expression": "object.data.a != 'bad'"},
        {"expression": "object.data.a != 'msg'", "message": "custom"},
        {"expression": "object.data.a != 'expr'", "messageExpression": "'is ' + object.data.a"},
        {"expression": "object.data.a != 'forb'", "reason": "Forbidden", "message": "fb"},
        {"expression": "object.data.a != 'big'", "reason": "RequestEntityTooLarge"},
        {"expression": "variables.v != 'vbad'"},
        {"expression": "namespaceObject.metadata.name != 'none'"},
        {"expression": "request.operation == 'CREATE' || oldObject.data.a != 'fixed'", "message": "it is fixed"},
    ]);
    let variables = json!({"variables": [{"name": "v", "expression": "object.data.a"}]});
    world.post(POLICIES, policy("vp", &validations, &variables)).await.expect(201);
    world.post(MAPS, config_map("free", json!({"a": "bad"}))).await.expect(201);
    world.post(BINDINGS, binding("vpb", "vp", &["Deny"], &json!({}))).await.expect(201);
    let audited = world.post(BINDINGS, binding("vpw", "vp", &["Warn", "Audit"], &json!({}))).await.expect(201);
    let want = "spec.validationActions: Audit has no effect: this server writes no audit log";
    assert_eq!(audited.warnings(), [format!("299 - \"{want}\"")]);
    let denied = "ValidatingAdmissionPolicy 'vp' with binding 'vpb' denied request: ";
    for (data, code, reason, want) in [
        (json!({"a": "bad"}), 422, "Invalid", "failed expression: object.data.a != 'bad'"),
        (json!({"a": "msg"}), 422, "Invalid", "custom"),
        (json!({"a": "expr"}), 422, "Invalid", "is expr"),
        (json!({"a": "forb"}), 403, "Forbidden", "fb"),
        (json!({"a": "big"}), 413, "RequestEntityTooLarge", "failed expression: object.data.a != 'big'"),
        (json!({"a": "vbad"}), 422, "Invalid", "failed expression: variables.v != 'vbad'"),
        (json!({"b": ""}), 422, "Invalid", "expression 'object.data.a != 'bad'' resulted in error: no such key: a"),
    ] {
        let refused = world.post(MAPS, config_map("c1", data.clone())).await.expect(code);
        assert_eq!(refused.message(), format!("configmaps \"c1\" is forbidden: {denied}{want}"), "{data}");
        assert_eq!(refused.at("/reason"), reason, "{data}");
        assert_eq!(refused.at("/details/causes"), &json!([{"message": format!("{denied}{want}")}]), "{data}");
    }
    world.post(MAPS, config_map("c1", json!({"a": "fixed"}))).await.expect(201);
    let refused = world.patch(&format!("{MAPS}/c1"), "merge-patch+json", json!({"data": {"a": "x"}})).await.expect(422);
    assert!(refused.message().ends_with("it is fixed"), "{}", refused.message());
    world.delete(&format!("{BINDINGS}/vpb")).await.expect(200);
    let warned = world.post(MAPS, config_map("c2", json!({"a": "bad"}))).await.expect(201);
    let want = "Validation failed for ValidatingAdmissionPolicy 'vp' with binding 'vpw': failed expression: object.data.a != 'bad'";
    assert_eq!(warned.warnings(), [format!("299 - \"{want}\"")]);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn policies_use_parameters_and_match_conditions() {
    let world = World::new().await;
    let validations =
        json!([{"expression": "object.data.a == params.data.a", "messageExpression": "'want ' + params.data.a"}]);
    let kind = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name != 'par'"}],
    });
    world.post(POLICIES, policy("vq", &validations, &kind)).await.expect(201);
    let by =
        |name: &str| json!({"paramRef": {"name": name, "namespace": "default", "parameterNotFoundAction": "Deny"}});
    world.post(BINDINGS, binding("b", "vq", &["Deny"], &by("par"))).await.expect(201);
    let missing = world.post(MAPS, config_map("c", json!({"a": "no"}))).await.expect(422);
    assert!(missing.message().contains("no params found for policy binding"), "{}", missing.message());
    // Parameters are looked up before conditions are evaluated.
    let before = world.post(MAPS, config_map("par", json!({"a": "yes"}))).await.expect(422);
    assert!(before.message().contains("no params found for policy binding"), "{}", before.message());
    world.delete(&format!("{BINDINGS}/b")).await.expect(200);
    world.post(MAPS, config_map("par", json!({"a": "yes"}))).await.expect(201);
    world.post(BINDINGS, binding("b", "vq", &["Deny"], &by("par"))).await.expect(201);
    let own = json!({"data": {"a": "yes, still"}});
    world.patch(&format!("{MAPS}/par"), "merge-patch+json", own).await.expect(200);
    world.patch(&format!("{MAPS}/par"), "merge-patch+json", json!({"data": {"a": "yes"}})).await.expect(200);
    let refused = world.post(MAPS, config_map("c", json!({"a": "no"}))).await.expect(422);
    assert!(refused.message().ends_with("with binding 'b' denied request: want yes"), "{}", refused.message());
    world.post(MAPS, config_map("c", json!({"a": "yes"}))).await.expect(201);
    let elsewhere = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"no": "such"}}}});
    let bound = world.get(&format!("{BINDINGS}/b")).await;
    let mut bound = bound.body.clone();
    bound["spec"]["matchResources"] = elsewhere["matchResources"].clone();
    world.put(&format!("{BINDINGS}/b"), bound).await.expect(200);
    world.post(MAPS, config_map("d", json!({"a": "no"}))).await.expect(201);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn expressions_escape_member_names_and_are_bounded() {
    let world = World::new().await;
    let named = json!([{"expression": "request.namespace == 'default' && object.metadata.namespace == request.namespace && object.data['a.b'] == 'x'"}]);
    world.post(POLICIES, policy("named", &named, &json!({}))).await.expect(201);
    world.post(BINDINGS, binding("named", "named", &["Deny"], &json!({}))).await.expect(201);
    world.post(MAPS, config_map("m", json!({"a.b": "x"}))).await.expect(201);
    // It would run for minutes, and for a hundred doublings there is no memory.
    let variables: Vec<Value> = (0..100)
        .map(|i| json!({"name": format!("v{}", i + 1), "expression": format!("variables.v{i} + variables.v{i}")}))
        .collect();
    let first = json!({"name": "v0", "expression": "'0123456789'"});
    let doubled: Vec<Value> = std::iter::once(first).chain(variables).collect();
    let loops = "lists.range(10000).all(x, lists.range(10000).all(y, lists.range(10000).all(z, x + y + z >= 0)))";
    for (name, validations, more) in [
        ("loops", json!([{"expression": loops}]), json!({})),
        ("doubled", json!([{"expression": "size(variables.v100) > 0"}]), json!({"variables": doubled})),
    ] {
        world.post(POLICIES, policy(name, &validations, &more)).await.expect(201);
        world.post(BINDINGS, binding(name, name, &["Deny"], &json!({}))).await.expect(201);
        let refused = world.post(MAPS, config_map("n", json!({"a.b": "x"}))).await.expect(422);
        assert!(refused.message().contains("running out of cost budget"), "{}", refused.message());
        world.delete(&format!("{BINDINGS}/{name}")).await.expect(200);
    }
    world.seam.tasks.kill();
}
