//! Requests for certificates, with what a real kube-apiserver v1.36 said of the same (specification/apiserver.md 17).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use ironclad_apiserver::Identity;
use serde_json::{Value, json};

use crate::support::World;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(name: &str, group: &str) -> Value {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    let made = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(made.pem().unwrap()), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"], "username": "somebody else",
        },
    })
}

#[tokio::test(start_paused = true)]
async fn certificate_request_is_created_approved_and_signed() {
    let world = World::new().await;
    let made = world.post(REQUESTS, request("a", "devs")).await.expect(201);
    assert_eq!(made.at("/spec/username"), "tester");
    let refused = world.post(REQUESTS, request("b", "system:masters")).await.expect(403);
    let why = "certificatesigningrequests.certificates.k8s.io \"b\" is forbidden: use of kubernetes.io/kube-apiserver-client signer \
               with system:masters group is not allowed";
    assert_eq!(refused.message(), why);

    let merge = "merge-patch+json";
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let elsewhere = world.patch(&format!("{REQUESTS}/a/status"), merge, approved.clone()).await.expect(422);
    assert!(elsewhere.message().contains("updates may not add a condition of type \"Approved\""));
    let done = world.patch(&format!("{REQUESTS}/a/approval"), merge, approved).await.expect(200);
    assert!(done.at("/status/conditions/0/lastTransitionTime").is_string());
    let taken_back = world.patch(&format!("{REQUESTS}/a/approval"), merge, json!({"status": {"conditions": []}})).await;
    assert!(taken_back.expect(422).message().contains("updates may not remove a condition of type \"Approved\""));
    let other =
        world.patch(&format!("{REQUESTS}/a"), merge, json!({"spec": {"signerName": "a.b/c"}})).await.expect(200);
    assert_eq!(other.at("/spec/signerName"), "kubernetes.io/kube-apiserver-client", "what was asked for stays");

    let certificate = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let signed = json!({"status": {"certificate": certificate}});
    world.patch(&format!("{REQUESTS}/a/status"), merge, signed).await.expect(200);
    let table =
        world.send(Method::GET, REQUESTS, &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")], "").await;
    assert_eq!(table.at("/rows/0/cells/5"), "Approved,Issued");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn approving_and_signing_need_rights() {
    let world = World::new().await;
    world.post(REQUESTS, request("a", "devs")).await.expect(201);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "r"}, "rules": [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["sign"]},
    ]});
    world.post(&format!("{rbac}/clusterroles"), role).await.expect(201);
    let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol"}]});
    world.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}).to_string();
    let certificate = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let signed = json!({"status": {"certificate": certificate}}).to_string();
    for (subresource, body, code, why) in [
        (
            "approval",
            approved,
            403,
            "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\"",
        ),
        ("status", signed, 200, ""),
    ] {
        let carol = Identity::user("carol", &[]);
        let path = format!("{REQUESTS}/a/{subresource}");
        let headers = [("content-type", "application/merge-patch+json")];
        let answer = world.send_as(carol, Method::PATCH, &path, &headers, body).await.expect(code);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
    world.seam.tasks.kill();
}
