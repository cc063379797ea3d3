//! MutatingAdmissionPolicies (specification/apiserver.md 21). The same is asked of a real kube-apiserver by scenarios
//! `admission/mutating_policies` and `admission/bad_mutating_policies`.

use serde_json::{Value, json};

use crate::support::{World, config_map, deployment};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

/// A policy for ConfigMaps and Deployments.
fn policy(name: &str, mutations: &[Value], more: &Value) -> Value {
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": resources});
    let mut spec = json!({
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule("", &["configmaps"]), rule("apps", &["deployments", "deployments/scale"])]},
        "mutations": mutations,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

fn binding(name: &str, policy: &str, more: &Value) -> Value {
    let mut spec = json!({"policyName": policy});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec})
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// Makes a policy with a binding of the same name.
async fn bind(world: &World, name: &str, mutations: &[Value], more: &Value) {
    world.post(POLICIES, policy(name, mutations, more)).await.expect(201);
    world.post(BINDINGS, binding(name, name, &json!({}))).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn invalid_mutating_policies_are_refused() {
    let world = World::new().await;
    let ok = apply("Object{}");
    for (mutations, more, want) in [
        (vec![], json!({}), "spec.mutations: Required value: mutations must contain at least one item"),
        (
            vec![ok.clone()],
            json!({"reinvocationPolicy": "Always"}),
            "spec.reinvocationPolicy: Unsupported value: \"Always\": supported values: \"IfNeeded\", \"Never\"",
        ),
        (vec![ok.clone()], json!({"reinvocationPolicy": ""}), "spec.reinvocationPolicy: Required value"),
        (
            vec![apply("Object.spec{}")],
            json!({}),
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"Object.spec{}\": must evaluate to Object but got Object.spec",
        ),
        (
            vec![patch("[1]")],
            json!({}),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"[1]\": must evaluate to list(JSONPatch) but got list(int)",
        ),
        (
            vec![patch("none")],
            json!({}),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"none\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'none' (in container '')\n | none\n | ^",
        ),
        (
            vec![json!({"patchType": "JSONPatch"})],
            json!({}),
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
        ),
        (
            vec![ok],
            json!({"matchConditions": [{"name": "p", "expression": "params.a"}]}),
            "spec.matchConditions[0].expression: Invalid value: \"params.a\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.a\n | ^",
        ),
    ] {
        let refused = world.post(POLICIES, policy("bad", &mutations, &more)).await.expect(422);
        let head = "MutatingAdmissionPolicy.admissionregistration.k8s.io \"bad\" is invalid: ";
        assert_eq!(refused.message(), format!("{head}{want}"));
    }
    let refused = world.post(BINDINGS, binding("bad", "", &json!({}))).await.expect(422);
    assert!(refused.message().ends_with("spec.policyName: Required value"), "{}", refused.message());
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn bound_policies_change_objects_in_order_of_their_names() {
    let world = World::new().await;
    let list = "has(object.data) && 'order' in object.data ? object.data.order : ''";
    let add = |letter: &str| {
        patch(&format!("[JSONPatch{{op: 'add', path: '/data/order', value: variables.order + '{letter}'}}]"))
    };
    let variables = json!({"variables": [{"name": "order", "expression": list}]});
    bind(&world, "b", &[add("b"), add("c")], &variables).await;
    world.post(POLICIES, policy("a", &[add("a")], &variables)).await.expect(201);
    world.post(MAPS, config_map("first", json!({"order": ""}))).await.expect(201);
    world.post(BINDINGS, binding("z", "a", &json!({}))).await.expect(201);
    let made = world.post(MAPS, config_map("m", json!({"order": ""}))).await.expect(201);
    assert_eq!(made.at("/data/order"), "abc", "by name of the policy; each mutation sees the ones before it");
    let tried = world.post(&format!("{MAPS}?dryRun=All"), config_map("n", json!({"order": ""}))).await.expect(201);
    assert_eq!(tried.at("/data/order"), "abc", "also in a dry run");
    world.get(&format!("{MAPS}/n")).await.expect(404);
    let owners = made.at("/metadata/managedFields").as_array().unwrap();
    assert_eq!(owners.len(), 1, "no manager owns what a policy changes: {owners:?}");
    let changed = world.patch(&format!("{MAPS}/m"), "merge-patch+json", json!({"data": {"k": "v"}})).await.expect(200);
    assert_eq!(changed.at("/data/order"), "abcabc");
    world.delete(&format!("{MAPS}/m")).await.expect(200);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn apply_configurations_merge_along_types() {
    let world = World::new().await;
    let pull = "Object{metadata: Object.metadata{labels: {'a.b/c': 'x'}}, spec: Object.spec{template: Object.spec.template{\
                spec: Object.spec.template.spec{containers: object.spec.template.spec.containers.map(c, \
                Object.spec.template.spec.containers{name: c.name, imagePullPolicy: 'Never'})}}}}";
    bind(
        &world,
        "p",
        &[apply(pull)],
        &json!({"matchConditions": [{"name": "d", "expression": "object.kind == 'Deployment'"}]}),
    )
    .await;
    world.post(MAPS, config_map("m", json!({}))).await.expect(201);
    let given = deployment("web");
    let image = given.pointer("/spec/template/spec/containers/0/image").unwrap().clone();
    let made = world.post(DEPLOYMENTS, given).await.expect(201);
    assert_eq!(made.at("/spec/template/spec/containers/0/imagePullPolicy"), "Never");
    assert_eq!(made.at("/spec/template/spec/containers/0/image"), &image);
    assert_eq!(made.at("/metadata/labels/a.b~1c"), "x");
    world.delete(&format!("{BINDINGS}/p")).await.expect(200);
    let expression = "object.spec.replicas > 3 ? Object{spec: Object.spec{replicas: 3}} : Object{}";
    let constraints = json!({"matchConstraints": {"resourceRules": [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]},
    ]}});
    bind(&world, "scale", &[apply(expression)], &constraints).await;
    let scaled = json!({"spec": {"replicas": 9}});
    let scaled = world.patch(&format!("{DEPLOYMENTS}/web/scale"), "merge-patch+json", scaled).await.expect(200);
    assert_eq!(scaled.at("/spec/replicas"), 3, "the object of a subresource is changed as well");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn failed_mutation_follows_the_failure_policy() {
    let world = World::new().await;
    for (name, mutation, code, want) in [
        (
            "missing",
            apply("Object{data: {'a': object.none}}"),
            403,
            "expression 'Object{data: {'a': object.none}}' resulted in error: no such key: none",
        ),
        (
            "unknown",
            apply("Object{none: 1}"),
            403,
            "error applying patch: failed to convert patch object to typed object: .none: field not declared in schema",
        ),
        (
            "patch",
            patch("[JSONPatch{op: 'remove', path: '/metadata/none'}]"),
            403,
            "JSON Patch: error in remove for path: '/metadata/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            "names",
            apply("Object{metadata: Object.spec{}}"),
            403,
            "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
    ] {
        bind(&world, name, std::slice::from_ref(&mutation), &json!({})).await;
        let refused = world.post(MAPS, config_map("m", json!({}))).await.expect(code);
        let text = format!("policy '{name}' with binding '{name}' denied request: {want}");
        assert_eq!(refused.message(), text);
        assert_eq!(refused.at("/reason"), "Invalid");
        assert_eq!(refused.at("/details/causes"), &json!([{"message": text}]));
        world.delete(&format!("{BINDINGS}/{name}")).await.expect(200);
        let ignored = format!("{name}-ignored");
        let label = apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}");
        bind(&world, &ignored, &[mutation, label], &json!({"failurePolicy": "Ignore"})).await;
        let made = world.post(MAPS, config_map(name, json!({}))).await.expect(201);
        assert_eq!(made.at("/metadata/labels/a"), "b", "{name}: the others are applied");
        world.delete(&format!("{BINDINGS}/{ignored}")).await.expect(200);
    }
    bind(
        &world,
        "test",
        &[patch("[JSONPatch{op: 'test', path: '/data/k', value: 'x'}, JSONPatch{op: 'remove', path: '/data/k'}]")],
        &json!({}),
    )
    .await;
    let kept = world.post(MAPS, config_map("kept", json!({"k": "y"}))).await.expect(201);
    assert_eq!(kept.at("/data/k"), "y", "a patch whose test fails changes nothing");
    world.delete(&format!("{BINDINGS}/test")).await.expect(200);
    bind(
        &world,
        "strict",
        &[patch("[JSONPatch{op: 'add', path: '/nope', value: 1}]")],
        &json!({"failurePolicy": "Ignore"}),
    )
    .await;
    let refused = world.post(MAPS, config_map("m", json!({}))).await.expect(500);
    assert_eq!(refused.message(), "Internal error occurred: strict decoding error: unknown field \"nope\"");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn mutations_use_parameters() {
    let world = World::new().await;
    let team = apply("Object{metadata: Object.metadata{labels: {'team': params.data.team}}}");
    let kind = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "named", "expression": "params.data.team != 'none'"}],
    });
    world.post(MAPS, config_map("settings", json!({"team": "blue"}))).await.expect(201);
    world.post(POLICIES, policy("p", &[team], &kind)).await.expect(201);
    let by = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": "default", "parameterNotFoundAction": action}});
    world.post(BINDINGS, binding("b", "p", &by("settings", "Deny"))).await.expect(201);
    world.post(BINDINGS, binding("c", "p", &by("absent", "Allow"))).await.expect(201);
    let made = world.post(MAPS, config_map("m", json!({}))).await.expect(201);
    assert_eq!(made.at("/metadata/labels/team"), "blue");
    world.post(BINDINGS, binding("d", "p", &by("absent", "Deny"))).await.expect(201);
    let refused = world.post(MAPS, config_map("n", json!({}))).await.expect(403);
    let want = "policy 'p' with binding 'd' denied request: failed to configure binding: no params found for policy binding \
                with `Deny` parameterNotFoundAction";
    assert_eq!(refused.message(), want);
    assert_eq!(refused.at("/reason"), "Forbidden");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn policy_with_if_needed_sees_what_later_ones_changed() {
    let world = World::new().await;
    let copy = patch(
        "has(object.metadata.labels) && 'late' in object.metadata.labels ? \
         [JSONPatch{op: 'add', path: '/data/seen', value: object.metadata.labels.late}] : []",
    );
    let late = apply("Object{metadata: Object.metadata{labels: {'late': 'yes'}}}");
    bind(&world, "z", &[late], &json!({})).await;
    for (reinvocation, want) in [("Never", Value::Null), ("IfNeeded", json!("yes"))] {
        let name = reinvocation.to_lowercase();
        bind(&world, &name, std::slice::from_ref(&copy), &json!({"reinvocationPolicy": reinvocation})).await;
        let made = world.post(MAPS, config_map(&name, json!({"k": "v"}))).await.expect(201);
        assert_eq!(made.body.pointer("/data/seen").unwrap_or(&Value::Null), &want, "{reinvocation}");
        world.delete(&format!("{BINDINGS}/{name}")).await.expect(200);
    }
    world.seam.tasks.kill();
}
