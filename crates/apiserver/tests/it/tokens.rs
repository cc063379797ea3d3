//! Tokens of ServiceAccounts: asked for, shown to others, ended (specification/apiserver.md 17, 20); bootstrap tokens.

use std::time::Duration;

use http::Method;
use ironclad_apiserver::{Identity, Options};
use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec},
    core::v1::{Secret, ServiceAccount},
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{
    support::{Answer, World},
    tls::serve,
};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

impl World {
    async fn account(&self, name: &str) {
        self.post(ACCOUNTS, json!({"metadata": {"name": name}})).await.expect(201);
    }

    async fn asked(&self, account: &str, spec: Value) -> Answer {
        self.post(&format!("{ACCOUNTS}/{account}/token"), json!({"spec": spec})).await
    }

    async fn token(&self, account: &str, spec: Value) -> String {
        self.asked(account, spec).await.expect(201).at("/status/token").as_str().unwrap().to_owned()
    }

    async fn reviewed(&self, token: &str, audiences: &[&str]) -> Value {
        let spec = json!({"token": token, "audiences": audiences});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        self.post(path, json!({"spec": spec})).await.expect(201).at("/status").clone()
    }
}

#[tokio::test(start_paused = true)]
async fn token_request_validates_duration_and_binding() {
    let world = World::new().await;
    world.account("s").await;
    let answer = world.asked("s", json!({})).await.expect(201);
    assert_eq!(answer.at("/spec"), &json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null}));
    assert_eq!(answer.at("/metadata/name"), "s");
    assert_eq!(answer.at("/status/expirationTimestamp"), "2026-01-01T01:00:00Z");
    let pod = |name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}});
    for (spec, code, message) in [
        (
            json!({"expirationSeconds": 599}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify \
             a duration less than 10 minutes",
        ),
        (
            json!({"expirationSeconds": 4_294_967_297_i64}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not \
             specify a duration larger than 2^32 seconds",
        ),
        (pod("nope"), 404, "pods \"nope\" not found"),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ] {
        let answer = world.asked("s", spec.clone()).await.expect(code);
        assert_eq!(answer.message(), message, "{spec}");
    }
    world.asked("s", json!({"expirationSeconds": 600})).await.expect(201);
    let missing = world.asked("none", json!({})).await.expect(404);
    assert_eq!(missing.message(), "serviceaccounts \"none\" not found");
    let path = format!("{ACCOUNTS}/s/token");
    world.send_as(Identity::user("alice", &[]), http::Method::POST, &path, &[], "{}").await.expect(403);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn token_review_reports_user_and_errors() {
    let world = World::new().await;
    world.account("s").await;
    let uid = world.get(&format!("{ACCOUNTS}/s")).await.at("/metadata/uid").clone();
    let token = world.token("s", json!({"audiences": ["a", "x"], "expirationSeconds": 600})).await;
    let status = world.reviewed(&token, &["a", "b"]).await;
    assert_eq!(status["audiences"], json!(["a"]));
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:s");
    assert_eq!(status["user"]["uid"], uid);
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(status["user"]["groups"], json!(groups));
    let id = status["user"]["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(id.starts_with("JTI="), "{id}");
    let wrong = format!(
        "[invalid bearer token, token audiences [\"a\" \"x\"] is invalid for the target audiences [\"{ISSUER}\"]]"
    );
    assert_eq!(world.reviewed(&token, &[]).await, json!({"user": {}, "error": wrong}));
    assert_eq!(world.reviewed("nope", &[]).await, json!({"user": {}, "error": "invalid bearer token"}));
    let authenticated = |status: Value| status["authenticated"] == true;
    world.seam.clock.sleep(Duration::from_secs(610)).await;
    assert!(authenticated(world.reviewed(&token, &["a"]).await), "clocks may differ by ten seconds");
    world.seam.clock.sleep(Duration::from_secs(1)).await;
    assert!(!authenticated(world.reviewed(&token, &["a"]).await), "it has expired");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn token_is_invalid_once_its_bound_object_is_deleted() {
    let world = World::new().await;
    world.account("s").await;
    world.account("other").await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "s", "containers": [{"name": "c", "image": "i"}]}});
    world.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    let secret = json!({"metadata": {"name": "x"}});
    world.post("/api/v1/namespaces/default/secrets", secret.clone()).await.expect(201);
    let of = |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    let refused = world.asked("other", of("Pod", "p")).await.expect(400);
    assert!(refused.message().contains("different serviceaccount name"), "{}", refused.message());
    let (by_pod, by_secret) = (world.token("s", of("Pod", "p")).await, world.token("s", of("Secret", "x")).await);
    let own = world.token("s", json!({})).await;
    let status = world.reviewed(&by_pod, &[]).await;
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    let mut lives = Vec::new();
    for step in ["", "pods/p", "secrets/x", "serviceaccounts/s"] {
        if !step.is_empty() {
            world.delete(&format!("/api/v1/namespaces/default/{step}")).await.expect(200);
        }
        if step == "secrets/x" {
            // Another object of the name doesn't bring the token back.
            world.post("/api/v1/namespaces/default/secrets", secret.clone()).await.expect(201);
        }
        if step == "serviceaccounts/s" {
            world.account("s").await;
        }
        let mut now = Vec::new();
        for token in [&by_pod, &by_secret, &own] {
            now.push(world.reviewed(token, &[]).await["authenticated"] == true);
        }
        lives.push((step, now));
    }
    assert_eq!(
        lives,
        [
            ("", vec![true, true, true]),
            ("pods/p", vec![false, true, true]),
            ("secrets/x", vec![false, false, true]),
            ("serviceaccounts/s", vec![false, false, false]),
        ]
    );
    world.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn token_authenticates_its_service_account() {
    let served = serve().await;
    let admin = served.client(None, None).await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(admin);
    let account = serde_json::from_value(json!({"metadata": {"name": "s"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let spec = TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request("s", &PostParams::default(), &request).await.unwrap();
    let token = answer.status.unwrap().token.unwrap();
    let client = served.client(None, Some(&token)).await;
    let me: Api<SelfSubjectReview> = Api::all(client.clone());
    let me = me.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = me.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:serviceaccount:default:s"));
    let get = |path: &str| http::Request::get(path).body(vec![]).unwrap();
    let keys: Value = client.request(get("/openid/v1/jwks")).await.unwrap();
    assert_eq!(keys["keys"][0]["alg"], "ES256");
    let known: Value = client.request(get("/.well-known/openid-configuration")).await.unwrap();
    assert_eq!(known["issuer"], ISSUER);
    assert_eq!(known["jwks_uri"], format!("{ISSUER}/openid/v1/jwks"));
    accounts.delete("s", &Default::default()).await.unwrap();
    match client.apiserver_version().await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 401),
        other => panic!("still known: {other:?}"),
    }
    served.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn keys_of_the_issuer_are_at_the_configured_address_whatever_host_a_client_names() {
    for (external, want) in [
        (Some("https://plane.example:6443/"), "https://plane.example:6443/openid/v1/jwks".to_owned()),
        (None, format!("{ISSUER}/openid/v1/jwks")),
    ] {
        let options = Options { external_url: external.map(str::to_owned), ..Options::default() };
        let world = World::seeded(1, options).await;
        let path = "/.well-known/openid-configuration";
        let named = world.send(Method::GET, path, &[("host", "evil.example")], "").await.expect(200);
        assert_eq!(named.at("/jwks_uri"), &json!(want));
        let absolute = world.send(Method::GET, &format!("https://evil.example{path}"), &[], "").await.expect(200);
        assert_eq!(absolute.at("/jwks_uri"), &json!(want));
        world.seam.tasks.kill();
    }
}

/// The data of a Secret of a bootstrap token with the id `abcdef`.
fn bootstrap_token(expiration: &str) -> Value {
    json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "stringData": {
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": expiration,
        "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:members",
    }})
}

#[tokio::test(start_paused = true)]
async fn bootstrap_token_authenticates_until_it_expires() {
    let world = World::new().await;
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    world.post(secrets, bootstrap_token("2026-01-01T00:01:00Z")).await.expect(201);
    let status = world.reviewed("abcdef.0123456789abcdef", &[]).await;
    let groups = json!(["system:bootstrappers", "system:bootstrappers:members", "system:authenticated"]);
    assert_eq!(status["user"], json!({"username": "system:bootstrap:abcdef", "groups": groups}));
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    for wrong in ["abcdef.0123456789abcdee", "abcdee.0123456789abcdef"] {
        assert_eq!(world.reviewed(wrong, &[]).await, unknown, "{wrong}");
    }
    world.seam.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(world.reviewed("abcdef.0123456789abcdef", &[]).await, unknown, "it has expired");
    world.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bootstrap_tokens_get_401() {
    let served = serve().await;
    let secrets: Api<Secret> = Api::namespaced(served.client(None, None).await, "kube-system");
    let secret = serde_json::from_value(bootstrap_token("2999-01-01T00:00:00Z")).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    for (token, right) in [("abcdef.0123456789abcdef", true), ("abcdef.0123456789abcdee", false)] {
        let me: Api<SelfSubjectReview> = Api::all(served.client(None, Some(token)).await);
        match me.create(&PostParams::default(), &SelfSubjectReview::default()).await {
            Ok(me) => {
                let user = me.status.unwrap().user_info.unwrap();
                assert_eq!((user.username.as_deref(), right), (Some("system:bootstrap:abcdef"), true), "{token}");
            }
            Err(kube::Error::Api(status)) => assert_eq!((status.code, right), (401, false), "{token}"),
            Err(other) => panic!("{other}"),
        }
    }
    served.seam.tasks.kill();
}
