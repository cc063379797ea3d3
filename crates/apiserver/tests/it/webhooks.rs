//! Admission webhooks of users, carried by a caller of the test's (specification/apiserver.md 21).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Method;
use ironclad_apiserver::{Options, WebhookAnswer, WebhookCall, WebhookCaller};
use serde_json::{Value, json};

use crate::support::{Answer, World, config_map};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Answers by the path of the URL, and keeps what it was asked.
#[derive(Debug, Default)]
struct Script {
    asked: Mutex<Vec<(String, Value)>>,
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

impl WebhookCaller for Script {
    fn call(&self, call: WebhookCall) -> WebhookAnswer {
        let review: Value = serde_json::from_slice(&call.body).unwrap();
        let request = review["request"].clone();
        let path = call.url.split("//h.example").nth(1).unwrap().split('?').next().unwrap().to_owned();
        self.asked.lock().unwrap().push((call.url.clone(), request.clone()));
        Box::pin(async move {
            let mut response = match path.as_str() {
                "/allow" => json!({"allowed": true, "warnings": ["careful now"]}),
                "/deny" => {
                    json!({"allowed": false, "status": {"code": 418, "message": "nope!", "reason": "Forbidden"}})
                }
                "/deny-plain" => json!({"allowed": false}),
                "/uid" => json!({"allowed": true, "uid": "zzz"}),
                "/absent" => {
                    return Ok(Bytes::from(r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#));
                }
                "/slow" => std::future::pending().await,
                "/boom" => {
                    return Err("an error on the server (\"boom\") has prevented the request from succeeding".into());
                }
                "/label" => patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}])),
                "/copy" => {
                    let by = request.pointer("/object/metadata/labels/by").cloned().unwrap_or(json!("nobody"));
                    patch(&json!([{"op": "add", "path": "/data/seen", "value": by}]))
                }
                "/bad-patch" => patch(&json!([{"op": "remove", "path": "/nope"}])),
                "/rename" => patch(&json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
                other => panic!("no script for {other}"),
            };
            if response["uid"].is_null() {
                response["uid"] = request["uid"].clone();
            }
            let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
            Ok(Bytes::from(review.to_string()))
        })
    }
}

async fn world() -> (World, Arc<Script>) {
    let script = Arc::new(Script::default());
    let options = Options { webhooks: Some(script.clone()), ..Options::default() };
    (World::seeded(1, options).await, script)
}

/// A webhook on ConfigMaps of namespaces that aren't labelled `free`.
fn hook(path: &str, more: &Value) -> Value {
    let mut hook = json!({
        "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://h.example{path}")},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    hook
}

fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": hooks})
}

#[tokio::test(start_paused = true)]
async fn webhook_answer_admits_refuses_or_fails_a_write() {
    for (path, more, code, want) in [
        ("/allow", json!({}), 201, ""),
        ("/deny", json!({}), 418, "admission webhook \"a.b.c\" denied the request: nope!"),
        ("/deny", json!({"failurePolicy": "Ignore"}), 418, "admission webhook \"a.b.c\" denied the request: nope!"),
        ("/deny-plain", json!({}), 400, "admission webhook \"a.b.c\" denied the request without explanation"),
        (
            "/absent",
            json!({}),
            500,
            "Internal error occurred: failed calling webhook \"a.b.c\": received invalid webhook response: webhook response \
             was absent",
        ),
        (
            "/boom",
            json!({}),
            500,
            "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: an error on the server \
             (\"boom\") has prevented the request from succeeding",
        ),
        ("/boom", json!({"failurePolicy": "Ignore"}), 201, ""),
        (
            "/slow",
            json!({"timeoutSeconds": 2}),
            500,
            "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \
             \"https://h.example/slow?timeout=2s\": context deadline exceeded",
        ),
        (
            "/allow",
            json!({"clientConfig": {"service": {"namespace": "default", "name": "nosvc"}}}),
            500,
            "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \
             \"https://nosvc.default.svc:443/?timeout=10s\": service \"nosvc\" not found",
        ),
        ("/deny", json!({"namespaceSelector": {"matchLabels": {"no": "such"}}}), 201, ""),
        ("/deny", json!({"objectSelector": {"matchLabels": {"no": "such"}}}), 201, ""),
        (
            "/deny",
            json!({"matchConditions": [{"name": "x", "expression": "object.metadata.name == 'other'"}]}),
            201,
            "",
        ),
        (
            "/deny",
            json!({"matchConditions": [{"name": "x", "expression": "request.operation == 'CREATE' && has(object.data)"}]}),
            418,
            "admission webhook \"a.b.c\" denied the request: nope!",
        ),
        (
            "/allow",
            json!({"matchConditions": [{"name": "x", "expression": "object.spec.x == 1"}]}),
            403,
            "configmaps \"m\" is forbidden: expression 'object.spec.x == 1' resulted in error: no such key: spec",
        ),
        (
            "/deny",
            json!({"failurePolicy": "Ignore", "matchConditions": [{"name": "x", "expression": "object.spec.x == 1"}]}),
            201,
            "",
        ),
    ] {
        let (world, script) = world().await;
        let hook = hook(path, &more);
        world
            .post(VALIDATING, configuration("ValidatingWebhookConfiguration", "v", std::slice::from_ref(&hook)))
            .await
            .expect(201);
        let answer = world.post(MAPS, config_map("m", json!({"a": "b"}))).await.expect(code);
        assert_eq!(answer.message(), want, "{hook}");
        let asked = !script.asked.lock().unwrap().is_empty();
        if path == "/allow" && asked {
            assert_eq!(answer.warnings(), ["299 - \"careful now\""]);
        }
        world.seam.tasks.kill();
    }
    let (world, _) = world().await;
    world
        .post(VALIDATING, configuration("ValidatingWebhookConfiguration", "v", &[hook("/uid", &json!({}))]))
        .await
        .expect(201);
    let answer = world.post(MAPS, config_map("m", json!({}))).await.expect(500);
    assert!(
        answer.message().contains("received invalid webhook response: expected response.uid="),
        "{}",
        answer.message()
    );
    assert!(answer.message().ends_with(", got \"zzz\""), "{}", answer.message());
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn admission_review_describes_the_write() {
    let (world, script) = world().await;
    world
        .post(VALIDATING, configuration("ValidatingWebhookConfiguration", "v", &[hook("/allow", &json!({}))]))
        .await
        .expect(201);
    world.post(&format!("{MAPS}?dryRun=All"), config_map("m", json!({"a": "b"}))).await.expect(201);
    world.post(MAPS, config_map("m", json!({"a": "b"}))).await.expect(201);
    world.call(Method::PATCH, &format!("{MAPS}/m"), json!({"data": {"a": "c"}})).await.expect(200);
    world.delete(&format!("{MAPS}/m")).await.expect(200);
    world.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.expect(201);
    let asked = script.asked.lock().unwrap().clone();
    let brief = asked.iter().map(|(_, r)| {
        let a = |object: &str| r[object]["data"]["a"].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} dry={} old={} new={}",
            r["operation"].as_str().unwrap(),
            r["name"].as_str().unwrap(),
            r["dryRun"],
            a("oldObject"),
            a("object")
        )
    });
    assert_eq!(
        brief.collect::<Vec<_>>(),
        [
            "CREATE m dry=true old=- new=b", "CREATE m dry=false old=- new=b", "UPDATE m dry=false old=b new=c",
            "DELETE m dry=false old=c new=-",
        ]
    );
    let (url, request) = &asked[1];
    assert_eq!(url, "https://h.example/allow?timeout=10s");
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(request["namespace"], "default");
    assert_eq!(request["userInfo"]["username"], "tester");
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert!(asked[3].1["object"].is_null());
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn mutating_webhooks_change_objects() {
    let (world, script) = world().await;
    // By name of the configuration: `copy` comes before `label`, sees nothing at first and is asked again.
    let copy = hook("/copy", &json!({"reinvocationPolicy": "IfNeeded"}));
    world.post(MUTATING, configuration("MutatingWebhookConfiguration", "1-copy", &[copy])).await.expect(201);
    world
        .post(MUTATING, configuration("MutatingWebhookConfiguration", "2-label", &[hook("/label", &json!({}))]))
        .await
        .expect(201);
    let made = world.post(MAPS, config_map("m", json!({"a": "b"}))).await.expect(201);
    assert_eq!(made.at("/data"), &json!({"a": "b", "seen": "hook"}));
    assert_eq!(made.at("/metadata/labels"), &json!({"by": "hook"}));
    assert_eq!(script.asked.lock().unwrap().len(), 3);
    let stored = world.get(&format!("{MAPS}/m")).await.expect(200);
    assert_eq!(stored.at("/data"), made.at("/data"));
    for (path, code, want) in [("/bad-patch", 500, "Internal error occurred: "), ("/rename", 201, "")] {
        world.delete(&format!("{MUTATING}/1-copy")).await;
        world.delete(&format!("{MUTATING}/2-label")).await;
        world.delete(&format!("{MUTATING}/3")).await;
        world
            .post(MUTATING, configuration("MutatingWebhookConfiguration", "3", &[hook(path, &json!({}))]))
            .await
            .expect(201);
        let name = path.trim_start_matches('/');
        let answer = world.post(MAPS, config_map(name, json!({}))).await.expect(code);
        assert!(answer.message().starts_with(want), "{}", answer.message());
        if code == 201 {
            assert_eq!(answer.at("/metadata/name"), "other", "who is asked of a new object may name it");
        }
    }
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn dry_run_calls_only_webhooks_without_side_effects() {
    let (world, script) = world().await;
    let with = |effects: &str| hook("/allow", &json!({"sideEffects": effects}));
    let configuration = |hook| configuration("ValidatingWebhookConfiguration", "v", &[hook]);
    world.post(VALIDATING, configuration(with("Some"))).await.expect(422);
    world.post(VALIDATING, configuration(with("NoneOnDryRun"))).await.expect(201);
    world.post(&format!("{MAPS}?dryRun=All"), config_map("m", json!({}))).await.expect(201);
    assert_eq!(script.asked.lock().unwrap()[0].1["dryRun"], true);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn rule_matches_equivalent_versions() {
    const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    });
    let rules = json!([{"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["*"]}]);
    for (policy, path, asked) in [("Exact", "/label", false), ("Equivalent", "/label", true)] {
        let (world, script) = world().await;
        let hook = hook(path, &json!({"matchPolicy": policy, "rules": rules}));
        world.post(MUTATING, configuration("MutatingWebhookConfiguration", "m", &[hook])).await.expect(201);
        let made = world.post(AUTOSCALERS, autoscaler.clone()).await.expect(201);
        let log = script.asked.lock().unwrap().clone();
        assert_eq!(log.len(), usize::from(asked), "{policy}");
        assert_eq!(made.at("/metadata/labels/by") == "hook", asked, "{policy}");
        assert_eq!(made.at("/apiVersion"), "autoscaling/v2");
        assert_eq!(made.at("/spec/metrics/0/resource/target/averageUtilization"), 80, "nothing is lost on the way");
        if let Some((_, request)) = log.first() {
            let versions =
                ["kind", "resource", "requestKind", "requestResource"].map(|key| request[key]["version"].clone());
            assert_eq!(versions, ["v1", "v1", "v2", "v2"]);
            assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
            assert_eq!(request["object"]["spec"]["targetCPUUtilizationPercentage"], 80);
        }
        world.seam.tasks.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn subresources_are_reviewed_as_their_own_kind() {
    let (world, script) = world().await;
    world.post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "robot"}})).await.expect(201);
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}, "metadata": {"name": "p"}});
    world.post("/api/v1/namespaces/default/pods", pod.clone()).await.expect(201);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment = json!({"metadata": {"name": "d"}, "spec": spec});
    world.post("/apis/apps/v1/namespaces/default/deployments", deployment).await.expect(201);
    let resources =
        ["deployments/scale", "pods/binding", "pods/eviction", "serviceaccounts/token", "pods/exec", "pods/proxy"];
    let rules = [json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources})];
    let named = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
    let denied = hook("/deny", &json!({"rules": rules}));
    world.post(VALIDATING, configuration("ValidatingWebhookConfiguration", "v", &[denied])).await.expect(201);
    let (core, apps) = ("/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default");
    for (method, path, body, want) in [
        (Method::PUT, format!("{apps}/deployments/d/scale"), scale, "UPDATE Scale autoscaling of d"),
        (Method::POST, format!("{core}/pods/p/binding"), named.clone(), "CREATE Binding  of p"),
        (Method::POST, format!("{core}/pods/p/eviction"), named, "CREATE Eviction policy of p"),
        (
            Method::POST,
            format!("{core}/serviceaccounts/robot/token"),
            json!({"spec": {}}),
            "CREATE TokenRequest authentication.k8s.io of robot",
        ),
        (Method::POST, format!("{core}/pods/p/exec?command=ls"), Value::Null, "CONNECT PodExecOptions  of p"),
        (Method::GET, format!("{core}/pods/p/proxy"), Value::Null, "CONNECT PodProxyOptions  of p"),
    ] {
        world.call(method, &path, body).await.expect(418);
        let (_, request) = script.asked.lock().unwrap().pop().unwrap();
        let kind = &request["kind"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (operation, name) = (text(&request["operation"]), text(&request["name"]));
        assert_eq!(format!("{operation} {} {} of {name}", text(&kind["kind"]), text(&kind["group"])), want);
        assert_eq!(request["object"]["kind"], kind["kind"], "{path}");
    }
    assert!(script.asked.lock().unwrap().is_empty(), "what a subresource does to its object is asked of no further");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn webhook_that_refuses_everything_can_be_removed() {
    let (world, script) = world().await;
    let all = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]});
    world
        .post(VALIDATING, configuration("ValidatingWebhookConfiguration", "v", &[hook("/deny", &all)]))
        .await
        .expect(201);
    world.post(MAPS, config_map("m", json!({}))).await.expect(418);
    world.seam.clock.sleep(Duration::from_secs(1)).await;
    world.delete(&format!("{VALIDATING}/v")).await.expect(200);
    world.post(MAPS, config_map("m", json!({}))).await.expect(201);
    assert_eq!(script.asked.lock().unwrap().len(), 1);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn writer_of_a_webhook_behind_an_unreachable_service_is_warned() {
    let world = World::new().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    world.post(services, service("inside", json!({"ports": [{"port": 443}]}))).await.expect(201);
    let outside = json!({"type": "ExternalName", "externalName": "hooks.example.com"});
    world.post(services, service("outside", outside)).await.expect(201);
    let hook = |name: &str, client: Value| json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client});
    let at = |name: &str| json!({"service": {"namespace": "default", "name": name}});
    let hooks = json!([
        hook("a.b.c", json!({"url": "https://h.example"})),
        hook("b.b.c", at("inside")),
        hook("c.b.c", at("outside")),
        hook("d.b.c", at("nowhere")),
    ]);
    let made = world.post(VALIDATING, json!({"metadata": {"name": "v"}, "webhooks": hooks})).await.expect(201);
    let remedy = "name a clientConfig.url, or make the Service one of type ExternalName";
    let want = [
        format!(
            "299 - \"webhooks[1].clientConfig.service: service \\\"inside\\\" is in a network that this server is not part of: {remedy}\""
        ),
        format!(
            "299 - \"webhooks[3].clientConfig.service: service \\\"nowhere\\\" not found, and this server is in no cluster network: {remedy}\""
        ),
    ];
    assert_eq!(made.warnings(), want);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = world.patch(&format!("{VALIDATING}/v"), "merge-patch+json", labelled).await.expect(200);
    assert_eq!(changed.warnings(), [""; 0], "once for each address");
    let client = json!({"service": {"namespace": "default", "name": "nowhere"}});
    let conversion =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v2", false)], "conversion": conversion},
    });
    let made = world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.expect(201);
    let want = format!(
        "299 - \"spec.conversion.webhook.clientConfig.service: service \\\"nowhere\\\" not found, and this server is in no cluster network: {remedy}\""
    );
    assert_eq!(made.warnings(), [want]);
    world.seam.tasks.kill();
}

/// Holds each review for a second, and counts how many are held.
#[derive(Debug, Default, Clone)]
struct Crowd(Arc<CrowdCounts>);

#[derive(Debug, Default)]
struct CrowdCounts {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl WebhookCaller for Crowd {
    fn call(&self, call: WebhookCall) -> WebhookAnswer {
        let crowd = self.0.clone();
        Box::pin(async move {
            let review: Value = serde_json::from_slice(&call.body).unwrap();
            crowd.all.fetch_add(1, Ordering::Relaxed);
            let now = crowd.now.fetch_add(1, Ordering::Relaxed) + 1;
            crowd.most.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            crowd.now.fetch_sub(1, Ordering::Relaxed);
            let response = json!({"uid": review["request"]["uid"], "allowed": review["request"]["oldObject"]["metadata"]["name"] != "m05"});
            Ok(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
                .to_string()
                .into())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_collection_are_deleted_sixteen_at_once() {
    let caller = Crowd::default();
    let crowd = caller.0.clone();
    let world = World::seeded(1, Options { webhooks: Some(Arc::new(caller)), ..Options::default() }).await;
    for i in 0..40 {
        let mut map = config_map(&format!("m{i:02}"), json!({}));
        map["metadata"]["labels"] = json!({"half": (i % 2).to_string(), "first": (i < 3).to_string()});
        world.post(MAPS, map).await.expect(201);
    }
    let mut hook = hook("/crowd", &json!({}));
    hook["rules"][0]["operations"] = json!(["DELETE"]);
    let hooks = configuration("ValidatingWebhookConfiguration", "crowd", &[hook]);
    world.post(VALIDATING, hooks).await.expect(201);
    let names = |list: &Answer| -> Vec<String> {
        let items = list.body["items"].as_array().into_iter().flatten();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };

    let deleted = world.delete(&format!("{MAPS}?labelSelector=half%3D0")).await.expect(200);
    let want: Vec<String> = (0..20).map(|i| format!("m{:02}", i * 2)).collect();
    assert_eq!(names(&deleted), want, "the answer has their order");
    assert_eq!((crowd.most.load(Ordering::Relaxed), crowd.all.load(Ordering::Relaxed)), (16, 20));

    // One is refused: those that were begun with it are gone, the others are not begun.
    world.delete(MAPS).await.expect(400);
    let left = world.get(MAPS).await.expect(200);
    let gone = 20 - names(&left).len();
    assert!(names(&left).contains(&"m05".to_owned()));
    assert!((15..20).contains(&gone), "{gone} of 20 are gone");
    assert_eq!((crowd.most.load(Ordering::Relaxed), crowd.now.load(Ordering::Relaxed)), (16, 0));
}
