//! Authorization with the roles that every cluster has (specification/apiserver.md 19, 20).

use http::Method;
use ironclad_apiserver::{Identity, Options, Server};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Backend, BackendError, BackendStats, Commit, Engine, Loaded, MemoryBackend, Record, Revision};
use serde_json::{Value, json};

use crate::support::{Answer, World, config_map};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn cluster_role(name: &str, rules: &[Value]) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: &str, subject: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [subject]})
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

impl World {
    async fn asks(&self, who: &Identity, method: Method, path: &str, body: Option<Value>) -> Answer {
        let bytes = body.map(|b| b.to_string()).unwrap_or_default();
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.send_as(who.clone(), method, path, &[("content-type", kind)], bytes).await
    }
}

#[tokio::test]
async fn bootstrap_roles_grant_default_rights() {
    let world = World::new().await;
    let (alice, nobody) = (Identity::user("alice", &["devs"]), Identity::anonymous());
    for (who, path, code) in [
        (&nobody, "/healthz", 200),
        (&nobody, "/livez", 200),
        (&nobody, "/readyz", 200),
        (&nobody, "/version", 200),
        (&nobody, "/api", 403),
        (&nobody, "/apis/apps/v1", 403),
        (&nobody, "/openapi/v3", 403),
        (&nobody, "/api/v1/namespaces", 403),
        (&alice, "/version", 200),
        (&alice, "/api", 200),
        (&alice, "/apis/apps/v1", 200),
        (&alice, "/openapi/v3", 200),
        (&alice, "/metrics", 403),
        (&alice, "/api/v1/namespaces", 403),
    ] {
        assert_eq!(world.asks(who, Method::GET, path, None).await.code, code, "{} {path}", who.user);
    }
    let own = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                     "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = world.asks(&alice, Method::POST, path, Some(own.clone())).await.expect(201);
    assert_eq!(answer.at("/status"), &json!({"allowed": false}));
    world.asks(&nobody, Method::POST, path, Some(own)).await.expect(403);
    let view = world.get(&format!("{RBAC}/clusterroles/view")).await.expect(200);
    assert_eq!(view.at("/rules"), &Value::Null, "a controller fills it in");
    assert_eq!(view.at("/metadata/labels/kubernetes.io~1bootstrapping"), "rbac-defaults");
    world.seam.tasks.kill();
}

#[tokio::test]
async fn changed_binding_takes_effect_at_once() {
    let world = World::new().await;
    let alice = Identity::user("alice", &["devs"]);
    let list = || world.asks(&alice, Method::GET, "/api/v1/namespaces/default/configmaps", None);
    list().await.expect(403);
    world.post(&format!("{RBAC}/clusterroles"), cluster_role("r", &[rule(&[""], &["configmaps"], &["list"])])).await;
    list().await.expect(403);
    world.post(&format!("{RBAC}/clusterrolebindings"), binding("b", "r", user("alice"))).await.expect(201);
    list().await.expect(200);
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "alice", "resourceAttributes": {"verb": "list", "resource": "configmaps"}}});
    let answer = world.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await.expect(201);
    let reason = "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to User \"alice\"";
    assert_eq!(answer.at("/status"), &json!({"allowed": true, "reason": reason}));
    let narrowed = json!({"rules": [rule(&[""], &["secrets"], &["list"])]});
    world.call(Method::PATCH, &format!("{RBAC}/clusterroles/r"), narrowed).await.expect(200);
    list().await.expect(403);
    let widened = json!({"rules": [rule(&[""], &["*"], &["list"])]});
    world.call(Method::PATCH, &format!("{RBAC}/clusterroles/r"), widened).await.expect(200);
    list().await.expect(200);
    world.delete(&format!("{RBAC}/clusterrolebindings/b")).await.expect(200);
    list().await.expect(403);
    world.seam.tasks.kill();
}

#[tokio::test]
async fn nobody_grants_rights_they_lack() {
    let world = World::new().await;
    let alice = Identity::user("alice", &[]);
    let rules = [
        rule(&["rbac.authorization.k8s.io"], &["*"], &["create", "update", "patch", "get"]),
        rule(&[""], &["pods"], &["get"]),
    ];
    world.post(&format!("{RBAC}/clusterroles"), cluster_role("own", &rules)).await.expect(201);
    world.post(&format!("{RBAC}/clusterrolebindings"), binding("own", "own", user("alice"))).await.expect(201);
    let roles = format!("{RBAC}/clusterroles");
    let bindings = format!("{RBAC}/clusterrolebindings");
    let post = |path: &str, body: Value| {
        let (world, alice, path) = (world.clone(), alice.clone(), path.to_owned());
        async move { world.asks(&alice, Method::POST, &path, Some(body)).await }
    };
    post(&roles, cluster_role("pods", &[rule(&[""], &["pods"], &["get"])])).await.expect(201);
    let refused = post(&roles, cluster_role("r12", &[rule(&[""], &["secrets"], &["get"])])).await.expect(403);
    assert_eq!(
        refused.message(),
        "clusterroles.rbac.authorization.k8s.io \"r12\" is forbidden: user \"alice\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
    let more = json!({"rules": [rule(&[""], &["pods"], &["get", "delete"])]});
    let refused = world.asks(&alice, Method::PATCH, &format!("{roles}/pods"), Some(more.clone())).await.expect(403);
    assert!(
        refused.message().ends_with("{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"),
        "{}",
        refused.message()
    );
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    // A label can make it part of an aggregated role.
    let refused =
        world.asks(&alice, Method::PATCH, &format!("{roles}/cluster-admin"), Some(labelled)).await.expect(403);
    assert!(refused.message().contains("not currently held"), "{}", refused.message());
    let free = json!({"metadata": {"finalizers": ["example.com/a"]}});
    world.asks(&alice, Method::PATCH, &format!("{roles}/cluster-admin"), Some(free)).await.expect(200);
    let mut aggregated = cluster_role("agg", &[]);
    aggregated["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let refused = post(&roles, aggregated).await.expect(403);
    assert!(
        refused.message().ends_with("must have cluster-admin privileges to use the aggregationRule"),
        "{}",
        refused.message()
    );

    post(&bindings, binding("mine", "pods", user("bob"))).await.expect(201);
    let refused = post(&bindings, binding("all", "cluster-admin", user("alice"))).await.expect(403);
    assert!(refused.message().contains("{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"), "{}", refused.message());
    let missing = post(&bindings, binding("none", "doesnotexist", user("alice"))).await.expect(404);
    assert_eq!(missing.message(), "clusterrolebindings.rbac.authorization.k8s.io \"doesnotexist\" not found");
    let may = rule(&["rbac.authorization.k8s.io"], &["clusterroles"], &["bind", "escalate"]);
    world.post(&roles, cluster_role("may", &[may])).await.expect(201);
    world.post(&bindings, binding("may", "may", user("alice"))).await.expect(201);
    post(&bindings, binding("all", "cluster-admin", user("alice"))).await.expect(201);
    world.asks(&alice, Method::PATCH, &format!("{roles}/pods"), Some(more)).await.expect(200);
    world.seam.tasks.kill();
}

#[tokio::test]
async fn extras_are_impersonated_by_their_key() {
    let world = World::new().await;
    let rules = [
        rule(&[""], &["users"], &["impersonate"]),
        rule(&["authentication.k8s.io"], &["userextras/scopes"], &["impersonate"]),
    ];
    world.post(&format!("{RBAC}/clusterroles"), cluster_role("imp", &rules)).await.expect(201);
    world.post(&format!("{RBAC}/clusterrolebindings"), binding("imp", "imp", user("alice"))).await.expect(201);
    for (extra, code) in [("impersonate-extra-scopes", 403), ("impersonate-extra-other", 403)] {
        let headers = [("impersonate-user", "bob"), (extra, "x")];
        let path = "/api/v1/namespaces/default/configmaps/none";
        let answer = world.send_as(Identity::user("alice", &[]), Method::GET, path, &headers, "").await.expect(code);
        let as_bob = answer.message().contains("User \"bob\" cannot get");
        assert_eq!(as_bob, extra.ends_with("scopes"), "{}", answer.message());
    }
    world.seam.tasks.kill();
}

#[tokio::test]
async fn server_without_bootstrap_has_no_objects() {
    let world = World::seeded(1, Options { bootstrap: false, ..Options::default() }).await;
    let roles = world.get(&format!("{RBAC}/clusterroles")).await.expect(200);
    assert_eq!(roles.at("/items"), &json!([]));
    world.asks(&Identity::anonymous(), Method::GET, "/version", None).await.expect(403);
    world.post("/api/v1/namespaces/default/configmaps", config_map("a", json!({}))).await.expect(404);
    world.seam.tasks.kill();
}

/// Commits take long.
struct Slow(MemoryBackend, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Backend for Slow {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        self.0.load()
    }

    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError> {
        if self.1.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        self.0.commit(group)
    }

    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError> {
        self.0.compact(server, floor)
    }

    fn stats(&self) -> BackendStats {
        self.0.stats()
    }
}

/// In virtual time, a commit of another thread outlasts the time limit of its request.
#[tokio::test(start_paused = true)]
async fn a_removed_binding_gives_no_right_although_its_removal_was_answered_late() {
    let slow = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
    let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
    let engine = Engine::open(Box::new(Slow(MemoryBackend::default(), slow.clone())), Commit::Thread, clock).unwrap();
    let server = Server::open(Options::default(), engine.store("test"), seam.clone()).await.unwrap();
    let world = World { server, seam };
    let alice = Identity::user("alice", &[]);
    let bindings = format!("{RBAC}/clusterrolebindings");
    let secrets = "/api/v1/secrets";
    let until = async |code: u16| {
        let mut codes = Vec::new();
        for _ in 0..200 {
            codes.push(world.asks(&alice, Method::GET, secrets, None).await.code);
            if codes.last() == Some(&code) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            tokio::task::yield_now().await;
        }
        panic!("rights never led to {code}: {codes:?}");
    };
    world.post(&bindings, binding("all", "cluster-admin", user("alice"))).await;
    until(200).await;
    slow.store(true, std::sync::atomic::Ordering::Relaxed);
    world.delete(&format!("{bindings}/all")).await.expect(504);
    until(403).await;
    world.seam.tasks.kill();
}
