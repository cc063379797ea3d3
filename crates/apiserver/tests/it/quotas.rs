//! ResourceQuotas: writes are charged in their own transaction, or refused (specification/apiserver.md 21).

use futures::future::join_all;
use http::Method;
use ironclad_apiserver::Options;
use serde_json::{Value, json};

use crate::support::World;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

impl World {
    /// Makes a quota whose limits are in force, as the controller leaves it.
    async fn quota(&self, name: &str, hard: Value, used: Value) {
        let quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
        self.post(QUOTAS, quota).await.expect(201);
        self.set_usage(name, hard, used).await;
    }

    async fn set_usage(&self, name: &str, hard: Value, used: Value) {
        let status = json!({"status": {"hard": hard, "used": used}});
        self.patch(&format!("{QUOTAS}/{name}/status"), "merge-patch+json", status).await.expect(200);
    }

    async fn used(&self, name: &str) -> Value {
        self.get(&format!("{QUOTAS}/{name}")).await.expect(200).body["status"]["used"].clone()
    }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

#[tokio::test(start_paused = true)]
async fn create_is_charged_or_refused() {
    let world = World::new().await;
    world.quota("q", json!({"configmaps": "2"}), json!({"configmaps": "1"})).await;
    world.post(MAPS, map("a")).await.expect(201);
    assert_eq!(world.used("q").await, json!({"configmaps": "2"}));
    let refused = world.post(MAPS, map("b")).await.expect(403);
    assert_eq!(
        refused.message(),
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    );
    assert_eq!(refused.body["reason"], "Forbidden");
    assert_eq!(world.used("q").await, json!({"configmaps": "2"}));
    world.delete(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(world.used("q").await, json!({"configmaps": "2"}), "the controller lowers what is used");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn failed_create_charges_nothing() {
    let world = World::new().await;
    world.post(MAPS, map("a")).await.expect(201);
    world.quota("q", json!({"configmaps": "5"}), json!({"configmaps": "1"})).await;
    world.post(MAPS, map("a")).await.expect(409);
    world.post(MAPS, json!({"metadata": {"name": "A"}})).await.expect(422);
    world.post(&format!("{MAPS}?dryRun=All"), map("b")).await.expect(201);
    assert_eq!(world.used("q").await, json!({"configmaps": "1"}));
    world.set_usage("q", json!({"configmaps": "1"}), json!({"configmaps": "1"})).await;
    world.post(&format!("{MAPS}?dryRun=All"), map("b")).await.expect(403);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn racing_creates_share_a_quota() {
    const RACING: usize = 100;
    const ALLOWED: usize = 30;
    let world = World::new().await;
    let (hard, used) = (json!({"configmaps": ALLOWED.to_string()}), json!({"configmaps": "0"}));
    world.quota("q", hard, used).await;
    let creates = (0..RACING).map(|i| world.call(Method::POST, MAPS, map(&format!("m{i}"))));
    let codes: Vec<u16> = join_all(creates).await.into_iter().map(|answer| answer.code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), ALLOWED);
    assert_eq!(codes.iter().filter(|code| **code == 403).count(), RACING - ALLOWED);
    assert_eq!(world.used("q").await, json!({"configmaps": ALLOWED.to_string()}));
    let stored = world.get(MAPS).await.expect(200).body["items"].as_array().map(Vec::len);
    assert_eq!(stored, Some(ALLOWED));
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn create_waits_for_other_writers_of_its_quota() {
    let world = World::new().await;
    let hard = json!({"configmaps": "50"});
    world.quota("q", hard.clone(), json!({"configmaps": "0"})).await;
    let labels = |i: usize| {
        let label = json!({"metadata": {"labels": {"i": i.to_string()}}});
        let (world, path) = (world.clone(), format!("{QUOTAS}/q"));
        async move { world.patch(&path, "merge-patch+json", label).await.code }
    };
    let creates = join_all((0..20).map(|i| world.call(Method::POST, MAPS, map(&format!("m{i}")))));
    let (created, labelled) = tokio::join!(creates, join_all((0..20).map(labels)));
    assert!(created.iter().all(|answer| answer.code == 201));
    assert!(labelled.iter().all(|code| *code == 200));
    assert_eq!(world.used("q").await, json!({"configmaps": "20"}), "no charge is lost");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn every_quota_is_charged_or_none() {
    let world = World::new().await;
    world.quota("a", json!({"pods": "9"}), json!({"pods": "0"})).await;
    world.quota("b", json!({"requests.cpu": "1"}), json!({"requests.cpu": "0"})).await;
    world.post(PODS, pod("p", "600m")).await.expect(201);
    let refused = world.post(PODS, pod("o", "600m")).await.expect(403);
    assert_eq!(
        refused.message(),
        "pods \"o\" is forbidden: exceeded quota: b, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    assert_eq!((world.used("a").await, world.used("b").await), (json!({"pods": "1"}), json!({"requests.cpu": "600m"})));
    let mut unstated = pod("o", "1");
    unstated["spec"]["containers"][0]["resources"] = json!({});
    let refused = world.post(PODS, unstated).await.expect(403);
    assert_eq!(refused.message(), "pods \"o\" is forbidden: failed quota: b: must specify requests.cpu for: c");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn update_is_charged_by_growth() {
    let world = World::new().await;
    let hard = json!({"requests.cpu": "1", "services.nodeports": "1"});
    world.quota("q", hard, json!({"requests.cpu": "0", "services.nodeports": "0"})).await;
    world.post(PODS, pod("p", "500m")).await.expect(201);
    let resize = |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    let path = format!("{PODS}/p/resize");
    let refused = world.patch(&path, "strategic-merge-patch+json", resize("1001m")).await.expect(403);
    assert_eq!(
        refused.message(),
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=501m, used: requests.cpu=500m, limited: requests.cpu=1"
    );
    world.patch(&path, "strategic-merge-patch+json", resize("1")).await.expect(200);
    assert_eq!(world.used("q").await["requests.cpu"], "1");
    world.patch(&path, "strategic-merge-patch+json", resize("200m")).await.expect(200);
    assert_eq!(world.used("q").await["requests.cpu"], "1", "the controller lowers what is used");
    let services = "/api/v1/namespaces/default/services";
    let ports =
        |count: i64| (1..=count).map(|port| json!({"name": format!("p{port}"), "port": port})).collect::<Vec<_>>();
    world.post(services, json!({"metadata": {"name": "s"}, "spec": {"ports": ports(2)}})).await.expect(201);
    let path = format!("{services}/s");
    let change = |spec: Value| world.patch(&path, "merge-patch+json", json!({"spec": spec}));
    change(json!({"type": "NodePort"})).await.expect(403);
    change(json!({"type": "NodePort", "ports": ports(1)})).await.expect(200);
    assert_eq!(world.used("q").await["services.nodeports"], "1");
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn custom_resources_and_other_namespaces_count_on_their_own() {
    let world = World::new().await;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.expect(201);
    world.quota("q", json!({"count/widgets.example.com": "1"}), json!({"count/widgets.example.com": "0"})).await;
    let widgets = |namespace: &str| format!("/apis/example.com/v1/namespaces/{namespace}/widgets");
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    world.post(&widgets("default"), widget("a")).await.expect(201);
    world.post(&widgets("default"), widget("b")).await.expect(403);
    world.post("/api/v1/namespaces", map("other")).await.expect(201);
    world.post(&widgets("other"), widget("b")).await.expect(201);
    world.seam.tasks.kill();
}

#[tokio::test(start_paused = true)]
async fn charge_is_owned_by_the_server() {
    let world = World::seeded(1, Options { managed_fields: true, ..Options::default() }).await;
    world.quota("q", json!({"configmaps": "2"}), json!({"configmaps": "0"})).await;
    world.post(MAPS, map("a")).await.expect(201);
    let quota = world.get(&format!("{QUOTAS}/q")).await.expect(200).body;
    let managers = quota["metadata"]["managedFields"].as_array().unwrap();
    let of_server = managers.iter().find(|entry| entry["manager"] == "kube-apiserver").unwrap();
    assert_eq!(of_server["subresource"], "status");
    assert_eq!(of_server["fieldsV1"], json!({"f:status": {"f:used": {"f:configmaps": {}}}}));
    world.seam.tasks.kill();
}
