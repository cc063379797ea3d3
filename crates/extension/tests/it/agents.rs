//! Objects that a member needs before it has credentials: rights of bootstrap tokens, and the address of the control
//! plane.

use std::sync::Arc;

use ironclad_admission::Config;
use ironclad_api::agents::{
    AGENT_GROUP, RBAC_GENERATOR, agent_rights, agent_user, bootstrap_rights, cluster_info, tunnel_path,
};
use ironclad_apiserver::{Identity, MASTERS};
use ironclad_extension::agents::{ClusterInfo, Published, install_rights, publish};
use ironclad_runtime::{Failure, Traffic, in_process_client};
use serde_json::{Value, json};

use crate::support::{Plane, plane, send};

const INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Plane {
    fn of(&self, identity: Identity) -> kube::Client {
        in_process_client(self.server.in_process(identity), Arc::new(Traffic::default()))
    }

    async fn get(&self, path: &str) -> Value {
        send(&self.client, "GET", path, "application/json", &Value::Null).await.2
    }

    async fn patch(&self, path: &str, patch: Value) {
        let (code, _, body) = send(&self.client, "PATCH", path, "application/merge-patch+json", &patch).await;
        assert_eq!(code, 200, "{body}");
    }

    /// Versions of all objects of bootstrap tokens.
    async fn versions(&self) -> Vec<String> {
        let mut versions = vec![self.get(INFO).await["metadata"]["resourceVersion"].to_string()];
        for right in bootstrap_rights(true) {
            let (kind, meta) = (right["kind"].as_str().unwrap().to_lowercase(), &right["metadata"]);
            let within = meta["namespace"].as_str().map(|namespace| format!("namespaces/{namespace}/"));
            let path = format!("{RBAC}/{}{kind}s/{}", within.unwrap_or_default(), meta["name"].as_str().unwrap());
            versions.push(self.get(&path).await["metadata"]["resourceVersion"].to_string());
        }
        assert!(!versions.contains(&"null".to_owned()), "{versions:?}");
        versions
    }
}

fn at(server: &str) -> ClusterInfo<'_> {
    ClusterInfo { server, certificates: "pem" }
}

#[tokio::test(start_paused = true)]
async fn anonymous_users_may_get_cluster_info_and_nothing_else() {
    let plane = plane(Config::default(), &[]).await;
    publish(&plane.client, at("https://plane:6443"), Published::Replace).await.unwrap();
    let anonymous = plane.of(Identity::anonymous());
    let get = async |path: &str| send(&anonymous, "GET", path, "application/json", &Value::Null).await;
    assert_eq!(get(INFO).await.0, 403, "before the rights");
    install_rights(&plane.client, true).await.unwrap();
    let (code, _, body) = get(INFO).await;
    assert_eq!((code, &body["data"]["kubeconfig"]), (200, &json!(cluster_info("https://plane:6443", "cGVt"))));
    for path in [
        "/api/v1/namespaces/kube-public/configmaps",
        "/api/v1/namespaces/kube-public/configmaps/other",
        "/api/v1/namespaces/kube-system/configmaps/cluster-info",
    ] {
        assert_eq!(get(path).await.0, 403, "{path}");
    }
    let changed = json!({"data": {"kubeconfig": "forged"}});
    assert_eq!(send(&anonymous, "PATCH", INFO, "application/merge-patch+json", &changed).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn later_starts_repair_and_write_nothing_else() {
    let plane = plane(Config::default(), &[]).await;
    install_rights(&plane.client, true).await.unwrap();
    publish(&plane.client, at("https://one"), Published::Replace).await.unwrap();
    let first = plane.versions().await;
    install_rights(&plane.client, true).await.unwrap();
    publish(&plane.client, at("https://one"), Published::Replace).await.unwrap();
    publish(&plane.client, at("https://two"), Published::Keep).await.unwrap();
    assert_eq!(plane.versions().await, first);

    let binding = format!("{RBAC}/clusterrolebindings/system:karmada:agent-bootstrap");
    let right = plane.get(&binding).await;
    plane.patch(&binding, json!({"subjects": null})).await;
    plane.patch(INFO, json!({"data": {"jws-kubeconfig-abcdef": "x"}})).await;
    install_rights(&plane.client, true).await.unwrap();
    publish(&plane.client, at("https://two"), Published::Replace).await.unwrap();
    assert_eq!(plane.get(&binding).await["subjects"], right["subjects"]);
    let info = plane.get(INFO).await;
    let data = json!({"kubeconfig": cluster_info("https://two", "cGVt"), "jws-kubeconfig-abcdef": "x"});
    assert_eq!(info["data"], data);
}

#[tokio::test(start_paused = true)]
async fn somebody_without_rights_is_denied() {
    let plane = plane(Config::default(), &[]).await;
    let somebody = plane.of(Identity::user("somebody", &[]));
    assert!(matches!(install_rights(&somebody, true).await, Err(Failure::Denied(_))));
    assert!(matches!(publish(&somebody, at("https://one"), Published::Keep).await, Err(Failure::Denied(_))));
    let master = plane.of(Identity::user("administrator", &[MASTERS]));
    install_rights(&master, true).await.unwrap();
}

/// A control plane with members m1 and m2 in pull mode, and the rights that it writes for their agents.
async fn members() -> Plane {
    let plane = plane(Config::default(), &["clusters", "works", "propagationpolicies", "resourcebindings"]).await;
    let spaces = ["karmada-cluster", "karmada-es-m1", "karmada-es-m2"];
    let namespace = |name: &&str| ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": name}}));
    let mut objects: Vec<(String, Value)> = spaces.iter().map(namespace).collect();
    for name in ["m1", "m2"] {
        let (api, space) = ("cluster.karmada.io/v1alpha1", format!("karmada-es-{name}"));
        let cluster =
            json!({"apiVersion": api, "kind": "Cluster", "metadata": {"name": name}, "spec": {"syncMode": "Pull"}});
        objects.push((CLUSTERS.to_owned(), cluster));
        objects.push((works(&space), work("w")));
        for (kind, object) in [
            ("api/v1/namespaces/karmada-cluster/secrets", json!({"metadata": {"name": name}})),
            ("apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases", lease(name)),
        ] {
            objects.push((format!("/{kind}"), object));
        }
        for right in agent_rights(name) {
            let kind = right["kind"].as_str().unwrap().to_lowercase();
            let within = right["metadata"]["namespace"].as_str().map(|namespace| format!("namespaces/{namespace}/"));
            objects.push((format!("{RBAC}/{}{kind}s", within.unwrap_or_default()), right));
        }
    }
    for (path, object) in objects {
        let (code, _, answer) = send(&plane.client, "POST", &path, "application/json", &object).await;
        assert_eq!(code, 201, "{path}: {answer}");
    }
    plane
}

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases";

fn works(space: &str) -> String {
    format!("/apis/work.karmada.io/v1alpha1/namespaces/{space}/works")
}

fn work(name: &str) -> Value {
    json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": name}, "spec": {}})
}

fn lease(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}})
}

fn event(about: &str) -> Value {
    let about = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "name": about});
    json!({"metadata": {"generateName": "e-", "namespace": "default"}, "involvedObject": about, "reason": "R"})
}

#[tokio::test(start_paused = true)]
async fn an_agent_reads_and_writes_nothing_of_another_member() {
    let plane = members().await;
    let agent = plane.of(Identity::user(&agent_user("m1"), &[AGENT_GROUP]));
    let (nothing, empty) = (Value::Null, json!({}));
    let (own, other) = (works("karmada-es-m1"), works("karmada-es-m2"));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let election = lease("karmada-agent-m1");
    let csr = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m3"}, "spec": {"syncMode": "Pull"}});
    let work_status = json!({"status": {}});
    let taken = async |name: &str| {
        let mut lease = plane.get(&format!("{LEASES}/{name}")).await;
        lease["spec"]["holderIdentity"] = "again".into();
        lease
    };
    let (renewed, mine) = (taken("m2").await, taken("m1").await);
    let is_refused = async |method: &str, path: &str, body: &Value| {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (code, _, answer) = send(&agent, method, path, content, body).await;
        // A webhook's refusal of an agent has this code, too.
        (code == 403, format!("{method} {path}: {code} {answer}"))
    };
    for (method, path, body) in [
        ("GET", format!("{CLUSTERS}/m1"), &nothing),
        ("GET", CLUSTERS.to_owned(), &nothing),
        ("PATCH", format!("{CLUSTERS}/m1"), &empty),
        ("PATCH", format!("{CLUSTERS}/m1/status"), &empty),
        ("GET", tunnel_path("m1"), &nothing),
        ("GET", own.clone(), &nothing),
        ("GET", format!("{own}/w"), &nothing),
        ("PATCH", format!("{own}/w/status"), &work_status),
        ("GET", format!("{SECRETS}/m1"), &nothing),
        ("GET", format!("{LEASES}/m1"), &nothing),
        ("PUT", format!("{LEASES}/m1"), &mine),
        ("POST", LEASES.to_owned(), &election),
        ("POST", "/api/v1/namespaces/default/events".to_owned(), &event("m1")),
    ] {
        let (refused, answer) = is_refused(method, &path, body).await;
        assert!(!refused, "its own: {answer}");
    }
    for (method, path, body) in [
        ("GET", format!("{CLUSTERS}/m2"), &nothing),
        ("PATCH", format!("{CLUSTERS}/m2"), &label),
        ("PATCH", format!("{CLUSTERS}/m2/status"), &empty),
        ("DELETE", format!("{CLUSTERS}/m2"), &nothing),
        ("DELETE", format!("{CLUSTERS}/m1"), &nothing),
        ("POST", CLUSTERS.to_owned(), &cluster),
        ("GET", tunnel_path("m2"), &nothing),
        ("GET", format!("{CLUSTERS}/m2/proxy/api"), &nothing),
        ("GET", format!("{CLUSTERS}/m1/proxy/api"), &nothing),
        ("GET", other.clone(), &nothing),
        ("GET", format!("{other}?watch=true"), &nothing),
        ("GET", format!("{other}/w"), &nothing),
        ("POST", other.clone(), &work("x")),
        ("PATCH", format!("{other}/w"), &label),
        ("PATCH", format!("{other}/w/status"), &work_status),
        ("DELETE", format!("{other}/w"), &nothing),
        ("DELETE", other.clone(), &nothing),
        ("GET", "/apis/work.karmada.io/v1alpha1/works".to_owned(), &nothing),
        ("GET", format!("{SECRETS}/m2"), &nothing),
        ("PATCH", format!("{SECRETS}/m2"), &label),
        ("GET", SECRETS.to_owned(), &nothing),
        ("POST", SECRETS.to_owned(), &json!({"metadata": {"name": "m2-impersonator"}})),
        ("DELETE", format!("{SECRETS}/m1"), &nothing),
        ("GET", "/api/v1/namespaces/kube-system/secrets".to_owned(), &nothing),
        ("GET", format!("{LEASES}/m2"), &nothing),
        ("GET", format!("{LEASES}/karmada-agent-m2"), &nothing),
        ("PUT", format!("{LEASES}/m2"), &renewed),
        ("POST", LEASES.to_owned(), &lease("m3")),
        ("POST", LEASES.to_owned(), &lease("karmada-agent-m2")),
        ("DELETE", format!("{LEASES}/m2"), &nothing),
        ("GET", csr.to_owned(), &nothing),
        ("PUT", format!("{csr}/x/approval"), &empty),
        ("GET", "/apis/policy.karmada.io/v1alpha1/propagationpolicies".to_owned(), &nothing),
        ("GET", "/apis/work.karmada.io/v1alpha2/resourcebindings".to_owned(), &nothing),
        ("GET", "/api/v1/namespaces/default/configmaps".to_owned(), &nothing),
        ("GET", "/api/v1/namespaces".to_owned(), &nothing),
        ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token".to_owned(), &empty),
        ("GET", format!("{RBAC}/clusterroles/system:karmada:m1:agent"), &nothing),
        ("PATCH", format!("{RBAC}/clusterroles/system:karmada:m1:agent"), &json!({"rules": []})),
        ("POST", format!("{RBAC}/clusterrolebindings"), &agent_rights("m2")[1]),
    ] {
        let (refused, answer) = is_refused(method, &path, body).await;
        assert!(refused, "of another, or nobody's: {answer}");
    }
    let as_other = http::Request::get(format!("{CLUSTERS}/m2")).header("Impersonate-User", agent_user("m2"));
    let answer = agent.send(as_other.body(kube::client::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 403, "impersonation");
    let read = plane.get(&format!("{CLUSTERS}/m2")).await;
    assert_eq!(read["metadata"]["labels"], Value::Null, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn karmadactl_registers_members_without_any_power() {
    let plane = members().await;
    install_rights(&plane.client, false).await.unwrap();
    let registrar = plane.of(Identity::user(RBAC_GENERATOR, &[AGENT_GROUP]));
    let namespace =
        |name: &str| json!({"metadata": {"name": name, "labels": {"karmada.io/system": "true"}}, "spec": {}});
    let spaces = "/api/v1/namespaces";
    let csr = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let (nothing, empty) = (Value::Null, json!({}));
    let binding = |name: &str, role: &str| {
        let rbac = "rbac.authorization.k8s.io";
        json!({"metadata": {"name": name}, "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": RBAC_GENERATOR}]})
    };
    let role = |name: &str| json!({"metadata": {"name": name}, "rules": []});
    let answers = async |requests: &[(&str, String, &Value, u16)]| {
        for (method, path, body, want) in requests {
            let content = if *method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let (code, _, answer) = send(&registrar, method, path, content, body).await;
            assert_eq!(code, *want, "{method} {path} {body}: {answer}");
        }
    };
    // Where nothing reviews what it writes, it reads.
    answers(&[
        ("GET", format!("{CLUSTERS}/m1"), &nothing, 200),
        ("POST", spaces.to_owned(), &namespace("karmada-es-m3"), 403),
        ("DELETE", format!("{csr}/any"), &nothing, 403),
    ])
    .await;
    install_rights(&plane.client, true).await.unwrap();
    // What it does, for a new name and for one whose agent runs.
    for name in ["m3", "m1"] {
        let rights = agent_rights(name);
        let path = |right: &Value| {
            let within = right["metadata"]["namespace"].as_str().map(|namespace| format!("namespaces/{namespace}/"));
            format!("{RBAC}/{}{}s", within.unwrap_or_default(), right["kind"].as_str().unwrap().to_lowercase())
        };
        let (shared, own) = (namespace("karmada-cluster"), namespace(&format!("karmada-es-{name}")));
        let is_there = name == "m1";
        let mut all = vec![
            ("GET", format!("{CLUSTERS}/{name}"), &nothing, if is_there { 200 } else { 404 }),
            ("POST", spaces.to_owned(), &shared, 409),
            ("POST", spaces.to_owned(), &own, if is_there { 409 } else { 201 }),
        ];
        all.extend(rights.iter().map(|right| ("POST", path(right), right, 409)));
        answers(&all).await;
    }
    assert_eq!(plane.get(&format!("{RBAC}/clusterroles/system:karmada:m3:agent")).await["code"], 404);
    // And what it may not.
    answers(&[
        ("POST", format!("{RBAC}/clusterrolebindings"), &binding("mine", "cluster-admin"), 403),
        ("POST", format!("{RBAC}/clusterrolebindings"), &binding("mine", "system:karmada:agent-rbac-generator"), 403),
        ("POST", format!("{RBAC}/clusterroles"), &role("mine"), 403),
        ("POST", format!("{RBAC}/namespaces/kube-system/roles"), &role("system:karmada:m1:agent-secret"), 403),
        ("PUT", format!("{RBAC}/clusterroles/system:karmada:m1:agent"), &role("system:karmada:m1:agent"), 403),
        ("PATCH", format!("{RBAC}/clusterroles/system:karmada:m1:agent"), &json!({"rules": []}), 403),
        ("DELETE", format!("{RBAC}/clusterroles/system:karmada:m1:agent"), &nothing, 403),
        ("DELETE", format!("{RBAC}/clusterrolebindings/system:karmada:m1:agent"), &nothing, 403),
        ("DELETE", format!("{RBAC}/namespaces/karmada-es-m1/roles/system:karmada:m1:agent-work"), &nothing, 403),
        ("GET", format!("{RBAC}/clusterroles"), &nothing, 403),
        ("POST", spaces.to_owned(), &namespace("shop"), 403),
        ("DELETE", format!("{spaces}/karmada-es-m1"), &nothing, 403),
        ("GET", CLUSTERS.to_owned(), &nothing, 403),
        ("PATCH", format!("{CLUSTERS}/m1"), &empty, 403),
        ("GET", SECRETS.to_owned(), &nothing, 403),
        ("GET", format!("{SECRETS}/m1"), &nothing, 403),
        ("POST", SECRETS.to_owned(), &json!({"metadata": {"name": "m1"}}), 403),
        ("GET", works("karmada-es-m1"), &nothing, 403),
        ("POST", csr.to_owned(), &empty, 403),
        ("GET", tunnel_path("m1"), &nothing, 403),
    ])
    .await;
    let read = plane.get(&format!("{RBAC}/clusterroles/system:karmada:m1:agent")).await;
    assert_eq!(read["rules"], agent_rights("m1")[0]["rules"]);
}
