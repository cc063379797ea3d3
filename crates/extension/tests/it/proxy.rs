//! The proxy to members, in front of members that say what they hear.

use std::sync::{Arc, Mutex};

use http::{Request, header};
use http_body_util::BodyExt as _;
use ironclad_admission::Config;
use ironclad_apiserver::Identity;
use ironclad_extension::proxy::{CONNECTS, ClusterProxy, ProxyObserved};
use ironclad_runtime::Tunnels;
use ironclad_seam::Seam;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{Plane, client, plane, send};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// A member that answers by path, and keeps the heads of requests.
struct Member {
    endpoint: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Member {
    #[allow(clippy::disallowed_methods, reason = "the member lives as long as the test")]
    async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = heard.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap().to_owned();
                all.lock().unwrap().push(head);
                let (status, more, body) = match path.as_str() {
                    "/away" => ("302 Found", "Location: http://169.254.169.254/latest\r\n", String::new()),
                    "/moved" => ("302 Found", "Location: /api/v1/\r\n", String::new()),
                    "/html" => ("200 OK", "Content-Type: text/html\r\n", "<html>".to_owned()),
                    "/api/v1/nodes" => {
                        ("200 OK", "", json!({"kind": "NodeList", "items": [{"metadata": {"name": name}}]}).to_string())
                    }
                    _ => ("200 OK", "", json!({"path": path}).to_string()),
                };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { endpoint, heard }
    }

    fn last(&self) -> String {
        self.heard.lock().unwrap().last().cloned().unwrap_or_default().to_lowercase()
    }
}

async fn create(plane: &Plane, path: &str, object: Value) {
    let (code, _, answer) = send(&plane.client, "POST", path, "application/json", &object).await;
    assert!(code < 300, "{path}: {answer}");
}

/// A control plane with the proxy, and this member joined to it, which lets group `devs` through.
async fn joined(plane: &Plane, name: &str, endpoint: &str) {
    let secrets = "/api/v1/namespaces/karmada-cluster/secrets";
    for (secret, token) in [(name.to_owned(), "admin"), (format!("{name}-impersonator"), "impersonator")] {
        let data = json!({"token": token, "caBundle": ""});
        create(plane, secrets, json!({"kind": "Secret", "metadata": {"name": secret}, "stringData": data})).await;
    }
    let reference = |name: String| json!({"namespace": "karmada-cluster", "name": name});
    let spec = json!({"syncMode": "Push", "apiEndpoint": endpoint, "insecureSkipTLSVerification": true,
        "secretRef": reference(name.to_owned()), "impersonatorSecretRef": reference(format!("{name}-impersonator"))});
    let api = "cluster.karmada.io/v1alpha1";
    create(plane, CLUSTERS, json!({"apiVersion": api, "kind": "Cluster", "metadata": {"name": name}, "spec": spec}))
        .await;
    let space = format!("karmada-es-{name}");
    create(plane, "/api/v1/namespaces", json!({"kind": "Namespace", "metadata": {"name": space}})).await;
    let [role, _] = ironclad_propagation::unified_auth::keys(&name.into());
    let manifest = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["devs"]}]});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": &*role.name},
        "spec": {"workload": {"manifests": [manifest]}}});
    create(plane, &format!("/apis/work.karmada.io/v1alpha1/namespaces/{space}/works"), work).await;
}

async fn world() -> (Plane, Member, Member) {
    let plane = plane(Config::default(), &["clusters", "works"]).await;
    create(&plane, "/api/v1/namespaces", json!({"kind": "Namespace", "metadata": {"name": "karmada-cluster"}})).await;
    let (first, second) = (Member::start("n1").await, Member::start("n2").await);
    joined(&plane, "m1", &first.endpoint).await;
    joined(&plane, "m2", &second.endpoint).await;
    let observed = ProxyObserved::default();
    let rights = Arc::downgrade(&plane.server);
    let proxy = ClusterProxy::new(plane.client.clone(), rights, &Seam::system("test"), Tunnels::default(), observed);
    plane.server.mount(Arc::new(proxy));
    plane.server.announce_subresource(&CONNECTS).unwrap();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "resourceNames": ["m1"], "verbs": ["get", "create"]}]);
    create(
        &plane,
        &format!("{rbac}/clusterroles"),
        json!({"kind": "ClusterRole", "metadata": {"name": "m1"}, "rules": rules}),
    )
    .await;
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "m1"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m1"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]});
    create(&plane, &format!("{rbac}/clusterrolebindings"), binding).await;
    (plane, first, second)
}

fn user(plane: &Plane, name: &str, groups: &[&str]) -> Client {
    let identity = Identity::user(name, groups);
    ironclad_runtime::in_process_client(plane.server.in_process(identity), Arc::default())
}

/// Sends a request with headers; answers code, headers and body.
async fn ask(client: &Client, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, http::HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_member_is_asked_as_the_user_with_the_impersonators_token() {
    let (plane, member, _) = world().await;
    let ann = user(&plane, "ann", &["devs", "ops"]);
    let said = [
        ("Authorization", "Bearer mine"),
        ("X-Remote-User", "root"),
        ("X-Remote-Group", "system:masters"),
        ("Accept", "application/json;as=Table"),
    ];
    let path = format!("{CLUSTERS}/m1/proxy/api/v1/a%2fb/?limit=5");
    let (code, headers, body) = ask(&ann, "GET", &path, &said).await;
    assert_eq!((code, &*body), (200, r#"{"path":"/api/v1/a%2fb/?limit=5"}"#));
    let head = member.last();
    for line in [
        "get /api/v1/a%2fb/?limit=5 http/1.1",
        "authorization: bearer impersonator",
        "impersonate-user: ann",
        "impersonate-group: devs",
        "accept: application/json;as=table",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    for gone in ["mine", "root", "masters", "ops", "system:authenticated"] {
        assert!(!head.contains(gone), "{gone}: {head}");
    }
    let warning = headers.get(header::WARNING).unwrap().to_str().unwrap();
    assert!(warning.contains("groups ops were not passed on to m1"), "{warning}");
}

#[tokio::test]
async fn who_may_use_it_is_decided_by_name_and_verb() {
    let (plane, member, other) = world().await;
    let (ann, bob) = (user(&plane, "ann", &[]), user(&plane, "bob", &[]));
    for (name, who, method, path, want) in [
        ("by name", &ann, "GET", "m1/proxy/api", 200),
        ("its root", &ann, "GET", "m1/proxy", 200),
        ("OPTIONS needs get", &ann, "OPTIONS", "m1/proxy/api", 200),
        ("another verb", &ann, "DELETE", "m1/proxy/api", 403),
        ("another cluster", &ann, "GET", "m2/proxy/api", 403),
        ("somebody else", &bob, "GET", "m1/proxy/api", 403),
        ("a path that leads out", &ann, "GET", "m1/proxy/api/..%2f..%2fsecrets", 400),
        ("no such cluster", &plane.client, "GET", "m3/proxy/api", 404),
        ("another subresource", &ann, "GET", "m1/proxyless", 403),
    ] {
        let (code, _, body) = ask(who, method, &format!("{CLUSTERS}/{path}"), &[]).await;
        assert_eq!(code, want, "{name}: {body}");
    }
    assert_eq!((member.heard.lock().unwrap().len(), other.heard.lock().unwrap().len()), (3, 0));
    let (_, _, body) = ask(&plane.client, "GET", &format!("{CLUSTERS}/m3/proxy/api"), &[]).await;
    assert!(body.contains(r#"clusters.cluster.karmada.io \"m3\" not found"#), "{body}");
}

#[tokio::test]
async fn redirects_are_passed_on_and_not_followed() {
    let (plane, member, _) = world().await;
    for (path, want) in
        [("away", "http://169.254.169.254/latest".to_owned()), ("moved", format!("{CLUSTERS}/m1/proxy/api/v1/"))]
    {
        let (code, headers, _) = ask(&plane.client, "GET", &format!("{CLUSTERS}/m1/proxy/{path}"), &[]).await;
        assert_eq!((code, headers.get(header::LOCATION).unwrap().to_str().unwrap()), (302, want.as_str()), "{path}");
    }
    assert_eq!(member.heard.lock().unwrap().len(), 2);
    let (code, _, body) = ask(&plane.client, "GET", &format!("{CLUSTERS}/m1/proxy/html"), &[]).await;
    assert_eq!((code, &*body), (200, "<html>"));
}

#[tokio::test]
async fn all_clusters_answer_as_far_as_the_user_may_ask_them() {
    let (plane, ..) = world().await;
    let path = format!("{CLUSTERS}/*/proxy/api/v1/nodes");
    let origins = |body: &str| {
        let list: Value = serde_json::from_str(body).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let of = |item: &Value| {
            let origin = item["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"].as_str().unwrap();
            format!("{} of {origin}", item["metadata"]["name"].as_str().unwrap())
        };
        items.map(of).collect::<Vec<_>>()
    };
    let (_, headers, body) = ask(&plane.client, "GET", &path, &[]).await;
    assert_eq!(origins(&body), ["n1 of m1", "n2 of m2"]);
    assert!(headers.get(header::WARNING).is_none());
    let (_, headers, body) = ask(&user(&plane, "ann", &[]), "GET", &path, &[]).await;
    assert_eq!(origins(&body), ["n1 of m1"]);
    let warning = headers.get(header::WARNING).unwrap().to_str().unwrap();
    assert!(warning.contains("cluster m2 is left out"), "{warning}");
    let (code, _, _) = ask(&plane.client, "POST", &path, &[]).await;
    assert_eq!(code, 405);
}

#[tokio::test]
async fn a_member_that_is_away_is_named() {
    let (plane, ..) = world().await;
    joined(&plane, "gone", "http://127.0.0.1:1").await;
    let (code, _, body) = ask(&client(&plane.server, "alice"), "GET", &format!("{CLUSTERS}/gone/proxy/api"), &[]).await;
    let status: Value = serde_json::from_str(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(code == 503 && message.starts_with("cluster gone does not answer: "), "{body}");
    let patch = json!({"spec": {"impersonatorSecretRef": null}});
    let path = format!("{CLUSTERS}/gone");
    let (code, ..) = send(&plane.client, "PATCH", &path, "application/merge-patch+json", &patch).await;
    assert_eq!(code, 200);
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let (code, _, body) = ask(&plane.client, "GET", &format!("{CLUSTERS}/gone/proxy/api"), &[]).await;
    assert!(code == 503 && body.contains("has no spec.impersonatorSecretRef"), "{body}");
}

#[tokio::test]
async fn discovery_lists_the_proxy_and_policies_review_connections() {
    let (plane, member, _second) = world().await;
    let (_, _, listed) = ask(&plane.client, "GET", "/apis/cluster.karmada.io/v1alpha1", &[]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let of = |name: &str| {
        let all = listed["resources"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).map(|one| (one["kind"].clone(), one["verbs"].clone()))
    };
    let verbs = json!(["create", "delete", "get", "patch", "update"]);
    assert_eq!(of("clusters/proxy"), Some((json!("Cluster"), verbs)));
    assert_eq!(of("clusters/status"), Some((json!("Cluster"), json!(["get", "patch", "update"]))));

    let rules = json!([{"apiGroups": ["cluster.karmada.io"], "apiVersions": ["*"], "operations": ["CONNECT"], "resources": ["clusters/proxy"]}]);
    let expression = "object.kind != 'ClusterProxyOptions' || !object.path.startsWith('/api/v1/secrets')";
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-secrets"},
        "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression, "message": "no secrets"}]},
    });
    create(&plane, &format!("{policies}/validatingadmissionpolicies"), policy).await;
    let binding = json!({
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-secrets"},
        "spec": {"policyName": "no-secrets", "validationActions": ["Deny"]},
    });
    create(&plane, &format!("{policies}/validatingadmissionpolicybindings"), binding).await;
    let ann = user(&plane, "ann", &["devs"]);
    for (name, path, want) in [
        ("it is refused", "m1/proxy/api/v1/secrets", 422),
        ("for all clusters, too", "*/proxy/api/v1/secrets", 422),
        ("another path", "m1/proxy/api/v1/nodes", 200),
        ("the root", "m1/proxy", 200),
    ] {
        let heard = member.heard.lock().unwrap().len();
        let (code, _, body) = ask(&ann, "GET", &format!("{CLUSTERS}/{path}"), &[]).await;
        assert_eq!(code, want, "{name}: {body}");
        assert_eq!(member.heard.lock().unwrap().len() > heard, want == 200, "{name}");
        assert!(want == 200 || body.contains("no secrets"), "{name}: {body}");
    }
}
