//! The rules within the embedded server: at every verb, with names drawn, in dry runs, with warnings.

use std::sync::Arc;

use ironclad_admission::Config;
use ironclad_apiserver::Identity;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_runtime::in_process_client;
use serde_json::{Value, json};

use crate::support::{OWN, client, plane, send};

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn policy(name: Value) -> Value {
    let mut object = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": name,
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}},
    });
    object["metadata"]["namespace"] = json!("default");
    object
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_defaulted_on_create_and_protected_on_update() {
    let plane = plane(Config::default(), &["propagationpolicies", "clusters"]).await;
    let user = &plane.client;
    let (code, _, drawn) = send(user, "POST", POLICIES, JSON, &policy(json!({"generateName": "p-"}))).await;
    assert_eq!(code, 201, "{drawn}");
    let (code, _, made) = send(user, "POST", POLICIES, JSON, &policy(json!({"name": "p"}))).await;
    assert_eq!(code, 201, "{made}");
    let id = |object: &Value| object["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].clone();
    assert_eq!(id(&made).as_str().map(str::len), Some(36));
    assert_ne!(id(&made), id(&drawn), "each its own");
    assert_eq!(made["metadata"]["finalizers"], json!(["karmada.io/propagation-policy-controller"]));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["resourceSelectors"][0]["namespace"], "default");
    assert_eq!(made["spec"]["priority"], 0, "the defaults of the schema as ever");

    let (code, _, dry) =
        send(user, "POST", &format!("{POLICIES}?dryRun=All"), JSON, &policy(json!({"name": "dry"}))).await;
    assert_eq!((code, id(&dry).is_string()), (201, true), "a dry run is reviewed, too");
    let one = format!("{POLICIES}/p");
    for (name, method, content_type, body) in [
        ("a merge patch", "PATCH", MERGE, json!({"spec": {"schedulerName": "other"}})),
        (
            "a JSON patch",
            "PATCH",
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/spec/schedulerName", "value": "other"}]),
        ),
        ("an update", "PUT", JSON, {
            let mut object = made.clone();
            object["spec"]["schedulerName"] = json!("other");
            object
        }),
        ("an apply", "PATCH", "application/apply-patch+yaml", {
            let mut object = policy(json!({"name": "p"}));
            object["spec"]["schedulerName"] = json!("other");
            object
        }),
    ] {
        let path = format!("{one}?fieldManager=test&force={}", content_type.contains("apply"));
        let (code, _, status) = send(user, method, &path, content_type, &body).await;
        assert_eq!(code, 403, "{name}: {status}");
        let want = "admission webhook \"propagationpolicy.karmada.io\" denied the request: the schedulerName should not be updated";
        assert_eq!((status["message"].as_str(), status["reason"].as_str()), (Some(want), Some("Forbidden")), "{name}");
    }
    let (code, warnings, _) = send(
        user,
        "PATCH",
        &one,
        MERGE,
        &json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["nowhere"]}}}}),
    )
    .await;
    assert_eq!(
        (code, warnings),
        (200, vec!["299 - \"spec.placement.clusterAffinity.clusterNames[0] names cluster \\\"nowhere\\\", which does not exist\"".to_owned()])
    );

    let ours = client(&plane.server, OWN);
    let path = format!("{one}?fieldManager=ironclad-policy");
    let (code, _, freed) =
        send(&ours, "PATCH", &path, MERGE, &json!({"metadata": {"finalizers": null}, "spec": {"schedulerName": "x"}}))
            .await;
    assert_eq!(code, 200, "our own writes are not reviewed: {freed}");
}

#[tokio::test(start_paused = true)]
async fn protected_objects_are_not_deleted_by_any_verb() {
    let plane = plane(Config::default(), &[]).await;
    let user = &plane.client;
    let maps = "/api/v1/namespaces/shop/configmaps";
    send(user, "POST", "/api/v1/namespaces", JSON, &json!({"metadata": {"name": "shop"}})).await;
    let marked =
        json!({"metadata": {"name": "kept", "labels": {"resourcetemplate.karmada.io/deletion-protected": "Always"}}});
    assert_eq!(send(user, "POST", maps, JSON, &marked).await.0, 201);
    assert_eq!(send(user, "POST", maps, JSON, &json!({"metadata": {"name": "other"}})).await.0, 201);
    let refused = "admission webhook \"resourcedeletionprotection.karmada.io\" denied the request: This resource is protected, please make sure to remove the label: resourcetemplate.karmada.io/deletion-protected";
    for path in [format!("{maps}/kept"), format!("{maps}/kept?dryRun=All"), maps.to_owned()] {
        let (code, _, status) = send(user, "DELETE", &path, JSON, &Value::Null).await;
        assert_eq!((code, status["message"].as_str()), (403, Some(refused)), "{path}");
    }
    let (code, _, status) = send(user, "DELETE", "/api/v1/namespaces/shop", JSON, &Value::Null).await;
    let refused = "admission webhook \"namespacedeletionprotection.karmada.io\" denied the request: This namespace holds protected resources: ConfigMap kept; please make sure to remove the label: resourcetemplate.karmada.io/deletion-protected";
    assert_eq!((code, status["message"].as_str()), (403, Some(refused)));
    let unmark = json!({"metadata": {"labels": null}});
    assert_eq!(send(user, "PATCH", &format!("{maps}/kept"), MERGE, &unmark).await.0, 200);
    assert_eq!(send(user, "DELETE", &format!("{maps}/kept"), JSON, &Value::Null).await.0, 200);
    assert_eq!(send(user, "DELETE", "/api/v1/namespaces/shop", JSON, &Value::Null).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_charged_in_the_same_transaction_and_never_exceeded() {
    let gates = Gates::default().with(Gate::FederatedQuotaEnforcement, true);
    let plane = plane(Config { gates, ..Config::default() }, &["federatedresourcequotas", "resourcebindings"]).await;
    let user = &plane.client;
    let quotas = "/apis/policy.karmada.io/v1alpha1/namespaces/default/federatedresourcequotas";
    let bindings = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
    let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", "metadata": {"name": "q"}, "spec": {"overall": {"cpu": "10"}}});
    assert_eq!(send(user, "POST", quotas, JSON, &quota).await.0, 201);
    let binding = |name: String| {
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": name},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"},
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "replicas": 1, "clusters": [{"name": "m1", "replicas": 1}],
            },
        })
    };
    let used = async || {
        send(user, "GET", &format!("{quotas}/q"), JSON, &Value::Null).await.2["status"]["overallUsed"]["cpu"].clone()
    };
    let (code, _, _) = send(user, "POST", &format!("{bindings}?dryRun=All"), JSON, &binding("dry".into())).await;
    assert_eq!((code, used().await), (201, Value::Null), "a dry run charges nothing");
    let creates: Vec<_> = (0..20)
        .map(|i| {
            let (user, body) = (user.clone(), binding(format!("b{i}")));
            async move { send(&user, "POST", bindings, JSON, &body).await }
        })
        .collect();
    let answers = futures::future::join_all(creates).await;
    let made = answers.iter().filter(|(code, ..)| *code == 201).count();
    assert_eq!((made, used().await), (10, json!("10")), "ten of twenty at once");
    let refused = answers.iter().find(|(code, ..)| *code != 201).unwrap();
    assert_eq!((refused.0, refused.2["reason"].as_str()), (403, Some("QuotaExceeded")), "{}", refused.2);
    let first = (0..20).find(|i| answers[*i].0 == 201).unwrap();
    let down = json!({"spec": {"clusters": [{"name": "m1", "replicas": 0}]}});
    assert_eq!(send(user, "PATCH", &format!("{bindings}/b{first}"), MERGE, &down).await.0, 200);
    assert_eq!(used().await, "9", "what is given back is free");
}

#[tokio::test(start_paused = true)]
async fn an_old_client_of_bindings_loses_no_fields() {
    let plane = plane(Config::default(), &["resourcebindings"]).await;
    let user = &plane.client;
    let path = |version: &str| format!("/apis/work.karmada.io/{version}/namespaces/default/resourcebindings");
    let (old, new) = (path("v1alpha1"), path("v1alpha2"));
    let spec = json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"},
        "replicas": 4, "clusters": [{"name": "m1", "replicas": 4}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}},
        "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
    });
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web"}, "spec": spec});
    let (code, _, made) = send(user, "POST", &new, JSON, &binding).await;
    assert_eq!(code, 201, "{made}");

    let (code, _, mut seen) = send(user, "GET", &format!("{old}/web"), JSON, &Value::Null).await;
    assert_eq!((code, &seen["apiVersion"]), (200, &json!("work.karmada.io/v1alpha1")), "{seen}");
    assert_eq!(seen["spec"]["resource"]["resourcePerReplicas"], json!({"cpu": "100m"}), "{seen}");
    assert!(seen["spec"].get("placement").is_none(), "{seen}");
    seen["spec"]["clusters"] = json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 3}]);
    let (code, _, changed) = send(user, "PUT", &format!("{old}/web"), JSON, &seen).await;
    assert_eq!(code, 200, "{changed}");
    let (_, _, stored) = send(user, "GET", &format!("{new}/web"), JSON, &Value::Null).await;
    assert_eq!(stored["spec"]["clusters"], seen["spec"]["clusters"], "{stored}");
    assert_eq!(stored["spec"]["placement"], spec["placement"], "what it knows nothing of stays: {stored}");
    assert_eq!(stored["spec"]["replicaRequirements"], spec["replicaRequirements"], "{stored}");
    assert_eq!(stored["metadata"]["generation"], 2, "{stored}");
    let annotations = stored.pointer("/metadata/annotations").cloned().unwrap_or_default();
    assert!(!annotations.to_string().contains("roundtrip"), "{annotations}");

    let (_, _, list) = send(user, "GET", &old, JSON, &Value::Null).await;
    assert_eq!(list["items"][0]["apiVersion"], "work.karmada.io/v1alpha1", "{list}");

    let mut other = seen;
    other["metadata"] = json!({"name": "other"});
    let (code, _, made) = send(user, "POST", &old, JSON, &other).await;
    assert_eq!(code, 201, "{made}");
    let id = "/metadata/labels/resourcebinding.karmada.io~1permanent-id";
    assert!(made.pointer(id).is_some(), "its writes are reviewed like any other: {made}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_taint_policy_names_the_clusters() {
    let gates = Gates::default().with(Gate::Failover, true);
    let plane = plane(Config { gates, ..Config::default() }, &["clustertaintpolicies", "clusters"]).await;
    let user = &plane.client;
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let cluster = |name: &str| {
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}.example:6443")}})
    };
    for (name, ready) in [("m1", "False"), ("m2", "True")] {
        assert_eq!(send(user, "POST", clusters, JSON, &cluster(name)).await.0, 201);
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z"}]}});
        let (code, _, answer) = send(user, "PATCH", &format!("{clusters}/{name}/status"), MERGE, &status).await;
        assert_eq!(code, 200, "{answer}");
    }
    let policies = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies";
    let policy = |values: &[&str]| {
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "p"}, "spec": {
            "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": values}],
            "taintsToAdd": [{"key": "down", "effect": "NoSchedule"}]}})
    };
    let warnings_of = |selected: u8, matched: u8, cluster: &str| {
        [
            format!(
                "299 - \"dry run: {selected} of 2 clusters are selected, and the conditions of {matched} of them match\""
            ),
            format!("299 - \"dry run: cluster {cluster} would get down:NoSchedule at once\""),
        ]
    };
    let (code, warnings, answer) =
        send(user, "POST", &format!("{policies}?dryRun=All"), JSON, &policy(&["False"])).await;
    assert_eq!((code, warnings), (201, warnings_of(2, 1, "m1").to_vec()), "{answer}");
    let (code, warnings, answer) = send(user, "POST", policies, JSON, &policy(&["False"])).await;
    assert_eq!((code, warnings), (201, vec![]), "a write that counts says nothing of it: {answer}");
    let change = json!({"spec": policy(&["True"])["spec"]});
    let one = format!("{policies}/p?dryRun=All");
    let (code, warnings, answer) = send(user, "PATCH", &one, MERGE, &change).await;
    assert_eq!((code, warnings), (200, warnings_of(2, 1, "m2").to_vec()), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn who_may_write_clusters_sends_no_secret_that_they_may_not_read() {
    const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let plane = plane(Config::default(), &["clusters"]).await;
    let admin = &plane.client;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rule = |groups: &str, resource: &str| json!([{"apiGroups": [groups], "resources": [resource], "verbs": ["*"]}]);
    let subject = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]);
    for (kind, namespace, rules) in [
        ("ClusterRole", "", rule("cluster.karmada.io", "clusters")),
        ("Role", "namespaces/default/", rule("", "secrets")),
    ] {
        let plural = format!("{rbac}/{namespace}{}s", kind.to_lowercase());
        let role = json!({"metadata": {"name": "bob"}, "rules": rules});
        assert_eq!(send(admin, "POST", &plural, JSON, &role).await.0, 201);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "bob"});
        let binding = json!({"metadata": {"name": "bob"}, "roleRef": role, "subjects": subject});
        let plural = plural.replace("roles", "rolebindings");
        assert_eq!(send(admin, "POST", &plural, JSON, &binding).await.0, 201);
    }
    let bob = in_process_client(plane.server.in_process(Identity::user("bob", &[])), Arc::default());
    let cluster = |name: &str, namespace: &str| {
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {
                "syncMode": "Push", "apiEndpoint": "https://evil.example",
                "secretRef": {"namespace": namespace, "name": "any"},
            },
        })
    };
    for (namespace, want) in [("karmada-cluster", 403), ("default", 201)] {
        let (code, _, answer) = send(&bob, "POST", CLUSTERS, JSON, &cluster(namespace, namespace)).await;
        assert_eq!(code, want, "{answer}");
    }
    assert_eq!(send(admin, "POST", CLUSTERS, JSON, &cluster("theirs", "karmada-cluster")).await.0, 201);
    for patch in [json!({"apiEndpoint": "https://evil2.example"}), json!({"proxyURL": "http://evil"})] {
        let (code, _, answer) =
            send(&bob, "PATCH", &format!("{CLUSTERS}/theirs"), MERGE, &json!({"spec": patch})).await;
        assert_eq!(code, 403, "{answer}");
    }
    let (code, ..) = send(&bob, "PATCH", &format!("{CLUSTERS}/theirs"), MERGE, &json!({"spec": {"region": "r"}})).await;
    assert_eq!(code, 200, "what sends nothing elsewhere is not asked about");
}

#[tokio::test(start_paused = true)]
async fn interpreter_webhook_behind_an_unreachable_service_is_warned_of() {
    let plane = plane(Config::default(), &["resourceinterpreterwebhookconfigurations"]).await;
    let user = &plane.client;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"},
        "spec": {"type": "ExternalName", "externalName": "hooks.example.com"}});
    let (code, _, made) = send(user, "POST", "/api/v1/namespaces/default/services", JSON, &service).await;
    assert_eq!(code, 201, "{made}");
    let hook = |name: &str, client: Value| {
        json!({"name": name, "interpreterContextVersions": ["v1alpha1"], "clientConfig": client,
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"], "operations": ["InterpretHealth"]}]})
    };
    let at = |name: &str| json!({"service": {"namespace": "default", "name": name, "port": 443}});
    let configuration = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration", "metadata": {"name": "c"},
        "webhooks": [hook("a.b.c", json!({"url": "https://h.example"})), hook("b.b.c", at("outside")), hook("c.b.c", at("inside"))],
    });
    let path = "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations";
    let (code, warnings, made) = send(user, "POST", path, JSON, &configuration).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        warnings,
        [
            "299 - \"webhooks[2].clientConfig.service: service \\\"inside\\\" can't be reached, as this control plane is in no cluster network: name a clientConfig.url, or make the Service one of type ExternalName\""
        ]
    );
}
